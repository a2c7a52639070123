"""A store with a few objects, a loop, and everything that decides about access: what the tests here begin with."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime

from killcheck.clock import VirtualLoop
from killcheck.embedded.api import bootstrap
from killcheck.embedded.api.admission.chain import Chain
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.authn import Authenticator
from killcheck.embedded.api.http import User
from killcheck.embedded.api.kinds import Registry
from killcheck.embedded.api.rbac import Authorizer
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.tokens import Issuer
from killcheck.kube.objects import copy, format_time

START = datetime(2026, 11, 21, 2, 1, 4, tzinfo=UTC)
ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
REGISTRY = Registry()


@dataclass
class World:
    """The parts, wired as the API server wires them."""

    store: Store
    loop: VirtualLoop
    issuer: Issuer
    authorizer: Authorizer
    authenticator: Authenticator
    chain: Chain

    def put(self, obj, namespace=""):
        kind = kind_of(obj)
        meta = obj.setdefault("metadata", {})
        if kind.resource.namespaced:
            meta.setdefault("namespace", namespace or "team")
        meta.setdefault("uid", f"uid-of-{meta['name']}")
        meta.setdefault("creationTimestamp", format_time(self.loop.now()))
        return self.store.put(kind.table, (meta.get("namespace", ""), meta["name"]), obj)

    def remove(self, plural, name, namespace="team", group=""):
        self.store.remove((group, plural), (namespace, name))

    def admit(self, operation, obj, *, old=None, subresource="", user=ADMIN, dry_run=False, name=None, kind=None):
        """Run the chain as the server does for a request of ``user``; answers (object, warnings)."""
        kind = kind or kind_of(obj or old)
        meta = (obj or old).get("metadata", {})
        namespace = meta.get("namespace", "team") if kind.resource.namespaced else ""
        shown = meta.get("name", "") if name is None else name
        return self.chain.admit(
            AdmissionRequest(
                operation, kind, subresource, namespace, shown, obj, old, user, dry_run, authorizer=self.authorizer
            )
        )


def kind_of(obj):
    group, _, version = obj["apiVersion"].rpartition("/")
    return next(
        k
        for k in REGISTRY.all()
        if (k.resource.group, k.resource.version, k.resource.kind) == (group, version, obj["kind"])
    )


def world():
    """A cluster as it begins, with the namespace ``team`` and its ServiceAccounts ``default`` and ``gpu-off``."""
    store, loop = Store(), VirtualLoop(START)
    authorizer = Authorizer(store)
    issuer = Issuer(store, loop)
    parts = World(
        store,
        loop,
        issuer,
        authorizer,
        Authenticator(issuer, authorizer),
        Chain(store, loop, authorizer, random.Random(1)),
    )
    for obj in (*bootstrap.objects(), *bootstrap.roles()):
        parts.put(copy(obj))
    parts.put(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "team"}},
        }
    )
    for name in ("default", "gpu-off"):
        parts.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    return parts


def executor(**spec):
    """The executor's pod, named as the Job controller's pods are."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "gpu-off-drill-", "name": "gpu-off-drill-gf697", "namespace": "team"},
        "spec": {
            "serviceAccountName": "gpu-off",
            "restartPolicy": "Never",
            "containers": [{"name": "executor", "image": "localhost:5000/rec/executor:1"}],
            **spec,
        },
    }
