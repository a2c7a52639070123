"""The gate before a release: what reading finds, what could be launched at worst, and every drill - as one verdict.

What may *not* live here: how any of them is found out, terminals, clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from killcheck.discover.independence import Shared
from killcheck.fence.report import FenceReport
from killcheck.lint.asking import LintResult
from killcheck.results import Matrix, RunResult
from killcheck.verdict import EXIT_CODES

if TYPE_CHECKING:
    from killcheck.probes import Severity

__all__ = ["PARTS", "Gate", "worst"]

#: The parts of a gate, in order.
PARTS = ("lint", "fences", "drills")

#: Exit codes from the best to the worst: dirty outranks everything, then what could not be finished.
_ORDER = tuple(EXIT_CODES[word] for word in ("proven", "inconclusive", "exposed", "usage", "unfinished", "dirty"))
_WORDS = {code: word for word, code in EXIT_CODES.items()}


def worst(codes: Iterable[int]) -> int:
    """The worst of some exit codes; of none: inconclusive, since nothing was looked at."""
    return max(codes, key=_ORDER.index, default=EXIT_CODES["inconclusive"])


class Gate(Struct, frozen=True):
    """What each part found; None: it was left out, by the names in ``skipped``. ``undrillable``: layers of which
    nothing is proven, because they cannot be drilled here. ``preflight``: what trying the executors' images found,
    where that was asked for; an executor that cannot start keeps the drills from being begun."""

    fail_on: Severity
    lint: LintResult | None = None
    fences: FenceReport | None = None
    run: RunResult | None = None
    matrix: Matrix | None = None
    shared: Sequence[Shared] = ()
    undrillable: Sequence[str] = ()
    preflight: LintResult | None = None
    #: Why there is no layer to drill; empty: there is.
    nothing_to_drill: str = ""
    #: The certificate that stands for the drills, as JSON; None: they were drilled.
    certificate: dict[str, Any] | None = None

    @property
    def skipped(self) -> list[str]:
        """The parts that were left out."""
        parts = (self.lint, self.fences, self.run or self.nothing_to_drill or None)
        return [name for name, part in zip(PARTS, parts, strict=True) if part is None]

    def codes(self) -> dict[str, int]:
        """The exit code of each part."""
        found: dict[str, int] = {}
        if self.lint is not None:
            found["lint"] = self.lint.exit_code(self.fail_on)
        if self.fences is not None:
            found["fences"] = self.fences.exit_code
        if self.preflight is not None:
            found["preflight"] = self.preflight.exit_code("error")
        if self.run is not None:
            nothing_proven = EXIT_CODES["inconclusive"] if self.undrillable else EXIT_CODES["proven"]
            found["drills"] = worst([self.run.exit_code, nothing_proven])
        elif self.nothing_to_drill:
            found["drills"] = EXIT_CODES["inconclusive"]
        return found

    @property
    def exit_code(self) -> int:
        """The worst part's."""
        return worst(self.codes().values())

    @property
    def verdict(self) -> str:
        """``proven``, ``accepted`` (by exposures that the policy knows), ``exposed``, ``inconclusive``, ``dirty``."""
        return self._word("drills", self.exit_code)

    @property
    def accepted(self) -> int:
        """How many cells left GPUs on and pass by the policy."""
        return sum(cell.accepted for cell in self.matrix.cells) if self.matrix else 0

    def _word(self, part: str, code: int) -> str:
        return "accepted" if part == "drills" and code == 0 and self.accepted else _WORDS[code]

    @property
    def assumptions(self) -> list[dict[str, Any]]:
        """What a person vouches for in the drills' ledgers (``assume:`` in the spec), each once."""
        drills = self.run.drills if self.run else ()
        found = [e.to_json() for d in drills if d.ledger for e in d.ledger.entries if e.status == "assumed" and e.until]
        return [entry for i, entry in enumerate(found) if entry not in found[:i]]

    def to_json(self) -> dict[str, Any]:
        """One document of schema killcheck.result/v1."""
        findings = [finding.to_json() for finding in self.lint.findings] if self.lint else []
        findings += [finding.to_json() for finding in self.preflight.findings] if self.preflight else []
        findings += [one.to_json() for one in self.shared]
        return {
            "schema": "killcheck.result/v1",
            "command": "gate",
            "run": self.run.run if self.run else None,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "parts": {name: self._word(name, code) for name, code in self.codes().items()},
            "skipped": self.skipped,
            "drills": [drill.to_json() for drill in self.run.drills] if self.run else [],
            "findings": findings,
            "fences": self.fences.to_json() if self.fences else [],
            "assumptions": self.assumptions,
            "matrix": self.matrix.to_json() if self.matrix else None,
            "not_drilled": list(self.undrillable),
            "certificate": self.certificate,
            "record": str(self.run.record) if self.run and self.run.record else None,
        }
