"""An API server on a virtual loop whose door stands open: what the tests of the API itself begin with."""

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qs

from open_door import ADMIN, OpenDoor

from killcheck.clock import VirtualLoop
from killcheck.embedded.api.core import Config
from killcheck.embedded.api.http import Request
from killcheck.embedded.api.server import ApiServer
from killcheck.embedded.api.store import Store
from killcheck.embedded.transport import InProcessTransport
from killcheck.kube import resources as r
from killcheck.kube.client import Kube

START = datetime(2026, 11, 21, 2, 1, 6, tzinfo=UTC)


@dataclass
class World:
    """A server, its loop, and two ways to it: a client in this process, and raw requests as over the wire."""

    loop: VirtualLoop = field(default_factory=lambda: VirtualLoop(START))
    store: Store = field(default_factory=Store)
    authorizer: object = None

    def __post_init__(self):
        door = OpenDoor()
        self.server = ApiServer(
            self.store, self.loop, Config(door, self.authorizer, admission=door, rng=random.Random(7))
        )
        self.kube = Kube(InProcessTransport(self.server, self.loop, ADMIN), field_manager="test")
        self.kube.create(r.NAMESPACES, {"metadata": {"name": "default"}})

    def raw(self, method, url, body=None, content_type="application/json", user=None, **headers):
        """A request as it comes over the wire: bytes in, a Response out."""
        path, _, query = url.partition("?")
        if body is not None and not isinstance(body, bytes):
            body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        sent = {"content-type": content_type, "user-agent": "curl/8.5.0"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return self.server.handle(Request(method, path, parse_qs(query, keep_blank_values=True), sent, body, user))

    def settle(self):
        """Let everything that is due at this moment happen."""
        self.loop.run_until(lambda: False, 0)

    def watch(self, url):
        """Open a watch over the wire; returns the list that frames are added to (None marks its end)."""
        stream = self.raw("GET", url).stream
        frames = []
        stream.subscribe(frames.append, lambda: frames.append(None))
        self.settle()
        return frames


def deployment(name="vllm", *, replicas=1, **meta):
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"} | meta,
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "vllm", "image": "vllm:1"}]}},
        },
    }


def pod(name="worker", *, node="", grace=30, labels=None, **meta):
    spec = {"terminationGracePeriodSeconds": grace, "containers": [{"name": "c", "image": "i"}]}
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"} | ({"labels": labels} if labels else {}) | meta,
        "spec": spec,
    }


def configmap(name="settings", *, data=None, **meta):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"} | meta,
        "data": data or {},
    }
