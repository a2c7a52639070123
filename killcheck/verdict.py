"""The verdict of a drill and of a run, and the result as users get it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from killcheck.entries import Ledger
from killcheck.spec.killpath import Outcome
from killcheck.text.durations import parse_duration

__all__ = ["EXIT_CODES", "DrillResult", "Verdict", "overall"]


class Verdict(StrEnum):
    """``survived``: the layer itself turned the GPUs off in time; ``covered``: another layer did; ``exposed``: nobody
    did; ``inconclusive``: nothing is proven.
    """

    SURVIVED = "survived"
    COVERED = "covered"
    EXPOSED = "exposed"
    INCONCLUSIVE = "inconclusive"


#: The documented exit codes.
EXIT_CODES = {
    "proven": 0,
    "exposed": 1,
    "usage": 2,
    "inconclusive": 3,
    "unfinished": 4,
    "dirty": 5,
}


class DrillResult(Struct, frozen=True):
    """What one drill found. Seconds count from the trigger; None: it did not happen (or a price is not known).

    ``usd``: what the nodes in scope cost from the trigger to the end of the watch. ``usd_until_next_chance``: until
    the layer's next scheduled firing, should nothing else happen.
    """

    layer: str
    faults: tuple[str, ...]
    verdict: Verdict
    why: str
    off_by: str = ""
    stuck_at: str = ""
    cause: str = ""
    remedy: str = ""
    evidence: tuple[str, ...] = ()
    failures: tuple[int, ...] = ()
    seconds_to_zero: float | None = None
    seconds_to_drained: float | None = None
    watched_s: float = 0.0
    usd: float | None = None
    usd_per_hour: float | None = None
    next_chance: str = ""
    #: What the layer's own schedule will do (``next``, ``never``, ``clocks``, ``warnings``, ``longest_gap_s``).
    schedule: dict[str, Any] | None = None
    usd_until_next_chance: float | None = None
    #: Where the GPUs stayed on and the spec says who notices: when (``at``, with an alert ``alert_at``), and what they
    #: cost by then (``usd``, ``alert_usd``).
    noticed: dict[str, Any] | None = None
    #: What it comes to (``gpu_hours``, ``usd_per_night``, ``usd_per_month``, ``usd_per_item``, ``items_idled``; where
    #: the spec says who counts, ``items_done``, ``usd_per_item_seen``; ``orchestrator_usd_per_month``, ``spot_share``;
    #: ``by``: a row for each holder of GPUs; ``egress_gib``, ``egress_usd``).
    bill: dict[str, Any] | None = None
    phases: tuple[dict[str, Any], ...] = ()
    bites: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    healed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    gpu_pods: tuple[str, ...] = ()
    title: str = ""
    #: How well the executors' programs were kept in (``namespaces``, ``bubblewrap``, ``docker``, ``unisolated``);
    #: empty: none was run by killcheck.
    sandbox: str = ""
    #: The Kubernetes that it was drilled on, as its ``/version`` says (``v1.36.2``); empty: there was none.
    kubernetes: str = ""
    #: Why programs of it were not run here, each reason once: of these nothing is proven.
    not_run: tuple[str, ...] = ()
    #: What accepts this exposure (``owner``, ``reason``, ``until``; each may be empty); None: nothing does.
    accepted: dict[str, str] | None = None
    #: What the verdict rests on, object by object; None: nobody kept one.
    ledger: Ledger | None = None

    @property
    def dirty(self) -> bool:
        """Whether something killcheck changed could not be put back."""
        return bool(self.problems)

    @property
    def proven(self) -> bool:
        """Whether the GPUs were seen to go off in time, by whichever layer."""
        return self.verdict in (Verdict.SURVIVED, Verdict.COVERED)

    def meets(self, required: Outcome, causes: Sequence[str] = ()) -> bool:
        """Whether it is good enough; what is not proven, or left something behind, never is.

        ``causes``: those that a known exposure may have (see :meth:`killcheck.spec.killpath.Policy.causes`); none: any.
        """
        if self.dirty or self.verdict is Verdict.INCONCLUSIVE:
            return False
        if required is Outcome.SURVIVED:
            return self.verdict is Verdict.SURVIVED
        return self.proven or (required is Outcome.KNOWN and self.known_as(causes))

    def known_as(self, causes: Sequence[str]) -> bool:
        """Whether its cause has one of these parts (``*``: anything in between; case does not matter); none: any."""
        return not causes or any(
            re.search(".*".join(map(re.escape, part.split("*"))), self.cause, re.IGNORECASE | re.DOTALL)
            for part in causes
        )

    def replicas_zero_within(self, limit: str | float) -> bool:
        """Whether every GPU pod in scope was gone within ``limit`` (seconds, or '5m'), proven."""
        return self._within(self.seconds_to_zero, limit)

    def nodes_drained_within(self, limit: str | float) -> bool:
        """Whether every node in scope was drained within ``limit`` (seconds, or '15m'), proven."""
        return self._within(self.seconds_to_drained, limit)

    def _within(self, value: float | None, limit: str | float) -> bool:
        bound = parse_duration(limit) if isinstance(limit, str) else float(limit)
        return self.proven and value is not None and value <= bound

    def to_json(self) -> dict[str, Any]:
        """As the JSON document has it (schema killcheck.result/v1, an entry of ``drills``)."""
        return {
            "layer": self.layer,
            "faults": list(self.faults),
            "title": self.title,
            "verdict": str(self.verdict),
            "why": self.why,
            "off_by": self.off_by or None,
            "stuck_at": str(self.stuck_at) or None,
            "cause": self.cause or None,
            "remedy": self.remedy or None,
            "evidence": list(self.evidence),
            "failures": list(self.failures),
            "seconds_to_zero": _round(self.seconds_to_zero),
            "seconds_to_drained": _round(self.seconds_to_drained),
            "watched_s": _round(self.watched_s),
            "usd": _round(self.usd, 4),
            "usd_per_hour": _round(self.usd_per_hour, 4),
            "next_chance": self.next_chance or None,
            "usd_until_next_chance": _round(self.usd_until_next_chance, 4),
            "noticed": self.noticed,
            "schedule": self.schedule,
            "bill": self.bill,
            "phases": list(self.phases),
            "bites": self.bites,
            "notes": list(self.notes),
            "healed": list(self.healed),
            "problems": list(self.problems),
            "gpu_pods": list(self.gpu_pods),
            "sandbox": self.sandbox or None,
            "kubernetes": self.kubernetes or None,
            "not_run": list(self.not_run),
            "accepted": self.accepted,
            "ledger": [entry.to_json() for entry in self.ledger.telling] if self.ledger else [],
            "ledger_counts": self.ledger.counts if self.ledger else {},
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> DrillResult:
        """What :meth:`to_json` wrote; keys of a later version are passed over.

        Raises ValueError where it is no drill.
        """
        try:
            given: dict[str, Any] = {name: said[name] for name in cls.__struct_fields__ if said.get(name) is not None}
            given["verdict"] = Verdict(said["verdict"])
            if "ledger" in given:
                given["ledger"] = Ledger.from_json(given["ledger"], said.get("ledger_counts") or {})
            values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"expected a drill of schema killcheck.result/v1: {error}") from error


def _round(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def overall(results: Sequence[DrillResult]) -> tuple[str, int]:
    """The verdict and exit code of a run: the worst of its drills.

    Dirty outranks everything, then exposed, then inconclusive. An exposure that the policy accepts is none of these,
    and not proven either. A run without drills proves nothing.
    """
    if any(result.dirty for result in results):
        return "dirty", EXIT_CODES["dirty"]
    if any(result.verdict is Verdict.EXPOSED and result.accepted is None for result in results):
        return "exposed", EXIT_CODES["exposed"]
    if not results or any(result.verdict is Verdict.INCONCLUSIVE for result in results):
        return "inconclusive", EXIT_CODES["inconclusive"]
    if any(result.verdict is Verdict.EXPOSED for result in results):
        return "accepted", EXIT_CODES["proven"]
    worst = "covered" if any(result.verdict is Verdict.COVERED for result in results) else "survived"
    return worst, EXIT_CODES["proven"]
