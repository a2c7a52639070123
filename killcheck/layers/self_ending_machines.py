"""The worker on a machine that is rented: fed from a queue, it ends its own machine when nothing has come for a while.

Nothing is pulled: the queue is left empty. A program that merely exits has ended nothing: on a market the machine is
there until somebody ends *it*, and bills. Who ended which the market says where a stand-in is one; a real market's list
says only that they are gone, and so proves nothing of who did it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from killcheck.capabilities.rental import RentalMarket, WentOff
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj
from killcheck.kube.permissions import Permission
from killcheck.layers.base import Explanation, LayerError, LayerRun, Stage
from killcheck.spec.killpath import Layer, LayerType
from killcheck.text.durations import format_duration

__all__ = ["SelfEndingMachines"]

#: Of its delay, the gap after which a worker is fed, as in Kubernetes.
GAP = 0.6
#: Its own clock and ours may differ by as much, in seconds.
EARLY_S = 5.0
#: Between a machine's end and the count that no longer has it, in seconds: counts become rare.
SLACK_S = 360.0
_NOBODY_SAYS = "a market's list does not say who ended a machine: drill it on the embedded cluster, with standIn"


class SelfEndingMachines(LayerRun):
    """One drill of workers on rented machines."""

    own_phases = ("triggered",)
    remedy = "make the idle delay longer than the gaps between batches"

    @staticmethod
    def drills(layer: Layer) -> bool:
        """Workers that are a program of a machine's."""
        return layer.type is LayerType.SELF_TERMINATING and layer.container is None and layer.command is not None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        super().__init__(layer, stage)
        #: Ids of the machines that were on at the trigger.
        self._workers: frozenset[str] = frozenset()
        self._fed_at: datetime | None = None
        self._since: datetime | None = None
        self._unproven: str | None = None

    @property
    def _market(self) -> RentalMarket | None:
        return self.stage.cluster.capabilities.market

    # -- before --------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        """Its machines are counted one by one."""
        self.stage.programs  # noqa: B018 - raises where nothing runs programs
        for target in self.stage.kill_path.covered_by(self.layer):
            if target.machines is None:
                raise LayerError(
                    f"layer {self.layer.name}: target {target.name} has no machines: whose list says which are on"
                )
        if self.layer.idle_s is None:
            raise LayerError(f"layer {self.layer.name}: say with idle: how long a worker waits before it ends itself")

    def permissions(self) -> Sequence[Permission]:
        """None in Kubernetes."""
        return ()

    def before_trigger(self) -> str | None:
        """A gap shorter than its delay, then work: it must live through both."""
        loop, idle_s = self.stage.cluster.loop, self.layer.idle_s or 0.0
        if self._market is None:
            self._unproven = _NOBODY_SAYS
            return self._unproven
        self._workers = self._on()
        self._since = loop.now()
        if self.layer.busy is None:
            return "whether it lives through a gap was not tried: the spec gives no busy command that makes work"
        # A machine that is still loading idles from later on.
        self.stage.wait("a gap in the work to pass", lambda: bool(self._gone()), idle_s * GAP)
        fed = self.stage.programs.run(self.layer.busy)
        if not fed.ok:
            self._unproven = f"the worker could not be fed: {fed.told}"
            return self._unproven
        self._fed_at = fed.ended
        return f"after a gap of {format_duration(idle_s * GAP)} it was fed ({fed.command})"

    def unproven(self) -> str | None:
        """It could not be fed, or nobody says who ends machines."""
        return self._unproven

    def untried(self) -> str | None:
        """That nobody saw it live through a gap."""
        return None if self.layer.busy is not None else "nobody saw its workers live through a gap between two batches"

    def trigger(self) -> str:
        """Leave the queue empty."""
        self._workers |= self._on()
        return "nothing is pulled: the queue stays empty, the workers are left to end their machines"

    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """Nothing of it is in Kubernetes."""

    def _on(self) -> frozenset[str]:
        counts = self.stage.scene.census.counts
        covered = self.stage.kill_path.covered_by(self.layer)
        return frozenset(one.id for t in covered if t.name in counts for one in counts[t.name].machines)

    def _gone(self) -> list[WentOff]:
        """Of the machines that it is about, those that went."""
        since = self._since
        ended = self._market.ended if self._market is not None else ()
        return [
            one
            for one in ended
            if since is not None and one.at >= since and (not self._workers or one.id in self._workers)
        ]

    # -- judging -------------------------------------------------------------------------------------------
    def acted(self, zero_at: datetime) -> str | None:
        """Each machine that was on ended itself, by its own key, the last of them about then."""
        own = [one.at for one in self._gone() if one.by_itself]
        if not own or len(own) < len(self._workers):
            return None
        last = max(own)
        if not last - timedelta(seconds=1) <= zero_at <= last + timedelta(seconds=SLACK_S):
            return None
        return f"{len(own)} machine(s) were ended by their own workers, the last at {last:%H:%M:%S}"

    def signs(self, writer: str | None) -> bool:
        """It writes no replicas."""
        return True

    def flaw(self) -> str | None:
        """One did not wait as long as it says; or none lived on after it was fed.

        Which of them took the work nobody says: each has waited its delay since it began, and one since it was fed.
        """
        least, own = (self.layer.idle_s or 0.0) - EARLY_S, [one for one in self._gone() if one.by_itself]
        for one in own:
            waited = (one.at - one.began).total_seconds() if one.began else 0.0
            if waited < least:
                return self._too_early(f"machine {one.id} ended it {waited:.0f} s after it had begun")
        if self._fed_at is None or not own or len(own) < len(self._workers):
            return None
        waited = (max(one.at for one in own) - self._fed_at).total_seconds()
        return (
            self._too_early(f"the last machine ended it {max(0.0, waited):.0f} s after it was fed")
            if (waited < least)
            else None
        )

    def _too_early(self, what: str) -> str:
        return (
            f"the worker of {what}, before the {self.layer.idle_s or 0:.0f} s that it must wait: every short gap "
            "between two batches ends it"
        )

    def explain(self, stuck_at: str) -> Explanation | None:
        """A program that exited and left its machine on, or one that never ended."""
        market = self._market
        if market is None or stuck_at not in ("instance_gone", "scale_written", "pods_gone"):
            return None
        there = [one for one in market.contracts.values() if one.id in self._workers or not self._workers]
        exited = [one for one in there if one.status == "exited"]
        if exited:
            one = exited[0]
            return Explanation(
                f"exit {one.code} is no end: the worker of machine {one.id} ended, and nobody ended the machine, which "
                "is there still and bills",
                tuple(f"machine {each.id}: {each.status}, exit code {each.code}" for each in exited[:5]),
                "let the worker end its own machine as its last call (DELETE of its id, with the key that the market "
                "gives each one); let it fail loudly where that is refused",
                (43,),
                lasting=True,
            )
        if there:
            return Explanation(
                "no worker ended its machine, although nothing came from its queue",
                tuple(f"machine {each.id}: {each.status}" for each in there[:5]),
                "give it an idle limit, see that it polls with a timeout, and that its polls are not counted as work",
                (44,),
                lasting=True,
            )
        return None
