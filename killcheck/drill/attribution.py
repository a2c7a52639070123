"""Who turned it off: this drill's own doing, another layer of the spec, or a hand that cannot be told.

Every layer that shares a target with the drilled one stands by and watches; each says for itself whether the moment
of the zero falls into something it was seen to do. What may *not* live here: guesses. Two claims, or none, are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from killcheck import layers
from killcheck.kube.errors import KubeError
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, uid_of
from killcheck.kube.workloads import devices_of
from killcheck.layers.base import LayerError, LayerRun, Observations, Stage
from killcheck.spec.killpath import KillPath, Layer
from killcheck.text.numbers import whole
from killcheck.text.values import replace
from killcheck.witnesses.panel import Unproven

__all__ = ["Attribution", "Bystanders", "author"]


class Attribution(Struct, frozen=True):
    """Whose it was. ``layer`` empty: cannot be told, and ``evidence`` says why."""

    layer: str
    evidence: str


class Bystanders:
    """The other layers of a kill path during a drill, each watching whether it acts by itself."""

    def __init__(self, kill_path: KillPath, drilled: Layer, stage: Stage) -> None:
        self.drilled = drilled
        self.stage = stage
        #: Resource version of the write that turned each target off, by kind and uid.
        self.off_at: dict[str, int] = {}
        #: Whose pod last wrote how many replicas a target has, by its uid, where that is known.
        self.scaled_by: dict[str, str] = {}
        #: When a template was seen to ask for no GPU any more, by uid: its pods go later, one by one perhaps.
        self._taken_out: dict[str, datetime] = {}
        self._kinds = {target.kind for target in kill_path.covered_by(drilled)}
        self.runs: dict[str, LayerRun] = {}
        #: One sentence for each layer whose doing cannot be seen here.
        self.blind: list[str] = []
        for layer in kill_path.layers:
            if layer.name == drilled.name or not set(layer.covers) & set(drilled.covers):
                continue
            try:
                run = layers.of(layer, replace(stage, rewrites=[], observations=Observations(), timeline=None))
                run.stand_by()
            except (LayerError, KubeError) as error:
                self.blind.append(f"whether {layer.name} acts cannot be seen: {error}")
                continue
            self.runs[layer.name] = run

    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """A difference in the scene, for each of them."""
        of_target = new.get("kind") in self._kinds
        if of_target and old is not None and dig(old, "spec", "replicas") != dig(new, "spec", "replicas"):
            self._scaled(new)
        if of_target and old is not None and _is_leaving(new) and not _is_leaving(old):
            self._write_off(new)
        elif of_target and (change == "deleted" or _went_off(old, new)):
            if not (change == "deleted" and _is_leaving(new) and uid_of(new) in self.off_at):
                self._write_off(new)  # of one that was told to go, the last write is the garbage collector's
            self._taken_out[uid_of(new)] = self.stage.cluster.loop.now()
        elif of_target and _went_off(new, old):
            self._taken_out.pop(uid_of(new), None)
        for run in self.runs.values():
            run.notice(change, old, new)

    def _write_off(self, obj: Obj) -> None:
        self.off_at[uid_of(obj)] = _version(obj)

    def _scaled(self, obj: Obj) -> None:
        self.scaled_by.pop(uid_of(obj), None)
        who = author(self.stage, _version(obj))
        if who is not None:
            self.scaled_by[uid_of(obj)] = who

    def taken_out_at(self, objects: Sequence[Obj]) -> datetime | None:
        """When the last of some objects was seen to ask for no GPU any more; None where one of them still does."""
        times = [self._taken_out.get(uid_of(obj)) for obj in objects]
        known = [at for at in times if at is not None]
        return max(known) if known and len(known) == len(times) else None

    def refuse_own_answers(self, since: datetime, *, own: bool) -> None:
        """Raises Unproven where a zero rests on what only this cluster says; arguments as of :meth:`own_answers`."""
        met = self.own_answers(since, own=own)
        if met:
            raise Unproven(f"the GPUs went off, and that rests on {'; '.join(met)}")

    def own_answers(self, since: datetime, *, own: bool = False) -> Sequence[str]:
        """What executors were told since then that only this cluster says, before all targets had been turned off.

        What came after zero was written would not have kept anything on. ``own``: by the drilled layer's pods alone,
        where it runs a Job, whose they are.
        """
        reached = self.stage.timeline.reached if self.stage.timeline is not None else {}
        off = "scale_written" in reached or "pods_gone" in reached
        pods = [f"Pod/{namespace_of(pod)}/{name_of(pod)}" for pod in self.stage.observations.pods.values()]
        return self.stage.cluster.limits(
            since, max(self.off_at.values(), default=None) if off else None, pods if own and pods else None
        )

    def judge(self, own: LayerRun, zero_at: datetime, writer: str | None, *, altered: bool) -> Attribution:
        """Whose zero it was, written at ``zero_at`` by field manager ``writer``.

        ``altered``: a fault changed only the drill's own copy of the executor, so that a firing of the layer's own
        schedule went undisturbed and says nothing about the fault.
        """
        claims: dict[str, str | None] = {}
        timeline = self.stage.timeline
        since = timeline.start if self.stage.sabotaged and timeline is not None else None
        if own.signs(writer):
            claims[self.drilled.name] = own.acted(zero_at) or (None if altered else own.also_acted(zero_at, since))
        for name, run in self.runs.items():
            if run.signs(writer):
                claims[name] = run.acted(zero_at) or run.also_acted(zero_at, since)
        shown = {name: evidence for name, evidence in claims.items() if evidence}
        if len(shown) == 1:
            ((name, evidence),) = shown.items()
            return Attribution(name, evidence)
        if shown:
            return Attribution(
                "",
                "the GPUs went off while more than one layer was at it: "
                + "; ".join(f"{name}: {evidence}" for name, evidence in shown.items()),
            )
        wrote = None if shown else self._by_author({self.drilled.name: own, **self.runs}, zero_at)
        if wrote is not None:
            return wrote
        if altered and own.also_acted(zero_at):
            return Attribution(
                "", f"{own.also_acted(zero_at)} - which the fault, set on this drill's own Job, did not reach"
            )
        for run in (own, *self.runs.values()) if since is not None else ():
            if run.signs(writer) and (early := run.also_acted(zero_at)):
                return Attribution("", f"{early} - which had begun before the faults were there")
        hand = f" (field manager {writer})" if writer else ""
        who = " or ".join([self.drilled.name, *self.runs])
        return Attribution("", f"the GPUs went off{hand}, but nothing shows that {who} did it")

    def _by_author(self, runs: Mapping[str, LayerRun], zero_at: datetime) -> Attribution | None:
        """The layer whose pods made every write that turned a target off, however they ended; None: nobody's known."""
        authors = {self.stage.cluster.author(version) for version in self.off_at.values()}
        authors = authors or self._ended_machines(zero_at)
        for name, run in runs.items() if authors else ():
            own = run.stage.observations.pods.values()
            if authors <= {f"Pod/{namespace_of(pod)}/{name_of(pod)}" for pod in own}:
                wrote = ", ".join(sorted(map(str, authors)))
                did = "wrote it ({}), and had not ended well when they were off" if self.off_at else "ended it ({})"
                return Attribution(name, f"its executor {did.format(wrote)}")
        return None

    def _ended_machines(self, zero_at: datetime) -> set[str | None]:
        """Who ended machines with GPUs between the trigger and the zero, where no target was written to."""
        cloud, timeline = self.stage.cluster.capabilities.cloud, self.stage.timeline
        if cloud is None or timeline is None:
            return set()
        gone = (one for one in cloud.instances.values() if one.type.devices and one.terminated_by)
        return {one.terminated_by for one in gone if one.ended is not None and timeline.start <= one.ended <= zero_at}


def author(stage: Stage, version: int) -> str | None:
    """Whose pod made a write, where requests are known by their tokens; None: unknown."""
    kind, _, place = (stage.cluster.author(version) or "").partition("/")
    namespace, _, name = place.partition("/")
    pod = stage.scene.pods.get(name, namespace) if kind == "Pod" else None
    if pod is None:
        return None
    kind, name = stage.scene.root_owner(pod)
    return f"{kind} {namespace}/{name}"


def _version(obj: Obj) -> int:
    return whole(obj["metadata"].get("resourceVersion")) or 0


def _is_leaving(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _went_off(old: Obj | None, new: Obj | None) -> bool:
    """Whether a change took an object's replicas to zero, or the GPUs out of all that it runs."""
    if old is None or new is None or old.get("spec") == new.get("spec"):
        return False
    scaled = bool(dig(old, "spec", "replicas")) and dig(new, "spec", "replicas") == 0
    return scaled or (_asks(old) and not _asks(new))


def _asks(obj: Obj) -> bool:
    return devices_of(obj) > 0
