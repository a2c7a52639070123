"""Is it wired, and does one undisturbed drill of each layer turn the GPUs off? For install time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from killcheck.spec.killpath import KillPath
from killcheck.verdict import DrillResult, Verdict

pytestmark = pytest.mark.killcheck(suite="install")


def test_every_target_is_covered_by_a_layer(kill_path: KillPath) -> None:
    """A target that no layer covers is left on whatever else works."""
    covered = {name for layer in kill_path.layers for name in layer.covers}
    assert {target.name for target in kill_path.targets} <= covered


def test_layer_turns_the_gpus_off(layer_name: str, drill: Callable[..., DrillResult]) -> None:
    """Pull the layer's trigger, undisturbed: it must be this layer that turns the GPUs off, in time."""
    result = drill(layer_name)
    assert result.verdict is Verdict.SURVIVED, f"{layer_name}: {result.verdict}: {result.cause or result.why}"
