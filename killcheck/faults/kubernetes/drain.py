"""The node does not drain: a pod beside the GPUs may not be evicted, the GPU pods stay for long or for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from killcheck.faults.base import Fault, FaultError, Plan, none_rented, none_scaled
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import FINALIZERS, LABEL, Undo, adding
from killcheck.spec.killpath import KillPath, Layer
from killcheck.watch.scene import needs_draining

__all__ = ["DoNotDisrupt", "Finalizer", "LongGrace", "PdbBlocks"]

#: An image that runs everywhere, does nothing, and is on every node already.
PAUSE = "registry.k8s.io/pause:3.10"
#: How long the pods of a changed target may take to be there again, in seconds.
ROLLOUT_S = 900.0


class _Bystander(Fault):
    """A small pod of our own on a GPU node, which the drain has to move."""

    family = "drain"
    rank = 0
    annotations: ClassVar[dict[str, str]] = {}
    budget: ClassVar[bool] = False

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

    def pointless(self, kill_path: KillPath, layer: Layer) -> str:
        """Only where machines come and go."""
        return none_rented(kill_path)

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
        stage.journal.create(r.DEPLOYMENTS, self._deployment(namespace, name, labels, name_of(nodes[0])))
        stage.cluster.loop.run_until(lambda: bool(self._running(stage)), ROLLOUT_S)
        return [*done, f"created Deployment {namespace}/{name} on node {name_of(nodes[0])}"]

    def _deployment(self, namespace: str, name: str, labels: dict[str, str], node: str) -> Obj:
        pod = {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "pause",
                    "image": PAUSE,
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
                "template": {"metadata": {"labels": labels, "annotations": dict(self.annotations)}, "spec": pod},
            },
        }

    def _running(self, stage: Stage) -> Obj | None:
        return next(
            (
                pod
                for pod in stage.scene.pods.values()
                if labels_of(pod).get("killcheck.dev/bystander") == self._name(stage)
                and dig(pod, "status", "phase") == "Running"
            ),
            None,
        )

    def bitten(self, stage: Stage, layer: LayerRun) -> str:
        """The bystander runs on a GPU node and keeps it, when the GPU pods have gone."""
        pod = self._running(stage)
        node = dig(pod, "spec", "nodeName", default="")
        if pod is None or node not in stage.scene.known_nodes or not needs_draining(pod):
            return ""
        return f"pod {namespace_of(pod)}/{name_of(pod)} runs on {node}: {self.simulates}"

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


class DoNotDisrupt(_Bystander):
    """Reproduces row 43: do-not-disrupt, and for the cluster autoscaler safe-to-evict: false."""

    name = "do-not-disrupt"
    simulates = "a pod that shares the GPU node says do-not-disrupt"
    failures = (43, 46)
    annotations = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


class Finalizer(Fault):
    """Reproduces row 36: the pods' objects stay, held by somebody who is not there."""

    name = "finalizer"
    simulates = "a finalizer whose owner is gone holds the GPU pods"
    family = "drain"
    failures = (36,)

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

    def bitten(self, stage: Stage, layer: LayerRun) -> str:
        """A pod is Terminating, and our finalizer is on it."""
        for held in stage.scene.gpu_pods():
            pod = stage.scene.pods.get(held.name, held.namespace)
            if pod is not None and held.terminating and self.MARK in dig(pod, "metadata", "finalizers", default=[]):
                return f"{held}: finalizers {dig(pod, 'metadata', 'finalizers')}"
        return ""


class LongGrace(Fault):
    """Reproduces rows 35 and 36: a grace that outlasts the deadline, and a server that uses it up.

    The target's template is changed, so its pods start anew before the drill: a server that stops at SIGTERM does not
    let this fault bite.
    """

    name = "long-grace"
    simulates = "the target's pods have a termination grace beyond the deadline"
    family = "drain"
    failures = (35, 36)

    costs = "the target's pods start anew, before and after"
    rank = 0

    #: How much longer than the deadline the grace is, in seconds.
    beyond_s: ClassVar[int] = 180

    @classmethod
    def _grace_s(cls, stage: Stage, layer: LayerRun) -> int:
        return int(stage.kill_path.deadlines_for(layer.layer).pods_gone_s) + cls.beyond_s

    def pointless(self, kill_path: KillPath, layer: Layer) -> str:
        """Only where a template makes the pods that can be changed."""
        return none_scaled(kill_path, layer)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The targets' templates are edited: their pods start anew."""
        found = self._targets(stage, layer)
        if not found:
            raise FaultError("none of the layer's targets is a Deployment or StatefulSet")
        verbs = [
            Permission(v, "apps", kind, "", namespace, name)
            for kind, namespace, name in found
            for v in ("get", "patch")
        ]
        verbs += [
            Permission(v, "apps", "replicasets", namespace=namespace)
            for _, namespace, _ in found
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
        for kind, namespace, name in self._targets(stage, layer):
            resource = r.DEPLOYMENTS if kind == "deployments" else r.STATEFULSETS
            what = f"{kind} {namespace}/{name}: grace {grace_s} s"
            if kind == "deployments":  # the changed template leaves a revision behind: it goes last
                sweep = Undo(
                    "sweep",
                    r.REPLICASETS.path(namespace),
                    manual=(f"kubectl delete replicasets -n {namespace} -l {LABEL}={stage.run}"),
                )
                with stage.journal.change(f"revision of {namespace}/{name} with the changed template", sweep):
                    pass
            # The embedded cluster's hollow servers handle SIGTERM unless they are told not to.
            notes = {"killcheck.dev/ignores-sigterm": "true"} if "nodes" in stage.cluster.levers else {}
            template = {
                "spec": {"terminationGracePeriodSeconds": grace_s},
                "metadata": {"labels": {LABEL: stage.run}} | ({"annotations": notes} if notes else {}),
            }
            stage.journal.merge(resource, name, namespace, {"spec": {"template": template}}, what)
            done.append(what)
        stage.cluster.loop.run_until(lambda: self._anew(stage, grace_s), ROLLOUT_S)
        return done

    @staticmethod
    def _anew(stage: Stage, grace_s: int) -> bool:
        pods = [stage.scene.pods.get(held.name, held.namespace) for held in stage.scene.gpu_pods()]
        return bool(pods) and all(
            pod is not None
            and dig(pod, "spec", "terminationGracePeriodSeconds") == grace_s
            and dig(pod, "status", "phase") == "Running"
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

    def bitten(self, stage: Stage, layer: LayerRun) -> str:
        """A pod is Terminating with that grace."""
        grace_s = self._grace_s(stage, layer)
        for held in stage.scene.gpu_pods():
            pod = stage.scene.pods.get(held.name, held.namespace)
            if pod is not None and held.terminating and dig(pod, "metadata", "deletionGracePeriodSeconds") == grace_s:
                return f"{held}: deletionGracePeriodSeconds {grace_s}"
        return ""
