"""What remedies of many faults have in common: the words that say it, and those behind them in a remedy."""

from __future__ import annotations

from killcheck.text import lazy_re

__all__ = ["ANOTHER", "MACHINES", "in_common", "of_all"]

#: What nearly every fault would have been survived by...
ANOTHER = "another layer that covers the same targets"
#: ...and where the pods themselves, or their nodes, are held up.
MACHINES = "a layer that ends the machines"
_OWN = " themselves (the cloud's own)"
#: What it must have or do beside that, up to what else a remedy says.
_ITS = lazy_re.compile(rf"{ANOTHER} ((?:(?!, and |, or |; ).)+)")
#: Whose remedy it is: of a fault that killcheck laid.
_WHOSE = lazy_re.compile(r"(?:^|(?<=; ))to survive [^:;]+: ")


def in_common(remedy: str) -> str:
    """What a remedy asks for, the same for all that one change mends."""
    return next((words for words in (ANOTHER, MACHINES) if words in remedy), _WHOSE.sub("", remedy))


def of_all(remedies: list[str]) -> str:
    """One remedy for drills whose remedies have something in common (:func:`in_common`); of one it stays as it is."""
    if len({_WHOSE.sub("", one) for one in remedies}) == 1:
        return remedies[0] if len(set(remedies)) == 1 else _WHOSE.sub("", remedies[0])
    common = in_common(remedies[0])
    if common == MACHINES:
        return f"add {MACHINES}{_OWN}"
    its = dict.fromkeys(found.removeprefix("and ") for one in remedies for found in _ITS.findall(one))
    does = [_as_verb(words) for words in its]
    listed = " and ".join(filter(None, [", ".join(does[:-1]), *does[-1:]]))
    return f"add {ANOTHER}. One that helps with all of these {listed}" if does else f"add {ANOTHER}"


def _as_verb(words: str) -> str:
    """``with an identity of its own`` as a part of a sentence that begins with *it*."""
    for before, after in (("with ", "has "), ("on ", "goes by "), ("from ", "acts from ")):
        if words.startswith(before):
            return after + words.removeprefix(before)
    return words
