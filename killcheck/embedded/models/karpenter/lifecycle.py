"""NodeClaims from creation to Initialized, and their end.

Source: sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle, v1.14; of the choice of a type
karpenter-provider-aws pkg/providers/instance.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from killcheck.embedded.models.cloud_errors import CloudError, NoSuchInstance
from killcheck.embedded.models.instance import Instance
from killcheck.embedded.models.karpenter import names as n
from killcheck.embedded.models.karpenter.conditions import is_true, put, rooted
from killcheck.embedded.models.karpenter.packing import allocatable
from killcheck.embedded.models.karpenter.state import Part, State
from killcheck.instances.amounts import amounts, text
from killcheck.instances.catalogue import InstanceType
from killcheck.instances.launchable import FLAVOURS, KARPENTER_AWS
from killcheck.instances.requirements import RequirementError, Requirements
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    condition,
    copy,
    dig,
    format_time,
    labels_of,
    name_of,
    parse_time,
    uid_of,
)
from killcheck.text.durations import parse_duration
from killcheck.text.values import replace

__all__ = ["TERMINATION_POLL_S", "Lifecycle", "select_type", "terminate"]

#: How long a CreateFleet call takes, seconds.
LAUNCH_CALL_S = 2.0
#: A claim that has not launched, or whose node has not registered, after this long is deleted.
LAUNCH_TIMEOUT_S = 300.0
REGISTRATION_TIMEOUT_S = 900.0
EFA = "vpc.amazonaws.com/efa"
#: Between two looks at whether an instance is gone.
TERMINATION_POLL_S = 5.0


class Lifecycle(Part):
    """One NodeClaim at a time."""

    backoff_s: ClassVar[tuple[float, float]] = (1.0, 60.0)

    def setup(self) -> None:
        """Follow claims and nodes."""
        self._launching: set[str] = set()
        self._launched: dict[str, Instance] = {}
        self.follow(r.NODECLAIMS, optional=True)
        self.follow(r.NODES, self._claim_of)

    @property
    def _state(self) -> State:
        assert self.state is not None
        return self.state

    def _claim_of(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        claim = self.state.claim_of(new)
        return [("", name_of(claim))] if claim else []

    def reconcile(self, key: tuple[str, str]) -> None:
        """Take one claim as far as it can go now."""
        found = self.state.claims.get(key[1])
        if found is None:
            return
        if _is_settled(found):  # as nearly always: its node's heartbeats bring it here
            return
        claim = copy(found)
        if dig(claim, "metadata", "deletionTimestamp"):
            self._finalize(claim)
            return
        if n.FINALIZER not in dig(claim, "metadata", "finalizers", default=()):
            finalizers = [*dig(claim, "metadata", "finalizers", default=()), n.FINALIZER]
            claim = copy(self._patch_meta(claim, {"finalizers": finalizers}))
        before = copy(claim.get("status", {}))
        rooted(claim, n.CLAIM_CONDITIONS, self.state.now)
        refused, labels = None, {}
        try:
            labels = self._launch(claim)
        except CloudError as error:
            refused = error
        self._register(claim)
        self._initialize(claim)
        rooted(claim, n.CLAIM_CONDITIONS, self.state.now)
        if labels:
            patched = self._patch_meta(claim, {"labels": labels})
            claim["metadata"]["resourceVersion"] = patched["metadata"]["resourceVersion"]
        if claim["status"] != before:
            self.state.write_status(r.NODECLAIMS, claim)
        self._liveness(claim)
        if refused:
            raise refused

    # -- launch --------------------------------------------------------------------------------------------
    def _launch(self, claim: Obj) -> dict[str, str]:
        """Launch once the call's time has passed; returns the labels that the cloud resolved."""
        uid = uid_of(claim)
        if is_true(claim, "Launched"):
            return {}
        if uid not in self._launching:
            self._launching.add(uid)
            self.queue.add(("", name_of(claim)), LAUNCH_CALL_S)
            return {}
        created = parse_time(claim["metadata"]["creationTimestamp"])
        wait_s = LAUNCH_CALL_S - (self.loop.now() - created).total_seconds()
        if wait_s > 0:
            self.queue.add(("", name_of(claim)), wait_s)
            return {}
        try:
            # What was launched is remembered: a status that could not be written must not launch twice.
            instance = self._launched.get(uid) or self._run_instance(claim)
        except CloudError as error:
            self._launch_failed(claim, error)
            return {}
        self._launched[uid] = instance
        claim["status"] |= {"providerID": instance.provider_id, "imageID": "ami-0123456789abcdef0"}
        asked = dig(claim, "spec", "resources", "requests", default={})
        for name, amounts_of in (("capacity", instance.type.capacity), ("allocatable", allocatable(instance.type))):
            # EFA interfaces are attached, and counted, only where a pod asks for them.
            claim["status"][name] = {
                key: text(key, value) for key, value in amounts_of.items() if key != EFA or EFA in asked
            }
        put(claim, "Launched", "True", self.state.now)
        return {**resolved_labels(instance, _prefix(claim)), **labels_of(claim)}

    def _run_instance(self, claim: Obj) -> Instance:
        """One fleet request: every offering of the capacity type that is tried first, until one is to be had."""
        state, tried = self.state, ""
        refused = CloudError(
            "InsufficientInstanceCapacity", "all requested instance types were unavailable during launch"
        )
        pool = labels_of(claim).get(n.NODEPOOL, "")
        tags = {"Name": f"{pool or 'nodeclaim'}/karpenter", "karpenter.sh/nodeclaim": name_of(claim)}
        if pool:
            tags[n.NODEPOOL] = pool
        taints = [
            *dig(claim, "spec", "taints", default=()),
            *dig(claim, "spec", "startupTaints", default=()),
            n.UNREGISTERED_TAINT,
        ]
        while True:
            one, kind, zone = select_type(state, claim)
            if kind == "" or (tried and kind != tried):
                raise refused
            tried, by = kind, f"karpenter/{pool or name_of(claim)}"
            node = {"labels": {**labels_of(claim), n.CAPACITY_TYPE: kind}, "taints": taints}
            try:
                return state.cloud.launch(one.name, by=by, capacity_type=kind, zone=zone, tags=tags, node=node)
            except CloudError as error:
                if error.code != "InsufficientInstanceCapacity":
                    raise
                state.mark_unavailable(one.name, kind, zone)
                refused = error

    def _launch_failed(self, claim: Obj, error: CloudError) -> None:
        if error.code == "InsufficientInstanceCapacity":
            self.state.events.publish(
                claim, "Warning", "InsufficientCapacityError", f"NodeClaim {name_of(claim)} event: {error}"
            )
            self.state.delete_claim(claim)
            return
        put(claim, "Launched", "Unknown", self.state.now, reason="LaunchFailed", message=str(error)[:300])
        raise error

    # -- registration and initialization -------------------------------------------------------------------
    def _register(self, claim: Obj) -> None:
        if is_true(claim, "Registered") or not is_true(claim, "Launched"):
            return
        node = self.state.node_of(claim)
        if node is None:
            put(
                claim,
                "Registered",
                "Unknown",
                self.state.now,
                reason="NodeNotFound",
                message="Node not registered with cluster",
            )
            return
        self._sync_node(claim, node)
        claim["status"]["nodeName"] = name_of(node)
        put(claim, "Registered", "True", self.state.now)

    def _sync_node(self, claim: Obj, node: Obj) -> None:
        """The claim's labels, annotations, taints, finalizer and ownership onto its node, and the taint off it."""
        taints = [t for t in dig(node, "spec", "taints", default=()) if t["key"] != n.UNREGISTERED_TAINT["key"]]
        for taint in [*dig(claim, "spec", "taints", default=()), *dig(claim, "spec", "startupTaints", default=())]:
            if not any(t["key"] == taint["key"] and t["effect"] == taint["effect"] for t in taints):
                taints.append(taint)
        owner = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "name": name_of(claim),
            "uid": uid_of(claim),
            "blockOwnerDeletion": True,
        }
        finalizers = dict.fromkeys([*dig(node, "metadata", "finalizers", default=()), n.FINALIZER])
        self.kube.patch(
            r.NODES,
            name_of(node),
            {
                "metadata": {
                    "resourceVersion": node["metadata"]["resourceVersion"],
                    "finalizers": list(finalizers),
                    "ownerReferences": [owner],
                    "annotations": annotations_of(claim),
                    "labels": {**labels_of(claim), n.REGISTERED: "true"},
                },
                "spec": {"taints": taints or None},
            },
        )

    def _initialize(self, claim: Obj) -> None:
        if is_true(claim, "Initialized") or not is_true(claim, "Registered"):
            return
        node = self.state.node_of(claim)
        reason, message = self._uninitialized(claim, node)
        if reason or node is None:
            put(claim, "Initialized", "Unknown", self.state.now, reason=reason, message=message)
            return
        if labels_of(node).get(n.INITIALIZED) != "true":
            self.kube.patch(r.NODES, name_of(node), {"metadata": {"labels": {n.INITIALIZED: "true"}}})
        put(claim, "Initialized", "True", self.state.now)

    def _uninitialized(self, claim: Obj, node: Obj | None) -> tuple[str, str]:
        """(reason, message) for what the node still lacks."""
        if node is None:
            return "NodeNotFound", "Node not registered with cluster"
        if not is_true(node, "Ready"):
            return "NodeNotReady", "Node status is NotReady"
        for taint in dig(node, "spec", "taints", default=()):
            pair = (taint["key"], taint["effect"])
            spelt = f'"{":".join(pair)}" still exists'
            if any((t["key"], t["effect"]) == pair for t in dig(claim, "spec", "startupTaints", default=())):
                return "StartupTaintsExist", f"StartupTaint {spelt}"
            if pair in n.EPHEMERAL_TAINTS:
                return "KnownEphemeralTaintsExist", f"KnownEphemeralTaint {spelt}"
        held = amounts(dig(node, "status", "allocatable"))
        for name, asked in amounts(dig(claim, "spec", "resources", "requests")).items():
            if asked and not held.get(name):
                return "ResourceNotRegistered", f'Resource "{name}" was requested but not registered'
        return "", ""

    def _liveness(self, claim: Obj) -> None:
        for kind, most_s in (("Launched", LAUNCH_TIMEOUT_S), ("Registered", REGISTRATION_TIMEOUT_S)):
            if is_true(claim, kind):
                continue
            found = condition(claim, kind)
            assert found is not None
            left_s = most_s - (self.loop.now() - parse_time(found["lastTransitionTime"])).total_seconds()
            if left_s > 0:
                self.queue.add(("", name_of(claim)), left_s)
            else:
                self.state.delete_claim(claim)
            return

    # -- the end -------------------------------------------------------------------------------------------
    def _finalize(self, claim: Obj) -> None:
        if n.FINALIZER not in dig(claim, "metadata", "finalizers", default=()):
            return
        claim = self._deadline(claim)
        if is_true(claim, "Registered") and self._nodes_left(claim):
            return
        if dig(claim, "status", "providerID") and not self._instance_gone(claim):
            return
        kept = [one for one in dig(claim, "metadata", "finalizers", default=()) if one != n.FINALIZER]
        self._launching.discard(uid_of(claim))
        self._launched.pop(uid_of(claim), None)
        try:
            self._patch_meta(claim, {"finalizers": kept or None})
        except NotFound:
            return

    def _deadline(self, claim: Obj) -> Obj:
        """Write down when ``terminationGracePeriod`` ends."""
        grace = dig(claim, "spec", "terminationGracePeriod")
        if not grace or n.TERMINATION_TIME in annotations_of(claim):
            return claim
        ends = parse_time(claim["metadata"]["deletionTimestamp"]) + timedelta(seconds=parse_duration(grace))
        when = format_time(ends)
        patched = self._patch_meta(claim, {"annotations": {n.TERMINATION_TIME: when}})
        self.state.events.publish(
            claim, "Warning", "TerminationGracePeriodExpiring", f"All pods will be deleted by {when}"
        )
        return copy(patched)

    def _nodes_left(self, claim: Obj) -> bool:
        """Delete the claim's node if it is there; answers whether it is."""
        node = self.state.node_of(claim)
        if node is None:
            return False
        if not dig(node, "metadata", "deletionTimestamp"):
            try:
                self.kube.delete(r.NODES, name_of(node))
            except NotFound:
                return False
        return True

    def _instance_gone(self, claim: Obj) -> bool:
        gone = terminate(self.state, claim)
        if put(claim, "InstanceTerminating", "True", self.state.now):
            self.state.write_status(r.NODECLAIMS, claim)
        if not gone:
            self.queue.add(("", name_of(claim)), TERMINATION_POLL_S)
        return gone

    def _patch_meta(self, obj: Obj, metadata: Obj) -> Obj:
        """Merge into a claim's metadata on condition that nobody wrote meanwhile."""
        version = obj["metadata"]["resourceVersion"]
        return self.kube.patch(r.NODECLAIMS, name_of(obj), {"metadata": {**metadata, "resourceVersion": version}})


def _is_settled(claim: Obj) -> bool:
    """Whether nothing is left to do for a claim but to wait for its end."""
    metadata = claim["metadata"]
    if metadata.get("deletionTimestamp") or n.FINALIZER not in (metadata.get("finalizers") or ()):
        return False
    return all(is_true(claim, kind) for kind in (*n.CLAIM_CONDITIONS, "Ready"))


def terminate(state: State, claim: Obj) -> bool:
    """Have the claim's instance terminated; answers whether it is gone. Raises CloudError where the cloud refuses."""
    instance_id = str(dig(claim, "status", "providerID", default="")).rpartition("/")[2]
    try:
        state.cloud.terminate(instance_id, by="karpenter")
    except NoSuchInstance:
        return True
    return False


def select_type(state: State, claim: Obj) -> tuple[InstanceType, str, str]:
    """(type, capacity type, zone) that its provider would launch for a claim: the cheapest that passes.

    GPU and metal types are left out where others pass too (ExoticInstanceTypeFilter). The capacity type is empty where
    nothing passes. Raises CloudError for requirements that cannot be read.
    """
    types, nothing = state.types, InstanceType("")
    try:
        requirements = Requirements.of(dig(claim, "spec", "requirements", default=()), labels_of(claim))
    except RequirementError as error:
        raise CloudError("LaunchFailed", str(error)) from error
    prefix = _prefix(claim)
    mask = types.select(requirements, prefix).certain
    needs = amounts(dig(claim, "spec", "resources", "requests"))
    fitting = [one for one in types.ordered(mask, "cheapest") if _fits(one, needs)]
    plain = [one for one in fitting if not one.capacity.get(one.resource) and "metal" not in one.size]
    has_minimum = any(one.min_values for one in requirements.values())
    offered = requirements.get(n.CAPACITY_TYPE)
    without = state.without_capacity()
    if FLAVOURS.get(prefix) != "aws":
        without = replace(without, zones=(state.cloud.zone_of(FLAVOURS.get(prefix, "")),))
    for kind in ("spot", "on-demand"):
        if offered is not None and not offered.has(kind):
            continue
        for one in plain if plain and not has_minimum else fitting:
            zone = without.zone_for(types.bits[one.name], kind, requirements.get(n.ZONE))
            if kind in one.usage and zone is not None:
                return one, kind, zone
    return nothing, "", ""


def _fits(one: InstanceType, needs: dict[str, float]) -> bool:
    room = allocatable(one)
    return all(value <= room.get(name, 0.0) for name, value in needs.items() if value)


def _prefix(claim: Obj) -> str:
    return str(dig(claim, "spec", "nodeClassRef", "group") or KARPENTER_AWS)


def resolved_labels(instance: Instance, prefix: str) -> dict[str, str]:
    """The labels that a launched instance gives its claim: those that have one value."""
    found = {
        n.INSTANCE_TYPE: instance.type.name,
        "kubernetes.io/arch": instance.type.arch,
        "kubernetes.io/os": "linux",
        n.ZONE: instance.zone,
        n.REGION: instance.region,
        n.CAPACITY_TYPE: instance.capacity_type,
    }
    for name, values in instance.type.labels.items():
        if name not in ("type", "arch") and len(values) == 1:
            found[f"{prefix}/{name}"] = values[0]
    if instance.type.provider == "aws":
        found[f"{prefix}/instance-tenancy"] = "default"
    return found
