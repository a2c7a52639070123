"""Any program as a layer: what a systemd timer, a cloud scheduler or a person would start, drilled by starting it.

What it turned off is counted by the target's own command. A program that ends with exit code 0 has proven nothing: the
count does. What may *not* live here: how programs are run (:mod:`killcheck.machine.programs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from killcheck.capabilities.programs import Ran
from killcheck.kube import schedule
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj
from killcheck.kube.permissions import Permission
from killcheck.layers import firing
from killcheck.layers.base import Explanation, Hindrance, LayerError, LayerRun, NotFired, Stage
from killcheck.layers.firing import Forecast
from killcheck.layers.program_failures import reason_of
from killcheck.spec.killpath import Layer, LayerType

__all__ = ["CommandLayer", "effect_of", "firings"]

#: A cloud that was told to stop may count what it stops for this long, in seconds.
SETTLE_S = 300.0
#: How long a count just before the trigger is waited for, in seconds.
LATEST_COUNT_S = 60.0
#: A write may be seen this much later than the program that made it ended, in seconds.
SLACK_S = 10.0


def firings(stage: Stage, layer: Layer, after: datetime, until: datetime) -> list[Ran] | list[datetime]:
    """When a layer's own timer went off between two moments: as runs where they can be seen, else by its schedule.

    On a real machine only the schedule is known, not what came of it.
    """
    programs = stage.cluster.capabilities.programs
    seen = programs.firings if programs is not None else None
    if seen is not None:
        return [f.ran for f in seen if f.layer == layer.name and after <= f.ran.ended and f.ran.begun <= until]
    if not layer.schedule:
        return []
    return list(schedule.parse(layer.schedule, layer.time_zone or None).between(after, until))


def effect_of(stage: Stage, ran: Ran, zero_at: datetime, *, settle_s: float = SLACK_S) -> str | None:
    """The evidence that a run of a program brought the count to zero: it ended well, and on was counted before its end.

    ``settle_s``: how much later than its end the zero may have been counted for the first time. Empty: it was not.
    """
    if not ran.ok or not _ended_any(stage, ran, settle_s):
        return None
    asked = [
        stage.scene.census.last_on[t.name].asked
        for t in stage.scene.census.targets
        if t.name in stage.scene.census.last_on
    ]
    slack = timedelta(seconds=settle_s)
    if not stage.scene.census.targets:  # an API says when its zero was written
        if not ran.begun - timedelta(seconds=1) <= zero_at <= ran.ended + slack:
            return None
    elif ran.begun > zero_at or not asked or max(asked) > ran.ended + slack:
        return None
    return f"{ran.command} ran from {ran.begun:%H:%M:%S} to {ran.ended:%H:%M:%S} and ended with exit code 0"


def _ended_any(stage: Stage, ran: Ran, settle_s: float) -> bool:
    """Whether a program may have ended any machine: where a market says who did, machines that ended themselves do not
    count."""
    market = stage.cluster.capabilities.market
    if market is None:
        return True
    until = ran.ended + timedelta(seconds=settle_s)
    return any(not one.by_itself and ran.begun <= one.at <= until for one in market.ended)


class CommandLayer(LayerRun):
    """One drill of a layer that is a program."""

    own_phases = ("triggered", "executor_finished")

    @staticmethod
    def drills(layer: Layer) -> bool:
        """Any program."""
        return layer.type is LayerType.COMMAND and layer.container is None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        super().__init__(layer, stage)
        if layer.command is None:
            raise LayerError(f"layer {layer.name}: a {layer.type} layer names its command")
        self.command = layer.command
        self.ran: Ran | None = None
        self._begun: datetime | None = None
        self._held_up: NotFired | None = None

    # -- before --------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        """See that it may be run here, and when its schedule goes off."""
        self.stage.programs  # noqa: B018 - raises where nothing runs programs
        if self.layer.schedule:
            try:
                schedule.parse(self.layer.schedule, self.layer.time_zone or None)
            except schedule.ScheduleError as error:
                raise LayerError(f"layer {self.layer.name}: {error}") from error

    def permissions(self) -> Sequence[Permission]:
        """None in Kubernetes: what the program may do is the program's."""
        return ()

    # -- the trigger ---------------------------------------------------------------------------------------
    def before_trigger(self) -> str | None:
        """Count once more: what somebody turned off since the last count is not this program's doing."""
        census, loop = self.stage.scene.census, self.stage.cluster.loop
        begun = loop.now()
        census.again()
        loop.run_until(lambda: census.asked_since(begun) or census.broken() is not None, LATEST_COUNT_S)
        off = [t.name for t in census.targets if census.broken() is None and not census.on(t)]
        return f"counted just before {self.command} was to be started: {', '.join(off)} is off already" if off else None

    def trigger(self) -> str:
        """Start the program, if its timer would start it now; it goes on while the drill watches."""
        self._begun = self.stage.cluster.loop.now()
        self.stage.scene.census.last_off.clear()  # of interest is what was off since
        held = self.stage.programs.held(self.layer.name)
        if held is not None:
            self._held_up = NotFired(Hindrance.TIMER, held)
            self.stage.programs.on_firing(self._fired_late)
            return f"nothing starts {self.command}: {self._held_up}"
        self.stage.programs.start(self.command, self._ended)
        return f"started {self.command}"

    def not_fired(self) -> NotFired | None:
        """What keeps its timer from going off."""
        return self._held_up

    def _fired_late(self) -> None:
        """The layer's own timer went off after all."""
        if self.ran is not None or self._begun is None:
            return
        seen = firings(self.stage, self.layer, self._begun, self.stage.cluster.loop.now())
        fired = [ran for ran in seen if isinstance(ran, Ran)]
        if fired:
            self._reach("triggered", fired[0].begun, f"its own timer went off at {fired[0].begun:%H:%M:%S}")
            self._ended(fired[0])

    def _ended(self, ran: Ran) -> None:
        self.ran = ran
        self._keep(ran)
        if ran.ok:
            self._reach("executor_finished", ran.ended, f"{ran.command} ended with exit code 0")
        self.stage.scene.census.again()
        self.stage.scene.wake()

    def _keep(self, ran: Ran) -> None:
        said = "\n".join(part for part in (ran.output.rstrip(), ran.errors.rstrip()) if part)
        self.stage.observations.logs[(self.layer.name, str(ran.command))] = said

    def _reach(self, phase: str, at: datetime, evidence: str) -> None:
        if self.stage.timeline is not None:
            self.stage.timeline.reach(phase, at, self.stage.cluster.loop.now(), evidence)

    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """Nothing of it is in Kubernetes."""

    # -- judging -------------------------------------------------------------------------------------------
    def acted(self, zero_at: datetime) -> str | None:
        """The program this drill started, if one was counted until it ended, and no other timer can have been it."""
        if self.ran is None:
            return None
        found = effect_of(self.stage, self.ran, zero_at)
        if found or not self.ran.ok or self._others(self.ran.begun, zero_at):
            return found
        # A cloud takes its time to stop what it was told to stop; nobody else was at it meanwhile.
        return effect_of(self.stage, self.ran, zero_at, settle_s=SETTLE_S)

    def _others(self, after: datetime, until: datetime) -> bool:
        return any(
            firings(self.stage, other, after, until)
            for other in self.stage.kill_path.layers
            if other.command is not None and set(other.covers) & set(self.layer.covers)
        )

    def also_acted(self, zero_at: datetime, since: datetime | None = None) -> str | None:
        """The layer's own timer, where its doing can be seen; where not, that it went off just then."""
        last_on = [count.asked for count in self.stage.scene.census.last_on.values()]
        for fired in firings(self.stage, self.layer, max(last_on, default=zero_at), zero_at):
            if since is not None and (fired.begun if isinstance(fired, Ran) else fired) < since:
                continue
            if isinstance(fired, Ran):
                found = effect_of(self.stage, fired, zero_at)
                if found:
                    return f"its own timer went off: {found}"
            else:
                return f"its schedule went off at {fired:%H:%M:%S}, between the last count of one and that of none"
        return None

    def explain(self, stuck_at: str) -> Explanation | None:
        """What became of the program."""
        if stuck_at in ("scale_written", "pods_terminating", "held"):
            return None
        ran = self.ran
        if ran is None and self._held_up:
            return Explanation(
                f"nothing fires: {self._held_up}",
                (),
                "let a second machine, or the cloud's own scheduler, stop it "
                "too; a timer with Persistent=true makes up for the nights that its machine was off",
                (7, 9, 15, 22),
                lasting=True,
            )
        if ran is None:
            return Explanation(
                f"{self.command} is still at it",
                (f"started {self._begun:%H:%M:%S}",) if self._begun else (),
                "give it a time limit below the deadline (timeout), and see what it waits for",
                (25,),
                lasting=True,
            )
        if not ran.ok:
            reason = reason_of(ran)
            return Explanation(f"its program failed: {ran.told}", _last_lines(ran), reason.remedy, reason.failures)
        on = {t.name: self.stage.scene.census.counts[t.name].number for t in self.stage.scene.census.targets}
        again = [off for name, off in self.stage.scene.census.last_off.items() if on[name]]
        if again:
            return Explanation(
                f"it came on again: none was on at {again[0].at:%H:%M:%S}, and now "
                f"{', '.join(f'{number} of {name}' for name, number in on.items() if number)} is",
                (f"{again[0].command} counted none at {again[0].at:%H:%M:%S}", ran.told),
                "leave one controller the right to start it, and let every other starter check the sentinel; a monitor "
                "that only stops bounds what a second one costs",
                (55, 34),
            )
        if any(on.values()):
            told = ", ".join(f"{number} of {name}" for name, number in on.items() if number)
            return Explanation(
                f"false green: {ran.command} ended with exit code 0, and {told} still on",
                _last_lines(ran),
                "let it look whether what it stopped has stopped, and fail if not",
                (14,),
            )
        return None

    def over(self) -> bool:
        """The program has ended."""
        return self.ran is not None and not self._held_up

    def forecast(self) -> Forecast | None:
        """What the spec's schedule will do; whether the machine's timer says the same cannot be seen."""
        if not self.layer.schedule:
            return None
        now = self.stage.cluster.loop.now()
        return firing.of_schedule(self.layer.schedule, self.layer.time_zone, now, what="the schedule in the spec")

    def next_chance(self, after: datetime) -> datetime | None:
        """Its schedule's next firing."""
        if not self.layer.schedule:
            return None
        return schedule.parse(self.layer.schedule, self.layer.time_zone or None).next(after)


def _last_lines(ran: Ran) -> tuple[str, ...]:
    said = (*ran.output.strip().splitlines()[-5:], *ran.errors.strip().splitlines()[-5:])
    return tuple(line[:300] for line in said)
