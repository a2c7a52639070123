"""An idle monitor that is a program: what a timer starts on a VM, and what asks how long something has been idle.

Both halves are drilled: right after a request it must leave the target on; when nothing but killcheck's own counting
has touched the target for as long as the monitor says it waits, it must turn it off.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from killcheck.capabilities.programs import Ran
from killcheck.layers.base import Explanation, Stage
from killcheck.layers.command import CommandLayer, firings
from killcheck.spec.killpath import Layer, LayerType

__all__ = ["BEYOND_S", "IdleCommand"]

#: A monitor that compares with ``>`` acts this much after the limit, in seconds.
BEYOND_S = 2.0


class IdleCommand(CommandLayer):
    """One drill of an idle monitor that is a program."""

    remedy = "let it measure what the target does (requests, items, device use), and act only after the whole delay"

    @staticmethod
    def drills(layer: Layer) -> bool:
        """An idle monitor that is a program."""
        return layer.type is LayerType.IDLE_MONITOR and layer.cron_job is None and layer.command is not None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        super().__init__(layer, stage)
        self._flaw: str | None = None
        self._unproven: str | None = None
        self._untried: str | None = None
        self._idle_since: datetime | None = None

    def unproven(self) -> str | None:
        """Its target could not be made busy."""
        return self._unproven

    def untried(self) -> str | None:
        """That nobody saw it leave a busy target on: none was busy."""
        return self._untried

    def flaw(self) -> str | None:
        """It turned a busy target off."""
        return self._flaw

    # -- both halves ---------------------------------------------------------------------------------------
    def before_trigger(self) -> str | None:
        """Look at it with a busy target, then let the target idle; returns what was seen."""
        loop, idle_s = self.stage.cluster.loop, self.layer.idle_s or 0.0
        if self.layer.busy is not None:
            asked = self.stage.programs.run(self.layer.busy)
            if not asked.ok:
                self._unproven = f"the target could not be made busy: {asked.told}"
                return self._unproven
            made = f"a request was made of it ({asked.command})"
        else:
            made = "it had just been put on" if not self.stage.cluster.real else ""
        self._idle_since = loop.now()
        seen = (
            self._look(f"right after {made}")
            if made
            else "whether it leaves busy targets on was not tried: the spec gives no busy command that makes a request"
        )
        self._untried = None if made else seen
        if self._flaw or self._unproven:
            return seen
        until = self._idle_since + timedelta(seconds=idle_s + BEYOND_S)
        loop.run_until(self._off_early, max(0.0, (until - loop.now()).total_seconds()))
        if self._off_early():
            idle = (loop.now() - self._idle_since).total_seconds()
            if idle < idle_s:
                self._flaw = f"{self.layer.name} acts on a busy target: it was off {idle:.0f} s after the last request"
        return super().before_trigger() or f"{seen}; nothing has used the target for {idle_s / 60:.0f} min"

    def _look(self, when: str) -> str:
        """Its program on a busy target: everything must be on afterwards."""
        before = self._on()
        ran = self.stage.programs.run(self.command)
        self._keep(ran)
        census = self.stage.scene.census
        census.again()
        counted = self.stage.cluster.loop.run_until(lambda: census.asked_since(ran.ended), self.command.timeout_s)
        if census.broken() is not None or not counted:
            self._unproven = "what its look at a busy target left on is not known: " + str(
                census.broken() or "nothing was counted after it"
            )
            return self._unproven
        if self._on() < before:
            self._flaw = f"{self.layer.name} acts on a busy target: {ran.command} turned it off {when}"
            return self._flaw
        return f"it looked {when} and " + ("left it on" if ran.ok else f"failed ({ran.told})")

    def _on(self) -> int:
        return sum(count.number for count in self.stage.scene.census.counts.values())

    def _off_early(self) -> bool:
        census = self.stage.scene.census
        return census.broken() is None and not census.all_on()

    # -- judging -------------------------------------------------------------------------------------------
    def explain(self, stuck_at: str) -> Explanation | None:
        """It looked, and did not find its target idle."""
        if self._flaw:
            return Explanation(self._flaw, remedy=self.remedy, failures=(40,), lasting=True)
        ran = self.ran
        if ran is not None and ran.ok and stuck_at == "instance_gone" and self._on():
            looks = [
                f.ended
                for f in firings(self.stage, self.layer, self._idle_since or ran.begun, self.stage.cluster.loop.now())
                if isinstance(f, Ran)
            ]
            floor = self._floor()
            if floor:
                return floor
            told = f", and so did {len(looks)} of its timer's runs" if looks else ""
            idle = (ran.ended - (self._idle_since or ran.begun)).total_seconds()
            return Explanation(
                f"{ran.command} looked at a target that nothing had used for {idle / 60:.0f} min and left it on{told}: "
                + str(self._held_up or "what it takes for use is something else, or what it asked for had no effect"),
                (*(line[:300] for line in ran.output.strip().splitlines()[-5:]), *ran.errors.strip().splitlines()[-3:]),
                "see what it counts as use: its own probes, health checks, open websockets, a clock that another "
                "program winds; and let it look whether what it stopped has stopped",
                (22, 40) if self._held_up else (40, 14),
                lasting=True,
            )
        return super().explain(stuck_at)

    def _floor(self) -> Explanation | None:
        """That it turned off all but some, and stopped there: a floor in its program, which no pool shows."""
        census = self.stage.scene.census
        for target in census.targets:
            high, last = census.peaks.highest.get(target.name), census.counts.get(target.name)
            if high is not None and last is not None and 0 < last.number < high.number:
                now = last.number
                return Explanation(
                    f"a floor keeps {now} of {target.name} on: it went from {high.number} to {now} and no further",
                    (f"{high.command} counted {high.number} at {high.at:%H:%M:%S}",),
                    "let the program's minimum be zero: one machine that is kept warm bills every idle hour",
                    (30,),
                    lasting=True,
                )
        return None
