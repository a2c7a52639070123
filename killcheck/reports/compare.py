"""Two runs compared: what broke, what was mended, what got slower, since the earlier one."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from killcheck.reports.story import DrillStory, RunStory

__all__ = ["Change", "Comparison", "compare"]

#: A drill is slower where it took this much longer than before, in parts of the earlier time and in seconds: pulls and
#: kubelet periods alone make a few seconds of difference between two nights.
SLOWER_BY, SLOWER_S = 0.25, 10.0

#: From best to worst.
_RANK = {"survived": 0, "covered": 1, "inconclusive": 2, "unfinished": 2, "accepted": 3, "exposed": 4}


class Change(Struct, frozen=True):
    """What changed for one drill. ``kind``: broke, worse, mended, better, accepted, slower, faster, new, gone.

    ``before`` and ``after``: a verdict, or seconds to zero; None where there is none.
    """

    kind: str
    drill: str
    before: str | float | None
    after: str | float | None

    @property
    def bad(self) -> bool:
        """Whether somebody should look."""
        return self.kind in ("broke", "worse", "slower", "gone")


class Comparison(Struct, frozen=True):
    """The changes, the bad ones first; how many drills are as they were; findings that are new and that went."""

    earlier: RunStory
    changes: tuple[Change, ...]
    same: int
    new_findings: tuple[str, ...]
    gone_findings: tuple[str, ...]


def compare(earlier: RunStory, later: RunStory) -> Comparison:
    """Drills are the same where layer, faults and title are."""
    before, after = _drills(earlier), _drills(later)
    changes = [change for name in {**before, **after} for change in _changes(name, before.get(name), after.get(name))]
    changed = {change.drill for change in changes}
    old, new = _findings(earlier), _findings(later)
    return Comparison(
        earlier,
        tuple(sorted(changes, key=lambda change: not change.bad)),
        len(set(after) - changed),
        tuple(sorted(new - old)),
        tuple(sorted(old - new)),
    )


def _drills(story: RunStory) -> dict[str, DrillStory]:
    return {drill.name: drill for drill in story.drills}


def _findings(story: RunStory) -> set[str]:
    return {f"{f['object']}: {f['message']} [{f['probe']}]" for f in story.findings}


def _changes(name: str, before: DrillStory | None, after: DrillStory | None) -> Iterator[Change]:
    if before is None or after is None:
        yield Change(
            "gone" if after is None else "new",
            name,
            before.standing if before else None,
            after.standing if after else None,
        )
        return
    was, now = _RANK[before.standing], _RANK[after.standing]
    if (before.standing, after.standing) == ("exposed", "accepted"):  # nothing was mended
        yield Change("accepted", name, "exposed", "accepted")
        return
    if was != now:
        proven = _RANK["covered"]
        worse = "broke" if was <= proven < now else "worse"
        better = "mended" if now <= proven < was else "better"
        yield Change(worse if now > was else better, name, before.standing, after.standing)
        return
    old, new = before.result.get("seconds_to_zero"), after.result.get("seconds_to_zero")
    if old is not None and new is not None and abs(new - old) > max(SLOWER_S, SLOWER_BY * old):
        yield Change("slower" if new > old else "faster", name, old, new)
