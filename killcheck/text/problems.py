"""One thing wrong with a file that a person wrote, with its place: how every error about specs and manifests reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from killcheck.text.shown import brief

__all__ = ["FileProblems", "Problem", "folded", "not_utf8"]

#: So many sentences that say the same of their objects are one.
MANY = 3


class Problem(Struct, frozen=True):
    """One thing wrong with a file. ``line`` is 1-based (0: the file as a whole), ``path`` the field (may be empty)."""

    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        message = brief(self.message)
        return f"{where}: {brief(self.path)}: {message}" if self.path else f"{where}: {message}"


def folded(sentences: Iterable[str]) -> Iterator[str]:
    """``OBJECT: why``, each once; one for many of the same why, such as a janitor's pods of one night."""
    alike: dict[str, list[str]] = {}
    for one in dict.fromkeys(sentences):
        alike.setdefault(one.partition(": ")[2] or one, []).append(one)
    for why, said in alike.items():
        if len(said) < MANY:
            yield from said
        else:
            yield f"{said[0].partition(': ')[0]} and {len(said) - 1} more: {why}"


def not_utf8(error: UnicodeDecodeError) -> str:
    """What to say of a file whose bytes are no UTF-8."""
    begin, length = bytes(error.object[:4]), len(error.object)
    if begin in (b"\xff\xfe\0\0", b"\0\0\xfe\xff") and length % 4 == 0:
        return "UTF-32, not UTF-8: save it as UTF-8"
    if begin[:2] in (b"\xff\xfe", b"\xfe\xff") and length % 2 == 0:
        return "UTF-16, not UTF-8: save it as UTF-8"
    return f"not text in UTF-8 (byte {error.start}): save it as UTF-8"


class FileProblems(Exception):
    """Files that cannot be used as they are. ``problems`` are all that is wrong, in the files' order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
