"""One small file a fault: a reversible sabotage of something that a layer depends on.

What may *not* live here: healing that only the injecting process could do (an undo is data in the journal),
knowledge of one particular cluster, verdicts.
"""

from __future__ import annotations

import difflib

from killcheck.faults.base import Fault, FaultError, Plan
from killcheck.faults.command_missing import CommandMissing
from killcheck.faults.image_gone import ImageGone
from killcheck.faults.rolebinding_gone import RoleBindingGone
from killcheck.killpath import Layer

__all__ = ["ALL", "Fault", "FaultError", "Plan", "means_something", "named"]

#: Every fault, in the order in which they are listed.
ALL: tuple[type[Fault], ...] = (ImageGone, CommandMissing, RoleBindingGone)


def means_something(kind: type[Fault], layer: Layer) -> bool:
    """Whether a fault applies to a layer at all."""
    return not kind().applies(layer)


def named(name: str) -> Fault:
    """The fault that ``--under`` calls ``name``. Raises KeyError whose message names the nearest."""
    for kind in ALL:
        if kind.name == name:
            return kind()
    names = [kind.name for kind in ALL]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise KeyError(f"no fault is called {name}; {hint}there are: {', '.join(names)}")
