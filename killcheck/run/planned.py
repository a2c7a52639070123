"""One drill of a run, as it was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from killcheck.drill.sequence import Options
from killcheck.spec.killpath import Outcome

__all__ = ["PlannedDrill"]


@dataclass(frozen=True)
class PlannedDrill:
    """One drill of a run.

    ``expect``: the verdict that is the right one here (empty: proven is). ``fixture``: a shipped kill path to drill
    instead of the session's own. ``require``: the least outcome that will do (None: proven is), for one of ``causes``
    where that is a known exposure (none: any).
    """

    layer: str
    faults: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    expect: str = ""
    fixture: str = ""
    require: Outcome | None = None
    causes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For the run record."""
        return {"layer": self.layer, "faults": list(self.faults), "title": self.options.title}
