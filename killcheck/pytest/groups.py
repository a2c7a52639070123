"""Which tests drill one target, for ``--dist loadgroup`` on a cluster that is somebody's; imported only there.

xdist's workers append a test's ``xdist_group`` to its id in their own ``pytest_collection_modifyitems``, and they are
registered after every other plugin, so that theirs comes before all hooks but wrappers and those that ask to be first:
a mark that is set any later groups nothing. And xdist 3.8 writes the id to ``_nodeid``, where pytest 9.2 does not look
for it: with these two loadgroup groups nothing at all, until what was written there is made the id. What may
*not* live here: anything that keeps two drills of a target apart (Leases, and the plugin's lock file, do).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from killcheck.pytest.drills import plainly, shared_session
from killcheck.spec.killpath import KillPath

__all__ = ["group", "groups_of", "identify"]

#: Where a test's layers cannot be told before it runs.
SOME = "killcheck"


def group(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Mark tests that drill targets of one kind of group, unless their author grouped them.

    On an embedded cluster each worker has its own, and nothing has to be kept together.
    """
    session = shared_session(config)
    if not session.real:
        return
    try:
        with plainly(_unread):
            known = groups_of(session.kill_path)
    except _UnreadError:
        return  # each test says what is wrong
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            names = {known[layer] for layer in _layers(item, known)}
            item.add_marker(pytest.mark.xdist_group(names.pop() if len(names) == 1 else SOME))


class _UnreadError(Exception):
    """The kill path could not be read."""


def _unread(message: str, *, pytrace: bool = False) -> None:  # noqa: ARG001 - as pytest.fail takes it
    raise _UnreadError(message)


def identify(items: Sequence[pytest.Item]) -> None:
    """Give tests the ids that xdist meant them to have, where this pytest does not look where xdist wrote them."""
    for item in items:
        meant = vars(item).get("_nodeid")
        now: Any = getattr(item, "_id", None)
        if meant and now is not None and str(now) != meant:
            item._id = type(now).parse(meant)


def groups_of(kill_path: KillPath) -> dict[str, str]:
    """Each layer's group: layers that share a target, however far round, are in one. Named after its first target."""
    found: dict[str, str] = {}
    left = {layer.name: set(layer.covers) for layer in kill_path.layers}
    while left:
        first, reached = left.popitem()
        together = {first}
        while near := [name for name, covers in left.items() if covers & reached]:
            for name in near:
                reached |= left.pop(name)
                together.add(name)
        name = re.sub(r"[^\w.-]", "-", f"{SOME}-{min(reached, default=first)}")
        found |= dict.fromkeys(together, name)
    return found


def _layers(item: pytest.Item, known: Iterable[str]) -> Iterator[str]:
    """The layers that a test names: by its parameters, or as words of its own code."""
    callspec: Any = getattr(item, "callspec", None)
    said = _words(callspec.params.values() if callspec is not None else ())
    names = set(known)
    parameters = names & said
    code = getattr(getattr(item, "function", None), "__code__", None)
    yield from parameters or (names & _words(code.co_consts) if code is not None else ())


def _words(values: Iterable[Any]) -> set[str]:
    found: set[str] = set()
    for value in values:
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, tuple | list | frozenset):
            found |= _words(value)
    return found
