"""By when each phase of a kill path must have been seen."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct, structs

from killcheck.spec.phases import PHASES

__all__ = ["MOMENTS", "MOMENT_KEYS", "Deadlines", "spec_key"]


class Deadlines(Struct, frozen=True):
    """By when each phase must have been seen, in seconds since the trigger.

    ``held_s`` alone is a length: how long everything must stay off after it went off.
    """

    job_created_s: float = 30.0
    pod_created_s: float = 60.0
    pod_scheduled_s: float = 120.0
    image_pulled_s: float = 180.0
    container_started_s: float = 210.0
    executor_finished_s: float = 240.0
    scale_written_s: float = 240.0
    pods_gone_s: float = 300.0
    node_drained_s: float = 900.0
    node_gone_s: float = 1200.0
    instance_gone_s: float = 1500.0
    held_s: float = 900.0

    @classmethod
    def fitted(cls, said: Mapping[str, float], base: Deadlines | None = None) -> Deadlines:
        """``base`` (or the defaults) with what was ``said`` (by field name), the unsaid moved out of its way.

        An unsaid phase is never later than a later phase that was said, nor earlier than an earlier one.
        Raises ValueError where what was said contradicts itself; the message names the two fields.
        """
        base = base or cls()
        values = {name: float(said.get(name, earlier)) for name, earlier in structs.asdict(base).items()}
        _refuse_disorder(said)
        for i, name in enumerate(MOMENTS):
            if name in said:
                continue
            earlier = [float(said[n]) for n in MOMENTS[:i] if n in said]
            later = [float(said[n]) for n in MOMENTS[i:] if n in said]
            values[name] = min([max([values[name], *earlier]), *later])
        return cls(**values)


_MOMENTS = set(Deadlines.__struct_fields__) - {"held_s"}
#: The fields of Deadlines that are moments, in the order in which they come: of phases, each with its unit.
MOMENTS: tuple[str, ...] = tuple(f"{phase}_s" for phase in PHASES if f"{phase}_s" in _MOMENTS)


def spec_key(field_name: str) -> str:
    """How the spec file writes the field of a deadline: ``pods_gone_s`` is ``podsGone``."""
    first, *rest = field_name.removesuffix("_s").split("_")
    return first + "".join(part.capitalize() for part in rest)


#: The same as the spec file writes them.
MOMENT_KEYS: tuple[str, ...] = tuple(spec_key(name) for name in MOMENTS)


def _refuse_disorder(said: Mapping[str, float]) -> None:
    given = [name for name in MOMENTS if name in said]
    for before, after in pairwise(given):
        if said[after] < said[before]:
            raise ValueError(f"{after} ({said[after]:g} s) is before {before} ({said[before]:g} s)")
