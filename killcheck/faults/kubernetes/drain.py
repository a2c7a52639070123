"""The node does not drain: a pod beside the GPUs may not be evicted, the GPU pods stay for long or for ever."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import ClassVar

from killcheck.faults.base import Evidence, Fault, FaultError, Plan, none_asked, none_scaled
from killcheck.faults.kubernetes.helper_pod import Helper, helpers, started
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, KubeError
from killcheck.kube.machineless import HOLLOW
from killcheck.kube.objects import Obj, dig, format_time, labels_of, name_of, namespace_of, parse_time
from killcheck.kube.permissions import Permission
from killcheck.kube.pod_annotations import IGNORES_SIGTERM
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.changes import LABEL, Undo
from killcheck.safety.undo import FINALIZERS, adding
from killcheck.spec.killpath import KillPath, Layer
from killcheck.text.values import replace
from killcheck.watch.scene import event_time, needs_draining

__all__ = ["DoNotDisrupt", "Finalizer", "LongGrace", "PdbBlocks"]

#: How long the pods of a changed target may take to be there again, in seconds.
ROLLOUT_S = 900.0
#: How long after its own grace a pod that is still there has outlasted it, in seconds: a second to be killed, the part
#: of one that a deletionTimestamp does not say, and some.
OUTLASTED_S = 3.0
#: How autoscalers say that they leave a pod and its node alone: Karpenter, the cluster autoscaler.
_LEFT_ALONE = ("DisruptionBlocked", "Unconsolidatable", "FailedDraining", "ScaleDownFailed")
#: Taints that a drain puts on a node: what tolerates them is passed by, and blocks nothing (Karpenter, kubectl cordon,
#: the cluster autoscaler).
_DRAINING = (
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "node.kubernetes.io/unschedulable",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)


def tolerations(node: Obj) -> list[Obj]:
    """What a pod must tolerate to run on a node as it is, and nothing that a drain would put there."""
    return [
        {"key": taint["key"], "operator": "Equal", "value": taint.get("value", ""), "effect": taint["effect"]}
        for taint in dig(node, "spec", "taints", default=[])
        if taint["key"] not in _DRAINING
    ]


class _Bystander(Fault):
    """A small pod of our own on a GPU node, which the drain has to move."""

    family = "drain"
    rank = 0
    annotations: ClassVar[dict[str, str]] = {}
    budget: ClassVar[bool] = False
    shows = Evidence.OTHERS

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A Deployment of one pod in the target's namespace."""
        namespace = self._namespace(stage, layer)
        verbs = [Permission(v, "apps", "deployments", namespace=namespace) for v in ("get", "create", "delete")]
        if self.budget:
            verbs += [
                Permission(v, "policy", "poddisruptionbudgets", namespace=namespace)
                for v in ("get", "create", "delete")
            ]
        return Plan(
            (f"a small pod of our own in {namespace} on a node of the GPU pool: {self.simulates}",),
            namespaces=(namespace,),
            permissions=tuple(verbs),
        )

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where it is asked what becomes of machines."""
        return none_asked(kill_path)

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Create it (and its budget), and wait until it runs."""
        namespace, name = self._namespace(stage, layer), self._name(stage)
        nodes = stage.scene.pool_nodes()
        if not nodes:
            raise FaultError("no node of the GPU pools is there")
        labels = {"killcheck.dev/bystander": name}
        done = []
        if self.budget:
            stage.journal.create(
                r.PDBS,
                {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": labels}},
                },
            )
            done.append(f"created PodDisruptionBudget {namespace}/{name}: maxUnavailable 0")
        tried = helpers(stage, layer, nodes[:1])
        made = partial(self._deployment, namespace, name, labels, nodes[0])
        try:
            started(stage, r.DEPLOYMENTS, made, partial(self._pod, stage), tried)
        except FaultError as error:
            raise FaultError(f"{self.name}: in {namespace} on node {name_of(nodes[0])}: {error}") from error
        return [*done, f"created Deployment {namespace}/{name} on node {name_of(nodes[0])}"]

    def _pod(self, stage: Stage) -> Obj | None:
        """Its pod; of several one that is not on its way out."""
        own = [
            pod
            for pod in stage.scene.pods.values()
            if labels_of(pod).get("killcheck.dev/bystander") == self._name(stage)
        ]
        return min(own, key=lambda pod: "deletionTimestamp" in pod["metadata"], default=None)

    def _deployment(self, namespace: str, name: str, labels: dict[str, str], node: Obj, helper: Helper) -> Obj:
        pod = {
            "nodeSelector": {"kubernetes.io/hostname": labels_of(node).get("kubernetes.io/hostname", name_of(node))},
            "tolerations": tolerations(node),
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "pause",
                    "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": dict(self.annotations)},
                    "spec": helper.fill(pod),
                },
            },
        }

    def _running(self, stage: Stage) -> Obj | None:
        pod = self._pod(stage)
        return pod if pod is not None and dig(pod, "status", "phase") == "Running" else None

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The trigger was pulled, and it was seen that the bystander is left where it is."""
        pod = self._running(stage)
        node = dig(pod, "spec", "nodeName", default="")
        if pod is None or stage.timeline is None:
            return None
        if node not in stage.scene.known_nodes or not needs_draining(pod) or "deletionTimestamp" in pod["metadata"]:
            return None
        why = self._holds(stage, layer, pod)
        return f"pod {namespace_of(pod)}/{name_of(pod)} runs on {node}: {why}" if why else None

    @abstractmethod
    def _holds(self, stage: Stage, layer: LayerRun, pod: Obj) -> str | None:
        """What was seen of its being left where it is; None: nothing yet. Asked at every deadline, too."""

    def _name(self, stage: Stage) -> str:
        return f"killcheck-{self.name}-{stage.run[-6:]}"

    @staticmethod
    def _namespace(stage: Stage, layer: LayerRun) -> str:
        found = [t.namespace for t in stage.kill_path.covered_by(layer.layer) if t.namespace]
        if not found:
            raise FaultError("the layer has no target in a namespace")
        return found[0]


class PdbBlocks(_Bystander):
    """Reproduces row 41: a PodDisruptionBudget that allows nothing."""

    name = "pdb-blocks"
    simulates = "a PodDisruptionBudget forbids to evict a pod that shares the GPU node"
    failures = (41,)
    budget = True

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Besides, one eviction of it is tried, as a dry run."""
        made = super().plan(stage, layer)
        tried = Permission("create", "", "pods", "eviction", self._namespace(stage, layer))
        return replace(made, permissions=(*made.permissions, tried))

    def _holds(self, stage: Stage, layer: LayerRun, pod: Obj) -> str | None:
        """An eviction of it, as a dry run, is refused in the budget's name (registry/core/pod/storage/eviction.go)."""
        if not self._refused:
            try:
                stage.cluster.kube.evict(name_of(pod), namespace_of(pod), dry_run=True)
            except ApiError as error:
                if "disruption budget" in error.message:
                    self._refused = f"to evict it is refused: {error.message}"
            except KubeError:
                return None
        return self._refused

    _refused = ""


class DoNotDisrupt(_Bystander):
    """Reproduces row 43: do-not-disrupt, and for the cluster autoscaler safe-to-evict: false."""

    name = "do-not-disrupt"
    simulates = "a pod that shares the GPU node says do-not-disrupt"
    failures = (43, 46)
    annotations = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}

    def _holds(self, stage: Stage, layer: LayerRun, pod: Obj) -> str | None:
        """Whoever removes nodes says that it is left alone; or its node should have been drained by now, and is not."""
        assert stage.timeline is not None
        about = (name_of(pod), dig(pod, "spec", "nodeName", default=""))
        pulled = format_time(stage.timeline.start)  # before it the node was in use anyway
        for event in stage.scene.events.values():
            if event_time(event) <= pulled:
                continue
            told = f"{dig(event, 'involvedObject', 'name', default='')} {event.get('message')}"
            if event.get("reason") in _LEFT_ALONE and any(name in told for name in about if name):
                return f"{event['reason']}: {event.get('message')}"
        late_s = stage.kill_path.deadlines_for(layer.layer).node_drained_s
        if (stage.cluster.loop.now() - stage.timeline.start).total_seconds() > late_s:
            return f"nobody has moved it within {late_s:.0f} s"
        return None


class Finalizer(Fault):
    """Reproduces row 36: the pods' objects stay, held by somebody who is not there."""

    name = "finalizer"
    simulates = "a finalizer whose owner is gone holds the GPU pods"
    family = "drain"
    failures = (36,)
    shows = Evidence.TARGETS

    MARK = "killcheck.dev/hold"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The GPU pods get a finalizer."""
        places = tuple(sorted({t.namespace for t in stage.kill_path.covered_by(layer.layer) if t.namespace}))
        verbs = tuple(Permission(v, "", "pods", namespace=place) for place in places for v in ("get", "patch"))
        return Plan(
            (f"every GPU pod in {', '.join(places)} gets the finalizer {self.MARK}",),
            namespaces=places,
            permissions=verbs,
            edits=("the GPU pods' finalizers",),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Patch them, one by one."""
        places = {t.namespace for t in stage.kill_path.covered_by(layer.layer)}
        done = []
        for held in stage.scene.gpu_pods():
            if held.namespace not in places:
                continue
            what = f"finalizer {self.MARK} on pod {held.namespace}/{held.name}"
            stage.journal.merge(r.PODS, held.name, held.namespace, adding(self.MARK, *FINALIZERS), what, transient=True)
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A pod is Terminating, and our finalizer is on it."""
        for held in stage.scene.gpu_pods():
            pod = stage.scene.pods.get(held.name, held.namespace)
            if pod is not None and held.terminating and self.MARK in dig(pod, "metadata", "finalizers", default=[]):
                return f"{held}: finalizers {dig(pod, 'metadata', 'finalizers')}"
        return None


#: What keeps the templates that a target has had, by the target's plural.
_REVISIONS = {"deployments": r.REPLICASETS, "statefulsets": r.CONTROLLERREVISIONS}


class LongGrace(Fault):
    """Reproduces rows 35 and 36: a grace that outlasts the deadline, and a server that uses it up.

    The target's template is changed, so its pods start anew before the drill: a server that stops at SIGTERM does not
    let this fault bite.
    """

    name = "long-grace"
    simulates = "the target's pods have a termination grace beyond the deadline"
    family = "drain"
    failures = (35, 36)
    shows = Evidence.TARGETS

    costs = "the target's pods start anew, before and after"
    rank = 0

    #: How much longer than the deadline the grace is, in seconds.
    beyond_s: ClassVar[int] = 180

    @classmethod
    def _grace_s(cls, stage: Stage, layer: LayerRun) -> int:
        return int(stage.kill_path.deadlines_for(layer.layer).pods_gone_s) + cls.beyond_s

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where a template makes the pods that can be changed."""
        return none_scaled(kill_path, layer)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The targets' templates are edited: their pods start anew."""
        found = self._targets(stage, layer)
        if not found:
            raise FaultError("none of the layer's targets is a Deployment or StatefulSet")
        graces = self._own_graces(stage, layer)
        if graces and min(graces.values()) >= self._grace_s(stage, layer):
            raise FaultError(f"the targets' own grace ({min(graces.values())} s) outlasts the deadline already")
        verbs = [
            Permission(v, "apps", kind, "", namespace, name)
            for kind, namespace, name in found
            for v in ("get", "patch")
        ]
        verbs += [
            Permission(v, "apps", _REVISIONS[kind].plural, namespace=namespace)
            for kind, namespace, _ in found
            for v in ("get", "list", "delete")
        ]
        grace_s = self._grace_s(stage, layer)
        return Plan(
            tuple(
                f"{kind} {namespace}/{name}: terminationGracePeriodSeconds {grace_s}; its pods start anew twice"
                for kind, namespace, name in found
            ),
            namespaces=tuple(sorted({namespace for _, namespace, _ in found})),
            permissions=tuple(verbs),
            edits=tuple(f"{kind} {namespace}/{name}.spec.template" for kind, namespace, name in found),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Patch the templates and wait for the new pods."""
        done = []
        grace_s = self._grace_s(stage, layer)
        self._before_s = max(self._own_graces(stage, layer).values(), default=30)
        for kind, namespace, name in self._targets(stage, layer):
            resource = r.DEPLOYMENTS if kind == "deployments" else r.STATEFULSETS
            what = f"{kind} {namespace}/{name}: grace {grace_s} s"
            revisions = _REVISIONS[kind]  # the changed template leaves one behind: it goes last
            sweep = Undo(
                "sweep",
                revisions.path(namespace),
                manual=f"kubectl delete {revisions.plural} -n {namespace} -l {LABEL}={stage.run}",
            )
            with stage.journal.change(f"revision of {namespace}/{name} with the changed template", sweep):
                pass
            # Hollow servers handle SIGTERM unless they are told not to, on whatever cluster they are.
            notes = {IGNORES_SIGTERM: "true"} if self._hollow(stage) else {}
            template = {
                "spec": {"terminationGracePeriodSeconds": grace_s},
                "metadata": {"labels": {LABEL: stage.run}} | ({"annotations": notes} if notes else {}),
            }
            stage.journal.merge(resource, name, namespace, {"spec": {"template": template}}, what)
            done.append(what)
        if not stage.wait("the targets' pods to start anew", lambda: self._anew(stage, layer, grace_s), ROLLOUT_S):
            raise FaultError(
                f"{self.name}: the targets' pods did not start anew within {ROLLOUT_S:.0f} s (a rolling "
                "update starts the new pod first: its GPUs must be free, or the strategy Recreate)"
            )
        return done

    @staticmethod
    def _hollow(stage: Stage) -> bool:
        """Whether nobody's server runs in the pods: each is on a node that says of itself that it is hollow."""
        nodes = [stage.scene.nodes.get(pod.node) for pod in stage.scene.gpu_pods()]
        return stage.cluster.capabilities.nodes is not None or (
            bool(nodes) and all(node is not None and _says_hollow(node) for node in nodes)
        )

    @classmethod
    def _own_graces(cls, stage: Stage, layer: LayerRun) -> dict[str, int]:
        """The graces of the targets' templates in seconds, by namespace and name."""
        found = {}
        for kind, namespace, name in cls._targets(stage, layer):
            resource = r.DEPLOYMENTS if kind == "deployments" else r.STATEFULSETS
            obj = stage.cluster.kube.find(resource, name, namespace) or {}
            path = ("spec", "template", "spec", "terminationGracePeriodSeconds")
            found[f"{namespace}/{name}"] = int(dig(obj, *path, default=30))
        return found

    @classmethod
    def _anew(cls, stage: Stage, layer: LayerRun, grace_s: int) -> bool:
        roots = {
            ("Deployment" if kind == "deployments" else "StatefulSet", name)
            for kind, _, name in cls._targets(stage, layer)
        }
        held = [stage.scene.pods.get(held.name, held.namespace) for held in stage.scene.gpu_pods()]
        pods = [pod for pod in held if pod is not None and stage.scene.root_owner(pod) in roots]
        return bool(pods) and all(
            dig(pod, "spec", "terminationGracePeriodSeconds") == grace_s and dig(pod, "status", "phase") == "Running"
            for pod in pods
        )

    @staticmethod
    def _targets(stage: Stage, layer: LayerRun) -> list[tuple[str, str, str]]:
        kinds = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
        return [
            (kinds[t.kind], t.namespace, t.object)
            for t in stage.kill_path.covered_by(layer.layer)
            if t.kind in kinds and t.object
        ]

    _before_s = 30
    _looks = False

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A pod uses that grace: it is still there when its own would have been over (a server may stop at SIGTERM)."""
        grace_s, now = self._grace_s(stage, layer), stage.cluster.loop.now()
        for held in stage.scene.gpu_pods():
            pod = stage.scene.pods.get(held.name, held.namespace)
            if pod is None or not held.terminating or dig(pod, "metadata", "deletionGracePeriodSeconds") != grace_s:
                continue
            told = self._told(pod, grace_s)
            if now > told + timedelta(seconds=self._before_s + OUTLASTED_S):
                return (
                    f"{held}: told to go {(now - told).total_seconds():.0f} s ago (its own grace is "
                    f"{self._before_s} s), deletionGracePeriodSeconds {grace_s}"
                )
        return None

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Look again when its own grace would have been over: that shows in no change."""
        going = [stage.scene.pods.get(held.name, held.namespace) for held in stage.scene.gpu_pods() if held.terminating]
        told = [self._told(pod, self._grace_s(stage, layer)) for pod in going if pod is not None]
        if self._looks or not told:
            return None
        self._looks = True
        due = min(told) + timedelta(seconds=self._before_s + OUTLASTED_S + 0.1)
        return max(0.0, (due - stage.cluster.loop.now()).total_seconds())

    @staticmethod
    def _told(pod: Obj, grace_s: int) -> datetime:
        """When a pod that is Terminating was told to go."""
        return parse_time(pod["metadata"]["deletionTimestamp"]) - timedelta(seconds=grace_s)


def _says_hollow(node: Obj) -> bool:
    taints = dig(node, "spec", "taints", default=[])
    return HOLLOW in labels_of(node) or any(taint.get("key") == HOLLOW for taint in taints)
