"""What a model says it does not know: open where it touches the path, said where it does not."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from beside import HARMLESS, UNKNOWN, Aim
from composed import Composition, Obj, account

from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.embedded import Cluster
from killcheck.entries import Doubt, Status
from killcheck.kube import resources as r
from killcheck.kube.objects import ref_of
from killcheck.ledger import doubted
from killcheck.ledger.stakes import Stakes
from killcheck.run.session import Session

PATHS = ("dead-man", "two-switches", "kueue-quota", "scale-to-zero", "self-terminating", "spot-training")
OWL = "an operator that may patch the scale"
SAID = "nobody here knows"


@cache
def _stakes(path: str) -> Stakes:
    session = Session(fixture=path)
    kill_path = session.kill_path
    bare = Stakes(list(session.objects), kill_path, kill_path.layers[0])
    (aim,) = [
        Aim(held.api_version, held.kind, held.namespace, held.name, dict(held.labels[0])) for held in bare.targets[:1]
    ]
    more = [*UNKNOWN[OWL](aim), *(obj for name in HARMLESS for obj in HARMLESS[name](aim))]
    return Stakes([*session.objects, *more], kill_path, kill_path.layers[0])


def _touched(stakes: Stakes) -> set[str]:
    """The refs of everything that has a part in a path."""
    named = {str(held) for held in stakes.targets} | {ref_of(one) for one in (*stakes.scalers, *stakes.queues)}
    named |= {f"{ref.kind}/{ref.namespace}/{ref.name}" for ref in stakes.switches}
    named |= {f"NodePool/{pool}" for pool in stakes.pools} | {"Deployment/platform/night-owl"}
    return named | {f"Deployment/{namespace}/made-of-it" for namespace in stakes.namespaces}


@pytest.mark.parametrize("path", PATHS)
def test_whatever_is_unknown_of_a_part_of_the_path_is_open(path: str) -> None:
    stakes = _stakes(path)
    touched = sorted(_touched(stakes))
    entries = list(doubted.entries([Doubt(ref, SAID) for ref in ["", *touched]], stakes))
    assert len(entries) > len(touched) >= 3
    assert {entry.object for entry in entries if entry.status is not Status.NOT_MODELLED} == set()


@pytest.mark.parametrize("path", PATHS)
def test_what_could_only_be_off_opens_nothing_and_is_said(path: str) -> None:
    stakes = _stakes(path)
    entries = doubted.entries([Doubt(ref, SAID, may_be_on=False) for ref in _touched(stakes)], stakes)
    assert {(entry.status, entry.matters) for entry in entries} == {(Status.ASSUMED, True)}


@pytest.mark.parametrize("path", PATHS)
def test_what_lies_off_the_path_opens_nothing_and_is_said(path: str) -> None:
    refs = ("ConfigMap/default/somewhere", "RayService/research/other")
    entries = doubted.entries([Doubt(ref, SAID) for ref in refs], _stakes(path))
    assert {(entry.status, entry.matters) for entry in entries} == {(Status.HARMLESS, True)}


@pytest.mark.parametrize(
    ("about", "may_be_on", "verdict"),
    [
        ("Deployment/serving/llama", True, "inconclusive"),
        ("Deployment/serving/llama", False, "survived"),
        ("Deployment/research/other", True, "survived"),
    ],
)
@pytest.mark.one_in(3)
def test_no_drill_survives_what_a_model_did_not_know(
    about: str, may_be_on: bool, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [Doubt(about, SAID, may_be_on=may_be_on)]
    monkeypatch.setattr(EmbeddedDrillCluster, "doubts", lambda _self: told)
    result = Composition().drill(tmp_path / "path")
    assert str(result.verdict) == verdict, result.why
    assert SAID in " ".join(map(str, result.ledger.telling))


# -- what Kueue manages and its model does not ---------------------------------------------------------------
QUEUES: tuple[Obj, ...] = (
    {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ResourceFlavor",
        "metadata": {"name": "any"},
    },
    {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "all"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [{"name": "any", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}],
                }
            ],
        },
    },
    {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": "team", "namespace": "serving"},
        "spec": {"clusterQueue": "all"},
    },
)
_POD: Obj = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 10,
    "containers": [
        {"name": "train", "image": "registry.example.net/train:3", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    ],
}


class _JobSet(Composition):
    """A JobSet that a CronJob suspends each night; ``queue``: Kueue's, where it has one."""

    def __init__(self, queue: str) -> None:
        super().__init__(kind="JobSet", name="train")
        object.__setattr__(self, "queue", queue)

    @property
    def objects(self) -> list[Obj]:
        """Its manifests."""
        queue: str = self.queue  # type: ignore[attr-defined]
        labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        job = {"replicas": 1, "name": "workers", "template": {"spec": {"template": {"spec": _POD}}}}
        rules = [{"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["get", "patch"]}]
        suspend = 'kubectl -n serving patch jobset train --type merge -p \'{"spec":{"suspend":true}}\''
        return [
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {"name": "train", "namespace": "serving", "labels": labels},
                "spec": {"replicatedJobs": [job]},
            },
            *account("lights-out", "serving", rules),
            self._cron("lights-out", "30 21 * * *", suspend),
            *(QUEUES if queue else ()),
        ]


@pytest.mark.parametrize(("queue", "verdict"), [("team", "inconclusive"), ("", "survived")])
def test_job_that_kueue_starts_again_is_not_off_because_somebody_suspended_it(
    queue: str, verdict: str, tmp_path: Path
) -> None:
    result = _JobSet(queue).drill(tmp_path / "path")
    assert str(result.verdict) == verdict, result.why
    assert ("started again, whoever suspended it" in result.why) is bool(queue)


@pytest.mark.parametrize(
    ("suspended", "queued", "doubts"), [(True, True, 1), (False, True, 0), (True, False, 0)], ids=str
)
def test_job_whose_queue_is_in_no_manifest(suspended: bool, queued: bool, doubts: int) -> None:
    cluster = Cluster()
    try:
        labels = {"kueue.x-k8s.io/queue-name": "elsewhere"} if queued else {}
        meta = {"name": "train", "namespace": "default", "labels": labels}
        cluster.kube.create(r.JOBS, {"metadata": meta, "spec": {"suspend": suspended, "template": {"spec": _POD}}})
        assert [(one.about, one.may_be_off) for one in cluster.doubts] == [("Job/default/train", False)] * doubts
    finally:
        cluster.close()


def test_suspended_ray_service_is_a_doubt_of_its_controller() -> None:
    cluster = Cluster()
    try:
        cluster.load(
            [
                {
                    "apiVersion": "ray.io/v1",
                    "kind": "RayService",
                    "metadata": {"name": "chat", "namespace": "default"},
                    "spec": {"suspend": True, "rayClusterConfig": {"headGroupSpec": {"template": {"spec": _POD}}}},
                }
            ]
        )
        cluster.loop.run_until(lambda: False, 5.0)
        assert [one.about for one in cluster.doubts] == ["RayService/default/chat"]
        (said,) = cluster.unknowns
        assert "KubeRay before v1.7" in said
    finally:
        cluster.close()
