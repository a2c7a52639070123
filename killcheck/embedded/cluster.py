"""The embedded cluster, put together: store, API server, controllers, hollow nodes, models - and manifests into it."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Self

from killcheck.clock import VirtualLoop
from killcheck.embedded import default_objects, wire
from killcheck.embedded.api import bootstrap
from killcheck.embedded.api.admission.chain import Chain
from killcheck.embedded.api.admission.tolerations import ExtendedResourceToleration
from killcheck.embedded.api.admission.workload_identity import WorkloadIdentity
from killcheck.embedded.api.authn import Authenticator
from killcheck.embedded.api.core import Config
from killcheck.embedded.api.http import User
from killcheck.embedded.api.kinds import builtin
from killcheck.embedded.api.legacy_tokens import LegacyTokens
from killcheck.embedded.api.quota_status import QuotaStatus
from killcheck.embedded.api.rbac import Authorizer
from killcheck.embedded.api.server import ApiServer
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.tokens import Issuer
from killcheck.embedded.controllers import ALL, start_all
from killcheck.embedded.controllers.nodelifecycle import NodeLifecycleController
from killcheck.embedded.controllers.runtime import Component, Informers
from killcheck.embedded.controllers.scheduler import Scheduler
from killcheck.embedded.deployed import as_deployed
from killcheck.embedded.limits import Limits
from killcheck.embedded.models.argocd import ArgoCd
from killcheck.embedded.models.assumednodes import AssumedNodes, Assumptions, DeviceTolerations
from killcheck.embedded.models.clonesets import CloneSets
from killcheck.embedded.models.cloud import Cloud
from killcheck.embedded.models.cloud_commands import CloudCommands
from killcheck.embedded.models.cloudnodes import CloudNodes
from killcheck.embedded.models.clusterautoscaler import ClusterAutoscaler
from killcheck.embedded.models.definitions import crds
from killcheck.embedded.models.flux import HelmController, KustomizeController
from killcheck.embedded.models.gitops import Git
from killcheck.embedded.models.groups import JobSets, LeaderWorkerSets, Notebooks, RayClusters
from killcheck.embedded.models.http_add_on import HttpAddOn
from killcheck.embedded.models.instance import Instance
from killcheck.embedded.models.karpenter import Karpenter
from killcheck.embedded.models.keda import Keda
from killcheck.embedded.models.keda_jobs import ScaledJobs
from killcheck.embedded.models.kueue import Kueue
from killcheck.embedded.models.made_groups import RayJobs, RayServices, TrainJobs
from killcheck.embedded.models.metadata import InstanceMetadata
from killcheck.embedded.models.networkpolicies import NetworkPolicies
from killcheck.embedded.models.nim import NimServices
from killcheck.embedded.models.nodegroups import NodeGroups
from killcheck.embedded.models.nodetermination import NodeTerminationHandler
from killcheck.embedded.models.rollouts import Rollouts
from killcheck.embedded.models.serving import InferenceServices, KnativeInferenceServices, KnativeServices
from killcheck.embedded.models.shares import SharedDevices
from killcheck.embedded.models.sleepers import KubeDownscaler, KubeGreen
from killcheck.embedded.models.training_jobs import CONTROLLERS as TRAINING_JOBS
from killcheck.embedded.models.volcano import VolcanoJobs
from killcheck.embedded.nodes import NodeAgents
from killcheck.embedded.nodes.external_endpoints import Place
from killcheck.embedded.nodes.host_runtime import HostRuntime
from killcheck.embedded.nodes.kubelets import has_own_kubelet
from killcheck.embedded.nodes.registry import Registry
from killcheck.embedded.own_workloads import OwnWorkloads
from killcheck.embedded.pki import Pki
from killcheck.embedded.transport import InProcessTransport
from killcheck.entries import Assumption, Doubt
from killcheck.instances.provided import is_provided
from killcheck.kube import releases
from killcheck.kube.client import Kube
from killcheck.kube.errors import ApiError, Conflict, Invalid, KubeError, NotFound
from killcheck.kube.objects import Obj, copy, dig, namespace_of, ref_of
from killcheck.kube.provider_pools import GKE_KIND, GKE_POOL
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re

__all__ = ["Cluster", "LoadError"]

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
CONTROLLERS = User("system:kube-controller-manager", ("system:masters", "system:authenticated"))

#: What lives beside Kubernetes here; each works only where its own resources are.
MODELS: tuple[type[Component], ...] = (
    CloudNodes,
    NodeGroups,
    ClusterAutoscaler,
    Karpenter,
    Keda,
    ScaledJobs,
    HttpAddOn,
    ArgoCd,
    KustomizeController,
    HelmController,
    Kueue,
    NodeTerminationHandler,
    NetworkPolicies,
    AssumedNodes,
    JobSets,
    LeaderWorkerSets,
    RayClusters,
    Notebooks,
    Rollouts,
    RayJobs,
    RayServices,
    TrainJobs,
    KnativeServices,
    InferenceServices,
    KnativeInferenceServices,
    *TRAINING_JOBS,
    VolcanoJobs,
    CloneSets,
    NimServices,
    KubeGreen,
    KubeDownscaler,
)

#: From the end of an instance to the end of the kubelet on it: what an operating system needs to stop its services.
SHUTDOWN_S = 1.0

#: What must exist before what: everything else comes after these, in the order of the manifests.
_FIRST = (
    "CustomResourceDefinition",
    "Namespace",
    "PriorityClass",
    "StorageClass",
    "ServiceAccount",
    "ConfigMap",
    "Secret",
    "ClusterRole",
    "Role",
    "ClusterRoleBinding",
    "RoleBinding",
    "EC2NodeClass",
    "AKSNodeClass",
    "NodePool",
    "Node",
    "ResourceFlavor",
    "ClusterQueue",
    "LocalQueue",
)


class LoadError(KubeError):
    """A manifest was refused; the message names the object and says why in the API server's words. ``obj``: which.

    ``invalid``: for what it says itself. ``refused``: this, and all others that are refused whatever else there is.
    """

    def __init__(self, obj: Obj, why: str, *, invalid: bool = False) -> None:
        self.obj, self.why, self.invalid = obj, why, invalid
        self.refused: tuple[LoadError, ...] = (self,)
        super().__init__(f"{ref_of(obj)}: {why}")


class Cluster:
    """A Kubernetes in this process, on a virtual clock that begins at ``start``.

    ``seed`` makes names and uids repeatable; ``exec_mode`` says how executors' commands run (host, docker, none);
    ``disabled`` names controllers and models that do not run; ``speed`` paces the clock for a person (None: as fast
    as it goes); ``kubernetes_version`` (``1.34``, ``v1.34.3``) which Kubernetes it is. Raises ReleaseError for one that
    is not modelled.
    """

    def __init__(
        self,
        *,
        start: datetime = datetime(2026, 1, 15, 3, 0, 1, tzinfo=UTC),
        seed: int = 1,
        exec_mode: str = "host",
        speed: float | None = None,
        disabled: Collection[str] = (),
        kubernetes_version: str = "",
    ) -> None:
        #: The Kubernetes that this is: its defaults, its gates, what it serves.
        self.release = releases.parse(kubernetes_version)
        self.rng = random.Random(seed)  # noqa: S311 - names, not secrets
        self.loop = VirtualLoop(start, speed)
        self.store = Store()
        self.pki = Pki()
        self.issuer = Issuer(self.store, self.loop, rng=self.rng)
        self.authorizer = Authorizer(self.store)
        self.admission = Chain(self.store, self.loop, self.authorizer, self.rng)
        self.server = ApiServer(
            self.store,
            self.loop,
            Config(
                authenticator=Authenticator(self.issuer, self.authorizer),
                authorizer=self.authorizer,
                admission=self.admission,
                rng=self.rng,
                release=self.release,
            ),
        )
        self.quotas = QuotaStatus(self.store, self.loop)
        self.legacy_tokens = LegacyTokens(self.store, self.loop, self.issuer, lambda: self.pki.ca_pem)
        self.kube = self.kube_as(ADMIN)
        self.wire = wire.Server(self.server, self.loop, self.pki)
        self.cloud = Cloud(self.loop, self.rng)
        self.registry = Registry()
        self.notes: list[Assumption] = []
        #: What nodes are made that no manifest describes.
        self.assumed = Assumptions()
        self.admission.modelled["workload-identity"] = WorkloadIdentity(self.store)
        self.admission.modelled["shares"] = SharedDevices(self.assumed)
        self.admission.modelled["assumed-nodes"] = DeviceTolerations(self.assumed)
        self.server.guessed = self.assumed.guessed
        #: What the manifests were: what Git says, where something follows it.
        self.git = Git()
        #: Controllers and models that were stopped by name.
        self.stopped: set[str] = set()
        self._closed = False
        self.server.down = self._down
        self._bootstrap(start)
        self.informers = Informers(self.kube_as(CONTROLLERS), self.loop, self.release)
        self.controllers: dict[str, Component] = start_all(
            self.kube_as(CONTROLLERS),
            self.loop,
            self.informers,
            disabled=disabled,
            ca_pem=self.pki.ca_pem,
            acting=self._controller_as,
        )
        self.nodes = self._node_agents(exec_mode, seed, disabled)
        self.cloud.listeners.append(self._machine_changed)
        self.metadata = InstanceMetadata(self.cloud, self.kube, self.loop)
        self.cloud_commands = CloudCommands(self.cloud, self.kube)
        if isinstance(self.nodes.runtime, HostRuntime):
            self.nodes.runtime.external.metadata = self.metadata.of
            self.nodes.runtime.limits, self.nodes.runtime.kinds = self.server.limits, self.server.kinds
            self.nodes.runtime.clouds = self.cloud_commands
        for model in MODELS:
            if model.name not in disabled:
                self.start_model(model)
        self.own_workloads = OwnWorkloads(self, self.loop, self.informers)

    def _node_agents(self, exec_mode: str, seed: int, disabled: Collection[str]) -> NodeAgents:
        """The kubelets of all nodes, none of which is there yet."""
        # Kubelets draw their jitter from a generator of their own: no name that is made here changes when they look.
        nodes = NodeAgents(
            self.kube_as,
            self.loop,
            self.registry,
            exec_mode=exec_mode,
            wire=self.wire,
            server=self.server,
            rng=random.Random(seed + 2),  # noqa: S311 - jitter
            version=self.release.version,
        )
        nodes.vouched = NodeLifecycleController.name not in disabled
        nodes.tends = lambda node: not has_own_kubelet(node)
        return nodes

    def _bootstrap(self, start: datetime) -> None:
        """What every API server makes for itself, and the custom resources that are modelled."""
        for obj in (*bootstrap.objects(), *bootstrap.authentication(self.pki.ca_pem, start)):
            self._create(obj)
        for one in bootstrap.priority_classes():
            self.server.managed.disown(("scheduling.k8s.io", "priorityclasses"), ("", one["metadata"]["name"]))
        bootstrap.install_roles(self.server)
        bootstrap.install_api_services(self.server)
        bootstrap.install_definitions(self.server, crds(), self.kube.field_manager)

    @staticmethod
    def components() -> dict[str, tuple[str, ...]]:
        """What ``disabled`` takes, by what may be named: a controller, a model, or the program that has several."""
        controllers = sorted(kind.name for kind in ALL if kind is not Scheduler)
        each = {kind.name: (kind.name,) for kind in (*ALL, *MODELS)}
        keda = {"keda-operator": ("keda-operator", "keda-operator-jobs")}  # one program, which has both
        return {"kube-scheduler": (Scheduler.name,), "kube-controller-manager": tuple(controllers)} | each | keda

    # -- clients -------------------------------------------------------------------------------------------
    def kube_as(self, user: User) -> Kube:
        """A client with somebody's identity."""
        return Kube(InProcessTransport(self.server, self.loop, user), field_manager=user.name.rpartition(":")[2])

    def _controller_as(self, account: str) -> Kube:
        """A client of a controller's own, as policies and webhooks know it; what it writes has its manager's mark."""
        groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", *CONTROLLERS.groups)
        user = User(f"system:serviceaccount:kube-system:{account}", groups)
        return Kube(InProcessTransport(self.server, self.loop, user), field_manager="kube-controller-manager")

    def kubeconfig(self) -> str:
        """A kubeconfig for kubectl and any other client; starts the TLS server."""
        self.wire.start()
        return self.wire.kubeconfig()

    # -- controllers and models ----------------------------------------------------------------------------
    def start_model(self, model: type[Component]) -> None:
        """Start a model of what lives beside Kubernetes."""
        kube = self.kube_as(User(f"killcheck:model:{model.name}", CONTROLLERS.groups))
        own = {
            "cloud": self.cloud,
            "nodes": self.nodes,
            "admission": self.admission,
            "assumptions": self.assumed,
            "git": self.git,
        }
        extra: dict[str, Any] = {key: own[key] for key in model.takes}
        controller = model(kube, self.loop, self.informers, **extra)
        controller.start()
        self.controllers[controller.name] = controller

    def stop_controller(self, name: str) -> None:
        """As if its Deployment were at zero. Raises KeyError."""
        self.controllers.pop(name).stop()
        self.stopped.add(name)

    def start_controller(self, name: str) -> None:
        """Start again what was stopped; idempotent. Raises KeyError for a name that no controller and no model has."""
        if name in self.controllers:
            self.stopped.discard(name)
            return
        model = next((model for model in MODELS if model.name == name), None)
        if model is not None:
            self.start_model(model)
        else:
            others = {kind.name for kind in ALL} - {name}
            if len(others) == len(ALL):
                raise KeyError(name)
            self.controllers |= start_all(
                self.kube_as(CONTROLLERS),
                self.loop,
                self.informers,
                disabled=others,
                ca_pem=self.pki.ca_pem,
                acting=self._controller_as,
            )
        self.stopped.discard(name)

    def external_endpoint(
        self,
        port: int,
        environment: Mapping[str, str],
        *,
        address: str = "127.0.0.1",
        seen_as: int = 0,
    ) -> None:
        """Let executors reach a port of this host's loopback (``address:seen_as`` to them), told by variables."""
        runtime = self.nodes.runtime
        if isinstance(runtime, HostRuntime):
            runtime.external.places.append(Place(address, seen_as or port, port))
            runtime.external.environment |= environment

    # -- time and life -------------------------------------------------------------------------------------
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def advance(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass: ``seconds`` of the cluster's, or less where ``until`` holds before; whether it did."""
        return self.loop.run_until(until, seconds)

    # -- content -------------------------------------------------------------------------------------------
    def load(self, objects: Iterable[Obj]) -> None:
        """Create manifests, and the ground they stand on where they bring none (nodes, namespaces, what holders name).

        Objects of a kind that no CustomResourceDefinition declares are left out, and that is noted: nothing here would
        act on them. Raises LoadError for the first that the API server refuses, with all that it refuses whatever
        else there is: whoever goes on without them need not find them one by one. (Without a namespace that was
        refused another is assumed, and what is in it is taken.)
        """
        objects = [copy(obj) for obj in objects]
        refused: list[LoadError] = []
        with self.loop.entered():
            extra, notes = default_objects.missing_objects(objects, self.kube, self.assumed)
            self.notes += notes
            self._stand_in(objects)
            if any(obj.get("kind") == GKE_KIND for obj in objects):
                self.admission.modelled["gke"] = ExtendedResourceToleration()
            self.git.projects += [obj for obj in objects if obj.get("kind") == "AppProject"]
            for obj in sorted([*extra, *(o for o in objects if not is_provided(o))], key=_order):
                try:
                    stored = self._create(obj)
                except LoadError as error:
                    if any(obj is one for one in extra):  # made for a name that can be none
                        self.notes.append(Assumption(f"could not be assumed: {error}", ref_of(obj)))
                    else:
                        refused.append(error)
                    continue
                if stored is not None:
                    self.git.add(obj, stored)
        if refused:
            stood_on = str(refused[0].obj.get("kind")) in _FIRST  # what others need comes first
            refused[0].refused = (refused[0], *(one for one in refused[1:] if one.invalid or not stood_on))
            raise refused[0]

    def _stand_in(self, objects: Iterable[Obj]) -> None:
        """Schedulers that manifests name and nobody models: where pods go is not what turns them off."""
        named = {str(dig(t.spec, "schedulerName", default="")) for obj in objects for t in templates(obj)}
        others = sorted(named - {"", Scheduler.name})
        scheduler = self.controllers.get(Scheduler.name)
        if others and isinstance(scheduler, Scheduler):
            scheduler.stands_in |= set(others)
            for name in others:
                said = f"scheduler {name} is not modelled: the default scheduler places its pods"
                self.notes.append(Assumption(said, f"scheduler {name}"))

    def _down(self) -> frozenset[str]:
        return frozenset() if Scheduler.name in self.controllers else frozenset({"scheduler"})

    def _create(self, obj: Obj) -> Obj | None:
        """Create an object, and answer what became of it; None: it was left out, or was there."""
        if since := self._served_later(obj):
            raise LoadError(obj, f"Kubernetes {self.release.version} does not serve it: v1.{since} is the first")
        try:
            resource = self.kube.resource_for(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
        except NotFound:
            if "." not in str(obj.get("apiVersion", "")).partition("/")[0]:
                raise LoadError(obj, f"the API server has no {obj.get('apiVersion')} {obj.get('kind')}") from None
            said = f"{ref_of(obj)} was left out: no CustomResourceDefinition of it is among the manifests"
            self.notes.append(Assumption(said, ref_of(obj)))
            return None
        try:
            namespace = (namespace_of(obj) or "default") if resource.namespaced else None
            body, manager = as_deployed(obj)
            who = manager or self.kube.field_manager
            made = self.kube.call("POST", resource.path(namespace), body=body, query={"fieldManager": who})
            # A modelled CRD may know less than the real one: of built-in types alone.
            if "." not in resource.group or resource.group.endswith(".k8s.io"):
                self.notes += [
                    Assumption(f"{ref_of(obj)}: {field} was dropped unread (kubectl apply refuses it)", ref_of(obj))
                    for field in _UNKNOWN.findall(made.headers.get("Warning", "").replace('\\"', "'"))
                ]
            if obj.get("status") and "Node" in (obj["kind"],):
                self.kube.patch(resource, obj["metadata"]["name"], {"status": obj["status"]}, subresource="status")
            return made.body if isinstance(made.body, dict) else None
        except Conflict:
            try:
                self.kube.patch(resource, obj["metadata"]["name"], obj, namespace)
            except KubeError as error:
                raise _not_loaded(obj, error) from error
            return None
        except KubeError as error:
            raise _not_loaded(obj, error) from error

    def _served_later(self, obj: Obj) -> int | None:
        """The first release that serves a built-in type which this one does not; None: it is none of them."""
        if self.release == releases.DEFAULT:
            return None
        version = str(obj.get("apiVersion", ""))
        kinds = (kind.resource for kind in builtin() if kind.resource.kind == obj.get("kind"))
        found = (releases.TYPES.get((one.api_version, one.plural), 0) for one in kinds if one.api_version == version)
        return next((since for since in found if since > self.release.minor), None)

    # -- what the drill asks -------------------------------------------------------------------------------
    @property
    def assumptions(self) -> list[Assumption]:
        """What is assumed about images and about what the manifests did not bring."""
        models = [said for one in self.controllers.values() for said in one.assumed]
        return [*self.notes, *self.assumed.notes(), *self.nodes.assumptions, *models]

    @property
    def unknowns(self) -> list[str]:
        """Pods whose outcome is unknown because they were not run, and why; what may be off though it is on here."""
        return list(dict.fromkeys([*self.nodes.unknown, *(one.said for one in self.doubts if one.may_be_off)]))

    @property
    def doubts(self) -> list[Doubt]:
        """What models do not know of objects as they are now."""
        models = [doubt for one in self.controllers.values() for doubt in one.doubts()]
        return [*models, *self.cloud_commands.unproven]

    @property
    def limits(self) -> Limits:
        """Answers that only this cluster gives, and to whom they were given."""
        return self.server.limits

    def instance_state(self, node: Obj) -> Literal["running", "stopping", "terminated", "unknown"]:
        """The model cloud's word on the instance behind a node; ``unknown`` for a node that it did not launch."""
        instance = self.cloud.by_provider_id(dig(node, "spec", "providerID", default=""))
        if instance is None:
            return "unknown"
        return _BILLING[instance.state]

    def _machine_changed(self, instance: Instance, _before: str) -> None:
        """A machine that no longer runs takes its kubelet and its containers with it; the API is told nothing.

        GKE's kubelets hear of a notice: the machine is told to power off as it is given.
        """
        if instance.notice and instance.node_name and GKE_POOL in instance.node.get("labels", {}):
            self.nodes.shut_down(instance.node_name)
        if instance.state in ("shutting-down", "stopping") and instance.node_name:
            self.loop.call_later(SHUTDOWN_S, self.nodes.power_off, instance.node_name)

    def close(self) -> None:
        """Stop everything: processes, server, timers; idempotent."""
        if self._closed:
            return
        self._closed = True
        with self.loop.entered():
            for controller in self.controllers.values():
                controller.stop()
            self.nodes.stop()
            self.cloud.stop()
            self.informers.stop()
        self.wire.stop()


#: What the API server warns of when it drops a field that the type does not have.
_UNKNOWN = lazy_re.compile(r"unknown field '[^']+'")
#: The cloud's states as a bill knows them.
_BILLING: dict[str, Literal["running", "stopping", "terminated"]] = {
    "pending": "running",
    "running": "running",
    "stopping": "stopping",
    "shutting-down": "stopping",
    "stopped": "terminated",
    "terminated": "terminated",
}


def _order(obj: Obj) -> int:
    kind = str(obj.get("kind"))
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


def _not_loaded(obj: Obj, error: KubeError) -> LoadError:
    return LoadError(
        obj, error.message if isinstance(error, ApiError) else str(error), invalid=isinstance(error, Invalid)
    )
