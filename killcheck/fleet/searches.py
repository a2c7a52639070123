"""What the searches of a fleet have found: the parts of one are told together, by what all of them kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.clock import wall_seconds
from killcheck.fleet.file import TREE, Fleet, Shard
from killcheck.run.chosen import chosen
from killcheck.run.combinations import Explored
from killcheck.run.explore import explore
from killcheck.run.explored import kept_elsewhere
from killcheck.run.session import SessionError

__all__ = ["EXPLORED", "NEVER", "SearchRow", "searches"]

#: The word of what was never drilled, or of which no record is left.
NEVER = "never drilled"
#: The word of a search that tried everything it was to try, and of which nothing exposes.
EXPLORED = "explored"


#: So many sets are told on a page.
_SHOWN = 5


class SearchRow(Struct, frozen=True):
    """A search, all its parts. ``shard``: its first. ``unread``: why what was kept counts for nothing."""

    shard: Shard
    found: Explored | None
    unread: str | None = None

    @property
    def word(self) -> str:
        """How it stands."""
        if self.found is None:
            return NEVER
        if self.found.minimal:
            return "exposed"
        found = self.found
        return "inconclusive" if any(found.left.values()) or found.inconclusive or found.unmodelled else EXPLORED

    @property
    def usd(self) -> float:
        """Nothing: what exposes here was modelled, and a drill tells its dollars."""
        return 0.0

    @property
    def lines(self) -> list[str]:
        """The sets that expose, and how far it came."""
        if self.found is None:
            return [self.unread] if self.unread is not None else []
        sets = [f"{one.scenario}: {one.why}" for one in self.found.minimal[:_SHOWN]]
        more = len(self.found.minimal) - len(sets)
        sets += [f"and {more} set(s) more: --json has all, each with the command that drills it"] if more else []
        left = [f"not tried: {count} sets of {size} fault(s)" for size, count in self.found.left.items() if count]
        return [*sets, *left]

    def to_json(self) -> dict[str, Any]:
        """For JSON documents."""
        return {
            "shard": self.shard.key,
            "cluster": self.shard.cluster,
            "context": self.shard.context,
            "kill_path": self.shard.kill_path,
            "stand": self.word,
            "unread": self.unread,
            "explored": None if self.found is None else self.found.to_json(f" {self.shard.spec}"),
        }


def searches(fleet: Fleet) -> Iterator[SearchRow]:
    """One row for all parts of each. Raises what reading its spec and manifests does."""
    shards = [one for one in fleet.shards if one.search is not None]
    for _, parts in groupby(shards, key=lambda one: (one.cluster, one.spec, one.search, one.layers, one.under)):
        yield _told(fleet, list(parts))


def _told(fleet: Fleet, parts: list[Shard]) -> SearchRow:
    first = parts[0]
    assert first.search is not None
    files = [file for one in parts if (file := Path(fleet.place(one)) / TREE).is_file()]
    if not files:
        return SearchRow(first, None)
    session = chosen(spec=first.spec, on=first.context, manifests=first.manifests, exec_mode=first.exec_mode)
    try:
        known = kept_elsewhere(files, session)
    except SessionError as error:
        return SearchRow(first, None, str(error))
    found = explore(
        session,
        only_layers=first.layers,
        only_faults=first.under,
        max_faults=first.search.max_faults,
        budget=0,
        seconds=wall_seconds,
        known=known,
    )
    return SearchRow(first, found)
