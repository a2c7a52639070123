"""What the API server would refuse is found by reading: with its line, in its words, and nothing else is accused."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from killcheck.probes.manifest_refused import ManifestRefused

from killcheck import fixtures
from killcheck.kube import manifests
from killcheck.lint import asking
from killcheck.spec import specfile
from killcheck.spec.killpath import KillPath

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
SWITCH = "gpu-nightly-off.yaml"
#: What is edited, into what, and what is said of it: (file, old, new, the line's own text, a part of the message).
EDITS = [
    (
        SWITCH,
        "  concurrencyPolicy:",
        "  concurencyPolicy:",
        "concurencyPolicy",
        'unknown field "spec.concurencyPolicy"',
    ),
    (SWITCH, "      backoffLimit: 5", '      backoffLimit: "five"', "five", "cannot unmarshal string into Go struct"),
    (
        SWITCH,
        "restartPolicy: Never",
        "restartPolicy: Always",
        "Always",
        'spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ),
    (SWITCH, "cpu: 10m", "cpu: 10 m", "10 m", "quantities must match the regular expression"),
    (
        SWITCH,
        "apiVersion: batch/v1",
        "apiVersion: batch/v1beta1",
        "batch/v1beta1",
        'no matches for kind "CronJob" in version "batch/v1beta1"; there is CronJob in batch/v1',
    ),
    (SWITCH, "apiVersion: batch/v1", "apiVersion: 1", "apiVersion: 1", 'in version "1"; there is CronJob in batch/v1'),
    (
        SWITCH,
        "kind: RoleBinding",
        "kind: Rolebinding",
        "kind: Rolebinding",
        'no matches for kind "Rolebinding" in version "rbac.authorization.k8s.io/v1"; there is RoleBinding',
    ),
    ("inference.yaml", "nvidia.com/gpu: 8", "nvidia.com/gpu: 1500m", "1500m", "must be an integer"),
    # What a schedule says for an older cluster, schedule-trap reads; no API server of today takes it.
    (SWITCH, 'schedule: "0', 'schedule: "TZ=UTC 0', "TZ=UTC", "cannot use TZ or CRON_TZ in schedule"),
    (SWITCH, "timeZone: Etc/UTC", "timeZone: Local", "Local", "timeZone must be an explicit time zone"),
]


def path_of(folder: Path) -> KillPath:
    return specfile.load(folder / "killcheck.yaml")


def found(folder: Path) -> list[Any]:
    world, _ = asking.world_of(manifests.load(folder), NOW, kill_path=path_of(fixtures.path("dead-man")))
    return list(ManifestRefused().ask(world))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in fixtures.path("dead-man").iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    return tmp_path


@pytest.mark.parametrize(("file", "old", "new", "line", "said"), EDITS, ids=[edit[2].strip() for edit in EDITS])
def test_it_is_told_with_its_line_in_the_servers_words(folder: Path, file, old, new, line, said) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    first, *_ = found(folder)
    assert said in first.message
    assert Path(first.file).name == file
    assert line in (folder / file).read_text().splitlines()[first.line - 1]


@pytest.mark.parametrize("unfilled", ["${NIGHT_ACCOUNT}", "{{ account }}", "<account>", "NIGHT_ACCOUNT"])
def test_what_is_to_be_filled_in_yet_is_no_mistake(folder: Path, unfilled: str) -> None:
    text = (folder / SWITCH).read_text()
    (folder / SWITCH).write_text(re.sub(r"serviceAccountName: .*", f"serviceAccountName: '{unfilled}'", text))
    assert [one.unproven for one in found(folder)] == [True]


def test_all_that_is_wrong_is_told_at_once(folder: Path) -> None:
    text = (folder / SWITCH).read_text()
    (folder / SWITCH).write_text(
        text.replace("  concurrencyPolicy:", "  concurencyPolicy:").replace("- name: executor", "- name: the_executor")
    )
    assert [one.evidence[0].path.rpartition(".")[2] for one in found(folder)] == ["concurencyPolicy", "name"]


@pytest.mark.parametrize(
    "name", [name for name in fixtures.names() if name not in ("single-controller", "worker-fleet")]
)
def test_what_is_shipped_is_taken(name: str) -> None:
    world, _ = asking.world_of(manifests.load(fixtures.path(name)), NOW, kill_path=specfile.load(fixtures.spec(name)))
    assert list(ManifestRefused().ask(world)) == []


@pytest.mark.parametrize(
    "other",
    [
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: somebody-elses}\ndatta: {}\n",
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: x, namespace: inference}\nspec: {news: 1}\n",
        "apiVersion: batch/v7\nkind: Nightly\nmetadata: {name: x, namespace: inference}\n",
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: x, namespace: inference}\nspec:\n"
        "  minReplicas: 0\n  maxReplicas: 3\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: vllm}\n"
        '  metrics: [{type: External, external: {metric: {name: q}, target: {type: Value, value: "1"}}}]\n',
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: inference}\ntype: kubernetes.io/dockerconfigjson\n"
        "data: {.dockerconfigjson: e30=}\n",
    ],
    ids=["another-namespace", "custom", "unknown-type", "feature-gate", "secret"],
)
def test_what_is_not_ours_to_say_is_left_alone(folder: Path, other: str) -> None:
    (folder / "other.yaml").write_text(other)
    assert found(folder) == []


def test_of_a_live_cluster_nothing_is_asked() -> None:
    refused = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "x", "namespace": "inference"}}
    kill_path = path_of(fixtures.path("dead-man"))
    world, _ = asking.world_of([refused], NOW, kill_path=kill_path, live=True)
    assert list(ManifestRefused().ask(world)) == []


#: What only a download brings is not rendered.
FROM_AFAR = "namespace: ops\ncomponents: ['https://git.example.org/platform//base?ref=v1']\n"


@pytest.mark.parametrize(("rendered", "unproven"), [(FROM_AFAR, True), ("", False)])
def test_what_a_kustomization_may_mend_yet_is_no_error(tmp_path: Path, rendered: str, unproven: bool) -> None:
    folder = tmp_path / "base"
    folder.mkdir()
    for name in ("inference.yaml", SWITCH):
        (folder / name).write_text((fixtures.path("dead-man") / name).read_text())
    (folder / "binding.yaml").write_text(
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, "
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, "
        "subjects: [{kind: ServiceAccount, name: night}]}"
    )
    files = [file.name for file in sorted(folder.glob("*.yaml"))]
    (folder / "kustomization.yaml").write_text(f"{rendered}resources: {files}\n")
    world, _ = asking.world_of(manifests.load(tmp_path), NOW)
    assert [(one.unproven, "subjects[0].namespace" in one.message) for one in ManifestRefused().ask(world)] == [
        (unproven, True)
    ]
