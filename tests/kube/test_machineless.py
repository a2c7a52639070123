"""Nodes without a machine, and what on them has not run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from killcheck.cluster.base import RealCluster
from killcheck.kube import resources as r
from killcheck.kube.errors import Unreachable


def owned(kind, name, owner=(), **more):
    references = [{"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": owner[1], "controller": True}]
    meta = {"name": name, "namespace": "studio", "uid": name, "ownerReferences": references if owner else []}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta | more.pop("meta", {}), **more}


def pod(name, node, ran=None, reason="Hollow", **meta):
    conditions = [{"type": "killcheck.dev/Ran", "status": ran, "reason": reason, "message": "not allowed"}]
    status = {"conditions": conditions if ran else []}
    return owned("Pod", name, ("ReplicaSet", "owl-7f"), spec={"nodeName": node}, status=status, meta={"labels": meta})


def node(name, **labels):
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}}


class Api:
    """Lists what it was given, by a label's presence or value."""

    def __init__(self, *pods):
        nodes = [node("hollow-1", **{"killcheck.dev/hollow": "true"}), node("kwok-1", type="kwok"), node("real-1")]
        sets = [owned("ReplicaSet", "owl-7f", ("Deployment", "owl"))]
        self.objects = {r.NODES: nodes, r.PODS: list(pods), r.REPLICASETS: sets, r.JOBS: []}
        self.down = False

    def list(self, resource, labels=""):
        if self.down:
            raise Unreachable("nobody answers")
        key, _, value = labels.partition("=")
        items = [o for o in self.objects[resource] if not key or o["metadata"]["labels"].get(key) in {value or "true"}]
        return SimpleNamespace(items=items)


def cluster(*pods):
    made = RealCluster()
    made.kube = Api(*pods)
    return made


@pytest.mark.parametrize(
    ("one", "stood_in"),
    [
        (pod("p", "real-1"), False),
        (pod("p", "kwok-1"), True),
        (pod("p", "hollow-1"), True),
        (pod("p", "hollow-1", ran="False"), True),
        (pod("p", "hollow-1", ran="True"), False),
    ],
)
def test_a_model_stands_in_where_there_is_no_machine_and_nobody_says_that_it_ran(one, stood_in):
    found = cluster(one).stood_in()
    assert [(f["kind"], f["metadata"]["name"]) for f in (each.root for each in found)] == (
        [("Deployment", "owl")] if stood_in else []
    )


def test_what_was_to_run_and_could_not_is_told_also_when_nobody_answers_any_more():
    own = {"killcheck.dev/run": "r-0"}
    made = cluster(
        pod("ours", "hollow-1", ran="False", reason="NotRun", **own), pod("p", "hollow-1", ran="False", reason="NotRun")
    )
    assert [why for _, why in made.not_run()] == ["not allowed", "not allowed"]
    made.kube.down = True
    assert made.unknowns() == ["Pod/studio/ours: not allowed"]
    assert "no machine behind Node/hollow-1, and 1 more" in made.assumptions()[0]
