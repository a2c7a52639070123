"""Regular expressions that are compiled when they are first asked something, as :mod:`re` compiles them.

A command imports several hundred patterns and uses a few dozen: compiling all of them was a seventh of what starting
takes. For patterns at the top of a module; one that is made in a function is wanted at once.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

__all__ = ["compile", "compile_all"]


def compile(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What :func:`re.compile` returns, later: a pattern that is wrong raises :class:`re.error` when it is first used.

    It is no instance of :class:`re.Pattern`: ask it, and do not hand it to a function of :mod:`re`.
    """
    made = _Uncompiled(pattern, flags)
    _made.append(made)
    return cast("re.Pattern[AnyStr]", made)


def compile_all() -> int:
    """Compile what is not yet: for a process of which many copies are about to be made. Returns how many there are."""
    return len([one.pattern for one in _made])


class _Uncompiled:
    """Has each attribute of the compiled pattern, from the first time on that it is asked for."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._arguments = pattern, flags

    def __getattr__(self, name: str) -> Any:
        """Only for what is not there yet."""
        if name == "_compiled":
            pattern, flags = self._arguments
            self._compiled: re.Pattern[Any] = re.compile(pattern, flags)
            return self._compiled
        value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value


#: Each that a module has made.
_made: list[_Uncompiled] = []
