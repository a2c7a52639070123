"""Zero is no figure of pools that nobody read."""

import pytest

from killcheck.fence import evaluate
from killcheck.fence.ceiling import Ceiling
from killcheck.fence.verdict import judge_together
from killcheck.kube.passed_over import Cause, Skipped, names_pools


def test_without_pools_and_without_a_ceiling_nothing_is_known():
    judged = judge_together([], Ceiling())
    assert judged.verdict == "unproven"
    assert (judged.max_usd_per_hour, judged.max_devices_per_node) == (None, None)


def test_what_was_not_read_may_be_a_pool():
    report = evaluate([], Ceiling(max_devices_per_node=1), unread=["deploy/pool.yaml:10"])
    assert report.cluster.verdict == "unproven"
    assert "deploy/pool.yaml:10 was not evaluated, and may be a pool" in report.cluster.reasons


def test_a_pool_of_somebody_elses_kind_has_no_figures():
    """Nor has the whole; and a label of one's own that is called ``type`` names no instance type."""
    kwok = {"apiVersion": "kwok.example/v1", "kind": "NodePool", "metadata": {"name": "k"}, "spec": {}}
    own = {"metadata": {"labels": {"type": "karpenter"}}, "spec": {"requirements": []}}
    ours = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "o"}, "spec": {"template": own}}
    report = evaluate([kwok, ours], Ceiling())
    theirs = report.of("NodePool/k")
    assert (theirs.max_devices, theirs.max_devices_per_node, theirs.max_usd_per_hour) == (None, None, None)
    assert (report.cluster.max_devices_per_node, report.cluster.max_usd_per_hour) == (None, None)
    assert not any("catalogue" in reason for reason in report.of("NodePool/o").reasons)


@pytest.mark.parametrize(
    ("kind", "pool", "switch"),
    [
        (("v1", "ServiceAccount"), False, False),
        (("batch/v1", "CronJob"), False, True),
        (("allocation.agones.dev/v1", "GameServerAllocation"), True, False),
        (("keda.sh/v1alpha1", "ScaledObject"), True, True),
        (("cluster.x-k8s.io/v1beta1", "MachinePool"), True, False),
        (("", ""), True, True),
    ],
)
def test_what_a_document_that_was_not_read_may_be(kind, pool, switch):
    one = Skipped("a.yaml", 1, "why", Cause.REFUSED, of=kind)
    assert (one.may_launch, one.may_switch) == (pool, switch)


@pytest.mark.parametrize(
    ("cause", "text", "pool"),
    [
        (Cause.ELSEWHERE, "", True),
        (Cause.CHART, "kind: NodePool", True),
        (Cause.CHART, "kind: ConfigMap", False),
        (Cause.KUSTOMIZATION, "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1", True),
        (Cause.LEFT_OUT, "kind: NodePool", False),
        (Cause.NO_MANIFEST, "kind: NodePool", False),
    ],
)
def test_what_was_passed_over_may_be_a_pool_by_what_it_names(cause, text, pool):
    assert Skipped("a", 0, "why", cause, names_pools=names_pools(text)).may_launch is pool
