"""One kill path under each fault, drilled on the embedded cluster and on an API server that is named, side by side.

The named one needs no node and no GPU: hollow nodes are put on it, executors run in a sandbox of this host. What is
compared is what a drill says: verdict, cause, and which phases were reached in which order.
"""

import re
import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import yaml

from killcheck import faults, fixtures
from killcheck.capabilities.offered import Capabilities
from killcheck.clock import WallLoop, wall_now
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.cluster.hollow_nodes import HollowNodes, Shape
from killcheck.cluster.kubeconfig import KubeconfigCluster
from killcheck.drill.sequence import Drill, Options
from killcheck.kube import resources as r
from killcheck.kube.config import connect
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.machineless import HOLLOW
from killcheck.kube.objects import copy, dig, labels_of, name_of, namespace_of
from killcheck.run.session import Session
from killcheck.safety.journal import Journal
from killcheck.spec import specfile

NAMESPACE = "killcheck-conformance"
MANIFESTS = """
apiVersion: v1
kind: Namespace
metadata: {name: killcheck-conformance, labels: {killcheck.dev/consent: "true"}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: night, namespace: killcheck-conformance}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: night, namespace: killcheck-conformance}
rules: [{apiGroups: [apps], resources: [deployments, deployments/scale], verbs: [get, list, watch, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: night, namespace: killcheck-conformance}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: night}
subjects: [{kind: ServiceAccount, name: night, namespace: killcheck-conformance}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: render, namespace: killcheck-conformance}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: render}}
  template:
    metadata: {labels: {app: render}}
    spec:
      terminationGracePeriodSeconds: 2
      tolerations: [{key: killcheck.dev/hollow, operator: Exists}]
      containers:
      - {name: r, image: "ghcr.io/studio/render:7", command: [render], resources: {limits: {nvidia.com/gpu: 8}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: night, namespace: killcheck-conformance}
spec:
  schedule: "30 HOUR * * *"
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          serviceAccountName: night
          restartPolicy: Never
          containers:
          - name: kubectl
            image: alpine/k8s:1.32.3
            command: [kubectl, scale, deployment/render, --replicas=0]
""".replace("HOUR", str((wall_now().hour + 12) % 24))  # each night, and never while this is drilled
_OWN = "/var/run/secrets/kubernetes.io/serviceaccount"
_SCALE = f"https://kubernetes.default.svc/apis/apps/v1/namespaces/{NAMESPACE}/deployments/render/scale"
_URLLIB = f"""
import json, ssl, urllib.request as u
context = ssl.create_default_context(cafile="{_OWN}/ca.crt")
head = {{"Authorization": "Bearer " + open("{_OWN}/token").read(), "Content-Type": "application/merge-patch+json"}}
body = json.dumps({{"spec": {{"replicas": 0}}}}).encode()
u.urlopen(u.Request("{_SCALE}", data=body, method="PATCH", headers=head), context=context, timeout=20)
"""
_CLIENT = f"""
from kubernetes import client, config
config.load_incluster_config()
client.AppsV1Api().patch_namespaced_deployment_scale("render", "{NAMESPACE}", {{"spec": {{"replicas": 0}}}})
"""
_CURL = (
    f'curl -fsS --cacert {_OWN}/ca.crt -H "Authorization: Bearer $(cat {_OWN}/token)" -X PATCH {_SCALE} '
    '-H "Content-Type: application/merge-patch+json" -d \'{"spec":{"replicas":0}}\''
)
#: Executors as people have them, besides kubectl by itself: container fields of the switch.
EXECUTORS = {
    "kubectl in a shell": {
        "image": "alpine/k8s:1.32.3",
        "command": [
            "sh",
            "-ec",
            "kubectl scale deployment/render --replicas=0\nkubectl rollout status deployment/render",
        ],
    },
    "kubectl without a shell": {
        "image": "registry.k8s.io/kubectl:v1.33.1",
        "command": ["kubectl", "scale", "deployment", "render", "--replicas=0"],
    },
    "curl": {"image": "curlimages/curl:8.9.1", "command": ["sh", "-c", _CURL]},
    "python's urllib": {"image": "python:3.12-slim", "command": ["python3", "-c", _URLLIB]},
    "python's client": {"image": "ghcr.io/studio/gpu-off:1.4", "command": ["python3", "-c", _CLIENT]},
}
SPEC = """
apiVersion: killcheck/v1
kind: KillPath
name: conformance
targets: [{name: render, kind: Deployment, namespace: killcheck-conformance, object: render}]
layers:
- {name: night, type: dead-man, covers: [render], cronJob: {namespace: killcheck-conformance, name: night}}
nodes: [{name: gpu, selector: killcheck.dev/pool=conformance}]
proof: [P1]
deadlines: {podScheduled: 15s, imagePulled: 20s, containerStarted: 25s, executorFinished: 35s, scaleWritten: 35s, podsGone: 45s, held: 3s}
consent: {contexts: ["*"], namespaces: [killcheck-conformance], pools: [gpu]}
"""
#: Those that take no lever of a cluster's own, and a namespace's rights.
FAULTS = (
    "image-gone",
    "command-missing",
    "token-dead",
    "token-audience",
    "token-not-mounted",
    "rolebinding-gone",
    "suspended",
    "quota-exhausted",
    "no-room",
    "webhook-down",
    "podsecurity",
    "job-hung-under-forbid",
    "run-never-finishes",
    "finalizer",
    "long-grace",
    "zone-changed",
    "registry-unreachable",
    "egress-denied",
    "api-unreachable",
    "proxy-in-the-way",
    "sidecar-not-ready",
    "rival-operator",
    "laptop-killed",
)
#: Those that mean something to a reference path beside them. `keda-minimum` would: there is no KEDA on a bare server.
BESIDE = ("dns-denied", "dns-wrong", "second-starter")
#: What each executor meets in its own words.
WORDS = ("", "token-dead", "token-audience", "rolebinding-gone")
#: Objects say the second in which they were written: of two phases that are no further apart neither is the first.
SAME_S = 1.0
#: What differs from run to run and says nothing: names that are made up, times, addresses, counts of bytes and seconds.
_PASSING = re.compile(
    r"\bgpu-1\b|\bcpu-1\b|\bhollow-[0-9a-f]{6}-1\b|(killcheck|night-hung)-[a-z-]*[0-9a-f]{4,}-\d+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b"
    r"|(-[bcdfghjklmnpqrstvwxz2456789]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}\b"
    r"|\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?Z?)?|\b\d\d:\d\d:\d\d\b|\b\d+\.\d+\.\d+\.\d+(:\d+)?\b|\b\d+(\.\d+)?\b"
)


#: Deadlines in which a drill on a real clock can be waited for.
DEADLINES = {
    **dict.fromkeys(("podScheduled", "imagePulled", "containerStarted"), "25s"),
    **{"executorFinished": "35s", "scaleWritten": "35s", "podsGone": "45s", "held": "3s"},
}


class Subject(NamedTuple):
    """A kill path with what it consists of, and the labels and taints of the node that its GPUs are on."""

    name: str
    spec: dict
    objects: list
    labels: dict
    taints: tuple

    @property
    def namespaces(self):
        return [name_of(obj) for obj in self.objects if obj["kind"] == "Namespace"]


def conformance(executor=""):
    """The kill path that is written here; ``executor``: of :data:`EXECUTORS`, or kubectl by itself."""
    taint = {"key": "killcheck.dev/hollow", "value": "true", "effect": "NoSchedule"}
    labels = {"killcheck.dev/pool": "conformance"}
    return Subject("conformance", yaml.safe_load(SPEC), manifests(executor), labels, (taint,))


def reference(name):
    """A kill path that ships with killcheck, to be drilled by day on nodes that nothing takes away: P1 and P4."""
    session = Session(fixture=name)
    objects = [copy(obj) for obj in session.objects if obj["kind"] not in ("NodePool", "EC2NodeClass")]
    for obj in objects:
        if obj["kind"] == "Namespace":
            obj["metadata"]["labels"] = {"killcheck.dev/consent": "true", **labels_of(obj)}
    said = yaml.safe_load(fixtures.spec(name).read_text())
    said |= {"proof": ["P1", "P4"], "deadlines": DEADLINES}
    said["nodes"] = [{"name": "gpu", "selector": "karpenter.sh/nodepool=gpu"}]
    said["consent"] = {"contexts": ["*"], "namespaces": said["consent"]["namespaces"], "pools": ["gpu"]}
    del said["policy"]
    taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
    return Subject(name, said, objects, {"karpenter.sh/nodepool": "gpu"}, (taint,))


@dataclass(frozen=True)
class Told:
    """What one drill said."""

    verdict: str
    cause: str
    order: tuple[str, ...]
    to_zero_s: float | None
    why: str = ""
    left: tuple[str, ...] = ()
    bites: str = ""

    @property
    def compared(self):
        return self.verdict, _PASSING.sub("*", self.cause), self.order


def told(result):
    reached = [p for p in result.phases if p.get("at_s") is not None]
    names = [str(p["phase"]) for p in reached]
    late = [p["phase"] for p, after in pairwise(reached) if p["at_s"] > after["at_s"] + SAME_S]
    order = tuple(f"{name} (late)" if name in late else name for name in names)
    return Told(
        str(result.verdict),
        result.cause,
        order,
        result.seconds_to_zero,
        result.why,
        tuple(result.problems),
        str(result.bites),
    )


def spec(folder, subject=None):
    """The subject's spec, read from a file in ``folder``; without a subject that of the kill path written here."""
    path = Path(folder) / "killcheck.yaml"
    path.write_text(yaml.safe_dump(subject.spec) if subject else SPEC)
    return specfile.load(path)


def drill(cluster, kill_path, fault, layer=""):
    run = f"20260115-030001-{secrets.token_hex(3)}-0"
    journal = Journal(run, cluster.loop, cluster.kube, capabilities=cluster.capabilities)
    kinds = [faults.named(fault)] if fault else []
    drilled = kill_path.layer(layer) if layer else kill_path.layers[0]
    return told(
        Drill(
            cluster, kill_path, drilled, kinds, run=run, journal=journal, price=lambda _: None, options=Options()
        ).run()
    )


def manifests(executor=""):
    """The kill path; ``executor``: of :data:`EXECUTORS`, or kubectl by itself."""
    *before, switch = yaml.safe_load_all(MANIFESTS)
    if executor:
        pod = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        pod["containers"] = [{"name": "x", **EXECUTORS[executor]}]
    return [*before, switch]


def on_embedded(kill_path, fault, executor="", subject=None, layer=""):
    """On a cluster of this process, taken for somebody's: with none of its levers."""
    what = subject or conformance(executor)
    objects = [*what.objects, *_nodes(what)]
    cluster = EmbeddedDrillCluster(objects, exec_mode="host", start=datetime(2026, 1, 15, 12, tzinfo=UTC))
    cluster.real, cluster.name, cluster.capabilities = True, "embedded", Capabilities()
    try:
        cluster.loop.run_until(lambda: False, 60)
        return drill(cluster, kill_path, fault, layer)
    finally:
        cluster.close()


def _nodes(subject=None):
    from killcheck.embedded.default_objects import node

    what = subject or conformance()
    gpu = node("gpu-1", "p5.48xlarge", cpu=96, memory="1024Gi", devices={"nvidia.com/gpu": 8})
    gpu["metadata"]["labels"] |= what.labels
    # It says that it is hollow, as those on the named cluster do by their label.
    said = (
        [] if any(taint["key"] == HOLLOW for taint in what.taints) else [{"key": HOLLOW, "effect": "PreferNoSchedule"}]
    )
    gpu["spec"] = {"taints": [*what.taints, *said]}
    return [gpu, node("cpu-1", "m6i.xlarge", cpu=12, memory="128Gi")]


class Named:
    """The cluster that a kubeconfig's current context leads to, with hollow nodes and a kill path on it."""

    def __init__(self, kubeconfig, subject):
        path = Path(kubeconfig)
        self.context = yaml.safe_load(path.read_text())["current-context"]
        self.cluster = KubeconfigCluster(self.context, kubeconfig=path)
        self.kube, self.loop = self.cluster.kube, self.cluster.loop
        self.subject, self.executor = subject, ""
        for obj in subject.objects:
            if obj["kind"] == "Namespace":
                self._made(obj)
        # In a thread of its own: the drill waits for answers of the API server, which asks kubelets for logs.
        self.tending = WallLoop()
        tends = connect(self.context, kubeconfig=path, loop=self.tending)
        own = {"home": subject.namespaces[0], "context": self.context, "exec_mode": "host"}
        own["version"] = self.cluster.kubernetes
        gpu = Shape(1, 8, labels=subject.labels, taints=subject.taints)
        self.hollow = [HollowNodes(tends, self.tending, gpu, **own)]
        if not any(_takes_anything(node) for node in self.kube.list(r.NODES).items):
            self.hollow.append(HollowNodes(tends, self.tending, Shape(1, 0, taints=()), **own))
        for nodes in self.hollow:
            nodes.up()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._tend, name="conformance-nodes", daemon=True)
        self.thread.start()
        for obj in subject.objects:
            self._made(obj)
        self._until(self._on)

    def _tend(self):
        self.tending.run_until(self.over.is_set)

    def drill(self, kill_path, fault, executor="", layer=""):
        if executor != self.executor:
            switch = manifests(executor)[-1]
            resource = self.kube.resource_for(switch["apiVersion"], switch["kind"])
            self.kube.delete(resource, switch["metadata"]["name"], NAMESPACE)
            self._until(lambda: self.kube.find(resource, switch["metadata"]["name"], NAMESPACE) is None)
            self._made(switch)
            self.executor = executor
        return drill(self.cluster, kill_path, fault, layer)

    def close(self):
        """Take everything away; what could not be, in words."""
        left = []
        for name in self.subject.namespaces:
            with suppress(NotFound):
                self.kube.delete(r.NAMESPACES, name)
        self._until(lambda: not any(self.kube.find(r.NAMESPACES, name) for name in self.subject.namespaces))
        self.over.set()
        self.tending.post(lambda: None)
        self.thread.join()
        for nodes in self.hollow:
            left += nodes.down()
        self.cluster.close()
        return left

    def _made(self, obj):
        resource = self.kube.resource_for(obj["apiVersion"], obj["kind"])
        try:
            self.kube.create(resource, copy(obj), namespace_of(obj) if resource.namespaced else None)
        except Conflict:
            return

    def _until(self, done):
        """Ask once a second, for a minute: nothing else wakes this loop."""
        for _ in range(60):
            if done():
                return
            self.loop.sleep(1.0)

    def _on(self):
        wanted = [obj for obj in self.subject.objects if obj["kind"] in ("Deployment", "DaemonSet")]
        return all(self._ready(obj) for obj in wanted)

    def _ready(self, obj):
        found = self.kube.find(self.kube.resource_for(obj["apiVersion"], obj["kind"]), name_of(obj), namespace_of(obj))
        return bool(dig(found or {}, "status", "readyReplicas") or dig(found or {}, "status", "numberReady"))


def _takes_anything(node):
    return not dig(node, "spec", "taints", default=[]) and not name_of(node).startswith("hollow-")


def report(rows, version):
    """Markdown: a line a fault, what differs in bold."""
    lines = [
        f"| fault | embedded | {version} | phases reached, in order |",
        "|---|---|---|---|",
    ]
    for fault, ours, theirs in rows:
        same = ours.compared == theirs.compared
        order = (
            " ".join(theirs.order)
            if ours.order == theirs.order
            else f"**{' '.join(ours.order)}** / **{' '.join(theirs.order)}**"
        )
        cells = [_cell(one, bold=not same) for one in (ours, theirs)]
        lines.append(f"| {fault or '(none)'} | {cells[0]} | {cells[1]} | {order} |")
    alike = sum(ours.compared == theirs.compared for _, ours, theirs in rows)
    return "\n".join([f"{alike} of {len(rows)} alike.", "", *lines, ""])


def _cell(one, *, bold):
    zero = f", {one.to_zero_s:.1f} s" if one.to_zero_s is not None else ""
    text = f"{one.verdict}{zero}: {one.cause or one.why}".replace("|", "/").replace("\n", " ")
    return f"**{text}**" if bold else text
