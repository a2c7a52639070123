"""The run record's chain: every line ends with a hash over itself and the line before it.

A line that was changed, taken out or added shows: the next hash does not follow. Whoever recomputes every hash leaves
no trace in the record itself; a certificate, which is signed, holds the last one.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["CHANGED", "FIELD", "Chain", "ChainBroken"]

#: How every message about a broken chain begins.
CHANGED = "the record is not as it was written"

#: The field of a line that holds its hash; always the last one.
FIELD = "chain"
#: What stands before the first line.
_BEGIN = "killcheck run record v1"
_LINK = re.compile(rf',"{FIELD}":"(sha256:[0-9a-f]{{64}})"\}}\Z')


class ChainBroken(ValueError):
    """A line is not the one that was written there; the message says so."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{CHANGED}: {what}")


class Chain:
    """Follows a record from its first line. ``links``: lines that had a hash; ``head``: the last of them.

    A record of an older version has none at all.
    """

    def __init__(self) -> None:
        self.head = _BEGIN
        self.lines = self.links = 0

    @property
    def kept(self) -> bool:
        """Whether the record has a chain, as far as it was followed."""
        return self.links > 0

    def add(self, line: str) -> str:
        """A line (the text of a JSON object with fields) with its hash."""
        self.head = self._hash(line[:-1])
        self.lines += 1
        self.links += 1
        return f'{line[:-1]},"{FIELD}":"{self.head}"}}'

    def follow(self, line: str) -> None:
        """The next line of a record. Raises ChainBroken."""
        link = _LINK.search(line)
        first, self.lines = self.lines == 0, self.lines + 1
        if link is None:
            if self.kept or f',"{FIELD}":' in line[-90:]:
                raise ChainBroken("this line has no hash, and those before it have: it was changed or added")
            return
        if not first and not self.kept:
            raise ChainBroken("this line has a hash, and those before it have none: they were changed or added")
        said = self._hash(line[: link.start()])
        if said != link[1]:
            raise ChainBroken(
                "its hash does not follow: this line or the one before it was changed, taken out or added"
            )
        self.head = said
        self.links += 1

    def _hash(self, text: str) -> str:
        return "sha256:" + hashlib.sha256(f"{self.head}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
