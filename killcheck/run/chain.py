"""The run record's chain: every line ends with a hash over itself and the line before it.

A line that was changed, taken out or added shows: the next hash does not follow. Whoever recomputes every hash has not
the key: the last line of a run that came to its end is sealed by the machine that wrote it, over itself and all before
it (:mod:`killcheck.safety.seals`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress

from killcheck.safety.keys import KeyProblem
from killcheck.safety.seals import PREFIX, Purpose, Whose, seal, whose
from killcheck.text import lazy_re

__all__ = ["CHANGED", "FIELD", "SEAL", "Chain", "ChainBroken"]

#: How every message about a broken chain begins.
CHANGED = "the record is not as it was written"

#: The field of a line that holds its hash; always the last one.
FIELD = "chain"
#: The field before it, of a run's last line alone.
SEAL = "seal"
#: What stands before the first line.
_BEGIN = "killcheck run record v1"
_LINK = lazy_re.compile(rf',"{FIELD}":"(sha256:[0-9a-f]{{64}})"\}}\Z')
_SEALED = lazy_re.compile(rf',"{SEAL}":"({PREFIX}[0-9a-f]{{64}})"\Z')


class ChainBroken(ValueError):
    """A line is not the one that was written there; the message says so."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{CHANGED}: {what}")


class Chain:
    """Follows a record from its first line. ``links``: lines that had a hash; ``head``: the last of them.

    A record of an older version has none at all. ``cut``: the number of a last line that is none, else 0.
    """

    def __init__(self) -> None:
        self.cut = 0
        self.head = _BEGIN
        self.lines = self.links = 0
        self._sealed: tuple[str, str] | None = None

    @property
    def kept(self) -> bool:
        """Whether the record has a chain, as far as it was followed."""
        return self.links > 0

    @property
    def whose(self) -> Whose:
        """Who sealed everything up to the last line that was followed; what ends otherwise has no seal."""
        return self.sealed_by(None)

    def sealed_by(self, keys: Sequence[bytes] | None) -> Whose:
        """The same, for whoever follows many records: ``keys`` as they are known; None: read now."""
        return Whose.NOBODYS if self._sealed is None else whose(Purpose.RECORD, *self._sealed, keys)

    def add(self, line: str, *, last: bool = False) -> str:
        """A line (the text of a JSON object with fields) with its hash; the ``last`` one is sealed, where a key is."""
        if last:
            with suppress(KeyProblem):
                made = seal(Purpose.RECORD, f"{self.head}\n{line}")
                line = f'{line[:-1]},"{SEAL}":"{made}"}}'
        self.head = self._hash(line[:-1])
        self.lines += 1
        self.links += 1
        return f'{line[:-1]},"{FIELD}":"{self.head}"}}'

    def follow(self, line: str) -> None:
        """The next line of a record. Raises ChainBroken."""
        link = _LINK.search(line)
        self._sealed = None
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
        self._sealed = self._seal(line[: link.start()])
        self.head = said
        self.links += 1

    def _seal(self, text: str) -> tuple[str, str] | None:
        """What a line's seal is over, and the seal."""
        found = _SEALED.search(text)
        return (f"{self.head}\n{text[: found.start()]}}}", found[1]) if found else None

    def _hash(self, text: str) -> str:
        return "sha256:" + hashlib.sha256(f"{self.head}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
