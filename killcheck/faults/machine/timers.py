"""When a machine outside Kubernetes is there: its timers, its clock, a slot it slept through; and a second controller.

Only on the embedded machine, but for the second controller, who starts the targets as the spec says they are started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import ClassVar

from killcheck.capabilities.offered import Capability
from killcheck.capabilities.programs import Ran
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.machine.machine_fault import MachineFault
from killcheck.layers.base import LayerRun, Stage
from killcheck.machine.programs import again, count_again
from killcheck.safety.changes import Undo
from killcheck.spec.killpath import Command, KillPath, Layer

__all__ = ["ClockBehind", "MachineAsleep", "MachineOff", "SecondController", "TimerStopped"]


class _Timer(MachineFault):
    """A fault of what makes the layer's program start."""

    family = "schedule"
    needs = (Capability.TIMERS,)
    shows = Evidence.TRIGGER

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where the spec says when it starts."""
        return super().unsuited_layer(layer) or (None if layer.schedule else "the spec gives it no schedule")

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Its timer."""
        return Plan(
            (f"the timer of {layer.layer.name}: {self.simulates}",),
            edits=(f"the machine's timer of {layer.layer.name}",),
        )

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The trigger met it."""
        held = layer.not_fired()
        return str(held) if held is not None else None


class TimerStopped(_Timer):
    """Reproduces row 7 outside Kubernetes: somebody stopped the timer for a day, and nothing says so."""

    name = "timer-stopped"
    simulates = "the layer's timer is stopped"
    failures = (7,)

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Stop it."""
        name = layer.layer.name
        stage.journal.call(Capability.TIMERS, f"stopped the timer of {name}", ["stop", name], ["start", name])
        return [f"stopped the timer of {name}"]


class MachineOff(_Timer):
    """Reproduces row 15 outside Kubernetes: what fires is off when the slot comes; only a persistent timer makes up."""

    name = "machine-off"
    simulates = "the machine that fires is off when the slot comes, and back an hour later"
    family = "orchestrator"
    failures = (15, 9)
    away_s: ClassVar[float] = 3600.0
    suspended: ClassVar[bool] = False

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The whole machine, every other layer's timer on it too."""
        return Plan((self.simulates,), edits=("the machine",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Let it be away from the moment the trigger is pulled."""
        stage.journal.call(
            Capability.TIMERS, self.simulates, ["leave_at_slot", self.away_s, self.suspended], ["come_back"]
        )
        return [self.simulates]


class MachineAsleep(MachineOff):
    """Reproduces row 9 outside Kubernetes: a machine that is suspended starts what it missed when it resumes."""

    name = "machine-asleep"
    simulates = "the machine that fires is suspended when the slot comes, and resumes half an hour later"
    away_s = 1800.0
    suspended = True


class ClockBehind(_Timer):
    """Reproduces row 22: nothing sets the machine's clock any more, and its slot comes late."""

    name = "clock-behind"
    simulates = "the machine's clock is an hour and seven minutes behind"
    failures = (22,)
    behind_s: ClassVar[float] = 4020.0
    shows = Evidence.TRIED

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The clock of the whole machine."""
        return Plan((self.simulates,), edits=("the machine's clock",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Set it."""
        stage.journal.call(Capability.TIMERS, self.simulates, ["set_clock", self.behind_s], ["set_clock", 0.0])
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Its slot comes late, or the program has run by a clock that is behind."""
        held = layer.not_fired()
        if held is not None or layer.ran is None:
            return str(held) if held is not None else None
        told = stage.programs.run(Command(("date", "+%s")))
        behind = (told.begun - timedelta(seconds=float(told.output))).timestamp() if told.ok else 0.0
        return f"the machine's clock is {behind:.0f} s behind" if behind > self.behind_s / 2 else None


class SecondController(MachineFault):
    """Reproduces row 55 outside Kubernetes: another timer may start the machine too, and nobody told it."""

    name = "second-controller"
    simulates = "another controller starts the target again a minute after it has gone off"
    family = "rivals"
    failures = (55, 34)
    needs = (Capability.PROGRAMS,)
    costs = "the targets start anew in the middle of the drill"
    #: How long after zero was counted it starts them, in seconds.
    after_s: ClassVar[float] = 60.0
    shows = Evidence.TARGETS

    def __init__(self) -> None:
        self._started: list[Ran] = []
        self._zero_s: float | None = None
        self._fired = False

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where the spec says how to start them."""
        if any(target.start is not None for target in kill_path.covered_by(layer)):
            return None
        return "the spec does not say how its targets are started"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The targets' own start commands."""
        starts = [t for t in stage.kill_path.covered_by(layer.layer) if t.start is not None]
        if not starts:
            raise FaultError(self.unsuited_targets(stage.kill_path, layer.layer))
        return Plan(
            tuple(f"{t.name} is started again with {t.start}" for t in starts),
            edits=tuple(f"the start of {t.name}" for t in starts),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Wait for zero."""
        return [f"another controller watches {', '.join(layer.layer.covers)}"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """It has started them."""
        return next((f"{one.command} at {one.ended:%H:%M:%S}" for one in self._started if one.ok), None)

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Start them once, a while after zero."""
        census, loop = stage.scene.census, stage.cluster.loop
        if self._fired or census.broken() is not None or census.all_on():
            return None
        if self._zero_s is None:
            self._zero_s = loop.monotonic()
        left = self._zero_s + self.after_s - loop.monotonic()
        if left > 0:
            return left
        self._fired = True
        for target in stage.kill_path.covered_by(layer.layer):
            if target.start is None or target.count is None:
                continue
            body = [count_again(target), 1, again(target.start), stage.kill_path.folder]
            with stage.journal.change(
                f"another controller started {target.name}, as it was",
                Undo("call", "put_back", body, manual=str(target.start)),
                lever=Capability.PROGRAMS,
            ):
                stage.programs.start(target.start, self._ended(stage))
        return None

    def _ended(self, stage: Stage) -> Callable[[Ran], None]:
        def ended(one: Ran) -> None:
            self._started.append(one)
            stage.scene.census.again()
            stage.scene.wake()

        return ended
