"""The embedded cluster: a Kubernetes in this process, on a virtual clock.

    with Cluster() as cluster:
        cluster.load(objects)                      # manifests, as plain dicts
        cluster.advance(3600)                      # an hour passes at once
        cluster.kube.list(resources.PODS, "default")
        print(cluster.kubeconfig())                # for kubectl and any other client

What is exported here is all that other rooms may use; ``docs/embedded.md`` shows it to an operator's author. Inside,
only `api/` touches the store; controllers, nodes and models are clients of the API, as in Kubernetes. Nothing here
knows of drills, specs, machines or accounts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from killcheck.embedded.api.admission.chain import Chain
    from killcheck.embedded.api.admission.request import AdmissionRequest
    from killcheck.embedded.api.bootstrap import roles
    from killcheck.embedded.api.call import route, verb_of
    from killcheck.embedded.api.http import Request, Response, User
    from killcheck.embedded.api.kinds import Registry, builtin, from_crd
    from killcheck.embedded.api.rbac import Attributes, Authorizer, Decision
    from killcheck.embedded.api.refusals import Refusal, refusals, unreadable
    from killcheck.embedded.api.status import StatusError
    from killcheck.embedded.api.store import Store
    from killcheck.embedded.cluster import Cluster, LoadError
    from killcheck.embedded.connection import RESET
    from killcheck.embedded.control import Control
    from killcheck.embedded.hollow import HollowKubelets
    from killcheck.embedded.models import keda_triggers
    from killcheck.embedded.models.assumednodes import Described
    from killcheck.embedded.models.cloud import Cloud
    from killcheck.embedded.models.definitions import crds
    from killcheck.embedded.models.karpenter.pods import alternatives, tolerates
    from killcheck.embedded.models.nodegroups import read_groups
    from killcheck.embedded.nodes.execution import Exit, Launch, NotRun, Running, Runtime, StartError
    from killcheck.embedded.nodes.host_runtime import HostRuntime
    from killcheck.embedded.nodes.kubelets import NoRuntime
    from killcheck.embedded.nodes.registry import credentials
    from killcheck.embedded.nodes.shells import TRACED
    from killcheck.embedded.nodes.spawnerclient import NoSandbox
    from killcheck.embedded.nodes.volumes import File, Mount, Volume
    from killcheck.embedded.pki import Identity, Pki

_HOMES = {
    # a cluster, and what it says
    "Cluster": "cluster",
    "Control": "control",
    "LoadError": "cluster",
    # requests, as those see them who stand between a client and the server
    "Attributes": "api.rbac",
    "Decision": "api.rbac",
    "RESET": "connection",
    "Request": "api.http",
    "Response": "api.http",
    "User": "api.http",
    "route": "api.call",
    "verb_of": "api.call",
    # what an API server takes, asked without one
    "AdmissionRequest": "api.admission.request",
    "Authorizer": "api.rbac",
    "Chain": "api.admission.chain",
    "Refusal": "api.refusals",
    "Registry": "api.kinds",
    "StatusError": "api.status",
    "Store": "api.store",
    "builtin": "api.kinds",
    "crds": "models.definitions",
    "from_crd": "api.kinds",
    "refusals": "api.refusals",
    "roles": "api.bootstrap",
    "unreadable": "api.refusals",
    # what runs a container
    "Exit": "nodes.execution",
    "File": "nodes.volumes",
    "HollowKubelets": "hollow",
    "Identity": "pki",
    "Pki": "pki",
    "HostRuntime": "nodes.host_runtime",
    "TRACED": "nodes.shells",
    "Launch": "nodes.execution",
    "Mount": "nodes.volumes",
    "NoRuntime": "nodes.kubelets",
    "NoSandbox": "nodes.spawnerclient",
    "NotRun": "nodes.execution",
    "Running": "nodes.execution",
    "Runtime": "nodes.execution",
    "StartError": "nodes.execution",
    "Volume": "nodes.volumes",
    # what the models know
    "Cloud": "models.cloud",
    "Described": "models.assumednodes",
    "alternatives": "models.karpenter.pods",
    "credentials": "nodes.registry",
    "keda_triggers": "models",
    "read_groups": "models.nodegroups",
    "tolerates": "models.karpenter.pods",
}

__all__ = [
    "RESET",
    "TRACED",
    "AdmissionRequest",
    "Attributes",
    "Authorizer",
    "Chain",
    "Cloud",
    "Cluster",
    "Control",
    "Decision",
    "Described",
    "Exit",
    "File",
    "HollowKubelets",
    "HostRuntime",
    "Identity",
    "Launch",
    "LoadError",
    "Mount",
    "NoRuntime",
    "NoSandbox",
    "NotRun",
    "Pki",
    "Refusal",
    "Registry",
    "Request",
    "Response",
    "Running",
    "Runtime",
    "StartError",
    "StatusError",
    "Store",
    "User",
    "Volume",
    "alternatives",
    "builtin",
    "crds",
    "credentials",
    "from_crd",
    "keda_triggers",
    "read_groups",
    "refusals",
    "roles",
    "route",
    "tolerates",
    "unreadable",
    "verb_of",
]


def __getattr__(name: str) -> Any:
    """What ``__all__`` names, imported when it is first used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home == "models":
        return import_module(f"{__name__}.models.{name}")
    return getattr(import_module(f"{__name__}.{home}"), name)
