"""Nights by the policy of today: an exposure that somebody has accepted since is no longer told as exposed.

What may *not* live here: files, terminals.
"""

from __future__ import annotations

from killcheck.history.index import History
from killcheck.history.nights import Night, end_of
from killcheck.spec.killpath import Outcome, Policy
from killcheck.text.values import replace
from killcheck.verdict import DrillResult, Verdict

__all__ = ["by_policy"]


def by_policy(history: History, kill_path: str, policy: Policy, *, anyway: bool = False) -> History:
    """The nights of ``kill_path`` (its name) as ``policy`` has them now: what it accepts, and what it no longer does.

    Only those that this machine sealed, unless somebody vouches for the others (``anyway``).
    """
    ours = (one.kill_path == kill_path and (one.sealed or anyway) for one in history.nights)
    nights = tuple(_judged(one, policy) if own else one for one, own in zip(history.nights, ours, strict=True))
    return replace(history, nights=nights)


def _judged(night: Night, policy: Policy) -> Night:
    if night.standing not in ("exposed", "accepted") or night.dirty:
        return night
    rule = policy.acceptance(night.layer, night.faults)
    found = DrillResult(night.layer, night.faults, Verdict.EXPOSED, "", cause=night.cause)
    if rule is not None and found.meets(Outcome.KNOWN, policy.causes(night.layer, night.faults)):
        return replace(night, standing="accepted", until=end_of(rule.until) if rule.until else None)
    return replace(night, standing="exposed", until=None)
