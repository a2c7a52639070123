"""A journal as text: signed line by line, and read back as what can be believed of it.

A line is a JSON object: a header, then an entry each. ``mac`` is the HMAC-SHA256 of the line before it and of this one;
the header says how many entries follow. So a line that was changed, moved or taken out of another journal proves
nothing, nor does what follows it; and what was cut off is missed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from killcheck.kube.objects import Obj
from killcheck.safety.changes import Entry, Undo
from killcheck.safety.sealing import opened, sealed
from killcheck.safety.vocabulary import objection
from killcheck.text.values import replace

__all__ = ["Header", "Read", "read", "signed"]

#: Longer ones are no journals of ours, in characters: etcd takes no ConfigMap of more than a mebibyte.
LONGEST = 8 * 2**20
#: More changes than a run makes.
MOST = 5000
#: Levels of what an object may have in it: more than any API's.
DEEPEST = 80
_MAC = "mac"


class Header(Struct, frozen=True):
    """The first line of a journal: whose it is. ``host`` and ``pid`` tell whether its process can be alive still.

    ``began`` tells that process from a later one with its number. ``closed``: its run came to its end, Leases and all.
    ``places``: the namespaces that its Leases are in. ``count``: how many entries follow.
    """

    run: str
    context: str = ""
    kubeconfig: str = ""
    home: str = ""
    host: str = ""
    pid: int = 0
    closed: bool = False
    began: str = ""
    places: Sequence[str] = ()
    count: int = 0


class Read(Struct):
    """What a journal says. ``own``: entries that a key of ours has signed; ``told``: entries that somebody wrote.

    ``header``: None where there is none; ``signed`` says whether it is ours. ``problems``: what could not be read, a
    sentence each. ``missing``: how many entries were cut off (None: it cannot be told).
    """

    header: Header | None = None
    signed: bool = False
    own: list[Entry] = field(default_factory=list)
    told: list[Entry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    missing: int | None = 0

    @property
    def entries(self) -> list[Entry]:
        """All of them, whoever wrote them."""
        return [*self.own, *self.told]

    @property
    def whole(self) -> bool:
        """Whether it is ours from the first line to the last."""
        return self.signed and not self.problems and not self.told and self.missing == 0

    @property
    def over(self) -> bool:
        """Whether it says that its run came to its end with everything put back; nothing is asked of anybody then."""
        return (
            self.header is not None
            and self.header.closed
            and not self.problems
            and not self.missing
            and all(entry.state == "verified" for entry in self.entries)
        )


def signed(header: Obj, entries: Iterable[Obj], key: bytes) -> str:
    """The text of a journal."""
    listed = [sealed(entry, key) for entry in entries]
    text, before = [], b""
    for line in ({"journal": {**header, "count": len(listed)}}, *listed):
        before = _mac(key, before, line)
        text.append(json.dumps({**line, _MAC: before.hex()}) + "\n")
    return "".join(text)


def read(text: str, keys: Sequence[bytes] = ()) -> Read:
    """What a text says, whatever it is; raises nothing. Nothing of what is broken is guessed at."""
    from killcheck.safety import journal_lines

    if len(text) > LONGEST:
        return Read(problems=[f"it is longer than {LONGEST} characters"], missing=None)
    first, *rest = [line for line in text.split("\n") if line.strip()] or [""]
    found = Read()
    line = _object(first)
    said = journal_lines.header(line)
    if isinstance(said, str):
        return Read(problems=[f"its first line is no header: {said}"], missing=None)
    found.header = Header(**said)
    chains = [key for key in keys if _proves(key, b"", line)]
    found.signed = bool(chains)
    _entries(found, line, rest, chains[:1])
    return found


def _entries(found: Read, before: Obj, lines: Sequence[str], keys: Sequence[bytes]) -> None:
    """Read the lines after the header; what follows a line that is not ours is not ours."""
    assert found.header is not None
    chain = bytes.fromhex(before[_MAC]) if keys else b""
    numbers: set[int] = set()
    for at, text in enumerate(lines[:MOST], start=2):
        line = _object(text)
        ours = bool(keys) and _proves(keys[0], chain, line)
        keys = keys if ours else ()
        chain = bytes.fromhex(line[_MAC]) if ours else b""
        entry = _entry(line)
        if isinstance(entry, str):
            found.problems.append(f"line {at} is passed over: {entry}")
        elif entry.number in numbers or entry.run != found.header.run:
            found.problems.append(f"line {at} is passed over: it is another run's, or there twice")
        else:
            numbers.add(entry.number)
            if ours:
                undo = entry.undo
                entry = replace(
                    entry, undo=replace(undo, body=opened(undo.body, keys[0]), left=opened(undo.left, keys[0]))
                )
            (found.own if ours else found.told).append(entry)
    if len(lines) > MOST:
        found.problems.append(f"it has more than {MOST} entries: the rest is passed over")
    found.missing = max(0, found.header.count - len(lines)) if found.signed else 0


def _entry(line: Obj) -> Entry | str:
    """The entry that a line is, or why it is none."""
    from killcheck.safety import journal_lines

    data = journal_lines.entry({key: value for key, value in line.items() if key != _MAC})
    if isinstance(data, str):
        return data
    entry = Entry(**{**data, "undo": Undo(**data["undo"])})
    return objection(entry.undo, entry.lever) or entry


def _object(text: str) -> Obj:
    """A line as JSON; empty where it is no object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and _shallow(found) else {}


def _shallow(value: Any, left: int = DEEPEST) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left > 0 and all(_shallow(one, left - 1) for one in inner)


def _proves(key: bytes, before: bytes, line: Mapping[str, Any]) -> bool:
    given = line.get(_MAC)
    bare = {name: value for name, value in line.items() if name != _MAC}
    return isinstance(given, str) and given.isascii() and hmac.compare_digest(given, _mac(key, before, bare).hex())


def _mac(key: bytes, before: bytes, line: Mapping[str, Any]) -> bytes:
    text = json.dumps(line, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, before + text.encode(), hashlib.sha256).digest()
