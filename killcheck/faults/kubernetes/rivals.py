"""Somebody else owns the same field and puts it back: KEDA's minimum, Argo CD's self-heal, a pool's floor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from killcheck.capabilities.offered import Capability
from killcheck.faults.base import SCALED, Evidence, Fault, FaultError, Plan, all_provided, none_asked, none_scaled
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, condition, dig, labels_of, name_of, namespace_of, parse_time
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry
from killcheck.spec.killpath import KillPath, Layer, LayerType, Target
from killcheck.spec.phases import Phase
from killcheck.watch.scene import event_time

__all__ = ["ArgoSelfHeal", "KedaMinimum", "PoolFloor"]

#: Argo CD's tracking label.
TRACKING = "app.kubernetes.io/instance"


def _targets(stage: Stage, layer: LayerRun) -> list[Target]:
    return [t for t in stage.kill_path.covered_by(layer.layer) if t.kind in SCALED and t.object]


class _RivalFault(Fault):
    """A rival for the targets' replicas."""

    family = "rivals"

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Wherever a layer turns something off."""
        return None if layer.covers else "the layer turns nothing off that could be lit again"

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where there are replicas to be written."""
        return none_scaled(kill_path, layer)

    @staticmethod
    def _relit(stage: Stage, layer: LayerRun, manager: str) -> str | None:
        """A target that is on, and whose replicas this manager wrote after the trigger was pulled.

        The API server writes whole seconds: what has the trigger's own second in it may have been before it.
        """
        if stage.timeline is None:
            return None
        start = stage.timeline.start
        for target in _targets(stage, layer):
            for obj in stage.scene.objects_of(target):
                if dig(obj, "spec", "replicas") and any(
                    manager in str(entry.get("manager", ""))
                    and "f:replicas" in dig(entry, "fieldsV1", "f:spec", default={})
                    and entry.get("time")
                    and parse_time(entry["time"]) > start
                    for entry in dig(obj, "metadata", "managedFields", default=[])
                ):
                    return (
                        f"{target.kind} {namespace_of(obj)}/{name_of(obj)}: {manager} set replicas to "
                        f"{dig(obj, 'spec', 'replicas')}"
                    )
        return None


class KedaMinimum(_RivalFault):
    """Reproduces row 27: replicas below minReplicaCount are restored at the next poll."""

    name = "keda-minimum"
    simulates = "a ScaledObject's minimum keeps the target's replicas"
    failures = (27,)
    through = (r.SCALEDOBJECTS, "KEDA")
    shows = Evidence.OTHERS

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A ScaledObject of our own for each target."""
        self.must_be_installed(stage.cluster.kube)
        targets = _targets(stage, layer)
        if not targets:
            raise FaultError("none of the layer's targets is a Deployment or StatefulSet that KEDA could scale")
        places = tuple(sorted({t.namespace for t in targets}))
        verbs = [
            Permission(v, "keda.sh", "scaledobjects", namespace=p)
            for p in places
            for v in ("get", "list", "create", "delete")
        ]
        verbs += [Permission("patch", "keda.sh", "scaledobjects", namespace=p) for p in places]
        return Plan(
            tuple(f"a ScaledObject, its own or one of ours, that keeps {t} at what it has" for t in targets),
            namespaces=places,
            permissions=tuple(verbs),
            edits=tuple(f"{t}.spec.replicas" for t in targets),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Create them, with a trigger that is never active; where one scales the target already, raise its minimum.

        What it lights again is what was on before the drill: to put that back afterwards nothing has to be changed.
        """
        done = []
        for number, target in enumerate(_targets(stage, layer)):
            name = f"killcheck-minimum-{stage.run[-6:]}-{number}"
            objects = stage.scene.objects_of(target)
            on = max((int(dig(obj, "spec", "replicas", default=1)) for obj in objects), default=1)
            theirs = _scaler_of(stage, target)
            if theirs is not None:
                most = max(on, int(dig(theirs, "spec", "maxReplicaCount", default=100)))
                what = f"ScaledObject {target.namespace}/{name_of(theirs)}: minReplicaCount {on}"
                stage.journal.merge(
                    r.SCALEDOBJECTS,
                    name_of(theirs),
                    target.namespace,
                    {"spec": {"minReplicaCount": on, "maxReplicaCount": most}},
                    what,
                )
                done.append(what)
                continue
            never = {"timezone": "Etc/UTC", "start": "0 0 1 1 *", "end": "1 0 1 1 *", "desiredReplicas": "1"}
            stage.journal.create(
                r.SCALEDOBJECTS,
                {
                    "apiVersion": "keda.sh/v1alpha1",
                    "kind": "ScaledObject",
                    "metadata": {"name": name, "namespace": target.namespace},
                    "spec": {
                        "scaleTargetRef": {
                            "apiVersion": target.api_version,
                            "kind": target.kind,
                            "name": target.object,
                        },
                        "minReplicaCount": on,
                        "maxReplicaCount": on,
                        "triggers": [{"type": "cron", "metadata": never}],
                    },
                },
            )
            done.append(f"created ScaledObject {target.namespace}/{name}: minReplicaCount {on}")
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """KEDA said that it scaled for our ScaledObject, its hand is on the replicas, or a zero is the minimum again.

        KEDA says nothing of a minimum that it writes, and no manager of a zero is known to a Scale (recorded).
        """
        ours = f"killcheck-minimum-{stage.run[-6:]}"
        said = _said_of(stage, "ScaledObject", ours, "KEDAScaleTargetActivated") or self._relit(stage, layer, "keda")
        known = stage.timeline.reached.keys() | stage.timeline.lost if stage.timeline is not None else frozenset()
        if said or (layer.layer.type is not LayerType.SCALE_TO_ZERO and Phase.SCALE_WRITTEN not in known):
            return said
        return next(filter(None, (_kept_at_least(stage, target) for target in _targets(stage, layer))), None)


def _kept_at_least(stage: Stage, target: Target) -> str | None:
    """That KEDA finds a target's triggers idle, and its minimum keeps it: without one it would cool down (recorded)."""
    scaled = _scaler_of(stage, target) or {}
    least, active = int(dig(scaled, "spec", "minReplicaCount", default=0) or 0), condition(scaled, "Active") or {}
    idle = (active.get("status"), active.get("reason")) == ("False", "ScalerNotActive")
    if not idle or not least or not stage.scene.replicas(target):
        return None
    name = f"{namespace_of(scaled)}/{name_of(scaled)}"
    return f"ScaledObject {name}: its triggers are not active, and KEDA keeps minReplicaCount {least}"


def _scaler_of(stage: Stage, target: Target) -> Obj | None:
    """The ScaledObject that scales a target already: KEDA takes no second one."""
    for one in retry(stage.cluster.loop, lambda: stage.cluster.kube.list(r.SCALEDOBJECTS, target.namespace)).items:
        scaled = dig(one, "spec", "scaleTargetRef", default={})
        if (scaled.get("kind", "Deployment"), scaled.get("name")) == (target.kind, target.object):
            return one
    return None


class ArgoSelfHeal(_RivalFault):
    """Reproduces row 30: what Git says comes back within seconds.

    Git is what the target was when Argo CD first saw it; so this needs the modelled Argo CD of the embedded cluster.
    """

    name = "argo-selfheal"
    simulates = "Argo CD heals the target back to the replicas in Git"
    failures = (30,)
    needs = (Capability.CONTROLLERS,)
    through = (r.APPLICATIONS, "Argo CD")
    shows = Evidence.OTHERS

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """An Application of our own, and its tracking label on the targets."""
        self.must_be_installed(stage.cluster.kube)
        targets = _targets(stage, layer)
        if not targets:
            raise FaultError("none of the layer's targets is a Deployment or StatefulSet")
        return Plan(
            tuple(f"{t} belongs to an Application that heals itself" for t in targets),
            namespaces=tuple(sorted({t.namespace for t in targets})),
            edits=tuple(f"{t}.spec.replicas" for t in targets),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Label the targets and create the Application."""
        name = f"killcheck-{stage.run[-6:]}"
        done = []
        for target in _targets(stage, layer):
            resource = stage.scene.resource_of(target)
            what = f"{target} belongs to Application {name}"
            stage.journal.merge(
                resource, target.object, target.namespace, {"metadata": {"labels": {TRACKING: name}}}, what
            )
            done.append(what)
        namespace = _targets(stage, layer)[0].namespace
        stage.journal.create(
            r.APPLICATIONS,
            {
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": "Application",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "project": "default",
                    "source": {"repoURL": "https://git.killcheck.invalid/repo", "path": "."},
                    "destination": {"namespace": namespace, "server": "https://kubernetes.default.svc"},
                    "syncPolicy": {"automated": {"selfHeal": True}},
                },
            },
        )
        return [*done, f"created Application {namespace}/{name} with selfHeal"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Argo CD started a sync of our Application."""
        return _said_of(stage, "Application", f"killcheck-{stage.run[-6:]}", "OperationStarted")


def _said_of(stage: Stage, kind: str, name: str, reason: str) -> str | None:
    """An event about an object of our own."""
    for event in stage.scene.events.values():
        about = event.get("involvedObject") or {}
        if about.get("kind") == kind and str(about.get("name")).startswith(name) and event.get("reason") == reason:
            return f"{event_time(event)}: {reason}: {event.get('message')}"
    return None


class PoolFloor(Fault):
    """Reproduces rows 45 and 47: the pool keeps its nodes whether anything runs on them or not."""

    name = "pool-floor"
    simulates = "the GPU pool never gives back an empty node"
    family = "rivals"
    failures = (45, 47)
    shows = Evidence.OTHERS

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where it is asked what becomes of machines."""
        return none_asked(kill_path) or all_provided(kill_path)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The pools' consolidation is switched off."""
        pools = list(self._pools(stage))
        if not pools:
            raise FaultError("no node of the kill path belongs to a NodePool")
        verbs = [Permission(v, "karpenter.sh", "nodepools", name=pool) for pool in pools for v in ("get", "patch")]
        return Plan(
            tuple(f"NodePool {pool} consolidates never, for the length of the drill" for pool in pools),
            permissions=tuple(verbs),
            edits=tuple(f"NodePool/{pool}.spec.disruption" for pool in pools),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Set consolidateAfter to Never."""
        done = []
        for pool in retry(stage.cluster.loop, lambda: list(self._pools(stage))):
            what = f"NodePool {pool}: consolidateAfter Never"
            stage.journal.merge(r.NODEPOOLS, pool, None, {"spec": {"disruption": {"consolidateAfter": "Never"}}}, what)
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """An empty node of the pool is not up for consolidation."""
        if stage.timeline is None or "pods_gone" not in stage.timeline.reached or not self._set(stage):
            return None
        for claim in stage.scene.claims.values():
            node = dig(claim, "status", "nodeName", default="")
            up = condition(claim, "Consolidatable")
            if (
                node in stage.scene.known_nodes
                and not stage.scene.pods_on(node)
                and not (up and up.get("status") == "True")
                and "deletionTimestamp" not in claim["metadata"]
            ):
                return f"node {node} is empty, and NodeClaim {name_of(claim)} is not Consolidatable"
        return None

    def _set(self, stage: Stage) -> bool:
        """Whether every pool is as we left it."""
        found = [stage.cluster.kube.find(r.NODEPOOLS, pool) for pool in self._pools(stage)]
        return all(dig(pool, "spec", "disruption", "consolidateAfter") == "Never" for pool in found)

    @staticmethod
    def _pools(stage: Stage) -> Iterator[str]:
        """The NodePools of the spec's pools, and of the nodes in scope (also before the scene is open)."""
        key = "karpenter.sh/nodepool"
        nodes = [node for node in stage.cluster.kube.list(r.NODES).items if stage.scene.in_pool(node)]
        names = {labels_of(node).get(key, "") for node in nodes}
        for pool in stage.kill_path.nodes:
            found = re.search(rf"{re.escape(key)}=([^,\s]+)", pool.node_selector)
            names.add(found.group(1) if found else "")
        yield from sorted(names - {""})
