"""What a run found: its drills, and the matrix of them, each cell judged by the spec's policy.

What may *not* live here: how drills are planned and run (:mod:`killcheck.run`), and how results look
(:mod:`killcheck.reports`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.spec.killpath import Outcome, Rule
from killcheck.verdict import DrillResult, Verdict

__all__ = ["Cell", "Matrix", "RunResult"]

#: The column of the drill without a fault.
UNDISTURBED = "undisturbed"


class RunResult(Struct, frozen=True):
    """What a run found, and where its record is."""

    run: str
    verdict: str
    exit_code: int
    drills: tuple[DrillResult, ...]
    record: Path | None
    #: What was noted about the run itself: of the manifests, and of how the kill path was found.
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON document, schema killcheck.result/v1."""
        return {
            "schema": "killcheck.result/v1",
            "run": self.run,
            "verdict": self.verdict,
            "drills": [drill.to_json() for drill in self.drills],
            "findings": [],
            "fences": [],
            "record": str(self.record) if self.record else None,
            "notes": list(self.notes),
        }


class Cell(Struct, frozen=True):
    """One layer under one fault (``fault`` empty: undisturbed) and the least that the policy lets pass.

    ``causes``: those that an exposure may have which the policy knows of; none: any.
    """

    layer: str
    fault: str
    required: Outcome
    result: DrillResult
    causes: tuple[str, ...] = ()
    acceptance: Rule | None = None

    @property
    def better(self) -> str | None:
        """Where an exposure that somebody accepted is none any more: what to do; None elsewhere."""
        if not (self.result.proven and self.acceptance and self.acceptance.owner):
            return None
        return f"accepted by {self.acceptance.owner}, and proven now: killcheck accept takes it out"

    @property
    def passes(self) -> bool:
        """Whether the outcome is good enough; inconclusive never is, nor is an exposure for another cause."""
        return self.result.meets(self.required, self.causes)

    @property
    def accepted(self) -> bool:
        """Whether the GPUs stayed on and the policy lets that pass."""
        return self.passes and self.result.verdict is Verdict.EXPOSED

    @property
    def word(self) -> str:
        """``survived``, ``covered by L``, ``exposed`` (``accepted`` where the policy knows it) or ``inconclusive``."""
        if self.result.verdict is Verdict.COVERED:
            return f"covered by {self.result.off_by}"
        if self.result.verdict is not Verdict.EXPOSED or self.required is not Outcome.KNOWN:
            return str(self.result.verdict)
        return "accepted" if self.result.known_as(self.causes) else "exposed (another cause than the known one)"

    @property
    def wanted(self) -> str:
        """What the policy lets pass, in words."""
        return f"{self.required} ({' or '.join(self.causes)})" if self.causes else str(self.required)

    def to_json(self) -> dict[str, Any]:
        """As the JSON document has it under ``matrix``."""
        row = self.result.to_json()
        return {
            "layer": self.layer,
            "fault": self.fault or None,
            "required": str(self.required),
            "known_causes": list(self.causes),
            "passes": self.passes,
            "accepted": self.accepted,
            "better": bool(self.better),
            **{
                key: row[key]
                for key in (
                    "verdict",
                    "off_by",
                    "seconds_to_zero",
                    "seconds_to_drained",
                    "usd",
                    "usd_until_next_chance",
                    "cause",
                    "why",
                )
            },
        }


class Matrix(Struct, frozen=True):
    """All cells, layer by layer, in the order in which they were planned.

    ``left_out``: faults that would mean something, but that need what the cluster has not: nothing is proven of them.
    """

    cells: tuple[Cell, ...]
    left_out: tuple[str, ...] = ()

    @property
    def layers(self) -> list[str]:
        """The rows."""
        return list(dict.fromkeys(cell.layer for cell in self.cells))

    @property
    def faults(self) -> list[str]:
        """The columns; the empty one is undisturbed."""
        return list(dict.fromkeys(cell.fault for cell in self.cells))

    def cell(self, layer: str, fault: str) -> Cell | None:
        """The cell; None where the fault means nothing to the layer."""
        return next((c for c in self.cells if (c.layer, c.fault) == (layer, fault)), None)

    def failures(self) -> list[Cell]:
        """The cells that the policy does not let pass."""
        return [cell for cell in self.cells if not cell.passes]

    def to_json(self) -> dict[str, Any]:
        """The ``matrix`` of the JSON document."""
        return {
            "layers": self.layers,
            "faults": [f or UNDISTURBED for f in self.faults],
            "cells": [cell.to_json() for cell in self.cells],
            "failing": len(self.failures()),
            "accepted": sum(cell.accepted for cell in self.cells),
            "left_out": list(self.left_out),
        }
