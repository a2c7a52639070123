"""What the safety tests begin with: an embedded cluster, a picture of it, and transports that lose things."""

from __future__ import annotations

import base64
import random
import shutil

from killcheck.embedded.cluster import Cluster
from killcheck.kube import resources as r
from killcheck.kube.client import Answer, Kube, Transport
from killcheck.kube.errors import Unreachable
from killcheck.kube.objects import copy
from killcheck.safety.keys import key_path

#: Written by controllers for as long as a cluster lives: new names for the same thing.
GENERATED = {"Pod", "Node", "NodeClaim", "Event", "CSINode", "CSIStorageCapacity", "Lease", "EndpointSlice"}
_META = ("resourceVersion", "managedFields", "generation", "uid", "creationTimestamp", "ownerReferences")


def forget_finished():
    """Make this machine forget which runs have come to their end."""
    shutil.rmtree(key_path().parent / "finished", ignore_errors=True)


def picture(cluster, *, uids=True):
    """Every object that somebody wrote, by (table, namespace, name), without what each write changes.

    Pods and nodes come and go under new names; of them the number by owner counts. killcheck's own Leases do count.
    """
    found = {}
    for table in cluster.store.tables():
        for obj in cluster.store.values(table):
            meta = obj["metadata"]
            ours = any(key.startswith("killcheck.dev/") for key in meta.get("labels", {}))
            if obj.get("kind") in GENERATED and not (ours and obj["kind"] != "Pod"):
                continue
            if (
                obj.get("kind") == "Job"
                and not ours
                and any(owner["kind"] == "CronJob" for owner in meta.get("ownerReferences", ()))
            ):
                continue  # what the schedule made by itself
            bare = {key: value for key, value in copy(obj).items() if key != "status"}
            for key in _META if not uids else tuple(k for k in _META if k != "uid"):
                bare["metadata"].pop(key, None)
            _forget_noise(bare)
            found[(str(table), meta.get("namespace", ""), meta["name"])] = bare
    return found


def _forget_noise(obj):
    """What a workload's own controllers keep in annotations, and what is the same as nothing."""
    notes = obj["metadata"].get("annotations") or {}
    for key in [k for k in notes if k.startswith(("deployment.kubernetes.io/", "karpenter.sh/"))]:
        notes.pop(key)
    for key in ("annotations", "labels", "finalizers"):
        if not obj["metadata"].get(key):
            obj["metadata"].pop(key, None)


def differences(before, after):
    """What is left behind, in words; empty: nothing."""
    told = [f"new: {key}" for key in after if key not in before]
    told += [f"gone: {key}" for key in before if key not in after]
    told += [
        f"changed: {key}: {before[key]} -> {after[key]}"
        for key in before
        if key in after and (before[key] != after[key])
    ]
    return told


#: What a pod spec has that pulls with a Secret, and the Secret: without one none could expire.
PULLS_WITH = {"imagePullSecrets": [{"name": "mirror"}]}
PULL_SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "type": "kubernetes.io/dockerconfigjson",
    "metadata": {"name": "mirror", "namespace": "inference"},
    "data": {
        ".dockerconfigjson": base64.b64encode(b'{"auths": {"mirror.example.com": {"auth": "dTpw"}}}').decode(),
    },
}


def small_cluster(**settings):
    """An embedded cluster without nodes: a Deployment, a CronJob, a RoleBinding, a ConfigMap to do things to."""
    cluster = Cluster(exec_mode="none", **settings)
    kube = cluster.kube
    kube.create(r.NAMESPACES, {"metadata": {"name": "inference", "labels": {"killcheck.dev/consent": "true"}}})
    template = {"metadata": {"labels": {"app": "vllm"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    kube.create(
        r.DEPLOYMENTS,
        {
            "metadata": {"name": "vllm", "namespace": "inference", "annotations": {"kept": "yes"}},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "vllm"}}, "template": template},
        },
    )
    kube.create(r.CONFIGMAPS, {"metadata": {"name": "settings", "namespace": "inference"}, "data": {"a": "1"}})
    cluster.loop.sleep(5)
    return cluster


class Dead(BaseException):
    """The process was killed: nothing that it would have done afterwards happens."""


class Mortal(Transport):
    """A transport that dies before or after its n-th write."""

    def __init__(self, inner, *, at, after):
        self.inner, self.at, self.after, self.writes = inner, at, after, 0

    def request(self, method, path, query, body, headers):
        if self.writes < 0:
            raise Dead
        if method == "GET":
            return self.inner.request(method, path, query, body, headers)
        self.writes += 1
        if self.writes == self.at:
            if self.after:
                self.inner.request(method, path, query, body, headers)
            self.writes = -1
            raise Dead
        return self.inner.request(method, path, query, body, headers)

    def watch(self, *args):
        return self.inner.watch(*args)


class Lossy(Transport):
    """A transport that drops requests and answers, sends twice, and answers for the server; seeded.

    ``rate``: how many of a hundred requests meet with something.
    """

    CODES = {429: "TooManyRequests", 500: "InternalError", 409: "Conflict", 410: "Expired"}

    def __init__(self, inner, loop, seed, *, rate=15):
        self.inner, self.loop, self.rate = inner, loop, rate
        self.rng = random.Random(seed)
        self.met = 0

    def request(self, method, path, query, body, headers):
        if self.rng.randrange(100) >= self.rate:
            return self.inner.request(method, path, query, body, headers)
        self.met += 1
        fate = self.rng.choice(["lost", "answer lost", "twice", "late", 429, 500, 409, 410])
        if fate == "lost":
            raise Unreachable(f"{method} {path}: connection reset (lost on the way there)")
        if fate == "late":
            self.loop.sleep(self.rng.uniform(0.1, 3.0))
        if fate in self.CODES:
            if fate == 500 and self.rng.random() < 0.5:  # a server that fails after it has written
                self.inner.request(method, path, query, body, headers)
            status = {"kind": "Status", "code": fate, "reason": self.CODES[fate], "message": f"injected {fate}"}
            return Answer(fate, status)
        answer = self.inner.request(method, path, query, body, headers)
        if fate == "answer lost":
            raise Unreachable(f"{method} {path}: connection reset (lost on the way back)")
        if fate == "twice":
            return self.inner.request(method, path, query, body, headers)
        return answer

    def watch(self, path, query, on_event, on_end):
        closed = []
        close = self.inner.watch(path, query, on_event, lambda error: closed or on_end(error))

        def cut():
            if not closed:
                closed.append(True)
                close()
                on_end(Unreachable(f"watch {path}: connection reset"))

        timer = self.loop.call_later(self.rng.uniform(5, 600), cut) if self.rng.randrange(100) < self.rate else None

        def closer():
            closed.append(True)
            if timer:
                timer.cancel()
            close()

        return closer


def through(cluster, transport_of):
    """A client of the cluster whose transport is wrapped."""
    return Kube(transport_of(cluster.kube.transport), field_manager="killcheck")
