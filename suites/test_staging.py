"""Every layer under every fault that applies, judged by the spec's policy. For the night, against staging."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from killcheck.spec.killpath import KillPath
from killcheck.verdict import DrillResult

pytestmark = pytest.mark.killcheck(suite="staging")


def test_gpus_go_off(case: tuple[str, str], kill_path: KillPath, drill: Callable[..., DrillResult]) -> None:
    """The outcome must be at least what the policy requires of this layer under this fault."""
    layer, fault = case
    faults = fault.split("+")
    required, causes = kill_path.policy.required(layer, faults), kill_path.policy.causes(layer, faults)
    result = drill(layer, under=[fault])
    wanted = f"{required} ({' or '.join(causes)})" if causes else required
    told = f"{layer} under {fault} must be {wanted}, is {result.verdict}: {result.cause}"
    assert result.meets(required, causes), told
