"""Zero is no figure of pools that nobody read."""

from killcheck.fence import evaluate
from killcheck.fence.ceiling import Ceiling
from killcheck.fence.verdict import judge_together


def test_without_pools_and_without_a_ceiling_nothing_is_known():
    judged = judge_together([], Ceiling())
    assert judged.verdict == "unproven"
    assert (judged.max_usd_per_hour, judged.max_devices_per_node) == (None, None)


def test_what_was_not_read_may_be_a_pool():
    report = evaluate([], Ceiling(max_devices_per_node=1), unread=["deploy/pool.yaml:10"])
    assert report.cluster.verdict == "unproven"
    assert "deploy/pool.yaml:10 was not read, and may be a pool" in report.cluster.reasons
