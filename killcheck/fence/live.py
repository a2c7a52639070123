"""Fences on a live cluster: reading what the evaluation needs, and a canary that must stay Pending.

The canary is one pod that asks for more devices than may ever be launched. It is deleted at the first sign that
something launches for it, with the NodeClaim that was made for it, and in any case at its deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from killcheck.clock import Loop
from killcheck.fence.inside import Ask
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Forbidden, KubeError, NotFound
from killcheck.kube.informer import Change, Informer
from killcheck.kube.objects import Obj, dig, labels_of, name_of, uid_of
from killcheck.kube.resources import Resource

__all__ = ["Canary", "CanaryRefused", "CanaryResult", "Ledger", "gather"]

_OVERLAYS = Resource("karpenter.sh", "v1alpha1", "nodeoverlays", "NodeOverlay", False)
_AUTO_CLASSES = Resource("eks.amazonaws.com", "v1", "nodeclasses", "NodeClass", False)
_FLAVORS = Resource("kueue.x-k8s.io", "v1beta1", "resourceflavors", "ResourceFlavor", False)
_QUEUES = Resource("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", False)
_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False)
_MACHINES = tuple(
    Resource(group, version, plural, kind, namespaced) for group, version, plural, kind, namespaced in (
        ("cluster.x-k8s.io", "v1beta1", "machinedeployments", "MachineDeployment", True),
        ("cluster.x-k8s.io", "v1beta1", "machinepools", "MachinePool", True),
        ("cloud.google.com", "v1", "computeclasses", "ComputeClass", False),
        ("container.cnrm.cloud.google.com", "v1beta1", "containernodepools", "ContainerNodePool", True),
        ("containerservice.azure.com", "v1api20240901", "managedclustersagentpools", "ManagedClustersAgentPool", True),
        ("eks.services.k8s.aws", "v1alpha1", "nodegroups", "Nodegroup", True)))

#: What is read whole, and what only by a label (everything of it would be too much).
_WHOLE = (
    r.NODEPOOLS, r.NODECLAIMS, r.EC2NODECLASSES, _OVERLAYS, _AUTO_CLASSES, r.CLUSTERROLES, r.CLUSTERROLEBINDINGS,
    r.RESOURCEQUOTAS, r.LIMITRANGES, _FLAVORS, _QUEUES, _POLICIES, r.NODES, *_MACHINES,
)
_LABELLED = (
    (r.CONFIGMAPS, "killcheck.dev/node-groups=true"), (r.DEPLOYMENTS, "app.kubernetes.io/name=karpenter"),
    (r.SERVICEACCOUNTS, "app.kubernetes.io/name=karpenter"),
)


def gather(kube: Kube) -> list[Obj]:
    """Everything on a cluster that the evaluation looks at; kinds that it does not serve are left out.

    Raises KubeError where something could not be listed: an evaluation without it would not be one.
    """
    found: list[Obj] = []
    for resource, labels in [*((one, "") for one in _WHOLE), *_LABELLED]:
        try:
            found += kube.list(resource, labels=labels).items
        except NotFound:
            continue
    return found


class CanaryRefused(Exception):
    """The canary was not sent out: the evaluation says that it would launch something, or there is nothing to test."""


@dataclass(frozen=True)
class CanaryResult:
    """``held``: it stayed Pending, nothing launched. ``refused``: it was not even admitted, which holds as well.

    ``launched``: something launched for it; the evidence says what. ``unproven``: it could not be watched. ``left``
    says what could not be taken back, which makes the run dirty.
    """

    outcome: Literal["held", "refused", "launched", "unproven"]
    evidence: tuple[str, ...] = ()
    waited_s: float = 0.0
    left: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """Whether the fence held."""
        return self.outcome in ("held", "refused")


class Ledger(Protocol):
    """What writes go through (:class:`killcheck.journal.Journal`): noted before they happen, undone in any case."""

    def create(self, resource: Resource, obj: Obj, what: str = "") -> Obj:
        """Create an object, on record."""

    def undo_all(self) -> tuple[list[str], list[str]]:
        """Put everything back; (what was undone, what could not be)."""


@dataclass
class Canary:
    """``devices`` of ``resource`` are asked for in ``namespace``, for at most ``deadline_s`` seconds.

    ``instances``, where given, answers how many machines the cloud bills: one more of them is a sign, too.
    """

    kube: Kube
    loop: Loop
    namespace: str
    devices: int
    resource: str = "nvidia.com/gpu"
    deadline_s: float = 120.0
    image: str = "registry.k8s.io/pause:3.10"
    instances: Callable[[], int] | None = None
    name: str = "killcheck-canary"

    def manifest(self) -> Obj:
        """The pod: it tolerates every taint, so that only the fence keeps it Pending."""
        count = {self.resource: str(self.devices)}
        return {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.name, "namespace": self.namespace,
                "labels": {"app.kubernetes.io/managed-by": "killcheck", "killcheck.dev/canary": "true"},
            },
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "enableServiceLinks": False,
                "automountServiceAccountToken": False, "tolerations": [{"operator": "Exists"}],
                "activeDeadlineSeconds": int(self.deadline_s) + 60,
                "securityContext": {"runAsNonRoot": True, "runAsUser": 65535, "seccompProfile": {
                    "type": "RuntimeDefault"}},
                "containers": [{
                    "name": "pause", "image": self.image,
                    "resources": {"limits": {"cpu": "10m", "memory": "16Mi", **count}, "requests": {
                        "cpu": "10m", "memory": "16Mi", **count}},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        }

    def fly(self, expected: Ask, ledger: Ledger) -> CanaryResult:
        """Send it out and watch.

        Raises CanaryRefused where ``expected`` says that it would launch; KubeError where the cluster could not be
        asked before the pod was made.
        """
        if expected.outcome == "launches":
            raise CanaryRefused(f"the evaluation says that it would launch: {expected.by}")
        billed = self.instances() if self.instances else 0
        left: list[str] = []
        with self._watching() as watch:
            try:
                result = self._watch(ledger, billed, watch)
            finally:
                try:
                    left += ledger.undo_all()[1]
                finally:
                    left += self._withdraw(watch)
        return replace(result, left=tuple(left))

    # -- inside --------------------------------------------------------------------------------------------
    def _watch(self, ledger: Ledger, billed: int, watch: _Watch) -> CanaryResult:
        try:
            pod = ledger.create(r.PODS, self.manifest(), f"canary that asks for {self.devices} x {self.resource}")
        except Forbidden as error:
            return CanaryResult("refused", (error.message,))
        watch.uid = uid_of(pod)
        began = self.loop.monotonic()
        self.loop.run_until(lambda: bool(self._signs_of(pod, billed, watch)) or watch.broken, self.deadline_s)
        return self._result(pod, billed, watch, self.loop.monotonic() - began)

    def _result(self, pod: Obj, billed: int, watch: _Watch, waited_s: float) -> CanaryResult:
        signs = self._signs_of(pod, billed, watch)
        if signs:
            return CanaryResult("launched", tuple(signs), waited_s)
        if watch.broken:
            return CanaryResult("unproven", (f"the watch broke: {watch.broken_by}",), waited_s)
        if uid_of(pod) not in watch.unschedulable:
            return CanaryResult("unproven", ("the scheduler never said that the pod fits nowhere",), waited_s)
        return CanaryResult("held", (f"Pending for {waited_s:.0f} s, no NodeClaim, no node",), waited_s)

    def _signs_of(self, pod: Obj, billed: int, watch: _Watch) -> list[str]:
        found = list(watch.signs.get(uid_of(pod), ())) + watch.new
        if self.instances and self.instances() > billed:
            found.append("the cloud bills one machine more")
        return found

    def _withdraw(self, watch: _Watch) -> list[str]:
        """Delete the NodeClaims that were made for the canary: they would launch whether it is there or not."""
        left = []
        for name in watch.nominated.get(watch.uid, ()):
            try:
                self.kube.delete(r.NODECLAIMS, name)
            except NotFound:
                continue
            except KubeError as error:
                left.append(f"NodeClaim/{name}, which Karpenter made for the canary: {error}")
        return left

    @contextmanager
    def _watching(self) -> Iterator[_Watch]:
        watch = _Watch(self.kube, self.loop, self.namespace, self.name)
        try:
            yield watch
        finally:
            watch.stop()


class _Watch:
    """The canary's pod and events, and NodeClaims and nodes that appear."""

    def __init__(self, kube: Kube, loop: Loop, namespace: str, name: str) -> None:
        self.signs: dict[str, list[str]] = {}
        self.unschedulable: set[str] = set()
        self.new: list[str] = []
        #: NodeClaims that Karpenter says it made for a pod, by the pod's uid; and the canary's uid.
        self.nominated: dict[str, list[str]] = {}
        self.uid = ""
        self.broken = False
        self.broken_by = ""
        self._ready = False
        fields = f"involvedObject.name={name}"
        self._informers = [
            Informer(kube, loop, r.PODS, namespace=namespace, fields=f"metadata.name={name}", on_change=self._pod,
                     on_broken=self._broke),
            Informer(kube, loop, r.EVENTS, namespace=namespace, fields=fields, on_change=self._event,
                     on_broken=self._broke),
            Informer(kube, loop, r.NODECLAIMS, optional=True, on_change=self._claim, on_broken=self._broke),
            Informer(kube, loop, r.NODES, on_change=self._node, on_broken=self._broke),
        ]
        for informer in self._informers:
            informer.start()
        self._ready = True

    def stop(self) -> None:
        """Close the watches."""
        for informer in self._informers:
            informer.stop()

    def _broke(self, error: KubeError | None) -> None:
        if error is not None:
            self.broken, self.broken_by = True, str(error)

    def _sign(self, uid: str, text: str) -> None:
        if text not in self.signs.setdefault(uid, []):
            self.signs[uid].append(text)

    def _pod(self, change: Change, _old: Obj | None, new: Obj) -> None:
        if change == "deleted":
            return
        if dig(new, "spec", "nodeName"):
            self._sign(uid_of(new), f"it was scheduled to {new['spec']['nodeName']}")
        for entry in dig(new, "status", "conditions", default=()):
            if entry.get("type") == "PodScheduled" and entry.get("reason") == "Unschedulable":
                self.unschedulable.add(uid_of(new))

    def _event(self, _change: Change, _old: Obj | None, new: Obj) -> None:
        uid, reason = str(dig(new, "involvedObject", "uid", default="")), new.get("reason")
        message = str(new.get("message", ""))
        if reason == "TriggeredScaleUp":
            self._sign(uid, message)
        if reason == "Nominated" and "nodeclaim/" in message:
            self._sign(uid, message)
            self.nominated.setdefault(uid, []).append(message.rpartition("nodeclaim/")[2].split(",")[0].strip())

    def _claim(self, change: Change, _old: Obj | None, new: Obj) -> None:
        if change == "added" and self._ready and "karpenter.sh/nodepool" in labels_of(new):
            self.new.append(f"NodeClaim/{name_of(new)} appeared")

    def _node(self, change: Change, _old: Obj | None, new: Obj) -> None:
        if change == "added" and self._ready:
            self.new.append(f"Node/{name_of(new)} appeared")
