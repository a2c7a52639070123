"""A dead-man's switch that is always there: a loop of a Deployment that looks at the clock and turns off at its hour.

Nothing is pulled. It is left to itself from a morning on, until it acts, for a day at most: what is on by then bills
every night. Only where time is virtual: on a real cluster its hour would have to be waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from killcheck.clock import VirtualLoop
from killcheck.entries import Entry, Status
from killcheck.executor.calendar import Asked, asked, zones_named
from killcheck.kube import downtimes
from killcheck.kube import resources as r
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.layers.base import Explanation, LayerError, Stage, writer_of
from killcheck.layers.idle_workload import IdleWorkload, running_since
from killcheck.spec.killpath import Layer, LayerType
from killcheck.spec.phases import DAY_S
from killcheck.text.numbers import whole

__all__ = ["ByClock"]

#: How long a round of it may take, in seconds.
_ROUND_S = 3600.0
#: ...and what it turned off to be gone, in seconds.
_ENDS_S = 900.0
#: A write and what was seen of it may be this far apart, in seconds.
_SLACK = timedelta(seconds=60)
#: How long before its hour it is left to itself.
_BEFORE = timedelta(seconds=1)
#: What is awake again sooner was no night.
_NIGHT = timedelta(hours=4)
_SETTLES = "let it sleep until the morning, or say under assume: why it may wake so soon"


class ByClock(IdleWorkload):
    """One drill of a switch that is a workload, and knows its hour itself."""

    remedy = "let it turn off what is on at its hour, whatever it did before"

    @staticmethod
    def drills(layer: Layer) -> bool:
        """A dead-man's switch that is neither a CronJob nor a container."""
        return layer.type is LayerType.DEAD_MAN and layer.workload is not None and layer.container is None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        super().__init__(layer, stage)
        #: When its own pods were seen to change a target.
        self._wrote: list[datetime] = []
        self._looks_at: frozenset[Asked] = frozenset()
        #: Where a model acts for it: the field manager as which that writes.
        self._hand = ""

    def prepare(self) -> None:
        """It must be there, and the clock virtual."""
        if not isinstance(self.stage.cluster.loop, VirtualLoop):
            raise LayerError(
                f"layer {self.layer.name}: {self.ref} acts at an hour of its own, which no drill waits for on a real "
                "cluster. Drill it on the embedded one (--manifests, --exec host), or make it a CronJob"
            )
        own = self._own = self._found()
        self._looks_at = asked(self._texts(own))
        if downtimes.is_sleep_info(own):
            self._hand = downtimes.KUBE_GREEN
        elif downtimes.is_downscaler(own):
            self._hand = downtimes.DOWNSCALER

    @property
    def program(self) -> Obj:
        """The workload's; of one for which a model acts nothing is read."""
        return {} if self._hand else self._own

    def idles_s(self) -> float | None:
        """Not at all; where a model acts for it, it is played once."""
        return None if self._hand else 0.0

    def comes_again(self, after: datetime) -> datetime | None:
        """At the hour of its own clock at which it acted first, on a later day."""
        if self._hand or not self._wrote:
            return None
        told = [*self._texts(self._own), *_environment(self._own)]
        first = self._wrote[0].astimezone(next(iter(zones_named(told)), UTC))
        days = max(0, (after - self._wrote[0]).days - 1)
        while (due := (first + timedelta(days=days)).astimezone(UTC)) <= after:
            days += 1
        return due

    def late_by_s(self) -> float:
        """What its round may take, and its targets to end."""
        return _ROUND_S + _ENDS_S

    def before_trigger(self) -> str | None:
        """Nothing: its hour comes by itself. Where a model acts for it the hour is known, and counts from then."""
        due = self._due_at()
        if due is None:
            return None
        self.stage.slot = due
        self.stage.wait(f"the hour of {self.ref}", lambda: False, (due - self.stage.cluster.loop.now()).total_seconds())
        return f"waited for the hour of {self.ref}, {due + _BEFORE:%Y-%m-%d %H:%M} UTC"

    def _due_at(self) -> datetime | None:
        """Just before its model puts its targets to sleep next; None: a program of its own knows when."""
        own, now = self._found(), self.stage.cluster.loop.now()
        try:
            if self._hand == downtimes.KUBE_GREEN:
                due = downtimes.sleeps_at(own).next(now)
            else:
                due = min(self._downs(own, now), default=None) if self._hand else None
        except ValueError:  # what its model does nothing with
            return None
        return None if due is None or due - _BEFORE <= now else due - _BEFORE

    def _downs(self, own: Obj, now: datetime) -> Iterator[datetime]:
        """When a downscaler takes each target down next, to the minute."""
        kube = self.stage.cluster.kube
        read = downtimes.Downscaler.of(own, kube.list(r.CONFIGMAPS, self.ref.namespace).items)
        for target in self.stage.kill_path.covered_by(self.layer):
            for obj in self.stage.scene.objects_of(target):
                space = kube.find(r.NAMESPACES, namespace_of(obj)) or {"metadata": {}}
                for change in read.changes(obj, space, now) if read.reaches(obj, space) else ():
                    if read.is_down(obj, space, change):
                        minutes = (change.replace(second=0) - timedelta(minutes=back) for back in range(15, -1, -1))
                        yield next(at for at in (*minutes, change) if at > now and read.is_down(obj, space, at))
                        break

    def trigger(self) -> str:
        """Leave it to its clock."""
        self._look_around()
        self._left_at = self.stage.cluster.loop.now()
        return f"nothing is pulled: {self.ref} is left to its own clock, for a day at most"

    def stand_by(self) -> None:
        """Seen by its pods, and by what they write."""
        self.prepare()
        self._look_around()

    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """Its pods; and what they write, as their tokens tell."""
        super().notice(change, old, new)
        if old is None or new.get("kind") not in {one.kind for one in self.stage.kill_path.covered_by(self.layer)}:
            return
        if self._is_ours(new) if self._hand else self._is_of_our_pods(new):
            self._wrote.append(self.stage.cluster.loop.now())

    def _is_of_our_pods(self, obj: Obj) -> bool:
        """Whether one of its pods made the last write of an object, as its token tells."""
        version = whole(dig(obj, "metadata", "resourceVersion"))
        author = None if version is None else self.stage.cluster.author(version)
        return author in {f"Pod/{namespace_of(pod)}/{name_of(pod)}" for pod in self._pods.values()}

    def _is_ours(self, obj: Obj) -> bool:
        """Whether the model of its program wrote how many replicas an object has."""
        if dig(obj, "spec", "replicas") != 0:
            return False
        kube = self.stage.cluster.kube
        where = kube.resource_for(str(obj["apiVersion"]), str(obj["kind"])).path(namespace_of(obj), name_of(obj))
        return writer_of(kube.call("GET", where, query={"managedFields": "true"}).body) == self._hand

    def signs(self, writer: str | None) -> bool:
        """Only the hand of its model, where it has one."""
        return writer in (None, self._hand) if self._hand else super().signs(writer)

    def acted(self, zero_at: datetime) -> str | None:
        """One of its pods wrote it, or the model of its program did."""
        wrote = [at for at in self._wrote if abs(at - zero_at) <= _SLACK]
        return f"{self._hand or 'its own pod'} wrote it, at {wrote[0]:%H:%M} UTC" if wrote else None

    def acts_within_s(self) -> float:
        """A day, and what its round may take."""
        return DAY_S + _ROUND_S

    def explain(self, stuck_at: str) -> Explanation | None:
        """It is not there, or a day has passed and it turned nothing off."""
        if self._wrote:
            return None  # it did, and something else keeps them on
        found = super().explain(stuck_at)
        now = self.stage.cluster.loop.now()
        sleep_info = self._hand == downtimes.KUBE_GREEN
        if found is None or not (sleep_info or any(running_since(pod, now) for pod in self._pods.values())):
            return found
        cause = f"{self.ref} was at work, and turned nothing off in a day and a night"
        remedy = "see which hour it waits for, and what it was answered"
        return Explanation(cause, found.evidence, remedy, (10, 16), lasting=True)

    def flaw(self) -> str | None:
        """It need not wait for anything to idle."""
        return None

    def _came_again(self) -> bool:
        """Whether it turned its targets off on a second day too."""
        return any(at - self._wrote[0] > _NIGHT * 3 for at in self._wrote)

    def untried(self) -> str | None:
        """That days differ, where it looks at more than the hour and no other one was tried."""
        if self._came_again():
            return None
        more = " and ".join(sorted(self._looks_at - {Asked.HOUR}))
        return f"{self.ref} goes by {more}: no other day than this one was seen" if more else None

    def unproven(self) -> str | None:
        """It left its targets on, on a day that may be none of its own."""
        begun, now = self._left_at, self.stage.cluster.loop.now()
        more = " and ".join(sorted(self._looks_at - {Asked.HOUR}))
        if not more or begun is None or (now - begun).total_seconds() < DAY_S or not self._never_off(begun):
            return None
        return f"{self.ref} goes by {more}, and left its targets on today: what it does on another day was not seen"

    def doubts(self) -> Sequence[Entry]:
        """Also that it works once, where no second day was played."""
        alike = f"{self.ref} does the same each day: one was seen"
        if self._hand:
            alike += f". {self._hand} is taken to run, and to wake what slept as it is meant to"
        short = self._wakes_soon()
        soon = [Entry(str(self.ref), Status.NOT_MODELLED, short, _SETTLES)] if short else []
        once = [] if self._came_again() else [Entry(f"layer {self.layer.name}", Status.ASSUMED, alike)]
        return [*super().doubts(), *once, *soon]

    def _wakes_soon(self) -> str | None:
        """That it wakes what it put to sleep within a few hours, in a phrase: a drill plays no waking."""
        if not self._hand or not self._wrote:
            return None
        own, slept = self._found(), self._wrote[-1]
        wakes: list[datetime | None] = []
        if downtimes.is_sleep_info(own):
            wakes = [again.next(slept) for again in [downtimes.wakes_at(own)] if again is not None]
        else:
            held = self.stage.cluster.kube.list(r.CONFIGMAPS, self.ref.namespace).items
            try:
                read = downtimes.Downscaler.of(own, held)
            except ValueError:
                return None  # its model does nothing then
            for target in self.stage.kill_path.covered_by(self.layer):
                for obj in self.stage.scene.objects_of(target):
                    space = self.stage.cluster.kube.find(r.NAMESPACES, namespace_of(obj)) or {"metadata": {}}
                    wakes += list(islice(read.changes(obj, space, slept), 1))
        soon = min((at for at in wakes if at is not None), default=None)
        if soon is None or soon - slept >= _NIGHT:
            return None
        return f"it wakes at {soon:%H:%M} UTC what it put to sleep at {slept:%H:%M}: that is no night"


def _environment(workload: Obj) -> Iterator[str]:
    for container in dig(workload, "spec", "template", "spec", "containers", default=[]):
        yield from (f"{one.get('name')}={one.get('value') or ''}" for one in container.get("env") or ())
