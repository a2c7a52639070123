"""One drill of a run, as it was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from killcheck import faults
from killcheck.drill.sequence import Options
from killcheck.faults import Fault
from killcheck.spec.killpath import Outcome, Rule
from killcheck.verdict import DrillResult, Verdict

__all__ = ["PlannedDrill"]


class PlannedDrill(Struct, frozen=True):
    """One drill of a run.

    ``expect``: the verdict that is the right one here (empty: proven is). ``fixture``: a shipped kill path to drill
    instead of the session's own. ``require``: the least outcome that will do (None: proven is), for one of ``causes``
    where that is a known exposure (none: any); ``acceptance``: the rule that accepts it. ``second``: nobody named its
    faults, and it means something only where the layer's undisturbed drill before it was not in vain.
    """

    layer: str
    faults: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    expect: str = ""
    fixture: str = ""
    require: Outcome | None = None
    causes: tuple[str, ...] = ()
    acceptance: Rule | None = None
    second: bool = False

    def made(self) -> list[Fault]:
        """Its faults, each made anew, in the order in which they were named.

        Raises KeyError whose message names the nearest, for a name that is no fault's.
        """
        return [faults.named(name) for name in self.faults]

    def judged(self, result: dict[str, Any]) -> dict[str, Any]:
        """A result as the JSON document has it, with the acceptance where it is an exposure that the policy knows."""
        found = DrillResult.from_json(result)
        return {**result, "accepted": self.accepted(found)}

    def accepted(self, result: DrillResult) -> dict[str, str] | None:
        """By what the policy accepts this exposure; None where it does not, and where it is none."""
        if result.verdict is not Verdict.EXPOSED or self.require is not Outcome.KNOWN:
            return None
        if not result.meets(Outcome.KNOWN, self.causes):
            return None
        rule = self.acceptance or Rule(Outcome.KNOWN)
        return {"owner": rule.owner, "reason": rule.reason, "until": rule.until.isoformat() if rule.until else ""}

    def foregone(self, done: Iterable[DrillResult]) -> DrillResult | None:
        """What is said without drilling: of a layer that nothing was seen of undisturbed, no fault shows more.

        ``done``: drills of this run. None: it has to be drilled.
        """
        undisturbed = next((one for one in done if one.layer == self.layer and not one.faults), None)
        if not self.second or undisturbed is None or undisturbed.verdict is not Verdict.INCONCLUSIVE:
            return None
        if undisturbed.seconds_to_zero is not None:  # the GPUs went off: what is open is who did it, or what comes
            return None
        why = f"not drilled: undisturbed, nothing is proven of {self.layer}, and a fault would not change that"
        return DrillResult(
            self.layer,
            self.faults,
            Verdict.INCONCLUSIVE,
            why,
            cause=why,
            title=self.options.title,
            kubernetes=undisturbed.kubernetes,
        )

    def to_json(self) -> dict[str, Any]:
        """For the run record."""
        said = {"layer": self.layer, "faults": list(self.faults), "title": self.options.title}
        return {**said, "fixture": self.fixture} if self.fixture else said
