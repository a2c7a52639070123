"""What a fence holds back: one result a pool, and one for everything together."""

from __future__ import annotations

import math
from typing import Any, Literal

from msgspec import Struct

from killcheck.fence.inside import Finding
from killcheck.kube.objects import Obj
from killcheck.verdict import EXIT_CODES

__all__ = ["FenceReport", "FenceResult", "FenceVerdict", "worst_verdict"]

#: ``safe``: nothing above the ceiling can be launched. ``exposed``: something can; the door says how. ``unproven``: not
#: known; the reasons say what was not. An unproven fence is never a safe one.
FenceVerdict = Literal["safe", "exposed", "unproven"]

#: What each is called where exit codes are said.
_WORDS: dict[FenceVerdict, str] = {"safe": "proven", "exposed": "exposed", "unproven": "inconclusive"}
_ORDER: dict[FenceVerdict, int] = {"safe": 0, "unproven": 1, "exposed": 2}


def worst_verdict(verdicts: list[FenceVerdict]) -> FenceVerdict:
    """The worst of some verdicts; of none: unproven (nothing was looked at)."""
    return max(verdicts, key=_ORDER.__getitem__, default="unproven")


class FenceResult(Struct, frozen=True):
    """One pool (or door) at its worst.

    ``worst_instance`` is the type with the most devices, the dearest of those; ``usd_per_node`` the dearest type's
    price; the ``max_*`` are of the whole pool, None: unbounded (``bounded`` False) or not known. ``worst_now`` is the
    worst that what is left of the limits still admits, where usage is known. ``door`` says how it gets in, ``remedy``
    how to close it, ``patch`` is a merge patch that does. ``floor`` nodes stand whatever pods want.
    """

    pool: str
    verdict: FenceVerdict
    worst_instance: str = ""
    max_devices_per_node: int | None = None
    usd_per_node: float | None = None
    max_usd_per_hour: float | None = None
    max_devices: int | None = None
    max_nodes: int | None = None
    bounded: bool = True
    door: str = ""
    remedy: str = ""
    requirement: str = ""
    patch: Obj | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    worst_now: str = ""
    type_count: int = 0
    floor: int = 0

    def to_json(self) -> dict[str, Any]:
        """An entry of ``fences`` in killcheck.result/v1, and what else is known."""
        return {
            "pool": self.pool,
            "verdict": self.verdict,
            "worst_instance": self.worst_instance or None,
            "max_devices_per_node": self.max_devices_per_node,
            "max_usd_per_hour": self.max_usd_per_hour,
            "door": self.door,
            "remedy": self.remedy,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
            "max_devices": self.max_devices,
            "max_nodes": self.max_nodes,
            "bounded": self.bounded,
            "usd_per_node": self.usd_per_node,
            "requirement": self.requirement or None,
            "patch": self.patch,
            "worst_now": self.worst_now or None,
            "instance_types": self.type_count,
            "floor": self.floor,
        }


class FenceReport(Struct, frozen=True):
    """Everything that could launch, and the sum of it.

    ``rests_on`` names the catalogue files it was judged by; ``findings`` are about what is wrong beside the pools.
    """

    results: tuple[FenceResult, ...]
    cluster: FenceResult
    notes: tuple[str, ...] = ()
    rests_on: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def verdict(self) -> FenceVerdict:
        """The worst of all results."""
        return worst_verdict([self.cluster.verdict, *(one.verdict for one in self.results)])

    @property
    def exit_code(self) -> int:
        """0 safe, 1 exposed, 3 unproven."""
        return EXIT_CODES[_WORDS[self.verdict]]

    def of(self, pool: str) -> FenceResult:
        """The result of a pool, by its full name (``NodePool/gpu``). Raises KeyError."""
        for result in (*self.results, self.cluster):
            if result.pool == pool:
                return result
        raise KeyError(pool)

    def to_json(self) -> list[dict[str, Any]]:
        """The ``fences`` entries of killcheck.result/v1; the last is the whole cluster."""
        return [one.to_json() for one in (*self.results, self.cluster)]

    def document(self) -> dict[str, Any]:
        """The JSON document, schema killcheck.result/v1."""
        findings: list[dict[str, Any]] = [
            {
                "probe": "fence",
                "severity": one.severity,
                "object": one.object,
                "message": one.message,
                "remedy": one.remedy,
                "evidence": [],
            }
            for one in self.findings
        ]
        return {
            "schema": "killcheck.result/v1",
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "drills": [],
            "findings": findings,
            "fences": self.to_json(),
            "notes": list(self.notes),
            "rests_on": list(self.rests_on),
        }


def whole(value: float) -> int | None:
    """A count, or None where it is not bounded."""
    return None if math.isinf(value) else int(value)
