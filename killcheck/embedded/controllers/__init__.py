"""The controllers of kube-controller-manager and the scheduler, one file each, as clients of the API.

What may not live here: anything that reaches into the API server or its store. A new one is a file, and a line in
:data:`ALL` where it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from killcheck.clock import Loop
from killcheck.embedded.controllers.cronjob import CronJobController
from killcheck.embedded.controllers.daemonset import DaemonSetController
from killcheck.embedded.controllers.deployment import DeploymentController
from killcheck.embedded.controllers.disruption import DisruptionController
from killcheck.embedded.controllers.endpoints import EndpointsController, EndpointSliceController
from killcheck.embedded.controllers.ephemeralvolumes import EphemeralVolumeController
from killcheck.embedded.controllers.garbage import GarbageCollector
from killcheck.embedded.controllers.hpa import HorizontalPodAutoscaler
from killcheck.embedded.controllers.job import JobController
from killcheck.embedded.controllers.namespace import NamespaceController
from killcheck.embedded.controllers.nodefields import NodeIpam, NodeTtl
from killcheck.embedded.controllers.nodelifecycle import NodeLifecycleController
from killcheck.embedded.controllers.persistentvolumes import PersistentVolumeBinder
from killcheck.embedded.controllers.podgc import PodGarbageCollector
from killcheck.embedded.controllers.replicaset import ReplicaSetController, ReplicationControllerController
from killcheck.embedded.controllers.resourceclaims import ResourceClaimController
from killcheck.embedded.controllers.runtime import Component, Informers
from killcheck.embedded.controllers.scheduler import Scheduler
from killcheck.embedded.controllers.serviceaccounts import RootCaPublisher, ServiceAccountController
from killcheck.embedded.controllers.slicemirroring import SliceMirroring
from killcheck.embedded.controllers.statefulset import StatefulSetController
from killcheck.embedded.controllers.tainteviction import TaintEvictionController
from killcheck.embedded.controllers.ttl import TtlAfterFinished
from killcheck.embedded.controllers.volumeprotection import PvcProtection, PvProtection
from killcheck.kube.client import Kube

__all__ = ["ALL", "start_all"]

#: Every controller, in the order in which they start; ``name`` is kube-controller-manager's.
ALL: tuple[type[Component], ...] = (
    ServiceAccountController,
    RootCaPublisher,
    GarbageCollector,
    NamespaceController,
    DeploymentController,
    ReplicaSetController,
    ReplicationControllerController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    CronJobController,
    TtlAfterFinished,
    NodeIpam,
    NodeTtl,
    NodeLifecycleController,
    TaintEvictionController,
    PodGarbageCollector,
    DisruptionController,
    HorizontalPodAutoscaler,
    EndpointsController,
    EndpointSliceController,
    SliceMirroring,
    ResourceClaimController,
    EphemeralVolumeController,
    PersistentVolumeBinder,
    PvcProtection,
    PvProtection,
    Scheduler,
)

#: The accounts of controllers that have another name than they. With ``--use-service-account-credentials``, as kubeadm
#: and the clouds have it, each acts as one of its own (the roles ``system:controller:NAME`` are theirs).
_ACCOUNTS = {
    "daemonset-controller": "daemon-set-controller",
    "garbage-collector-controller": "generic-garbage-collector",
    "horizontal-pod-autoscaler-controller": "horizontal-pod-autoscaler",
    "node-lifecycle-controller": "node-controller",
    "node-ipam-controller": "node-controller",
    "taint-eviction-controller": "node-controller",
    "persistentvolume-binder-controller": "persistent-volume-binder",
    "persistentvolume-protection-controller": "pv-protection-controller",
    "persistentvolumeclaim-protection-controller": "pvc-protection-controller",
    "pod-garbage-collector-controller": "pod-garbage-collector",
    "replicationcontroller-controller": "replication-controller",
    "resourceclaim-controller": "resource-claim-controller",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "serviceaccount-controller": "service-account-controller",
    "endpoints-controller": "endpoint-controller",
    "endpointslice-mirroring-controller": "endpointslicemirroring-controller",
}


def start_all(
    kube: Kube,
    loop: Loop,
    informers: Informers,
    disabled: Collection[str] = (),
    *,
    ca_pem: str = "",
    acting: Callable[[str], Kube] | None = None,
) -> dict[str, Component]:
    """Start every controller but those whose names are in ``disabled``; returns them by name.

    ``ca_pem`` is the certificate that pods verify the API server with. ``acting``: a client with the identity of an
    account of kube-system's, by name; None: all of them use ``kube``.
    """
    started: dict[str, Component] = {}
    given = {"ca_pem": ca_pem}
    scheduler = Kube(kube.transport, field_manager="kube-scheduler")  # a program of its own
    for kind in ALL:
        if kind.name in disabled:
            continue
        extra: dict[str, Any] = {name: given[name] for name in kind.takes}
        own = kube if acting is None else acting(_ACCOUNTS.get(kind.name, kind.name))
        controller = kind(scheduler if kind is Scheduler else own, loop, informers, **extra)
        controller.start()
        started[controller.name] = controller
    return started
