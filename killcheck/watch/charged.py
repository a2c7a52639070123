"""Whose GPU-hours a drill's were: by the labels of who held them, with what idled after them, and what they fetched.

A node's time is its holders', by their devices. While nobody holds any of it, it idles on the account of who held it
last, or first. Devices that stay free beside a holder are nobody's. What a pod fetches at each start is what it says
of itself (``killcheck.dev/downloads``): traffic is not measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from msgspec import Struct, field

from killcheck.entries import Becomes, leaves
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import annotations_of, labels_of, uid_of
from killcheck.kube.quantities import QuantityError, parse
from killcheck.spec.chargeback import DOWNLOADS, Chargeback, owner_labels
from killcheck.watch.cost import Counted
from killcheck.watch.scene import GpuPod, Scene

__all__ = ["Charged", "Charging", "Holder"]

_GIB = 2.0**30
#: Bytes: no start fetches more than an exbibyte.
_MOST = 2**60


class Holder(Struct, frozen=True):
    """Who is charged: ``labels`` as sorted pairs; without a workload it is nobody."""

    namespace: str = ""
    workload: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class _Held(Struct):
    """One pod's devices on one node, from ``since`` until it let go (None: not yet)."""

    holder: Holder
    node: str
    devices: int
    since: datetime
    until: datetime | None = None


class _Spent(Struct):
    """GPU-hours, those of them in which nothing was held, dollars (None: a price is not known)."""

    gpu_hours: float = 0.0
    idle_gpu_hours: float = 0.0
    usd: float | None = 0.0


class Charged(Struct):
    """What is held, by pod's uid, since the steady state."""

    _pods: dict[str, _Held] = field(default_factory=dict)
    #: GiB that were fetched by starts after the trigger, by pod's uid.
    _fetched: dict[str, float] = field(default_factory=dict)

    @property
    def known(self) -> frozenset[str]:
        """The pods that were seen to hold devices."""
        return frozenset(self._pods)

    def hold(self, uid: str, holder: Holder, node: str, devices: int, now: datetime) -> None:
        """A pod that is on a node from now on, if it is new."""
        self._pods.setdefault(uid, _Held(holder, node, devices, now))

    @leaves("spot", "traffic out of the cloud, but what pods say that each start fetches", Becomes.UNSEEN)
    def fetch(self, uid: str, said: str) -> None:
        """A pod starts that fetches so much; what is no amount of bytes is nothing that anybody said."""
        try:
            fetched = parse(said)
        except QuantityError:
            return
        if 0 <= fetched <= _MOST:
            self._fetched.setdefault(uid, float(fetched) / _GIB)

    def only(self, uids: Iterable[str], now: datetime) -> None:
        """Every other pod has let go."""
        there = set(uids)
        for uid, held in self._pods.items():
            if held.until is None and uid not in there:
                held.until = now

    def bill(self, nodes: Iterable[Counted], now: datetime, usd_per_gib: float | None) -> dict[str, Any]:
        """``by``: a row each, the dearest first; ``egress_gib`` and ``egress_usd`` where a pod said what it fetches."""
        spent: defaultdict[Holder, _Spent] = defaultdict(_Spent)
        for node in nodes:
            for holder, hours, idle in self._node(node, now):
                one = spent[holder]
                one.gpu_hours += hours
                one.idle_gpu_hours += hours if idle else 0.0
                known = one.usd is not None and node.usd_per_hour is not None and node.devices
                one.usd = one.usd + hours * node.usd_per_hour / node.devices if known else None  # type: ignore[operator]
        rows = [
            {
                "namespace": holder.namespace,
                "workload": holder.workload,
                "labels": dict(holder.labels),
                "gpu_hours": round(one.gpu_hours, 4),
                "idle_gpu_hours": round(one.idle_gpu_hours, 4),
                "usd": None if one.usd is None else round(one.usd, 4),
            }
            for holder, one in sorted(spent.items(), key=lambda kept: (-kept[1].gpu_hours, kept[0].workload))
            if one.gpu_hours
        ]
        gib = sum(self._fetched.values())
        fetched = {"egress_gib": round(gib, 3)} if self._fetched else {}
        priced = {"egress_usd": round(gib * usd_per_gib, 4)} if self._fetched and usd_per_gib is not None else {}
        return ({"by": rows} if self._pods else {}) | fetched | priced

    def _node(self, node: Counted, now: datetime) -> Iterator[tuple[Holder, float, bool]]:
        """(who, GPU-hours, whether they idled) of one node's time, piece by piece."""
        pods = sorted((held for held in self._pods.values() if held.node == node.name), key=lambda held: held.since)
        until = min(node.until or now, now)
        inside = {
            moment for held in pods for moment in (held.since, held.until) if moment and node.since < moment < until
        }
        moments = [node.since, *sorted(inside), until]
        before = pods[:1]
        for since, end in pairwise(moments):
            hours = max(0.0, (end - since).total_seconds() / 3600.0)
            holding = [held for held in pods if held.since <= since and (held.until is None or held.until >= end)]
            if holding:
                yield from ((held.holder, held.devices * hours, False) for held in holding)
                yield Holder(), max(0, node.devices - sum(held.devices for held in holding)) * hours, False
                before = holding
            else:
                among = sum(held.devices for held in before)
                for held in before:
                    yield held.holder, node.devices * hours * held.devices / among, True
                if not before:
                    yield Holder(), node.devices * hours, True


class Charging(Struct):
    """Sees to it that every holder of GPUs in a scene is charged; ``said`` by the spec."""

    scene: Scene
    said: Chargeback | None
    charged: Charged = field(default_factory=Charged)
    #: A namespace's labels; none where they may not be read.
    _spaces: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def look(self, now: datetime, *, started: bool) -> None:
        """Who holds what now. ``started``: pods that are new have started since the trigger."""
        pods = {pod.uid: pod for pod in self.scene.gpu_pods()}
        for uid in pods.keys() - self.charged.known:
            self._new(pods[uid], now, started=started)
        self.charged.only(pods, now)

    def bill(self, nodes: Iterable[Counted], now: datetime) -> dict[str, Any]:
        """See :meth:`Charged.bill`."""
        return self.charged.bill(nodes, now, self.said.egress_usd_per_gib if self.said else None)

    def _new(self, pod: GpuPod, now: datetime, *, started: bool) -> None:
        obj = self.scene.pods.get(pod.name, pod.namespace)
        if obj is None or uid_of(obj) != pod.uid:
            return
        targets = [t for t in self.scene.kill_path.targets if t.kind and self.scene.is_of(t, obj)]
        above = [labels_of(one) for target in targets for one in self.scene.objects_of(target)[:1]]
        labels = owner_labels(self.said, [labels_of(obj), *above, self._space(pod.namespace)])
        kind, name = self.scene.line_of(obj)[-1]
        holder = Holder(pod.namespace, f"{kind}/{name}", tuple(labels.items()))
        self.charged.hold(pod.uid, holder, pod.node, pod.devices, now)
        if started and DOWNLOADS in annotations_of(obj):
            self.charged.fetch(pod.uid, annotations_of(obj)[DOWNLOADS])

    def _space(self, name: str) -> Mapping[str, str]:
        if name not in self._spaces:
            try:
                self._spaces[name] = labels_of(self.scene.cluster.kube.find(r.NAMESPACES, name) or {})
            except KubeError:
                self._spaces[name] = {}
        return self._spaces[name]
