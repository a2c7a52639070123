"""A target's ``machines:`` and a command's ``http:``: from the file's model to types, and back to what is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from killcheck.spec.machines import Machines
from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.spec.specfile import models as m

__all__ = ["machines", "request", "written_machines"]

_VARIABLE = lazy_re.compile(r"\$(?:(\w+)|\{(\w+)\})")
#: The first descriptor that a request's own pipes have; a shell of one digit knows it, and nothing here uses it.
_FIRST_PIPE = 5


def machines(model: m.MachinesModel | None) -> Machines | None:
    """The types of a ``machines:`` section."""
    if model is None:
        return None
    return Machines(
        items=model.items or "",
        id=model.id,
        type=model.type or "",
        usd_per_hour=model.usd_per_hour or "",
        ended={name: tuple(values) for name, values in model.ended.items()},
        most=model.most,
        max_usd_per_hour=model.max_usd_per_hour,
        stand_in=model.stand_in or "",
        orchestrator_usd_per_hour=model.orchestrator_usd_per_hour,
    )


def written_machines(said: Machines | None) -> dict[str, Any] | None:
    """What a file says for it."""
    if said is None:
        return None
    written: dict[str, Any] = {
        "items": said.items,
        "id": said.id,
        "type": said.type,
        "usdPerHour": said.usd_per_hour,
        "ended": {name: list(values) for name, values in said.ended.items()},
        "most": said.most,
        "maxUsdPerHour": said.max_usd_per_hour,
        "standIn": said.stand_in,
        "orchestratorUsdPerHour": said.orchestrator_usd_per_hour,
    }
    return {key: value for key, value in written.items() if value not in (None, "", {})}


def request(http: m.HttpModel, timeout_s: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the program that makes the request, the variables that it is given).

    curl by a shell. What may be secret goes through pipes, and so into no list of processes: the token, the body, and a
    URL with a variable behind its beginning. An answer of 400 and above is a failure, with its body for a reason
    (curl 7.76).
    """
    words = [f"curl -sS --fail-with-body -m {timeout_s:g} -X {http.method}"]
    piped: list[tuple[str, str]] = []
    if http.bearer:
        piped.append(("-H", f"'Authorization: Bearer %s' {_filled('$' + http.bearer)}"))
    if http.body is not None:
        words.append("-H 'Content-Type: application/json'")
        piped.append(("--data-binary", f"%s {_filled(http.body)}"))
    if any(found.start() for found in _VARIABLE.finditer(http.url)):
        piped.append(("-K", f"'url = \"%s\"' {_filled(http.url)}"))
    else:
        words.append(_filled(http.url))
    named = [first or second for text in (http.url, http.body or "") for first, second in _VARIABLE.findall(text)]
    named = list(dict.fromkeys([*named, http.bearer] if http.bearer else named))
    # Asked for before anything is sent: in a pipe, one that is not set would end its own part alone.
    asked = "".join(f': "${{{name}:?it is not set}}"; ' for name in named)
    return ("/bin/sh", "-c", asked + _fed(" ".join(words), piped)), tuple(named)


def _fed(line: str, piped: list[tuple[str, str]]) -> str:
    """A line of curl, each of whose options reads what ``printf`` makes of its text, by a descriptor of its own."""
    for number, (option, _) in enumerate(piped, _FIRST_PIPE):
        line += f" {option} {'' if option == '-K' else '@'}/dev/fd/{number}"
    for number, (_, text) in enumerate(piped, _FIRST_PIPE):
        line = f"printf {text} | {{ {line}; }} {number}<&0"
    return line


def _filled(text: str) -> str:
    """A text as one word of a shell, its variables filled in."""
    parts, at = [], 0
    for found in _VARIABLE.finditer(text):
        name = found[1] or found[2]
        parts += [_quoted(text[at : found.start()]), f"${{{name}}}"]
        at = found.end()
    return '"' + "".join([*parts, _quoted(text[at:])]) + '"'


def _quoted(text: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", text)
