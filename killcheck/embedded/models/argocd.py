"""Argo CD's self-heal: an Application that puts its resources back to what Git says.

Git is modelled by what its resources were when the Application first saw them: objects that carry its tracking label
``app.kubernetes.io/instance``. ``ignoreDifferences`` on ``/spec/replicas`` alone does not stop a sync (argo-cd#8207):
only with the sync option ``RespectIgnoreDifferences=true`` is the field left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller
from killcheck.kube import resources as r
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of

__all__ = ["ArgoCd"]

TRACKING = "app.kubernetes.io/instance"
#: argocd-application-controller's default --self-heal-timeout-seconds.
SELF_HEAL_S = 5.0


@dataclass
class ArgoCd(Controller):
    """argocd-application-controller: replicas of Deployments and StatefulSets only."""

    name: ClassVar[str] = "argocd-application-controller"
    _git: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def setup(self) -> None:
        """Follow Applications and what they track."""
        self.applications = self.follow(r.APPLICATIONS, self._tracked, optional=True)
        self.deployments = self.follow(r.DEPLOYMENTS, self._self)
        self.statefulsets = self.follow(r.STATEFULSETS, self._self)

    def _self(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        if TRACKING not in labels_of(new):
            return []
        identity = (new["kind"], namespace_of(new), name_of(new))
        self._git.setdefault(identity, int(dig(new, "spec", "replicas", default=0)))
        return [(f"{new['kind']}/{namespace_of(new)}", name_of(new))]

    def _tracked(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        return [(f"{kind}/{namespace}", name) for kind, namespace, name in self._git]

    def reconcile(self, key: tuple[str, str]) -> None:
        """Compare one tracked workload with Git."""
        kind, _, namespace = key[0].partition("/")
        informer = self.deployments if kind == "Deployment" else self.statefulsets
        live = informer.get(key[1], namespace)
        application = self._owner(live) if live else None
        if live is None or application is None or not _heals(application):
            return
        wanted = self._git[(kind, namespace, key[1])]
        if dig(live, "spec", "replicas", default=0) == wanted:
            return
        due = (key, "heal")
        if due not in self._due:
            self._due.add(due)
            self.queue.add(key, SELF_HEAL_S)
            return
        self._due.discard(due)
        resource = r.DEPLOYMENTS if kind == "Deployment" else r.STATEFULSETS
        self.kube.patch(resource, key[1], {"spec": {"replicas": wanted}}, namespace)
        self.events.emit(application, "Normal", "OperationStarted", "Initiated automated sync to '' (self-heal)")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._due: set[tuple[tuple[str, str], str]] = set()

    def _owner(self, live: Obj) -> Obj | None:
        name = labels_of(live).get(TRACKING)
        return next((a for a in self.applications.values() if name_of(a) == name), None)


def _heals(application: Obj) -> bool:
    if not dig(application, "spec", "syncPolicy", "automated", "selfHeal", default=False):
        return False
    ignored = any(
        "/spec/replicas" in (entry.get("jsonPointers") or [])
        for entry in dig(application, "spec", "ignoreDifferences", default=[])
    )
    options = dig(application, "spec", "syncPolicy", "syncOptions", default=[])
    return not (ignored and "RespectIgnoreDifferences=true" in options)
