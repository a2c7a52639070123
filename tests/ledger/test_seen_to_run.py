"""What is asked to run has run where its containers were seen to: a pod that waits for its image has shown nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from killcheck.fixtures import path

from killcheck.cli import main


def _beside(image: str, account: str, namespace: str) -> str:
    container = {"name": "a", "image": image, "command": ["sh", "-c", "sleep 100000"]}
    meta = {"labels": {"app": "keeper"}, "annotations": {"killcheck.dev/run": "true"}}
    template = {"metadata": meta, "spec": {"serviceAccountName": account, "containers": [container]}}
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "keeper", "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": "keeper"}}, "template": template},
        }
    )


@pytest.mark.parametrize(
    ("image", "verdict"), [("IMAGE", "survived"), ("docker.io/bitnami/kubectl:1.33", "inconclusive")]
)
def test_program_whose_image_is_gone_has_not_run(image: str, verdict: str, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    shutil.copytree(path("dead-man"), folder)
    every = [one for file in folder.glob("*.yaml") for one in yaml.safe_load_all(file.read_text()) if one]
    switch = next(one for one in every if one["kind"] == "CronJob")
    pod = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    own = image.replace("IMAGE", pod["containers"][0]["image"])
    where = switch["metadata"]["namespace"]
    (folder / "keeper.yaml").write_text(_beside(own, pod["serviceAccountName"], where))
    options = ["--manifests", str(folder), "--exec", "host", "--json"]
    done = CliRunner().invoke(main, ["drill", str(folder / "killcheck.yaml"), *options])
    assert json.loads(done.stdout)["verdict"] == verdict, done.output
    assert ("was not run in this drill" in done.stdout) is (verdict == "inconclusive")
