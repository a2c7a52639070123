"""Zero is no figure of pools that nobody read."""

from killcheck.fence.ceiling import Ceiling
from killcheck.fence.verdict import judge_together


def test_without_pools_and_without_a_ceiling_nothing_is_known():
    judged = judge_together([], Ceiling())
    assert judged.verdict == "unproven"
    assert (judged.max_usd_per_hour, judged.max_devices_per_node) == (None, None)
