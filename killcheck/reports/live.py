"""What stands below the lines while a drill on a real cluster runs: deadlines coming, GPUs on, dollars running."""

from __future__ import annotations

import atexit
from datetime import datetime

from rich import live
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from killcheck import events
from killcheck.clock import wall_now

__all__ = ["Live", "Standing"]

#: Phases to come that are shown, and redraws a second.
COMING, REDRAWS = 3, 2


class Standing:
    """How a drill stands at this moment; a rich renderable."""

    def __init__(self, started: events.DrillStarted) -> None:
        self.started = started
        self.triggered: datetime | None = None
        self.reached: set[str] = set()
        #: The phases of this drill: others have deadlines too, which nobody waits for.
        self.asked: list[str] | None = None
        self.rate: float | None = None
        self.sample: events.Sampled | None = None

    def hear(self, event: events.Event) -> None:
        """Take in an event of the drill."""
        if isinstance(event, events.SteadyState):
            self.rate = event.usd_per_hour
        elif isinstance(event, events.Triggered):
            self.triggered = event.at
            self.asked = event.phases or None
        elif isinstance(event, events.PhaseReached):
            self.reached.add(event.phase)
        elif isinstance(event, events.PhaseLost):
            self.reached.discard(event.phase)
        elif isinstance(event, events.Sampled):
            self.sample = event

    def lines(self, now: datetime) -> list[Text]:
        """What to show at ``now``."""
        from killcheck.reports.figures import money, span
        from killcheck.spec.phases import words_of

        if self.triggered is None:
            return [Text("  before the trigger: steady state, sabotage", style="dim")]
        passed = (now - self.triggered).total_seconds()
        line = Text(f"  {span(max(0, round(passed)))} since the trigger", style="bold")
        if self.sample is not None:
            on = self.sample.gpu_pods
            line.append(f"   GPU pods on: {on}", style="bold red" if on else "bold green")
            line.append(f"   nodes: {self.sample.nodes}   replicas: {self.sample.replicas}")
            line.append(f"   {money(self._usd(now))} so far", style="yellow")
        shown = [line]
        coming = [
            (phase, limit)
            for phase, limit in self.started.deadlines.items()
            if phase != "held" and phase not in self.reached and (self.asked is None or phase in self.asked)
        ]
        for phase, limit in coming[:COMING]:
            left = limit - passed
            late = left < 0
            how = f"late by {span(round(-left))}" if late else f"{span(round(left))} left"
            shown.append(Text(f"    {words_of(phase):<24} {how}", style="red" if late else "dim"))
        return shown

    def _usd(self, now: datetime) -> float | None:
        """The last figure, and what has run up since at the steady state's rate while nodes are on."""
        sample = self.sample
        if sample is None or sample.usd is None or self.rate is None:
            return None
        return sample.usd + (self.rate * (now - sample.at).total_seconds() / 3600.0 if sample.nodes else 0.0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(wall_now())


class Live:
    """The standing lines on a terminal, redrawn by rich until :meth:`stop`, which also happens at exit."""

    def __init__(self, console: Console, started: events.DrillStarted) -> None:
        self.standing = Standing(started)
        self._live = live.Live(self.standing, console=console, refresh_per_second=REDRAWS, transient=True)
        self._live.start()
        atexit.register(self.stop)

    def hear(self, event: events.Event) -> None:
        """Take in an event of the drill."""
        self.standing.hear(event)

    def stop(self) -> None:
        """Give the terminal back; any number of times."""
        self._live.stop()
        atexit.unregister(self.stop)
