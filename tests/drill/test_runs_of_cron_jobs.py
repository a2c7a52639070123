"""Nightly GPU work: the runs of a GPU CronJob are targets, though no manifest holds one; and what strangers' pods need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from test_strangers import SCALE, Obj, drilled, rights, switch, target

from killcheck.discover import made_runs
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session

DELETE = "kubectl -n inf delete jobs -l kind=train"


def training(*, labels: bool = True, **more: Any) -> Obj:
    """Work for the night, which ends when somebody ends it."""
    meta = {"labels": {"kind": "train"}} if labels else {}
    pod = target()["spec"]["template"]["spec"] | {"restartPolicy": "Never"}
    job = {"metadata": meta, "spec": {"backoffLimit": 0, "template": {"metadata": meta, "spec": pod}, **more}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "train", "namespace": "inf"},
        "spec": {"schedule": "0 18 * * *", "concurrencyPolicy": "Forbid", "jobTemplate": job},
    }


def alone(folder: Path, *objects: Obj) -> Any:
    """The drill of a switch beside GPU work that is a CronJob's, and nothing else that holds GPUs."""
    (folder / "all.yaml").write_text(yaml.safe_dump_all([*rights(), *objects]))
    session = Session(manifests=[folder / "all.yaml"], exec_mode="host")
    return Run(session, [PlannedDrill("off")], folder=folder / "runs").execute().drills[0]


@pytest.mark.parametrize(
    ("script", "verdict", "words"),
    [
        (DELETE, "survived", "turned the GPUs off"),
        (
            "for j in $(kubectl -n inf get jobs -l kind=train -o name); do "
            'kubectl -n inf patch $j --type=merge -p \'{"spec":{"suspend":true}}\'; done',
            "survived",
            "turned the GPUs off",
        ),
        ("kubectl -n inf delete jobs -l kind=train --cascade=foreground --wait=false; exit 1", "survived", "wrote it"),
        ("kubectl -n inf delete jobs -l kind=training", "exposed", ""),
        ("kubectl -n inf delete jobs -l kind=train --cascade=orphan", "exposed", ""),
    ],
)
@pytest.mark.one_in(2)
def test_what_ends_the_runs_of_a_gpu_cron_job(tmp_path: Path, script: str, verdict: str, words: str) -> None:
    result = alone(tmp_path, training(), switch(script, schedule="0 6 * * *"))
    assert str(result.verdict) == verdict, result.why
    assert words in result.why
    assert not result.problems


def test_runs_stand_for_what_somebody_is_concerned_with() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "inf", "labels": {"kind": "train"}}}
    asleep = training()
    asleep["spec"]["suspend"] = True
    for objects, names in (
        ([training()], ["train-"]),
        ([training(labels=False)], ["train-run"]),
        ([training(), target(), switch(DELETE)], ["train-"]),
        ([training(), target(), switch(SCALE)], []),
        ([training(), job], []),
        ([asleep], []),
        ([switch(DELETE)], []),
    ):
        made = made_runs.of(objects)
        assert [one["metadata"].get("generateName") or one["metadata"]["name"] for one in made] == names
        assert [ref.name for ref in made_runs.started_by(made)] == ["train"] * len(names)


# -- what a switch's pods need, and no manifest brings -----------------------------------------------------
def injected(script: str, **annotations: str) -> Obj:
    """A switch whose pods ask Vault's injector."""
    made = switch(script)
    said = {"vault.hashicorp.com/agent-inject": "true", "vault.hashicorp.com/agent-pre-populate-only": "true"}
    made["spec"]["jobTemplate"]["spec"]["template"]["metadata"] = {"annotations": said | annotations}
    return made


@pytest.mark.parametrize(
    "made",
    [
        injected(f". /vault/secrets/config; {SCALE}"),
        injected(f"test -s /vault/secrets/config || exit 0; {SCALE}"),
        injected(
            f"test -s /run/keys/a || exit 0; {SCALE}", **{"vault.hashicorp.com/secret-volume-path-a": "/run/keys"}
        ),
        injected(f"export F=/etc/kill; cat $F/side/token && {SCALE}"),
    ],
    ids=["sourced", "silent", "another place", "its own words"],
)
@pytest.mark.one_in(2)
def test_what_an_injector_brings_is_no_exposure_where_none_is(tmp_path: Path, made: Obj) -> None:
    result = drilled(tmp_path, made)
    assert str(result.verdict) == "inconclusive", result.why
    assert "its pods ask an injector for what may bring it (vault.hashicorp.com/agent-inject=true)" in result.why


@pytest.mark.weekly
def test_what_fails_for_another_reason_is_exposed_beside_an_injector(tmp_path: Path) -> None:
    result = drilled(tmp_path, injected("kubectl -n inf scale deploy/lllm --replicas=0"))
    assert str(result.verdict) == "exposed", result.why


def test_a_switch_that_calls_its_target_in_another_namespace_is_drilled(tmp_path: Path) -> None:
    result = drilled(tmp_path, switch("kubectl -n web scale deploy/llm --replicas=0"))
    assert str(result.verdict) == "exposed", result.why
