"""A cluster without controllers: the API server with its real doors, hollow nodes, and pods bound by hand."""

import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from killcheck.clock import VirtualLoop
from killcheck.embedded import wire
from killcheck.embedded.api import bootstrap
from killcheck.embedded.api.admission.chain import Chain
from killcheck.embedded.api.authn import Authenticator
from killcheck.embedded.api.core import Config
from killcheck.embedded.api.http import User
from killcheck.embedded.api.rbac import Authorizer
from killcheck.embedded.api.server import ApiServer
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.tokens import Issuer
from killcheck.embedded.nodes import NodeAgents
from killcheck.embedded.nodes.registry import Registry
from killcheck.embedded.pki import Pki
from killcheck.embedded.transport import InProcessTransport
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Conflict, NotFound

START = datetime(2026, 11, 21, 2, 0, 0, tzinfo=UTC)
ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
PKI = Pki()


def no_thread_is_left():
    """None of the product's own: each has been told to end, and may not have had its turn to on a busy host."""
    for thread in threading.enumerate():
        if thread.name.startswith("killcheck-"):
            thread.join(120.0)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("killcheck-")]


@dataclass
class World:
    """``exec_mode`` and ``runtime`` as NodeAgents takes them; use it as a context manager where processes run."""

    exec_mode: str = "none"
    runtime: object = None
    nodes_named: tuple[str, ...] = ("cpu-1",)
    loop: VirtualLoop = field(default_factory=lambda: VirtualLoop(START))

    def __post_init__(self):
        rng = random.Random(7)
        self.store = Store()
        issuer = Issuer(self.store, self.loop, rng=rng)
        authorizer = Authorizer(self.store)
        self.server = ApiServer(
            self.store,
            self.loop,
            Config(
                authenticator=Authenticator(issuer, authorizer),
                authorizer=authorizer,
                admission=Chain(self.store, self.loop),
                rng=rng,
            ),
        )
        self.kube = self.kube_as(ADMIN)
        for obj in bootstrap.objects():
            self.add(obj)
        bootstrap.install_roles(self.server)
        self.wire = wire.Server(self.server, self.loop, PKI)
        self.registry = Registry()
        self.nodes = NodeAgents(
            self.kube_as,
            self.loop,
            self.registry,
            exec_mode=self.exec_mode,
            rng=rng,
            wire=self.wire,
            server=self.server,
            runtime=self.runtime,
        )
        for name in self.nodes_named:
            self.add(node(name))
        self.namespace("team")
        self.run(0)

    def kube_as(self, user):
        return Kube(InProcessTransport(self.server, self.loop, user), field_manager="test")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self.loop.entered():
            self.nodes.stop()
        self.wire.stop()

    # -- writing -------------------------------------------------------------------------------------------
    def add(self, obj):
        resource = self.kube.resource_for(obj["apiVersion"], obj["kind"])
        space = (obj["metadata"].get("namespace") or "default") if resource.namespaced else None
        with suppress(Conflict):
            made = self.kube.create(resource, obj, space)
            if obj["kind"] == "Node":
                self.kube.patch(r.NODES, obj["metadata"]["name"], {"status": obj["status"]}, subresource="status")
            return made

    def namespace(self, name):
        self.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.add({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}})
        self.add(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "kube-root-ca.crt", "namespace": name},
                "data": {"ca.crt": PKI.ca_pem},
            }
        )

    def grant(self, role, account="default", rules=()):
        subject = [{"kind": "ServiceAccount", "name": account, "namespace": "team"}]
        group = "rbac.authorization.k8s.io"
        self.add(
            {
                "apiVersion": f"{group}/v1",
                "kind": "Role",
                "metadata": {"name": role, "namespace": "team"},
                "rules": list(rules),
            }
        )
        self.add(
            {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": role, "namespace": "team"},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": role},
                "subjects": subject,
            }
        )

    # -- reading -------------------------------------------------------------------------------------------
    def run(self, seconds):
        self.loop.sleep(seconds)

    def run_until_over(self, name, timeout_s=600):
        assert self.loop.run_until(
            lambda: self.pod(name)["status"].get("phase") in ("Succeeded", "Failed"), timeout_s
        ), self.pod(name)
        return self.pod(name)

    def pod(self, name):
        return self.kube.get(r.PODS, name, "team")

    def gone(self, name):
        try:
            self.pod(name)
        except NotFound:
            return True
        return False

    def state(self, name, index=0):
        return self.pod(name)["status"]["containerStatuses"][index]["state"]

    def log(self, name, **options):
        return self.kube.logs(name, "team", **options)

    def events(self, name):
        """(type, reason, message, count) of a pod's events, oldest first."""
        found = [e for e in self.kube.list(r.EVENTS, "team").items if e["involvedObject"]["name"] == name]
        return [(e["type"], e["reason"], e["message"], e["count"]) for e in found]

    def watch_states(self, name):
        """The list to which (seconds, container state) are added at every change of a pod's first container."""
        seen = []
        begun = self.loop.monotonic()

        def changed(event):
            pod = event.object
            if pod["metadata"].get("name") != name or event.type != "MODIFIED":
                return
            for status in pod["status"].get("containerStatuses", [])[:1]:
                if not seen or seen[-1][1] != status["state"]:
                    seen.append((round(self.loop.monotonic() - begun, 2), status["state"]))

        self.kube.watch(r.PODS, changed, lambda error: None, namespace="team")
        return seen


def node(name, **labels):
    capacity = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64"} | labels},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": dict(capacity)},
    }


def pod(name, *, node="cpu-1", policy="Always", annotations=None, **container):
    spec = {
        "nodeName": node,
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": container.pop("grace", 30),
        "containers": [
            {"name": "main", "image": "localhost:5000/rec/executor:1"}
            | container.pop("main", {})
            | {
                key: value
                for key, value in container.items()
                if key
                in (
                    "image",
                    "command",
                    "args",
                    "env",
                    "imagePullPolicy",
                    "volumeMounts",
                    "lifecycle",
                    "readinessProbe",
                    "envFrom",
                    "resources",
                    "workingDir",
                )
            }
        ],
    }
    spec |= {key: value for key, value in container.items() if key not in spec["containers"][0]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "annotations": annotations or {}},
        "spec": spec,
    }
