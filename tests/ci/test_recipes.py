"""Every recipe under ci/ is what its consumer takes: Kubernetes, Helm, GitHub, GitLab, Prometheus, Grafana, Docker."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
import sys
from datetime import date
from functools import partial
from pathlib import Path

import click
import pytest
import yaml

from killcheck import fixtures
from killcheck.capabilities.inventory import Inventory
from killcheck.cli import COMMANDS
from killcheck.embedded.cluster import Cluster
from killcheck.kube.permissions import Permissions
from killcheck.ledger.keeping import keep
from killcheck.run.planned import PlannedDrill
from killcheck.run.rights import rights_for
from killcheck.run.session import Session
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


@pytest.fixture(scope="module")
def values():
    """What `killcheck rights ci/killcheck.yaml --under suspended --format values` prints."""
    session = Session(spec=CI / "killcheck.yaml", manifests=(fixtures.path("dead-man"),))
    found = rights_for(session, [PlannedDrill("nightly-off", ("suspended",))])
    return yaml.safe_load(found.values(["--under=suspended"]))


def rendered(values):
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")
    with helm.Chart.load(str(CI / "helm/killcheck")) as chart:
        found = chart.render(values=values, name="killcheck", namespace="killcheck")
    texts = found.values() if isinstance(found, dict) else [found]
    return {key(obj): obj for text in texts for obj in yaml.safe_load_all(text) if obj}


def test_the_chart_says_the_same_as_the_manifests(kustomized, values):
    chart = rendered({**values, "drill": {"args": []}})
    rbac = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Namespace")
    plain = {at: obj for at, obj in kustomized.items() if at[0] not in rbac}
    assert {at for at in chart if at[0] not in rbac} == set(plain)
    for at, obj in plain.items():
        if at[0] == "ConfigMap":
            assert loads(chart[at]["data"]["killcheck.yaml"]) == loads(obj["data"]["killcheck.yaml"])
        elif at != ("CronJob", "killcheck", "killcheck-drill"):  # its ConfigMap's name has no hash in the chart
            assert chart[at] == obj, at
    assert chart["CronJob", "killcheck", "killcheck-drill"]["spec"] == documents(CI / "drill.yaml")[0]["spec"]


@pytest.mark.parametrize("path", ["dead-man", "two-switches"])
def test_beside_a_kill_path_they_are_known_and_open_nothing(path, values):
    """Committed with the manifests that are drilled: killcheck's own programs may write targets, and light none."""
    found = [file for file in sorted(CI.rglob("*.yaml")) if "helm" not in file.parts]
    plain = [obj for file in found for obj in documents(file) if isinstance(obj, dict) and "apiVersion" in obj]
    session = Session(fixture=path)
    for beside in (plain, list(rendered(values).values())):
        inventory = Inventory([*session.objects, *beside])
        kept = keep(inventory, session.kill_path, session.kill_path.layers[0], today=date(2026, 1, 1))
        told = {entry.object: (str(entry.status), entry.because) for entry in kept.telling}
        for name, command in (("drill", "drill"), ("janitor", "restore")):
            status, because = told[f"CronJob/killcheck/killcheck-{name}"]
            assert (status, because.split(",")[0]) == ("harmless", f"it is killcheck {command}")
        assert not [entry for entry in kept.open if "killcheck" in entry.object], kept.open


def test_the_chart_gives_the_rights_of_what_it_is_told_to_do(values):
    chart = rendered(values)
    granted = Permissions(chart.values())
    may = partial(granted.allows, "killcheck", "killcheck", namespace="inference")
    assert may(verb="patch", group="batch", resource="cronjobs", name="gpu-nightly-off")
    assert not may(verb="create", group="", resource="secrets")
    assert not may(verb="patch", group="batch", resource="cronjobs", name="another")
    script = chart["CronJob", "killcheck", "killcheck-drill"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert "--yes '--under=suspended'\n" in script["containers"][0]["command"][-1]


def test_the_charts_values_reach_both_pods(values):
    placed = {
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "priorityClassName": "system",
    }
    image = {"repository": "r.example.com/k", "digest": "sha256:" + "a" * 64}
    told = {"image": image, "podLabels": {"team": "ml"}, "podAnnotations": {"note": "x"}}
    made = rendered({**values, **placed, **told, "networkPolicy": {"enabled": False}})
    for name in ("killcheck-drill", "killcheck-janitor"):
        template = made["CronJob", "killcheck", name]["spec"]["jobTemplate"]["spec"]["template"]
        assert {field: template["spec"][field] for field in placed} == placed
        assert template["metadata"]["labels"]["team"] == "ml"
        assert template["metadata"]["annotations"]["note"] == "x"
        assert template["spec"]["containers"][0]["image"] == "r.example.com/k@sha256:" + "a" * 64
    assert not [at for at in made if at[0] == "NetworkPolicy"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"image": {"repository": "r", "digest": "latest"}}, "digest"),
        ({"imagePullSecret": []}, "'imagePullSecret' not allowed"),
        ({"drill": {"args": ["; rm -rf /"]}}, "/drill/args/0"),
    ],
    ids=["digest", "misspelt", "no option"],
)
def test_the_chart_refuses_values_that_it_does_not_know(values, wrong, words):
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")
    with pytest.raises(helm.HelmError, match=words):
        rendered({**values, **wrong})


def test_without_a_kill_path_the_chart_says_how_to_get_one():
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")
    with pytest.raises(helm.HelmError, match="spec: the kill path is missing; write the values with: killcheck rights"):
        rendered({})


PIPELINES = [
    *((path, "vendor.github-workflows") for path in sorted((CI / "github").iterdir())),
    *((path, "vendor.gitlab-ci") for path in sorted((CI / "gitlab").iterdir())),
    *((path, "vendor.github-workflows") for path in sorted((ROOT / ".github/workflows").iterdir())),
    (ROOT / "action.yml", "vendor.github-actions"),
]


@pytest.mark.parametrize(("path", "schema"), PIPELINES, ids=[path.name for path, _ in PIPELINES])
def test_a_pipeline_fits_its_schema(path, schema):
    checker = Path(sys.executable).parent / "check-jsonschema"
    done = subprocess.run([checker, "--builtin-schema", schema, path], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "path", [path for path, schema in PIPELINES if schema == "vendor.github-workflows"], ids=lambda path: path.name
)
def test_a_workflow_takes_care(path):
    """Least permissions, an end, versions that are said, and no secret or title pasted into a script."""
    flow = yaml.safe_load(path.read_text())
    assert flow["permissions"].get("contents") == "read"
    for job in flow["jobs"].values():
        assert job["timeout-minutes"]
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), step
            assert re.fullmatch(r"[\w./-]+@v\d+(\.\d+)*", step["uses"]) if "uses" in step else step["run"]


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
    assert [line for line in lines if line.startswith("ARG")] == ["ARG BASE=python:3.12-slim"]
    assert all("${BASE}" in line for line in lines if line.startswith("FROM"))
    assert "USER 65534:65534" in lines[lines.index("FROM ${BASE}") :]


def test_the_recipes_spec_loads():
    assert load(CI / "killcheck.yaml").consent.contexts == ("in-cluster",)


def test_the_pre_commit_hook_calls_what_there_is():
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert hook["entry"].split()[1] in COMMANDS
