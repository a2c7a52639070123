"""A place whose records are read only as they were written: one with a broken chain is none, and is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from killcheck.history.nights import Unreadable
from killcheck.history.places import Listed, Place
from killcheck.run.chain import Chain, ChainBroken

__all__ = ["Whole"]


@dataclass(frozen=True, slots=True)
class Whole:
    """Another place, whose records' chains are followed. ``unchained``: records that have none (of older versions)."""

    place: Place
    unchained: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """That of the place."""
        return self.place.name

    def listed(self) -> Iterator[Listed]:
        """Every record; what an index holds of one that nobody followed is not used. Raises PlaceError."""
        return (replace(one, version=f"{one.version} chain") for one in self.place.listed())

    def where(self, name: str) -> str:
        """How a person finds a record of the place."""
        return self.place.where(name)

    def lines(self, name: str) -> list[str]:
        """The lines of one. Raises PlaceError, and Unreadable where its chain is broken."""
        lines, chain = self.place.lines(name), Chain()
        for number, line in enumerate(lines, 1):
            if number == len(lines) and not line.endswith("}"):
                break  # cut short by a kill
            try:
                chain.follow(line)
            except ChainBroken as error:
                raise Unreadable(f"{self.where(name)}:{number}: {error}") from error
        if not chain.kept:
            self.unchained.append(name)
        return lines
