"""What an executor is read to change besides its targets is put back; what it cannot have changed is somebody else's."""

from __future__ import annotations

import json
import shlex
from types import SimpleNamespace

import pytest
from safety_world import differences, picture, small_cluster

from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.resources import Resource
from killcheck.safety import orphans
from killcheck.safety.accounting import Account
from killcheck.safety.guard import Consented, guarded
from killcheck.safety.journal import Journal
from killcheck.safety.undo import recreatable

POD = {"containers": [{"name": "c", "image": "i"}]}
RAY = Resource("ray.io", "v1", "rayclusters", "RayCluster")
SECRET = {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "not for everybody"}]}]}
HEAD = {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": POD}}}
GROUPS = [{"groupName": g, "replicas": 2, "rayStartParams": {}, "template": {"spec": SECRET}} for g in ("a", "b")]
NODE_POOL = {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}


def starter(script):
    container = {"name": "off", "image": "bitnami/kubectl", "command": ["sh", "-ec", script]}
    spec = {"schedule": "0 3 29 2 *"}
    spec["jobTemplate"] = {"spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}}
    return {"metadata": {"name": "off", "namespace": "inference"}, "spec": spec}


@pytest.fixture
def cluster():
    cluster = small_cluster()
    make = cluster.kube.create
    for name in ("bare", "other"):
        make(r.PODS, {"metadata": {"name": name, "namespace": "inference", "labels": {"app": name}}, "spec": POD})
    never = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
    make(r.JOBS, {"metadata": {"name": "train", "namespace": "inference"}, "spec": never})
    make(
        r.JOBS,
        {"metadata": {"name": "short", "namespace": "inference"}, "spec": {**never, "ttlSecondsAfterFinished": 5}},
    )
    scaled = {"scaleTargetRef": {"name": "vllm"}, "triggers": [{"type": "cpu", "metadata": {"value": "5"}}]}
    make(r.SCALEDOBJECTS, {"metadata": {"name": "vllm", "namespace": "inference"}, "spec": scaled})
    make(RAY, {"metadata": {"name": "ray", "namespace": "inference"}, "spec": {"workerGroupSpecs": GROUPS, **HEAD}})
    for name in ("gpu", "strangers"):
        make(r.NODEPOOLS, {"metadata": {"name": name}, "spec": NODE_POOL})
    cluster.loop.sleep(5)
    yield cluster
    cluster.close()


class Drilled:
    """What a drill does around its trigger, with an executor of which ``script`` is the text."""

    def __init__(self, cluster, script):
        self.cluster, self.kube, self.notes = cluster, cluster.kube, []
        self.kube.create(r.CRONJOBS, starter(script))
        place = SimpleNamespace(kube=self.kube, loop=cluster.loop, real=True, own_consent=None)
        target = SimpleNamespace(kind="Deployment", api_version="apps/v1", namespace="inference", object="vllm")
        path = SimpleNamespace(targets=[target], in_kubernetes=True, consent=SimpleNamespace(pools=("gpu",)))
        layer = SimpleNamespace(ref=SimpleNamespace(kind="CronJob", namespace="inference", name="off"))
        self.account = Account(place, path, layer)
        self.account.open()
        self.before = picture(cluster, uids=False)
        self.journal = Journal("run", cluster.loop, self.kube, home="inference", context="here")
        objects = frozenset({("nodepools", "gpu")})
        guarded(self.kube, Consented("run", frozenset({"inference"}), objects=objects))
        self.account.remember(self.journal, self.notes.append)

    def end(self):
        self.cluster.loop.sleep(60)
        _, problems = self.journal.undo_all()
        assert problems == []
        self.cluster.loop.sleep(60)
        return self.account.close("run", self.journal.entries, self.notes.append)


def bare(found):
    """Objects without what the API server generates for a Job, and without what is the same as nothing."""
    kept = {key: recreatable(obj) for key, obj in found.items() if "killcheck-journal" not in key[2]}
    for obj in kept.values():
        obj["spec"] = {key: value for key, value in obj.get("spec", {}).items() if value != {}}
    return kept


def changed(cluster, before):
    return differences(bare(before), bare(picture(cluster, uids=False)))


def patch(resource, name, change, namespace="inference"):
    return lambda kube: kube.patch(resource, name, change, namespace)


PAUSED = {"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}}
NO_MORE = {"spec": {"limits": {"nvidia.com/gpu": "0"}}}
SECOND_TO_ZERO = [{"op": "replace", "path": "/spec/workerGroupSpecs/1/replicas", "value": 0}]
DOINGS = {
    "kubectl delete pod bare -n inference": lambda kube: kube.delete(r.PODS, "bare", "inference", grace_s=0),
    "kubectl delete pods -l app=bare": lambda kube: kube.delete(r.PODS, "bare", "inference", grace_s=0),
    "kubectl delete job train": lambda kube: kube.delete(r.JOBS, "train", "inference", propagation="Background"),
    """kubectl patch job train -p '{"spec":{"suspend":true}}'""": patch(r.JOBS, "train", {"spec": {"suspend": True}}),
    "kubectl annotate scaledobject vllm autoscaling.keda.sh/paused=true": patch(r.SCALEDOBJECTS, "vllm", PAUSED),
    """kubectl patch nodepool gpu --type merge -p '{"spec":{"limits":{"nvidia.com/gpu":"0"}}}'""": patch(
        r.NODEPOOLS, "gpu", NO_MORE, None
    ),
    f"kubectl patch raycluster ray --type=json -p '{json.dumps(SECOND_TO_ZERO)}'": lambda kube: kube.patch(
        RAY, "ray", SECOND_TO_ZERO, "inference", kind="json"
    ),
    "kubectl replace -f - <<X\n{kind: ConfigMap, metadata: {name: settings}, data: {b: x}}\nX": patch(
        r.CONFIGMAPS, "settings", {"data": {"a": None, "b": "x"}}
    ),
    "kubectl rollout pause deploy vllm": patch(r.DEPLOYMENTS, "vllm", {"spec": {"paused": True}}),
    "kubectl delete nodepool gpu": lambda kube: kube.delete(r.NODEPOOLS, "gpu"),
}


@pytest.mark.parametrize("script", DOINGS)
def test_what_the_executor_is_read_to_do_is_put_back(cluster, script):
    drill = Drilled(cluster, script)
    DOINGS[script](through_nobody(cluster))
    assert drill.end() == []
    assert changed(cluster, drill.before) == []


def through_nobody(cluster):
    """A client that no drill guards: the executor's own."""
    return Kube(cluster.kube.transport.inner, field_manager="kubectl-patch")


@pytest.mark.parametrize("script", DOINGS)
def test_a_run_that_died_is_put_back_by_another_process(cluster, script):
    drill = Drilled(cluster, script)
    DOINGS[script](through_nobody(cluster))
    cluster.loop.sleep(60)
    found = orphans.find(through_nobody(cluster), cluster.loop, context="here")
    outcome = orphans.restore(through_nobody(cluster), cluster.loop, found, named="run")
    assert outcome.problems == []
    cluster.loop.sleep(60)
    assert changed(cluster, drill.before) == []


@pytest.mark.parametrize("script", ["echo hello", *DOINGS])
def test_what_it_leaves_alone_stays_as_it_is(cluster, script):
    drill = Drilled(cluster, script)
    assert drill.end() == []
    assert changed(cluster, drill.before) == []


def test_a_job_that_goes_by_itself_is_not_made_again(cluster):
    drill = Drilled(cluster, "kubectl delete jobs --all")
    assert not any("short" in entry.what for entry in drill.journal.entries)


def test_what_looks_like_a_secret_is_put_back_and_stands_nowhere_in_clear(cluster):
    token = "hf_" + "QwErTyUiOp" * 4
    cluster.kube.patch(r.CONFIGMAPS, "settings", {"data": {"a": token}}, "inference")
    drill = Drilled(cluster, """kubectl patch configmap settings -p '{"data":{"a":"x"}}'""")
    through_nobody(cluster).patch(r.CONFIGMAPS, "settings", {"data": {"a": "x"}}, "inference")
    kept = [one for one in cluster.kube.list(r.CONFIGMAPS).items if one["metadata"]["name"] != "settings"]
    assert any("settings" in json.dumps(one) for one in kept)  # the journal names it
    assert token not in json.dumps(kept)
    assert drill.end() == []
    assert changed(cluster, drill.before) == []


def test_a_pool_that_nobody_named_is_told(cluster):
    drill = Drilled(cluster, "kubectl delete nodepools --all")
    was = recreatable(cluster.kube.get(r.NODEPOOLS, "strangers"))
    through_nobody(cluster).delete(r.NODEPOOLS, "strangers")
    assert drill.end() == [
        "left changed, by the kill path or by somebody else meanwhile: NodePool strangers is gone; by hand: "
        f"echo {shlex.quote(json.dumps(was))} | kubectl create -f -"
    ]


def test_what_is_in_no_namespace_is_named_by_itself(cluster):
    """Before anything is pulled: it could not be put back. Its own label is a yes."""
    drilled = Drilled(cluster, "kubectl patch nodepool strangers --type merge -p '{}'")
    (said,) = drilled.account.unnamed([])
    assert "NodePool/strangers, which is in no namespace and nobody named" in said
    assert "kubectl label nodepools.karpenter.sh strangers killcheck.dev/consent=true" in said
    pools = {one["metadata"]["name"]: one for one in cluster.kube.list(r.NODEPOOLS).items}
    assert list(drilled.account.unnamed([(r.NODEPOOLS, pools["gpu"])])) == [said]
    label = {"metadata": {"labels": {"killcheck.dev/consent": "true"}}}
    through_nobody(cluster).patch(r.NODEPOOLS, "strangers", label)
    drilled.account.open()
    assert list(drilled.account.unnamed([])) == []


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda kube: kube.delete(r.PODS, "other", "inference", grace_s=0), "Pod inference/other is gone"),
        (
            patch(r.JOBS, "train", {"spec": {"suspend": True}}),
            "Job inference/train: spec.suspend was false and is true",
        ),
    ],
)
def test_what_somebody_else_did_is_told_as_that_and_left(cluster, act, said):
    drill = Drilled(cluster, "kubectl delete pod bare")
    act(through_nobody(cluster))
    left = picture(cluster, uids=False)
    assert drill.end() == []
    assert [
        note for note in drill.notes if note.startswith("changed meanwhile, and not by the executor") and said in note
    ]
    assert changed(cluster, left) == []


def test_what_an_executor_that_cannot_be_read_did_is_told_as_left(cluster):
    drill = Drilled(cluster, "/opt/lights-out")
    through_nobody(cluster).delete(r.PODS, "other", "inference", grace_s=0)
    (told,) = drill.end()
    said = "left changed, by the kill path or by somebody else meanwhile: Pod inference/other is gone; by hand: echo '{"
    assert told.startswith(said)
    assert told.endswith("}' | kubectl create -f -")


def test_what_was_set_to_something_else_meanwhile_is_left_and_told(cluster):
    drill = Drilled(cluster, "kubectl annotate scaledobject vllm autoscaling.keda.sh/paused=true")
    other = {"metadata": {"annotations": {"autoscaling.keda.sh/paused": "false"}}}
    through_nobody(cluster).patch(r.SCALEDOBJECTS, "vllm", other, "inference")
    (told,) = drill.end()
    assert 'autoscaling.keda.sh/paused was null and is "false"' in told


def test_a_kind_that_nobody_looks_at_is_told(cluster):
    drill = Drilled(cluster, "kubectl delete secret cache; kubectl cordon gpu-a")
    assert "the executor is read to patch nodes gpu-a: that is not looked at, and not put back" in drill.notes
    assert any("delete secrets inference/cache" in note for note in drill.notes)


def test_a_kind_that_may_not_be_listed_is_told(cluster, monkeypatch):
    may = cluster.kube.may
    monkeypatch.setattr(
        cluster.kube, "may", lambda verb, plural, **more: plural != "nodepools" and may(verb, plural, **more)
    )
    drill = Drilled(cluster, "echo hello")
    assert drill.end() == []
    assert any("these may not be listed here" in note and "nodepools.karpenter.sh" in note for note in drill.notes)
