"""Models of what puts workloads to sleep by the clock: kube-green's controller, and the kube-downscalers.

What they say themselves is :mod:`killcheck.kube.downtimes`'. Each writes as itself: a downscaler with the rights of its
own pod's account. Left out: waking again, which is for the morning; what they suspend besides (CronJobs, patches).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from killcheck.clock import Timer
from killcheck.embedded.controllers.runtime import Component
from killcheck.kube import downtimes
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError
from killcheck.kube.informer import Change, Informer
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, parse_time
from killcheck.kube.resources import Resource

__all__ = ["SLEEP_INFOS", "KubeDownscaler", "KubeGreen"]

SLEEP_INFOS = Resource("kube-green.com", "v1alpha1", "sleepinfos", "SleepInfo")
_SCALED = (r.DEPLOYMENTS, r.STATEFULSETS)


@dataclass(eq=False, repr=False)
class _Sleeper(Component):
    """What both do: look at workloads, and take replicas away."""

    _timers: dict[str, Timer] = field(default_factory=dict)

    def _follow_workloads(self) -> None:
        self._workloads = {one: self.listen(one, lambda *_: None) for one in _SCALED}

    def _put_down(self, resource: Resource, obj: Obj, replicas: int) -> None:
        if int(dig(obj, "spec", "replicas", default=1)) <= replicas:
            return
        try:
            self.kube.patch(resource, name_of(obj), {"spec": {"replicas": replicas}}, namespace_of(obj))
        except ApiError as error:
            self.events.emit(obj, "Warning", "ScaleDownFailed", error.message)

    def stop(self) -> None:
        """Not to look again."""
        super().stop()
        for timer in self._timers.values():
            timer.cancel()


@dataclass(eq=False, repr=False)
class KubeGreen(_Sleeper):
    """kube-green's controller: at each SleepInfo's hour, what it names in its namespace."""

    name: ClassVar[str] = downtimes.KUBE_GREEN
    _workloads: dict[Resource, Informer] = field(default_factory=dict)

    def setup(self) -> None:
        """Follow SleepInfos, and what they may name."""
        self._follow_workloads()
        self.listen(SLEEP_INFOS, self._changed, optional=True)

    def _changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        key = f"{namespace_of(new)}/{name_of(new)}"
        if key in self._timers:
            self._timers.pop(key).cancel()
        if change != "deleted":
            self._next(key, new)

    def _next(self, key: str, sleep_info: Obj) -> None:
        try:
            due = downtimes.sleeps_at(sleep_info).next(self.loop.now())
        except ValueError:
            return  # its webhook refuses it, and the controller does nothing
        if due is not None:
            self._timers[key] = self.loop.call_at_time(due, self._sleep, key, sleep_info)

    def _sleep(self, key: str, sleep_info: Obj) -> None:
        for resource, informer in self._workloads.items():
            for obj in informer.values():
                if downtimes.puts_to_sleep(sleep_info, obj):
                    self._put_down(resource, obj, 0)
        self._next(key, sleep_info)


@dataclass(eq=False, repr=False)
class KubeDownscaler(_Sleeper):
    """The kube-downscalers: each Deployment of one looks around at its interval, while a pod of it is ready."""

    name: ClassVar[str] = downtimes.DOWNSCALER
    _workloads: dict[Resource, Informer] = field(default_factory=dict)

    def setup(self) -> None:
        """Follow Deployments: one of them may be a downscaler."""
        self._follow_workloads()
        self._namespaces = self.listen(r.NAMESPACES, lambda *_: None)
        self.listen(r.DEPLOYMENTS, self._changed)

    def _changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        key = f"{namespace_of(new)}/{name_of(new)}"
        if change == "added" and key not in self._timers and downtimes.is_downscaler(new):
            self._timers[key] = self.loop.call_later(1.0, self._look, key)

    def _look(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        own = self._workloads[r.DEPLOYMENTS].get(name, namespace)
        if own is None:
            self._timers.pop(key, None)
            return
        try:
            read = downtimes.Downscaler.of(own, self.kube.list(r.CONFIGMAPS, namespace).items)
        except ValueError:
            return
        if dig(own, "status", "readyReplicas") and not read.dry_run:
            self._scale(read, own)
        # A minute is enough: nothing that it goes by is finer.
        self._timers[key] = self.loop.call_later(max(60.0, read.interval_s), self._look, key)

    def _may(self, own: Obj, resource: Resource, namespace: str) -> bool:
        """Whether the account of its pod may write there (pykube's ``update`` is a patch)."""
        account = dig(own, "spec", "template", "spec", "serviceAccountName") or "default"
        user = f"system:serviceaccount:{namespace_of(own)}:{account}"
        asked = {"resourceAttributes": {"verb": "patch", "group": resource.group, "resource": resource.plural}}
        asked["resourceAttributes"]["namespace"] = namespace
        body: Obj = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        said = self.kube.create(r.ACCESSREVIEWS, body | {"spec": {"user": user, **asked}})
        return bool(dig(said, "status", "allowed"))

    def _scale(self, read: downtimes.Downscaler, own: Obj) -> None:
        now = self.loop.now()
        for resource, informer in self._workloads.items():
            for obj in informer.values():
                space = self._namespaces.get(namespace_of(obj)) or {"metadata": {}}
                young = now - parse_time(obj["metadata"]["creationTimestamp"]) < timedelta(seconds=read.grace_s)
                if young or not read.reaches(obj, space):
                    continue
                try:
                    if read.is_down(obj, space, now) and self._may(own, resource, namespace_of(obj)):
                        self._put_down(resource, obj, read.replicas_of(obj, space))
                except ValueError:
                    continue  # it writes so into its log, and leaves the object alone
