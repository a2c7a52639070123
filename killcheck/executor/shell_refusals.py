"""Which commands of a shell script make a request, and what is said of one whose refusal nobody hears of."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import basename

from killcheck.executor import kubectl_calls
from killcheck.executor.api_calls import ApiCall
from killcheck.executor.false_green import FalseGreen
from killcheck.executor.shell_exits import Refused
from killcheck.executor.shell_script import UNKNOWN, Command

__all__ = ["goes_on", "made", "refused"]

_LET_END = "Let it end in exit 1 where that was refused."


def made(words: Sequence[str]) -> str:
    """KIND NAME of what ``kubectl create`` makes; empty: nothing whose name is known."""
    line = kubectl_calls.command_line(words[1:]).words if basename(words[0]) == "kubectl" else []
    named = line[:1] == ["create"] and len(line) > 2 and UNKNOWN not in line[-1]
    return f"{line[1]} {line[-1]}" if named else ""


def goes_on(what: str, made: str) -> FalseGreen:
    """A refusal after which a script ends well; of what is made, and is there from the second firing on, each later."""
    if not made:
        return FalseGreen(f"if '{what}' is refused, the script goes on to exit code 0", _LET_END)
    how = f"nothing here deletes {made} that it creates: from the second firing on the script ends with exit code 0"
    return FalseGreen(how, "Delete it at the end (trap '...' EXIT), or hold a Lease that runs out.")


def refused(command: Command, ran: Sequence[tuple[Command, frozenset[ApiCall]]], fails: bool = True) -> Refused:
    """The commands of a script that make the requests of one of them, and those that change something else."""
    asked = next((calls for one, calls in ran if one is command), frozenset())
    same = [one.origin for one, calls in ran if one is command or calls & asked]
    others = [one.origin for one, calls in ran if calls]
    return Refused(
        lambda word: any(word is origin for origin in same), lambda word: any(word is one for one in others), fails
    )
