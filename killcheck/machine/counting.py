"""What a count command has answered: a number, or a market's list: which machines are on, what each is and costs.

What is not said to be off is on, whatever it is called: a list that nobody understands is never zero.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

from msgspec import Struct

from killcheck.capabilities.programs import Ran
from killcheck.entries import Becomes, leaves
from killcheck.kube.errors import KubeError
from killcheck.spec.machines import Machines
from killcheck.text import lazy_re
from killcheck.text.jsontext import from_text

__all__ = ["Count", "CountUnknown", "Rented", "counted", "rented"]

_ABSENT = object()
#: How APIs that answer in pages say that another one follows, and how many entries there are in all.
_MORE = lazy_re.compile(r"^next|next_?(?:page|token|cursor|link)|has_?more|truncated$|cursor$", re.IGNORECASE)
_TOTAL = lazy_re.compile(r"^total(?:_?(?:count|items|results|instances|pods|records|elements))?$", re.IGNORECASE)


class CountUnknown(KubeError):
    """How many are on is not known; the message says why."""


def _answer(ran: Ran) -> str:
    """The whole answer of a program that ended well. Raises CountUnknown."""
    if not ran.ok:
        raise CountUnknown(ran.told)
    if ran.cut:
        raise CountUnknown(f"{ran.command}: its answer is longer than what is read of it")
    return ran.output.strip()


def counted(ran: Ran) -> int:
    """What a count command has answered. Raises CountUnknown: not an answer.

    An integer alone; a JSON list (one entry for each that is on); a JSON object with an integer ``count``.
    """
    text = _answer(ran)
    try:
        answer = from_text(text)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        answer = answer.get("count")
    if isinstance(answer, list):
        return len(answer)
    if isinstance(answer, int) and not isinstance(answer, bool) and answer >= 0:
        return answer
    shown = repr(text[:80]) if text else "nothing"
    raise CountUnknown(f"{ran.command}: expected a count of what is on, found {shown}")


class Rented(Struct, frozen=True):
    """A machine that is on. ``usd_per_hour``: None: the list does not say."""

    id: str
    type: str = ""
    usd_per_hour: float | None = None


def _at(entry: Any, path: str) -> Any:
    for word in path.split("."):
        if not isinstance(entry, dict) or word not in entry:
            return _ABSENT
        entry = entry[word]
    return entry


@leaves("worker fleets", "what a machine bills that is stopped and not ended: its disk", Becomes.UNSEEN)
def rented(ran: Ran, machines: Machines) -> tuple[Rented, ...]:
    """The machines that an answer says are on. Raises CountUnknown where it is no such list."""
    text = _answer(ran)
    try:
        answer = from_text(text)
    except ValueError:
        shown = repr(text[:80]) if text else "nothing"
        raise CountUnknown(f"{ran.command}: expected machines as JSON, found {shown}") from None
    items = _at(answer, machines.items) if machines.items else answer
    if not isinstance(items, list):
        where = f"at {machines.items}" if machines.items else "in the answer"
        raise CountUnknown(f"{ran.command}: expected a list of machines {where}, found {type(items).__name__}")
    more = _goes_on(answer, len(items))
    if more:
        raise CountUnknown(f"{ran.command}: its list is one page of several ({more}): let it print all of them")
    return tuple(_machine(ran, machines, entry) for entry in items if not _is_off(machines, entry))


def _goes_on(answer: Any, length: int) -> str | None:
    """What of an answer says that its list is not the whole; None: nothing. Lists themselves are not looked into."""
    for name, said in answer.items() if isinstance(answer, dict) else ():
        if isinstance(said, dict):
            if within := _goes_on(said, length):
                return f"{name}.{within}"
        elif _TOTAL.search(name) and isinstance(said, int) and said > length:
            return f"{name} is {said}, and {length} are listed"
        elif _MORE.search(name) and said and not isinstance(said, list):
            return f"{name} is given"
    return None


def _is_off(machines: Machines, entry: Any) -> bool:
    return any(str(_at(entry, path)) in values for path, values in machines.ended.items())


def _machine(ran: Ran, machines: Machines, entry: Any) -> Rented:
    found = _at(entry, machines.id)
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise CountUnknown(f"{ran.command}: a machine of its list has no {machines.id}")
    kind = _at(entry, machines.type) if machines.type else ""
    price = _at(entry, machines.usd_per_hour) if machines.usd_per_hour else None
    return Rented(str(found), kind if isinstance(kind, str) else "", _usd(price))


def _usd(price: Any) -> float | None:
    """A price as a list has it, a number or its text; None: it says none."""
    try:
        number = float(price)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


class Count(Struct, frozen=True):
    """One answer. ``asked``: when the command that gave it was started; ``at``: when it had ended."""

    number: int
    asked: datetime
    at: datetime
    command: str
    #: Each that is on, where the spec says how the list names them.
    machines: tuple[Rented, ...] = ()
