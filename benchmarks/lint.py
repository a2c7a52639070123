"""How long ``killcheck lint --on`` takes beside ``kubectl get pods,nodes -A -o json`` on the same API, and its memory.

Run: python benchmarks/lint.py [NODES PODS [ROUNDS]]
5,000 nodes and 50,000 pods of some three kilobytes each are served over TLS by the embedded API server, in a process of
its own; the reference kill path is among them.
To reach: at most 1.5 times kubectl's time, under 500 MB.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from killcheck.clock import wall_seconds
from killcheck.kube.objects import Obj

ROUNDS = 3
GPU_NODES = 50
CONTEXT = "killcheck-embedded"


def serve(nodes: int, pods: int, folder: Path) -> None:
    """An API server with that many objects and nothing that acts on them; says 'up', and goes when its input ends."""
    import random
    import threading

    from killcheck.fixtures import path

    from killcheck.clock import WallLoop
    from killcheck.embedded.api import bootstrap
    from killcheck.embedded.api.admission.chain import Chain
    from killcheck.embedded.api.authn import Authenticator
    from killcheck.embedded.api.core import Config
    from killcheck.embedded.api.rbac import Authorizer
    from killcheck.embedded.api.server import ApiServer
    from killcheck.embedded.api.store import Store
    from killcheck.embedded.api.tokens import Issuer
    from killcheck.embedded.cluster import ADMIN
    from killcheck.embedded.models.definitions import crds
    from killcheck.embedded.pki import Pki
    from killcheck.embedded.transport import InProcessTransport
    from killcheck.embedded.wire import Server
    from killcheck.kube import manifests
    from killcheck.kube.client import Kube

    loop, store, rng = WallLoop(), Store(), random.Random(1)
    issuer, authorizer = Issuer(store, loop, rng=rng), Authorizer(store)
    server = ApiServer(
        store,
        loop,
        Config(
            authenticator=Authenticator(issuer, authorizer),
            authorizer=authorizer,
            admission=Chain(store, loop, authorizer, rng),
            rng=rng,
        ),
    )
    kube = Kube(InProcessTransport(server, loop, ADMIN))
    loaded = [m.obj for m in manifests.load([path("dead-man")]).manifests if m.obj.get("apiVersion") != "killcheck/v1"]
    for obj in (*bootstrap.objects(), *crds(), *sorted(loaded, key=lambda o: o["kind"] != "Namespace")):
        kube.create(kube.resource_for(obj["apiVersion"], obj["kind"]), obj)
    for kind, objects in (("Node", map(node, range(nodes))), ("Pod", (pod(i, nodes) for i in range(pods)))):
        table = server.kinds.by_kind("", kind).table
        for obj in objects:
            store.put(table, (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]), obj)
    wire = Server(server, loop, Pki())
    wire.start()
    wire.write_kubeconfig(folder / "kubeconfig")
    over: list[bool] = []

    def wait() -> None:
        sys.stdin.read()
        over.append(True)
        loop.call_soon(lambda: None)

    threading.Thread(target=wait, daemon=True).start()
    sys.stdout.write("up\n")
    sys.stdout.flush()
    loop.run_until(lambda: bool(over))
    wire.stop()


def node(i: int) -> Obj:
    gpus = {"nvidia.com/gpu": "8"} if i < GPU_NODES else {}
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "500Gi", **gpus}
    labels = {
        "kubernetes.io/hostname": f"node-{i}",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"eu-west-1{'abc'[i % 3]}",
        "node.kubernetes.io/instance-type": "m7i.16xlarge",
        **({"karpenter.sh/nodepool": "gpu"} if gpus else {}),
    }
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "reason": f"Kubelet{kind}",
            "message": "kubelet has something to say about this",
            "lastHeartbeatTime": "2026-01-15T03:00:00Z",
            "lastTransitionTime": "2026-01-01T03:00:00Z",
        }
        for kind in kinds
    ]
    images = [
        {"names": [f"registry.example.com/team/app-{i % 40 + k}@sha256:{k:064d}"], "sizeBytes": 10**8 + k}
        for k in range(15)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**meta(f"node-{i}", i), "labels": labels},
        "spec": {"providerID": f"aws:///eu-west-1a/i-{i:017x}"},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": conditions, "images": images},
    }


def pod(i: int, nodes: int) -> Obj:
    name, app = f"app-{i % 700}-{i:08x}", f"app-{i % 700}"
    container = {
        "name": "app",
        "image": f"registry.example.com/team/{app}:1.2.{i % 9}",
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": f"SETTING_{k}", "value": f"some value of {k}"} for k in range(12)],
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}, "periodSeconds": 10},
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-10T03:00:00Z"}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    status = {
        "name": "app",
        "ready": True,
        "restartCount": 0,
        "image": container["image"],
        "imageID": f"sha256:{i:064x}",
        "state": {"running": {"startedAt": "2026-01-10T03:00:00Z"}},
        "containerID": f"containerd://{i:064x}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **meta(name, i),
            "namespace": "default",
            "labels": {"app": app, "pod-template-hash": f"{i % 99:010d}"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"r{i % 700}"}],
        },
        "spec": {
            "nodeName": f"node-{i % nodes}",
            "containers": [container],
            "restartPolicy": "Always",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
        },
        "status": {
            "phase": "Running",
            "podIP": "10.1.2.3",
            "hostIP": "10.0.0.1",
            "conditions": conditions,
            "containerStatuses": [status],
            "qosClass": "Burstable",
        },
    }


def meta(name: str, i: int) -> Obj:
    field = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": {"k:{}": {"f:env": {}}}}}
    managed = [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-10T03:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": field,
        }
    ]
    return {
        "name": name,
        "uid": f"{name}-{i}",
        "resourceVersion": str(1000 + i),
        "managedFields": managed,
        "creationTimestamp": "2026-01-10T03:00:00Z",
    }


def timed(argv: list[str], folder: Path) -> tuple[float, float]:
    """(seconds, MB at most) of a program."""
    script = (
        "import os,resource,subprocess,sys\np=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1024)\nsys.exit(p.returncode)"
    )
    begun = wall_seconds()
    done = subprocess.run(
        [sys.executable, "-c", script, *argv],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"KUBECONFIG": str(folder / "kubeconfig")},
    )
    seconds = wall_seconds() - begun
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr}")
    return seconds, float(done.stdout)


def main(nodes: int = 5_000, pods: int = 50_000, rounds: int = ROUNDS) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = subprocess.Popen(
            [sys.executable, __file__, "serve", str(nodes), str(pods), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        assert server.stdout.readline() == "up\n"
        try:
            ask = ["kubectl", "--context", CONTEXT, "get", "pods,nodes", "-A", "-o", "json"]
            lint = [str(Path(sys.executable).with_name("killcheck")), "lint", "--on", CONTEXT, "--json"]
            kubectl, ours = [], []
            for _ in range(rounds):  # in turn, so that a busy machine slows both
                kubectl.append(timed(ask, folder))
                ours.append(timed(lint, folder))
        finally:
            server.communicate("")
    by_hand, by_us = (statistics.median(s for s, _ in runs) for runs in (kubectl, ours))
    print(f"{nodes} nodes, {pods} pods, median of {rounds}")
    print(f"  kubectl get pods,nodes -A -o json  {by_hand:6.1f} s  {max(m for _, m in kubectl):6.0f} MB")
    print(
        f"  killcheck lint --on                {by_us:6.1f} s  {max(m for _, m in ours):6.0f} MB   "
        f"({by_us / by_hand:.2f} times kubectl's; to reach: 1.5 and 500 MB)"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        main(*map(int, sys.argv[1:4]))
