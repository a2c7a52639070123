"""What runs programs outside Kubernetes, and what can be done to the machine that they run on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from killcheck.clock import Loop
from killcheck.spec.killpath import Command
from killcheck.text import lazy_re

__all__ = ["Files", "Firing", "Machine", "Programs", "Ran", "Timers"]

#: Words of a line that says what went wrong.
_TELLING = lazy_re.compile(
    r"error|fail|denied|expired|refused|forbidden|unauthor|not found|not ready|no such|timed? ?out|exceeded",
    re.IGNORECASE,
)


class Ran(Struct, frozen=True):
    """How a program's run ended. ``code`` is None where it did not end by itself, and ``why`` then says what happened.

    ``output`` and ``errors`` are its two streams, redacted; ``cut``: there was more output than is kept.
    ``overdue``: it took longer than it may, and was stopped.
    """

    command: Command
    begun: datetime
    ended: datetime
    code: int | None
    output: str = ""
    errors: str = ""
    why: str = ""
    cut: bool = False
    overdue: bool = False

    @property
    def ok(self) -> bool:
        """It ended by itself, with exit code 0."""
        return self.code == 0

    @property
    def told(self) -> str:
        """One line: how it ended, and the last thing it said; of several lines the last that speaks of a failure."""
        said = (self.errors.strip() or self.output.strip()).splitlines()
        telling = [line for line in said if _TELLING.search(line)] or said
        how = self.why or f"exit code {self.code}"
        return f"{self.command}: {how}" + (f": {telling[-1].strip()[:300]}" if said and not self.ok else "")


class Firing(Struct, frozen=True):
    """A timer of a machine that went off: which layer's, and how its program ended."""

    layer: str
    ran: Ran


class Programs(Protocol):
    """Runs programs, in a cluster's time (``loop``). ``real``: what they do is somebody's."""

    real: bool
    loop: Loop

    @property
    def firings(self) -> Sequence[Firing] | None:
        """Every timer that went off by itself, in order; None: nobody sees the machine's timers."""

    def on_firing(self, heard: Callable[[], None]) -> None:
        """Have ``heard`` called whenever a timer's program has ended; never, where nobody sees the timers."""

    def start(self, command: Command, on_end: Callable[[Ran], None]) -> None:
        """Start a program; ``on_end`` is called on the loop, once, however it ends."""

    def run(self, command: Command) -> Ran:
        """Start a program and let time pass until it has ended."""

    def put_back(self, count: list[Any], number: int, start: list[Any], folder: str = "") -> None:
        """What a journal calls: start a target unless it is on already. Raises UndoProblem."""

    def put_before(self, texts: Mapping[str, str], folder: str) -> None:
        """Let the layers' programs find others under some names; empty texts: none under those names.

        ``@CALLS@`` in a text is the file where it writes down each call that it meets, a line each; ``@HERE@`` its own
        folder, the first on their PATH. Those who count and start targets find what they always did. Raises OSError.
        """

    def take_from(self, names: Sequence[str], folder: str) -> None:
        """What a journal calls: undo :meth:`put_before`; idempotent. Raises UndoProblem."""

    def met(self, folder: str) -> list[str]:
        """The calls that those programs have met, in order."""

    def held(self, layer: str) -> str | None:
        """The drill stands for a layer's slot now: what keeps its timer from going off; None: nothing that is known.

        What only comes later goes off by itself then.
        """

    def close(self) -> None:
        """Kill what still runs; idempotent."""


class Files(Protocol):
    """Sentinel files of a machine, set and lifted through the journal."""

    def there(self, path: str) -> bool:
        """Whether a file is there. Raises OSError where that cannot be told."""

    def put(self, path: str, text: str) -> None:
        """Make a file that is not there yet, whole or not at all. Raises OSError, also where it is there."""

    def take_away(self, path: str, text: str) -> None:
        """Remove a file that :meth:`put` made; one that is gone already is as it should be. Raises UndoProblem."""


class Machine(Protocol):
    """A machine of killcheck's own: what a fault does to it is undone by the journal, by the methods' names.

    ``read_only``, ``full``: its disks cannot be written to, or have no room left.
    """

    read_only: bool
    full: bool

    def lose_script(self, name: str, how: str) -> None:
        """Let a script of the spec's folder be ``gone``, or have lost its ``mode``."""

    def find_script(self, name: str) -> None:
        """Have it back."""

    def hold_lock(self, path: str) -> None:
        """Hold an advisory lock of a file, as a process that hangs does. Raises OSError, also where it is held."""

    def let_go(self, path: str) -> None:
        """Let a lock go; idempotent."""

    def leave_lock(self, path: str, text: str, folder: bool) -> None:
        """Leave a lock behind as a process does that died: a file that holds ``text``, or a folder. Raises OSError."""

    def remove_lock(self, path: str) -> None:
        """Remove what :meth:`leave_lock` left; what is gone already is as it should be."""

    def looked_at(self, path: str) -> Mapping[Command, datetime]:
        """Which programs of the machine have looked at a lock that is taken or left, and when each did last.

        A program is left out where it cannot be told from another that ran at the same time.
        """

    def is_taken(self, path: str) -> bool:
        """Whether a lock that is taken or left is not free: a try to take it is refused. Raises OSError."""

    def cannot_write(self) -> str | None:
        """What a program of the machine is told that writes to its disk; None: it can, or there is none."""


class Timers(Protocol):
    """The timers and the clock of such a machine."""

    def stop(self, name: str) -> None:
        """As ``systemctl stop``: it goes off no more. Raises LookupError."""

    def start(self, name: str) -> None:
        """As ``systemctl start``. Raises LookupError."""

    def set_clock(self, behind_s: float) -> None:
        """Set the machine's clock that far behind the world's; what was late because of it no longer comes."""

    def leave_at_slot(self, away_s: float, suspended: bool) -> None:
        """Be off, or asleep, for so long from the slot that the drill stands for."""

    def come_back(self) -> None:
        """Be there as if it had never been away: nothing is made up for."""
