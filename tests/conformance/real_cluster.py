"""A real control plane in the embedded cluster's place: its API server, controllers and scheduler, our hollow nodes.

So a recorded situation that runs no executor is played again where neither API server nor controllers are ours.
"""

import json
import random
from pathlib import Path
from urllib.parse import urlencode

import yaml
from servers import Real

from killcheck.clock import WallLoop
from killcheck.embedded.api.http import Response
from killcheck.embedded.nodes.kubelets import NodeAgents
from killcheck.embedded.nodes.registry import Registry
from killcheck.kube import resources as r
from killcheck.kube.config import connect
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.objects import copy


class RealCluster:
    """What a ``Replay`` asks of an ``Cluster``, on a kubeconfig's current context."""

    def __init__(self, kubeconfig, labels=""):
        """``labels``: of the nodes that have our kubelets (all of them)."""
        self.loop = WallLoop()
        path = Path(kubeconfig)
        self.kube = connect(yaml.safe_load(path.read_text())["current-context"], kubeconfig=path, loop=self.loop)
        self.real = Real(kubeconfig)
        self.server = self
        self.kubelets = {}
        self.registry = Registry()
        self.made = []
        self.nodes = NodeAgents(
            lambda user: self.kube, self.loop, self.registry, rng=random.Random(3), server=self, labels=labels
        )

    def load(self, objects):
        for obj in objects:
            resource = self.kube.resource_for(obj["apiVersion"], obj["kind"])
            name = obj["metadata"]["name"]
            self.made.append((resource, name))
            try:
                self.kube.create(resource, copy(obj))
            except Conflict:
                continue
            self.kube.patch(resource, name, {"status": obj["status"]}, subresource="status")

    def handle(self, request):
        """A raw request, as the replayed recording sent it."""
        query = urlencode([(key, value) for key, values in request.query.items() for value in values])
        body = request.body
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        status, _, answer = self.real.ask(
            request.method, request.path + (f"?{query}" if query else ""), body, request.headers["content-type"]
        )
        return Response(status, answer)

    def forget(self, namespace):
        """Take away what an earlier run has left of a namespace, and wait for it to be gone."""
        try:
            self.kube.delete(r.NAMESPACES, namespace)
        except NotFound:
            return
        for _ in range(120):
            self.loop.sleep(0.5)
            try:
                self.kube.get(r.NAMESPACES, namespace)
            except NotFound:
                return

    def close(self):
        self.nodes.stop()
        for resource, name in self.made:
            try:
                self.kube.delete(resource, name)
            except NotFound:
                continue
        self.loop.sleep(0.2)
