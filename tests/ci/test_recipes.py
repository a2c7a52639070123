"""Every recipe under ci/ is what its consumer takes: Kubernetes, Helm, GitHub, GitLab, Prometheus, Grafana, Docker."""

from __future__ import annotations

import importlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from killcheck.cli import COMMANDS
from killcheck.embedded.cluster import Cluster
from killcheck.spec.specfile import load, loads

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / "ci"
TEXTS = sorted(
    path
    for path in [*CI.rglob("*"), ROOT / ".pre-commit-hooks.yaml"]
    if path.suffix in (".yaml", ".yml", ".md") and "helm" not in path.parts
)
TEXTS += [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MANIFESTS = ["rbac.yaml", "drill.yaml", "janitor.yaml", "networkpolicy.yaml", "fleet/indexed-job.yaml"]


def documents(path):
    return [obj for obj in yaml.safe_load_all(Path(path).read_text()) if obj]


def key(obj):
    meta = obj["metadata"]
    return obj["kind"], meta.get("namespace", ""), re.sub(r"-[0-9a-z]{10}$", "", meta["name"])


@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_takes_it_as_it_is(name):
    """A server-side dry run with strict field validation, as `kubectl apply --dry-run=server --validate=strict`."""
    cluster = Cluster(exec_mode="none")
    try:
        for namespace in ("killcheck", "inference"):
            cluster.kube.call(
                "POST",
                "/api/v1/namespaces",
                body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            )
        for obj in documents(CI / name):
            if obj["kind"] == "Namespace":
                continue
            resource = cluster.kube.resource_for(obj["apiVersion"], obj["kind"])
            path = resource.path(obj["metadata"].get("namespace", ""))
            made = cluster.kube.call("POST", path, query={"dryRun": "All", "fieldValidation": "Strict"}, body=obj)
            assert made.body["metadata"]["name"] == obj["metadata"]["name"]
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def kustomized():
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    done = subprocess.run(["kubectl", "kustomize", str(CI)], check=True, capture_output=True, text=True)
    return {key(obj): obj for obj in yaml.safe_load_all(done.stdout)}


def test_kustomize_builds_it(kustomized):
    assert ("CronJob", "killcheck", "killcheck-drill") in kustomized
    template = kustomized["CronJob", "killcheck", "killcheck-drill"]["spec"]["jobTemplate"]["spec"]["template"]
    [volume] = [volume for volume in template["spec"]["volumes"] if volume["name"] == "spec"]
    spec = kustomized["ConfigMap", "killcheck", "killcheck-spec"]
    assert volume["configMap"]["name"] == spec["metadata"]["name"]
    assert loads(spec["data"]["killcheck.yaml"]) == loads((CI / "killcheck.yaml").read_text())


def rendered(**values):
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")
    with helm.Chart.load(str(CI / "helm/killcheck")) as chart:
        found = chart.render(values=values, name="killcheck", namespace="killcheck")
    texts = found.values() if isinstance(found, dict) else [found]
    return {key(obj): obj for text in texts for obj in yaml.safe_load_all(text) if obj}


def test_the_chart_says_the_same_as_the_manifests(kustomized):
    chart = rendered()
    plain = {at: obj for at, obj in kustomized.items() if at[0] != "Namespace"}
    assert set(chart) == set(plain)
    for at, obj in plain.items():
        if at[0] == "ConfigMap":
            assert yaml.safe_load(chart[at]["data"]["killcheck.yaml"]) == yaml.safe_load(obj["data"]["killcheck.yaml"])
        elif at != ("CronJob", "killcheck", "killcheck-drill"):  # its ConfigMap's name has no hash in the chart
            assert chart[at] == obj, at
    assert chart["CronJob", "killcheck", "killcheck-drill"]["spec"] == documents(CI / "drill.yaml")[0]["spec"]


def test_the_charts_values_do_what_they_say():
    made = rendered(
        image={"repository": "r.example.com/k", "digest": "sha256:" + "a" * 64},
        namespace="ml",
        target="llm",
        faults={"secrets": False},
        networkPolicy=False,
    )
    job = made["CronJob", "killcheck", "killcheck-drill"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert job["containers"][0]["image"] == "r.example.com/k@sha256:" + "a" * 64
    assert made["Role", "ml", "killcheck-drill"]["rules"][-1]["resourceNames"] == ["llm"]
    assert not [at for at in made if at[2] == "killcheck-fault-secrets" or at[0] == "NetworkPolicy"]


def test_the_chart_refuses_values_that_its_schema_does_not_know():
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")
    with pytest.raises(helm.HelmError, match="digest"):
        rendered(image={"repository": "r", "digest": "latest"})


def test_the_charts_templates_are_made_from_the_manifests():
    made = runpy.run_path(str(CI / "helm/generate.py"))["templates"]()
    assert {path.name for path in (CI / "helm/killcheck/templates").iterdir()} == {path.name for path in made}
    assert [path.name for path, text in made.items() if path.read_text() != text] == [], "run `make docs`"


PIPELINES = [
    *((path, "vendor.github-workflows") for path in sorted((CI / "github").iterdir())),
    *((path, "vendor.gitlab-ci") for path in sorted((CI / "gitlab").iterdir())),
]


@pytest.mark.parametrize(("path", "schema"), PIPELINES, ids=[path.name for path, _ in PIPELINES])
def test_a_pipeline_fits_its_schema(path, schema):
    checker = Path(sys.executable).parent / "check-jsonschema"
    done = subprocess.run([checker, "--builtin-schema", schema, path], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted((CI / "github").iterdir()), ids=lambda path: path.name)
def test_a_workflow_takes_care(path):
    """Least permissions, an end, versions that are said, and no secret or title pasted into a script."""
    flow = yaml.safe_load(path.read_text())
    assert flow["permissions"].get("contents") == "read"
    for job in flow["jobs"].values():
        assert job["timeout-minutes"]
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), step
            assert re.fullmatch(r"[\w./-]+@v\d+", step["uses"]) if "uses" in step else step["run"]


def invocations(text):
    """Every call of killcheck in a recipe: its words, as a shell would take them."""
    text = text.replace("\\\n", " ")
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        for found in re.finditer(r"(?:^|[\s;&|`])killcheck ([a-z]+(?: [^;&|`\n]*)?)", line):
            if found[1].split()[0] in COMMANDS:
                yield found[1]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_call_of_killcheck_is_one_that_it_understands(path):
    for call in invocations(path.read_text()):
        name, *words = [re.sub(r"\$\{\{.*?\}\}|\$[\w{}]+", "x", word) for word in shlex.split(call, comments=True)]
        command = importlib.import_module(f"killcheck.commands.{COMMANDS[name][0]}").command
        known = {option for parameter in command.params for option in parameter.opts}
        said = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert isinstance(command, click.Group) or said <= known | {"-h", "--help"}, call


def test_the_calls_are_found():
    found = [call for path in TEXTS for call in invocations(path.read_text())]
    assert {call.split()[0] for call in found} >= {"drill", "lint", "fence", "restore", "report", "gate"}


def test_the_image_recipe_is_pinned_and_not_root():
    lines = [line for line in (CI / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if line.startswith("ARG")] == ["ARG BASE"]
    assert all("${BASE}" in line for line in lines if line.startswith("FROM"))
    assert "USER 65534:65534" in lines[lines.index("FROM ${BASE}") :]


def test_the_recipes_spec_loads():
    assert load(CI / "killcheck.yaml").consent.contexts == ("in-cluster",)


def test_the_pre_commit_hook_calls_what_there_is():
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert hook["entry"].split()[1] in COMMANDS
