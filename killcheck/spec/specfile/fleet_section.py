"""A target's ``machines:`` and a command's ``http:``: from the file's model to types, and back to what is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from killcheck.spec.machines import Machines

if TYPE_CHECKING:
    from killcheck.spec.specfile import models as m

__all__ = ["machines", "request", "written_machines"]

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


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

    curl by a shell: the token goes by standard input, and so into no list of processes. An answer of 400 and above is
    a failure, with its body for a reason (curl 7.76).
    """
    words = [f"curl -sS --fail-with-body -m {timeout_s:g} -X {http.method}"]
    named = [first or second for text in (http.url, http.body or "") for first, second in _VARIABLE.findall(text)]
    if http.bearer:
        named.append(http.bearer)
        words = [f"printf 'Authorization: Bearer %s' {_filled('$' + http.bearer)} | {words[0]} -H @-"]
    if http.body is not None:
        words.append(f"-H 'Content-Type: application/json' --data-raw {_filled(http.body)}")
    line = " ".join([*words, _filled(http.url)])
    return ("/bin/sh", "-c", line), tuple(dict.fromkeys(named))


def _filled(text: str) -> str:
    """A text as one word of a shell, its variables filled in; one that is not set ends the program with its name."""
    parts, at = [], 0
    for found in _VARIABLE.finditer(text):
        name = found[1] or found[2]
        parts += [_quoted(text[at : found.start()]), f"${{{name}:?it is not set}}"]
        at = found.end()
    return '"' + "".join([*parts, _quoted(text[at:])]) + '"'


def _quoted(text: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", text)
