"""Hollow GPU nodes on a cluster that is somebody's: Nodes without machines, kept alive by this process.

The Nodes carry the run's label and are tainted: nothing is scheduled there that does not tolerate it. What is changed
is one thing, journalled before it happens: Nodes of this label are there. Their Leases are theirs (ownerReferences).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path

from msgspec import Struct, field

from killcheck.clock import Loop, wall_now
from killcheck.embedded import HollowKubelets
from killcheck.instances.catalogue import InstanceType
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.machineless import HOLLOW, POD_ADDRESSES
from killcheck.kube.objects import Obj, annotations_of, dig, name_of, namespace_of, uid_of
from killcheck.kube.permissions import Permission, missing, rules
from killcheck.kube.quantities import parse
from killcheck.kube.selectors import parse_labels
from killcheck.safety import journal, lease
from killcheck.safety.changes import LABEL, Undo
from killcheck.safety.consent import ConsentError
from killcheck.safety.guard import Consented, guarded
from killcheck.safety.undo import retry
from killcheck.spec.killpath import NodePool

__all__ = ["RUN_PREFIX", "HollowNodes", "Shape", "new_run", "permissions", "pool_labels"]

#: How the ids of these runs begin: what ``nodes down`` looks for.
RUN_PREFIX = "nodes-"
LEASES = "kube-node-lease"
#: How many networks of 254 pods hollow nodes have between them.
_NETWORKS = 512
#: What a node of no known type has for each of its GPUs, and at the least.
CPU_PER_GPU, GIB_PER_GPU = 12, 128


class Shape(Struct, frozen=True):
    """What each node is: ``gpus`` devices of the resource of ``instance`` (None: of no known type)."""

    count: int = 1
    gpus: int = 8
    instance: InstanceType | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Its key is their label's, unless another is asked for.
    taints: Sequence[Obj] = ({"key": HOLLOW, "value": "true", "effect": "NoSchedule"},)

    @property
    def resource(self) -> str:
        """The extended resource of its devices."""
        return (self.instance.resource if self.instance else "") or "nvidia.com/gpu"

    def capacity(self) -> dict[str, str]:
        """``status.capacity``, quantities as kubelets write them."""
        one = self.instance
        found = {
            "cpu": str(one.vcpu if one else CPU_PER_GPU * max(1, self.gpus)),
            "memory": f"{one.memory_mib}Mi" if one else f"{GIB_PER_GPU * max(1, self.gpus)}Gi",
            "pods": str(one.pods if one else 110),
            "ephemeral-storage": "200Gi",
        }
        return found | ({self.resource: str(self.gpus)} if self.gpus else {})


def new_run() -> str:
    """An id for the run that these nodes are."""
    return f"{RUN_PREFIX}{wall_now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def permissions(home: str) -> list[Permission]:
    """What hollow nodes take on a cluster, besides being let impersonate nodes."""
    found = [Permission(verb, "", "nodes") for verb in ("get", "list", "watch", "create", "patch", "delete")]
    found += [Permission(verb, "", "pods") for verb in ("get", "list", "watch", "delete")]
    return [*found, *journal.permissions(home), *lease.permissions([home])]


def _of_kubelets() -> list[Permission]:
    """What kubelets ask for in the name of whom we are, where they may not ask in their nodes'."""
    asked = [
        *((verb, kind, sub) for kind, sub in (("nodes", "status"), ("pods", "status")) for verb in ("patch",)),
        *((verb, "events", "") for verb in ("create", "patch")),
        *(("get", kind, "") for kind in ("configmaps", "secrets")),
        ("create", "serviceaccounts", "token"),
        ("list", "services", ""),
    ]
    found = [Permission(verb, "", kind, subresource) for verb, kind, subresource in asked]
    return found + [
        Permission(verb, "coordination.k8s.io", "leases", namespace=LEASES) for verb in ("create", "patch", "delete")
    ]


def pool_labels(pool: NodePool | None, given: Mapping[str, str]) -> dict[str, str]:
    """Labels by which a node is of a pool, ``given`` ones first."""
    found = dict(given)
    for one in parse_labels(pool.node_selector if pool else "").requirements:
        if one.key not in given and one.operator not in ("!=", "notin", "!"):
            found[one.key] = one.values[0] if one.values else "true"
    return found


class HollowNodes:
    """The hollow nodes of one run, from :meth:`up` to :meth:`down`.

    ``home``: the namespace that consented, in which the journal and the run's Lease are. ``folder``: the local
    journal's.
    """

    def __init__(
        self,
        kube: Kube,
        loop: Loop,
        shape: Shape,
        *,
        home: str,
        context: str,
        kubeconfig: str = "",
        folder: Path | None = None,
        exec_mode: str = "none",
        version: str = "",
        say: Callable[[str], None] = lambda _said: None,
    ) -> None:
        #: As the kubelets' own: what they write is of their Nodes and of the pods on these.
        self.as_kubelet = kube
        self.run = new_run()
        #: What this run changes: what is in ``home``, and what carries its label.
        self.kube = copy(kube)
        guarded(self.kube, Consented(self.run, frozenset({home})))
        self.loop = loop
        self.shape = shape
        self.home = home
        self.version = version
        self.journal = journal.Journal(
            self.run,
            loop,
            self.kube,
            path=folder / self.run / "journal-0.jsonl" if folder else None,
            home=home,
            places=[home],
            context=context,
            kubeconfig=kubeconfig,
        )
        self.claim = lease.Claim(self.kube, loop, self.run, [(home, f"killcheck-{self.run}", "hollow GPU nodes")])
        endpoint = kube.transport.endpoint
        self.kubelets = HollowKubelets(
            kube,
            loop,
            labels=f"{LABEL}={self.run}",
            url=endpoint.url if endpoint else "",
            authority=endpoint.authority.decode("ascii", "replace") if endpoint else "",
            exec_mode=exec_mode,
            impersonating=not missing(kube, _impersonating()),
            enforcing=exec_mode == "host" and not missing(kube, _of_plugin()),
        )
        self.kubelets.told = say

    # -- life ----------------------------------------------------------------------------------------------
    def up(self) -> list[str]:
        """Register the Nodes and tend them; their names. Raises ConsentError, KubeError, JournalError, OSError."""
        self._refuse_without_rights()
        self.journal.open_locally()
        self.claim.acquire()
        self.journal.guard = self.claim.check
        port = self.kubelets.listen()
        names = self.names
        undo = Undo("sweep", r.NODES.path(None), manual=f"kubectl delete nodes -l {LABEL}={self.run}")
        with self.journal.change(f"registered {len(names)} hollow node(s)", undo):
            for name, addresses in zip(names, self._free_addresses(), strict=False):
                self._register(name, port, addresses)
        self.kubelets.start()
        return names

    @property
    def names(self) -> list[str]:
        """What its Nodes are called."""
        return [f"hollow-{self.run[-6:]}-{number + 1}" for number in range(self.shape.count)]

    def check(self) -> None:
        """Raise JournalError where somebody else is putting back what this run changed."""
        self.claim.check()

    def down(self) -> list[str]:
        """Take the Nodes away, then what was on them; what could not be is told, a sentence each. Idempotent."""
        try:
            if self.journal.open:
                on_them = self.kubelets.pods
                problems = self.journal.undo_all()[1]
                if not problems:
                    problems = self._clear(on_them)
            else:
                problems = []
        finally:
            self.kubelets.stop()
        if problems:
            self.claim.abandon()
            return problems
        self.claim.release()
        self.journal.close()
        return []

    # -- inside --------------------------------------------------------------------------------------------
    def _refuse_without_rights(self) -> None:
        """What was agreed to has been asked for (:func:`permissions`); what kubelets ask for depends on their names."""
        lacking = [] if self.kubelets.impersonating else missing(self.kube, _of_kubelets())
        if lacking:
            listed = "\n".join(f"    {permission}" for permission in lacking)
            raise ConsentError([f"missing permissions:\n{listed}\n  grant them with:\n{rules(lacking)}"])

    def _free_addresses(self) -> list[int]:
        """Networks for the pods of these Nodes, those first that no other hollow node has: somebody else may keep some.

        Raises KubeError.
        """
        there = self.as_kubelet.list(r.NODES, labels=HOLLOW).items
        taken = [annotations_of(node).get(POD_ADDRESSES, "") for node in there]
        return sorted(range(_NETWORKS), key=lambda number: (taken.count(str(number)), number))

    def _register(self, name: str, port: int, addresses: int) -> None:
        node = self._node(name, port)
        node["metadata"]["annotations"] = {POD_ADDRESSES: str(addresses)}
        made = retry(self.loop, lambda: self.kube.create(r.NODES, node), patience_s=journal.WRITE_PATIENCE_S)
        if parse(str(dig(made, "status", "capacity", "cpu", default="0"))) == 0:
            self.kube.patch(r.NODES, name, {"status": node["status"]}, subresource="status")

    def _node(self, name: str, port: int) -> Obj:
        """A Node as its kubelet registers it."""
        shape, capacity = self.shape, self.shape.capacity()
        arch = shape.instance.arch if shape.instance else "amd64"
        labels = {
            "kubernetes.io/arch": arch,
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": name,
            **({"node.kubernetes.io/instance-type": shape.instance.name} if shape.instance else {}),
            **({"nvidia.com/gpu.present": "true"} if shape.gpus and shape.resource == "nvidia.com/gpu" else {}),
            **shape.labels,
            HOLLOW: "true",
            LABEL: self.run,
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [dict(taint) for taint in shape.taints]},
            "status": {
                "capacity": capacity,
                "allocatable": dict(capacity),
                "addresses": [
                    {"type": "InternalIP", "address": self.kubelets.address},
                    # An API server asks by the Hostname first (apiserver, --kubelet-preferred-address-types), and no
                    # DNS knows this one's name.
                    {"type": "Hostname", "address": self.kubelets.address},
                ],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                "nodeInfo": _info(self.version, arch),
            },
        }

    def _clear(self, pods: Sequence[Obj]) -> list[str]:
        """What was bound to the Nodes ends with them, as by the PodGC: a control plane may have none. In words."""
        problems = []
        for pod in pods:
            name, namespace = name_of(pod), namespace_of(pod)
            try:
                self.as_kubelet.delete(r.PODS, name, namespace, uid=uid_of(pod), grace_s=0)
            except NotFound:
                continue
            except KubeError as error:
                problems.append(f"pod {namespace}/{name} of a hollow node that is gone: {error}")
        for node in self.names:
            try:
                self.as_kubelet.delete(r.LEASES, node, LEASES)
            except KubeError:
                continue  # its Node, which owns it, is gone: the garbage collector's
        return problems


def _impersonating() -> list[Permission]:
    return [Permission("impersonate", "", "users"), Permission("impersonate", "", "groups")]


def _of_plugin() -> list[Permission]:
    """What NetworkPolicies are enforced by; without these every packet of what runs here arrives."""
    asked = [("networking.k8s.io", "networkpolicies"), ("", "pods"), ("discovery.k8s.io", "endpointslices")]
    return [
        *(Permission(verb, group, kind) for group, kind in asked for verb in ("list", "watch")),
        Permission("get", "", "services"),
    ]


def _info(version: str, arch: str) -> dict[str, str]:
    return {
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
        "kernelVersion": "6.12.0",
        "osImage": "killcheck hollow node",
        "containerRuntimeVersion": "containerd://2.1.0",
        "kubeletVersion": version or "v1.36.2",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": arch,
    }
