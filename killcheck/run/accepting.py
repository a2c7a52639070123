"""From a run to the exposures that are accepted: what a team lives with, by whom, why, until when.

What may *not* live here: terminals, and where the file is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

from msgspec import Struct

from killcheck.reports.story import DrillStory, RunStory
from killcheck.spec.killpath import Outcome, Rule
from killcheck.text import lazy_re

__all__ = ["Accepting", "accept", "lasting"]


class Accepting(Struct, frozen=True):
    """``rules``: all that are accepted now; ``new`` of them. ``refused``: what cannot be accepted, and why.

    ``better``: rules that are gone, since their drill proves the GPUs off now. ``kept``: those as they were.
    """

    rules: tuple[Rule, ...]
    new: tuple[Rule, ...]
    kept: tuple[Rule, ...]
    better: tuple[Rule, ...]
    refused: tuple[str, ...]


def accept(
    story: RunStory,
    earlier: Sequence[Rule],
    *,
    owner: str,
    reason: str,
    until: date,
    layers: Iterable[str] = (),
    faults: Iterable[str] = (),
) -> Accepting:
    """What ``story`` leaves exposed, accepted until a day; only of ``layers`` and ``faults``, where any are named.

    An undisturbed drill that is exposed, one that is inconclusive and one that left something behind are not accepted.
    """
    wanted, named = set(layers), set(faults)
    new, refused, proven = [], [], set()
    for drill in story.drills:
        layer, fault = drill.started.layer, "+".join(drill.started.faults)
        if (wanted and layer not in wanted) or (named and fault not in named):
            continue
        why = _refused(drill)
        if why:
            refused.append(f"{drill.name}: {why}")
        elif drill.verdict in ("survived", "covered"):
            proven.add((layer, fault))
        elif drill.standing == "exposed":
            new.append(Rule(Outcome.KNOWN, layer, fault, (lasting(_cause(drill)),), owner, reason, until))
    replaced = {(rule.layer, rule.fault) for rule in new}
    better = tuple(rule for rule in earlier if (rule.layer, rule.fault) in proven)
    kept = tuple(rule for rule in earlier if rule not in better and (rule.layer, rule.fault) not in replaced)
    return Accepting((*kept, *new), tuple(new), kept, better, tuple(refused))


def lasting(cause: str) -> str:
    """A cause with ``*`` for what another night says differently: names that end in chance, times, durations, digests.

    What ``policy.rules[].cause`` takes.
    """
    words = ["*" if _by_chance(word) else word for word in cause.split()]
    return re.sub(r"\*(?: \*)+", "*", " ".join(words))


#: Names made for one run, times of day and durations, digests, addresses with ports, counts.
_CHANCE = lazy_re.compile(
    r"killcheck-|\d{1,2}:\d\d|sha256:|[0-9a-f]{10}|\d+[-.]\d+[-.]\d+[-.]\d+"
    r"|-[bcdf-hj-np-tv-z2456789]{5}\b|^\W*\d+(\.\d+)?\W*$"
)


def _by_chance(word: str) -> bool:
    return _CHANCE.search(word) is not None


def _cause(drill: DrillStory) -> str:
    return str(drill.result.get("cause") or drill.result.get("why") or "")


def _refused(drill: DrillStory) -> str | None:
    if not drill.result or drill.verdict == "inconclusive":
        return "nothing is proven, so there is nothing to accept"
    if drill.result.get("problems"):
        return "it left something behind: put that back first (killcheck restore)"
    if drill.verdict == "exposed" and not drill.started.faults:
        return "exposed without any fault: the switch does not work; mend it"
    return None if drill.verdict != "exposed" or _cause(drill) else "it says no cause"
