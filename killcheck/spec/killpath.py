"""The kill path as types: what must go off, what turns it off, by when, and what may be touched to prove it.

``killcheck.yaml`` says all of this; :mod:`killcheck.spec.specfile` reads and writes it, :mod:`killcheck.discover` finds
it in a cluster or in manifests. Every duration is in seconds and says so (``_s``); every price in US dollars an hour.

What may *not* live here: files, YAML, Kubernetes objects, the network.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TypeVar

from msgspec import Struct

from killcheck.spec.chargeback import Chargeback
from killcheck.spec.cloud_access import Alarm, CloudAccess
from killcheck.spec.deadlines import MOMENTS, Deadlines
from killcheck.spec.fence_ceiling import FenceCeiling
from killcheck.spec.items import Items
from killcheck.spec.machines import Machines
from killcheck.spec.phases import DAY_S
from killcheck.spec.working_hours import Noticed
from killcheck.text.redaction import redact
from killcheck.text.suggestions import did_you_mean
from killcheck.text.values import replace

__all__ = [
    "API_VERSION",
    "DEFAULT_PROOF",
    "DOCKER",
    "KINDS",
    "SPOT_NOTICE_S",
    "Assumption",
    "Checkpoint",
    "Command",
    "Consent",
    "ContainerRun",
    "FenceCeiling",
    "Items",
    "KillPath",
    "Layer",
    "LayerType",
    "NodePool",
    "Outcome",
    "Policy",
    "Proof",
    "Ref",
    "Rule",
    "Sentinel",
    "Suppression",
    "Target",
]

#: The only ``apiVersion`` a spec can have.
API_VERSION = "killcheck/v1"

#: The ``apiVersion`` of the kinds that a spec may name without one (Kubernetes 1.36, the projects' 2026 releases).
KINDS: Mapping[str, str] = {
    "Pod": "v1",
    "ReplicationController": "v1",
    "ConfigMap": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "RayService": "ray.io/v1",
    "InferenceService": "serving.kserve.io/v1beta1",
    "LLMInferenceService": "serving.kserve.io/v1alpha1",
    "NIMService": "apps.nvidia.com/v1alpha1",
    "CloneSet": "apps.kruise.io/v1alpha1",
    "VirtualMachine": "kubevirt.io/v1",
    "Notebook": "kubeflow.org/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
    "Rollout": "argoproj.io/v1alpha1",
    "Workflow": "argoproj.io/v1alpha1",
    "Service": "serving.knative.dev/v1",
    "ScaledObject": "keda.sh/v1alpha1",
    "ScaledJob": "keda.sh/v1alpha1",
    "HTTPScaledObject": "http.keda.sh/v1alpha1",
    "Container": "docker.killcheck.dev/v1",
}


#: The one namespace of a Docker Engine's containers.
DOCKER = "docker"


class LayerType(StrEnum):
    """The ways there are to turn a target off."""

    DEAD_MAN = "dead-man"
    IDLE_MONITOR = "idle-monitor"
    SELF_TERMINATING = "self-terminating"
    SCALE_TO_ZERO = "scale-to-zero"
    SPOT_HANDLER = "spot-handler"
    SENTINEL = "sentinel"
    COMMAND = "command"


class Proof(StrEnum):
    """What a drill must see before it calls anything off."""

    P1 = "P1"  #: no GPU pod left anywhere in scope, Terminating included
    P2 = "P2"  #: nodes and NodeClaims drained and gone
    P3 = "P3"  #: the cloud says terminated
    P4 = "P4"  #: it holds: nothing came back for ``held_s``
    P5 = "P5"  #: the alarm was raised


#: What AWS leaves between a spot notice and the reclaim, in seconds (GCP and Azure: 30).
SPOT_NOTICE_S = 120.0

#: The proof wanted where the spec does not say.
DEFAULT_PROOF = frozenset({Proof.P1, Proof.P2, Proof.P4})


class Outcome(StrEnum):
    """The least a drill must end with for its layer and faults to pass."""

    SURVIVED = "survived"  #: the layer itself turned the GPUs off in time
    COVERED = "covered"  #: another layer did, in time
    KNOWN = "known"  #: whatever it is, the team knows and lives with it; only nothing proven will not do


class Ref(Struct, frozen=True):
    """One Kubernetes object by name; ``namespace`` is empty for cluster-scoped kinds."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


@dataclass(frozen=True, slots=True)
class Command:
    """A program: ``argv`` as given to exec (no shell), in ``folder`` below the spec's own, and how long it may take.

    Its environment is PATH, HOME, ``env``, of killcheck's own only the variables that ``pass_env`` names, and the run.
    """

    argv: tuple[str, ...]
    timeout_s: float = 60.0
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    pass_env: tuple[str, ...] = ()
    folder: str = ""

    @property
    def line(self) -> str:
        """The command line, as a shell would be given it."""
        return shlex.join(self.argv)

    def __str__(self) -> str:
        return redact(self.line)


class ContainerRun(Struct, frozen=True):
    """A container of a Docker Engine that turns targets off: by ``argv`` run inside it at each firing (a cron
    container), or, without, by a new container made from it at each firing (a one-shot executor).
    """

    name: str
    argv: tuple[str, ...] = ()


class Target(Struct, frozen=True):
    """A workload that holds GPUs and must reach zero.

    In Kubernetes: a kind, with either the ``object``'s name or a label ``selector``. A container of a Docker Engine is
    the kind ``Container`` in the namespace ``docker``. Outside both: ``count``, a command that prints how many
    accelerator instances are on. That is an integer, or JSON: ``count`` in it, or a list of what is on. Anything else
    is *unknown*, never zero. ``start`` puts such a target back on after a drill.
    ``instance_type`` prices a target outside Kubernetes; ``machines`` says how its list names and prices each.
    """

    name: str
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    object: str = ""
    selector: str = ""
    count: Command | None = None
    start: Command | None = None
    instance_type: str = ""
    machines: Machines | None = None

    @property
    def outside(self) -> bool:
        """Whether it lives outside Kubernetes."""
        return self.count is not None

    @property
    def ref(self) -> Ref | None:
        """The object it names; None for a selector or a target outside Kubernetes."""
        return Ref(self.api_version, self.kind, self.namespace, self.object) if self.object else None

    def __str__(self) -> str:
        if self.outside:
            return f"command {self.name}"
        selected = "{" + self.selector + "}" if self.selector else "(a generated name)"
        return f"{self.kind}/{self.namespace}/{self.object or selected}"


class Sentinel(Struct, frozen=True):
    """A fence against starting: while it is set, every starter must refuse.

    ``path`` is a file on the host; ``config_map`` an object and ``key`` an entry of its data, or, on ``annotated``, of
    its annotations; exactly one of the three is given. ``value`` is what the key holds while it is set. Who can start:
    ``starters`` (commands), ``start_jobs`` (CronJobs), and whatever the systemd units and crontabs in the folders
    ``units`` are found to start. Each of them, fired alone and unhindered, must have been stopped ``stopped_within_s``
    after (None: not tried).
    """

    path: str = ""
    config_map: Ref | None = None
    key: str = ""
    starters: tuple[Command, ...] = ()
    annotated: Ref | None = None
    value: str = "true"
    start_jobs: tuple[Ref, ...] = ()
    units: tuple[str, ...] = ()
    stopped_within_s: float | None = None


class Checkpoint(Struct, frozen=True):
    """Where a worker's progress can be read, an integer that only grows: a command prints it, or a ConfigMap holds it
    under ``key``.
    """

    command: Command | None = None
    config_map: Ref | None = None
    key: str = ""


class Layer(Struct, frozen=True):
    """One independent way that targets get turned off. ``covers`` are names of targets.

    Which parts are given goes by ``type``. ``dead-man``: cron_job (with ``container``: it stands for that container of
    a Docker Engine), or workload. ``idle-monitor``: cron_job, workload or command. ``self-terminating``: workload
    (none: the targets themselves). ``spot-handler``: workload (none: the autoscaler's own), command (what gives a real
    cloud's notice). ``scale-to-zero``: scaler. ``sentinel``: sentinel. ``command``: command.

    ``idle_s`` is how long a target must be idle before the layer acts, ``busy`` what makes a request of it. A pod must
    be ready ``cold_start_s`` after one. ``notice_s`` is how long a spot notice leaves, ``checkpoint`` where work
    resumes. ``schedule`` (cron, in ``time_zone``) is when a command fires; a CronJob's own is read from the CronJob.
    """

    name: str
    type: LayerType
    covers: tuple[str, ...]
    cron_job: Ref | None = None
    workload: Ref | None = None
    scaler: Ref | None = None
    command: Command | None = None
    sentinel: Sentinel | None = None
    idle_s: float | None = None
    schedule: str = ""
    time_zone: str = ""
    deadlines: Deadlines | None = None
    busy: Command | None = None
    cold_start_s: float | None = None
    notice_s: float | None = None
    checkpoint: Checkpoint | None = None
    container: ContainerRun | None = None

    @property
    def ref(self) -> Ref | None:
        """The Kubernetes object that is this layer; None for commands and sentinels on a host."""
        held = (self.sentinel.config_map or self.sentinel.annotated) if self.sentinel else None
        return self.cron_job or self.scaler or self.workload or held

    @property
    def commands(self) -> tuple[Command, ...]:
        """Every program that drilling it may run."""
        own = (self.command, self.busy, self.checkpoint.command if self.checkpoint else None)
        return (*(c for c in own if c is not None), *(self.sentinel.starters if self.sentinel else ()))


class NodePool(Struct, frozen=True):
    """GPU nodes, recognised by a Karpenter pool's name, a label selector, or both (then both must match).

    ``floor`` is how many nodes may stay on for good: 0, unless someone decided to pay for a warm one. ``removed_by``
    is who takes an empty node away, ``removed_after_s`` how long after: for nodes that no manifest describes.
    """

    name: str
    node_pool: str = ""
    selector: str = ""
    instance_type: str = ""
    floor: int = 0
    removed_by: str = ""
    removed_after_s: float | None = None

    @property
    def node_selector(self) -> str:
        """The label selector that finds its nodes."""
        pool = f"karpenter.sh/nodepool={self.node_pool}" if self.node_pool else ""
        return ",".join(part for part in (pool, self.selector) if part)


class Consent(Struct, frozen=True):
    """What a drill may touch on a cluster that is not its own. Nothing is allowed that is not named here.

    ``contexts`` and ``protected`` are shell patterns over kubeconfig context names; a protected one is refused even
    where ``contexts`` allows it, in capitals or not. ``max_gpu_nodes`` and ``max_usd`` bound what one run may have on
    and spend. ``commands`` are shell patterns over the command lines of the spec that may be run where killcheck runs.
    ``any_node``: every node of the place was made for the run, so no pool has to be named; no spec can say that.
    """

    namespaces: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    protected: tuple[str, ...] = ("*prod*",)
    max_gpu_nodes: int | None = None
    max_usd: float | None = None
    commands: tuple[str, ...] = ()
    any_node: bool = False

    def allows_command(self, command: Command) -> bool:
        """Whether a program of the spec may be run on a machine that is somebody's."""
        return any(fnmatchcase(command.line, pattern) for pattern in self.commands)

    def allows_context(self, context: str) -> bool:
        """Whether a drill may run there."""
        named = any(fnmatchcase(context, pattern) for pattern in self.contexts)
        return named and not self.protects(context)

    def protects(self, context: str) -> bool:
        """Whether it is refused whatever else is said; ``PROD`` is ``prod``."""
        return any(fnmatchcase(context.casefold(), pattern.casefold()) for pattern in self.protected)


class Rule(Struct, frozen=True):
    """What is required of layers and faults whose names match the shell patterns.

    ``causes``, of a known exposure alone: a part of the cause that it must have, any of them (``*`` in it stands for
    anything in between); none: any cause will do. ``owner``, ``reason`` and ``until`` (the last day on which it holds;
    None: no end) are those of an exposure that somebody accepted.
    """

    require: Outcome
    layer: str = "*"
    fault: str = "*"
    causes: tuple[str, ...] = ()
    owner: str = ""
    reason: str = ""
    until: date | None = None

    def accepts(self, layer: str, faults: Sequence[str]) -> bool:
        """Whether it speaks of exactly these faults together."""
        return len(faults) > 1 and fnmatchcase(layer, self.layer) and self.fault == "+".join(faults)


class Policy(Struct, frozen=True):
    """What a drill must end with: ``undisturbed`` without faults, ``faulted`` under any; ``rules`` say otherwise.

    ``expired``: rules that held until a day that is past.
    """

    undisturbed: Outcome = Outcome.SURVIVED
    faulted: Outcome = Outcome.COVERED
    rules: tuple[Rule, ...] = ()
    expired: tuple[Rule, ...] = ()

    def on(self, day: date) -> Policy:
        """The policy of a day: rules whose last day is past are ``expired`` and say nothing any more."""
        past = tuple(rule for rule in self.rules if rule.until is not None and rule.until < day)
        return self if not past else replace(self, rules=tuple(r for r in self.rules if r not in past), expired=past)

    def acceptance(self, layer: str, faults: Iterable[str]) -> Rule | None:
        """The rule by which an exposure of ``layer`` under ``faults`` is accepted; None: none does.

        Of several faults it is the first that is known.
        """
        rules = self._rules(layer, tuple(faults))
        return next((rule for rule in rules if rule.require is Outcome.KNOWN), None)

    def _rules(self, layer: str, faults: Sequence[str]) -> list[Rule]:
        """The rule that counts of each fault; of faults that a rule names together, that one."""
        together = next((rule for rule in self.rules if rule.accepts(layer, faults)), None)
        return [together] if together else [self._rule(layer, fault) for fault in faults]

    def required(self, layer: str, faults: Iterable[str] = ()) -> Outcome:
        """The least outcome for ``layer`` under ``faults``: for each fault the first rule that matches it.

        Under several faults the mildest requirement counts: each alone may be meant to stop the layer.
        """
        faults = tuple(faults)
        if not faults:
            return self.undisturbed
        wanted = {rule.require for rule in self._rules(layer, faults)}
        return next(one for one in (Outcome.KNOWN, Outcome.COVERED, Outcome.SURVIVED) if one in wanted)

    def causes(self, layer: str, faults: Iterable[str] = ()) -> tuple[str, ...]:
        """The causes that a known exposure of ``layer`` under ``faults`` may have; none: any.

        Of several faults each that is known adds its own; one that says none lets any through.
        """
        known = [rule for rule in self._rules(layer, tuple(faults)) if rule.require is Outcome.KNOWN]
        if not all(rule.causes for rule in known):
            return ()
        return tuple(dict.fromkeys(cause for rule in known for cause in rule.causes))

    def _rule(self, layer: str, fault: str) -> Rule:
        for rule in self.rules:
            if fnmatchcase(layer, rule.layer) and fnmatchcase(fault, rule.fault):
                return rule
        return Rule(self.faulted)


class Suppression(Struct, frozen=True):
    """A finding that someone decided to live with, why, and until when (the last day it holds)."""

    probe: str
    reason: str
    until: date
    object: str = "*"


class Assumption(Struct, frozen=True):
    """An object that nobody here models and that someone vouches for: why, and until when (the last day it holds).

    ``kind``, ``namespace`` and ``name`` are shell patterns; ``namespace`` is empty for cluster-scoped objects.
    """

    reason: str
    until: date
    kind: str = "*"
    namespace: str = "*"
    name: str = "*"


@dataclass(frozen=True, slots=True)
class KillPath:
    """Everything between 'the GPUs should be off' and 'the bill stops', as one team declares it.

    ``prices`` are US dollars an hour by instance type; they go before the catalogue's. ``folder`` is where the spec was
    read from (empty: nowhere); its commands run there.
    """

    name: str
    targets: tuple[Target, ...]
    layers: tuple[Layer, ...]
    nodes: tuple[NodePool, ...] = ()
    deadlines: Deadlines = field(default_factory=Deadlines)
    proof: frozenset[Proof] = DEFAULT_PROOF
    consent: Consent = field(default_factory=Consent)
    prices: Mapping[str, float] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    fences: FenceCeiling = field(default_factory=FenceCeiling)
    suppress: tuple[Suppression, ...] = ()
    assume: tuple[Assumption, ...] = ()
    cloud: CloudAccess | None = None
    alarm: Alarm | None = None
    #: Who notices; None: nobody said, so that no dollars are counted until then.
    noticed: Noticed | None = None
    #: Whether somebody wrote which proof is wanted; else it is the default.
    proof_said: bool = field(default=True, compare=False)
    #: What a queue's workers get done in an hour, all together; None: nobody counts.
    items_per_hour: float | None = None
    items: Items | None = None
    chargeback: Chargeback | None = None
    #: What is meant to start targets again (CronJobs, ScaledObjects): until then it has to hold.
    starts: tuple[Ref, ...] = ()
    #: Extended resources (shell patterns) that are accelerators, or are none, whatever killcheck takes them for.
    accelerators: Mapping[str, bool] = field(default_factory=dict, hash=False)
    #: The Kubernetes that the embedded cluster is (``1.34``, ``v1.34.3``); empty: the default one.
    kubernetes_version: str = ""
    folder: str = field(default="", compare=False)

    def target(self, name: str) -> Target:
        """The target of that name. Raises KeyError."""
        return _named("target", self.targets, name)

    def layer(self, name: str) -> Layer:
        """The layer of that name. Raises KeyError."""
        return _named("layer", self.layers, name)

    @property
    def consenting_pools(self) -> frozenset[str]:
        """The Karpenter NodePools that may be changed: those of the entries of nodes that consent names."""
        names = self.consent.pools or [node.name for node in self.nodes]
        return frozenset(node.node_pool for node in self.nodes if node.node_pool and node.name in names)

    def covered_by(self, layer: Layer) -> tuple[Target, ...]:
        """The targets that ``layer`` turns off."""
        return tuple(target for target in self.targets if target.name in layer.covers)

    def deadlines_for(self, layer: Layer) -> Deadlines:
        """The layer's own, or the path's: in a spot handler's notice, a day later where only a loop knows its hour.

        Of a monitor that is a workload those that are over before it may act begin when it may.
        """
        own = layer.deadlines or self.deadlines
        later_s = 0.0
        if layer.type is LayerType.DEAD_MAN and layer.workload is not None and layer.workload.kind != "SleepInfo":
            later_s = DAY_S
        elif layer.type is LayerType.IDLE_MONITOR and layer.workload is not None:
            idle_s = layer.idle_s or 0.0
            later_s = idle_s if own.scale_written_s <= idle_s else 0.0
        if later_s:
            return replace(own, **{name: getattr(own, name) + later_s for name in MOMENTS})
        early = MOMENTS[: MOMENTS.index("node_drained_s") + 1] if layer.type is LayerType.SPOT_HANDLER else ()
        return replace(own, **{name: min(getattr(own, name), layer.notice_s or SPOT_NOTICE_S) for name in early})

    @property
    def commands(self) -> tuple[Command, ...]:
        """Every program that drilling it may run, each once."""
        targets = [c for t in self.targets for c in (t.count, t.start) if c is not None]
        items = [self.items.count] if self.items else []
        return tuple(dict.fromkeys([*targets, *items, *(c for layer in self.layers for c in layer.commands)]))

    def beyond(self, layer: Layer) -> bool:
        """Whether a layer has no part in Kubernetes: neither it nor what it turns off."""
        return layer.ref is None and not any(target.kind for target in self.covered_by(layer))

    @property
    def in_kubernetes(self) -> bool:
        """Whether any part of it is in Kubernetes; else there is nothing to ask an API server about."""
        return bool(self.nodes) or any(t.kind for t in self.targets) or any(layer.ref for layer in self.layers)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Every namespace that a target lives in, in order of mention."""
        return tuple(dict.fromkeys(target.namespace for target in self.targets if target.namespace))


_T = TypeVar("_T", Target, Layer)


def _named(what: str, things: tuple[_T, ...], name: str) -> _T:
    for thing in things:
        if thing.name == name:
            return thing
    raise KeyError(f"the spec has no {what} {name!r}{did_you_mean(name, [thing.name for thing in things])}")
