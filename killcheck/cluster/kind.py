"""A local cluster of real kubelets and containers, made by the ``kind`` command on a Docker Engine, or adopted.

One CPU worker, GPU workers whose status advertises devices that are not there, and a local registry wired into every
node (kind's own recipe: kind.sigs.k8s.io/docs/user/local-registry). What it makes is marked in the cluster itself, so
that taking it down never takes down somebody else's.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.capabilities.cluster import ClusterError, InstanceState
from killcheck.capabilities.offered import Capabilities
from killcheck.clock import WallLoop
from killcheck.cluster.base import RealCluster
from killcheck.cluster.kind_nodes import GPU_LABEL, NodeKeeper
from killcheck.cluster.naming import DEFAULT_KIND, kind_name
from killcheck.engine.api import EngineApi
from killcheck.engine.connection import Engine, answered
from killcheck.engine.projection import GROUP
from killcheck.engine.registry import Registry
from killcheck.entries import Assumption
from killcheck.kube import manifests
from killcheck.kube import resources as r
from killcheck.kube.client import Answer, Closer, Kube, Transport
from killcheck.kube.config import connect
from killcheck.kube.errors import Conflict, KubeError, NotFound
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.safety.undo import retry
from killcheck.text.files import own

__all__ = ["SPEC", "Kind", "KindCluster", "restoring", "wake"]

#: Label that kind puts on its node containers (kind pkg/cluster/internal/providers/docker).
KIND_LABEL = "io.x-k8s.kind.cluster"
REGISTRY, REGISTRY_PORT = "killcheck-registry", 5001
REGISTRY_IMAGE = "registry:3"
IMAGE = f"localhost:{REGISTRY_PORT}/kubectl:1"
#: The ConfigMap in kube-system that says what of a cluster is ours.
MARK = "killcheck-made-this"
#: Seconds that kind may take, the download of its node image included.
CREATE_S = 900.0
HERE = Path(__file__).parent
#: The spec of the reference kill path as it is applied here.
SPEC = HERE / "kind_spec.yaml"


class Kind(Struct):
    """The ``kind`` command, and one cluster of it. Raises ClusterError where the command is missing or fails.

    ``folder``: where the kubeconfig is kept. ``say`` tells a person what is done.
    """

    name: str
    folder: Path
    say: Callable[[str], None] = lambda text: None

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of this cluster alone."""
        return self.folder / f"{self.name}.kubeconfig"

    @property
    def context(self) -> str:
        """As kind calls it."""
        return f"kind-{self.name}"

    def exists(self) -> bool:
        """Whether kind knows a cluster of that name."""
        return self.name in self._kind("get", "clusters").split()

    def up(self, *, gpu_nodes: int = 1, gpus: int = 8, image: str = "") -> None:
        """Create the cluster, or adopt one that is there; then bring it to what a drill needs. Can be done again."""
        engine = Engine()
        made = not self.exists()
        if made:
            self.say(f"kind creates cluster {self.name} (1 control plane, 1 CPU worker, {gpu_nodes} GPU worker(s))")
            self._create(gpu_nodes, image)
        else:
            self.say(f"cluster {self.name} is there: adopted")
            self.export()
        kube = connect(self.context, kubeconfig=self.kubeconfig, loop=WallLoop())
        _mark(kube, made)
        self._registry(engine, kube)
        self._image(engine)
        count = advertise(kube, gpus)
        self.say(f"{count} node(s) advertise {gpus} nvidia.com/gpu each: stand-ins, there is no device behind them")
        for one in manifests.load([HERE / "kind_path.yaml"]).objects:
            _create(kube, one)
        self.say(f"the reference kill path is applied: killcheck drill --on {_on(self.name)}")

    def down(self) -> str:
        """Delete the cluster if we made it, what we added if we adopted it; says which."""
        if not self.exists():
            raise ClusterError(f"there is no kind cluster {self.name}")
        self.export()
        kube = connect(self.context, kubeconfig=self.kubeconfig, loop=WallLoop())
        mark = kube.find(r.CONFIGMAPS, MARK, "kube-system")
        if mark is None:
            raise ClusterError(
                f"cluster {self.name} was not made by killcheck, nor adopted: it is left alone (kind delete cluster "
                f"--name {self.name} deletes it)"
            )
        if dig(mark, "data", "made") == "true":
            self._kind("delete", "cluster", "--name", self.name, "--kubeconfig", str(self.kubeconfig))
            said = f"kind cluster {self.name} is deleted"
        else:
            for obj in reversed(manifests.load([HERE / "kind_path.yaml"]).objects):
                _delete(kube, obj)
            kube.delete(r.CONFIGMAPS, MARK, "kube-system")
            said = f"cluster {self.name} was adopted: the reference kill path is taken out, the cluster stays"
        engine = Engine()
        with answered():
            for one in engine.api.containers(all=True, filters={"label": f"killcheck.dev/kind={self.name}"}):
                engine.api.remove_container(one["Id"], force=True, v=True)
            for one in engine.api.images(filters={"label": f"killcheck.dev/kind={self.name}"}):
                engine.api.remove_image(one["Id"], force=True)
        self.kubeconfig.unlink(missing_ok=True)
        return said

    # -- the command ---------------------------------------------------------------------------------------
    def _kind(self, *argv: str, stdin: str | None = None, timeout_s: float = 120.0) -> str:
        program = shutil.which("kind")
        if program is None:
            raise ClusterError(
                "the kind command is not on the PATH: install it (kind.sigs.k8s.io; go install "
                "sigs.k8s.io/kind@latest), or name a cluster of yours with --on CONTEXT"
            )
        try:
            ran = subprocess.run(
                [program, *argv], input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"kind {' '.join(argv[:2])} did not end within {timeout_s:.0f} s") from error
        if ran.returncode:
            said = (ran.stderr or ran.stdout).strip().splitlines()
            last = said[-1] if said else f"exit code {ran.returncode}"
            raise ClusterError(f"kind {' '.join(argv[:2])} failed: {last}")
        return ran.stdout

    def _create(self, gpu_nodes: int, image: str) -> None:
        own(self.folder).mkdir(parents=True, exist_ok=True)
        self.kubeconfig.unlink(missing_ok=True)  # kind adds to what is there
        argv = [
            "create",
            "cluster",
            "--name",
            self.name,
            "--config",
            "-",
            "--kubeconfig",
            str(self.kubeconfig),
            "--wait",
            "180s",
            *(["--image", image] if image else []),
        ]
        self._kind(*argv, stdin=json.dumps(configuration(gpu_nodes)), timeout_s=CREATE_S)

    def export(self) -> None:
        """Write its kubeconfig, for its owner alone."""
        text = self._kind("get", "kubeconfig", "--name", self.name)
        own(self.folder).mkdir(parents=True, exist_ok=True)
        descriptor, fresh = tempfile.mkstemp(dir=self.folder)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(fresh).replace(self.kubeconfig)  # what lies there may have come with the checkout, and be a link

    def nodes(self) -> list[str]:
        """Its node containers."""
        return self._kind("get", "nodes", "--name", self.name).split()

    # -- the registry --------------------------------------------------------------------------------------
    def _registry(self, engine: Engine, kube: Kube) -> None:
        """A registry container of ours on kind's network, and in every node the way to it."""
        api = engine.api
        with answered():
            there = api.containers(all=True, filters={"name": f"^/?{REGISTRY}$"})
            if not there:
                if not api.images(name=REGISTRY_IMAGE):
                    self.say(f"the engine pulls {REGISTRY_IMAGE}")
                    api.pull(REGISTRY_IMAGE)
                host = api.create_host_config(
                    port_bindings={5000: ("127.0.0.1", REGISTRY_PORT)},
                    restart_policy={"Name": "always"},
                    network_mode="kind",
                )
                made = api.create_container(
                    REGISTRY_IMAGE,
                    name=REGISTRY,
                    host_config=host,
                    ports=[5000],
                    environment={"REGISTRY_STORAGE_DELETE_ENABLED": "true"},
                    labels={"killcheck.dev/kind": self.name, "killcheck.dev/consent": "true"},
                )
                api.start(made["Id"])
            elif there[0].get("State") != "running":
                api.start(there[0]["Id"])
            networks = api.inspect_container(REGISTRY)["NetworkSettings"]["Networks"]
            if "kind" not in networks:
                api.connect_container_to_network(REGISTRY, "kind")
        registry, loop = Registry(f"http://localhost:{REGISTRY_PORT}"), WallLoop()
        retry(loop, registry.status, patience_s=30.0)  # a process that has just started takes a moment to listen
        hosts = f'[host."http://{REGISTRY}:5000"]\n'
        for node in self.nodes():
            folder = f"/etc/containerd/certs.d/localhost:{REGISTRY_PORT}"
            _exec(engine, node, ["mkdir", "-p", folder])
            with answered():
                api.put_archive(node, folder, _tar({"hosts.toml": hosts.encode()}))
        _create(
            kube,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "local-registry-hosting", "namespace": "kube-public"},
                "data": {"localRegistryHosting.v1": f'host: "localhost:{REGISTRY_PORT}"\n'},
            },
        )

    def _image(self, engine: Engine) -> None:
        """The one image of the reference path: kubectl, as the nodes have it, and nothing else."""
        api = engine.api
        with answered():
            if not api.images(name=IMAGE):
                stream, _ = api.get_archive(f"{self.name}-control-plane", "/usr/bin/kubectl")
                content = _one_file(b"".join(stream))
                said: Any = api.import_image_from_data(
                    _tar({"bin/kubectl": content}, mode=0o755),
                    repository=IMAGE.rpartition(":")[0],
                    tag="1",
                    changes=["ENV PATH=/bin", "ENTRYPOINT []", f"LABEL killcheck.dev/kind={self.name}"],
                )
                if "error" in str(said):
                    raise ClusterError(f"the image {IMAGE} could not be made: {said}")
            for line in api.push(IMAGE, stream=True, decode=True):
                if "error" in line:
                    raise ClusterError(f"{IMAGE} could not be pushed to the local registry: {line['error']}")


def configuration(gpu_nodes: int) -> Obj:
    """kind's configuration (kind.x-k8s.io/v1alpha4): GPU workers labelled and tainted, nodes that read certs.d."""
    gpu = {
        "role": "worker",
        "labels": {GPU_LABEL: "true"},
        "kubeadmConfigPatches": [
            json.dumps(
                {
                    "kind": "JoinConfiguration",
                    "nodeRegistration": {
                        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
                    },
                }
            )
        ],
    }
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [
            {"role": "control-plane"},
            {"role": "worker", "labels": {"killcheck.dev/cpu": "true"}},
            *([gpu] * gpu_nodes),
        ],
        "containerdConfigPatches": [
            '[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "/etc/containerd/certs.d"\n'
        ],
    }


def advertise(kube: Kube, gpus: int) -> int:
    """Let every GPU stand-in advertise devices; how many do."""
    found = kube.list(r.NODES, labels=f"{GPU_LABEL}=true").items
    for node in found:
        has = {"nvidia.com/gpu": str(gpus)}
        kube.patch(r.NODES, name_of(node), {"status": {"capacity": has, "allocatable": has}}, subresource="status")
    return len(found)


def _on(name: str) -> str:
    return "kind" if name == DEFAULT_KIND else f"kind:{name}"


def _mark(kube: Kube, made: bool) -> None:
    if kube.find(r.CONFIGMAPS, MARK, "kube-system") is None:
        kube.create(
            r.CONFIGMAPS,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": MARK, "namespace": "kube-system"},
                "data": {"made": str(made).lower()},
            },
        )


def _create(kube: Kube, obj: Obj) -> None:
    try:
        kube.create(kube.resource_for(obj["apiVersion"], obj["kind"]), obj)
    except Conflict:
        return


def _delete(kube: Kube, obj: Obj) -> None:
    try:
        kube.delete(kube.resource_for(obj["apiVersion"], obj["kind"]), name_of(obj), obj["metadata"].get("namespace"))
    except NotFound:
        return


def _exec(engine: Engine, container: str, argv: list[str]) -> None:
    with answered():
        made = engine.api.exec_create(container, argv)
        said = engine.api.exec_start(made["Id"])
        code = engine.api.exec_inspect(made["Id"])["ExitCode"]
    if code:
        text = bytes(said).decode(errors="replace").strip()
        raise ClusterError(f"{' '.join(argv)} in node {container} failed: {text}")


def _tar(files: Mapping[str, bytes], mode: int = 0o644) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _one_file(archive: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = next((m for m in tar.getmembers() if m.isfile()), None)
        found = tar.extractfile(member) if member is not None else None
        if found is None:
            raise ClusterError("the cluster's nodes have no /usr/bin/kubectl")
        return found.read()


# -- drilling on it ----------------------------------------------------------------------------------------
class _Both(Transport):
    """The cluster's API, and its engine's under its own group: one journal for both."""

    def __init__(self, cluster: Transport, engine: Transport) -> None:
        self._cluster = cluster
        self.endpoint = cluster.endpoint
        self._engine = engine

    def _of(self, path: str) -> Transport:
        return self._engine if path.startswith(f"/apis/{GROUP}/") else self._cluster

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
    ) -> Answer:
        """Ask the transport that answers for this path."""
        return self._of(path).request(method, path, query, body, headers)

    def watch(
        self,
        path: str,
        query: Mapping[str, str],
        on_event: Callable[[Obj], None],
        on_end: Callable[[KubeError | None], None],
    ) -> Closer:
        """Watch through the transport that answers for this path."""
        return self._of(path).watch(path, query, on_event, on_end)


class KindCluster(RealCluster):
    """A kind cluster as a place to drill on. Raises ClusterError where there is none, KubeError where it is silent."""

    def __init__(self, on: str, folder: Path) -> None:
        self.name = on
        self.loop = WallLoop()
        self.engine = Engine()
        self.kind = Kind(kind_name(on), folder)
        if not self.kind.exists():
            raise ClusterError(
                f"there is no kind cluster {self.kind.name}: make one with killcheck cluster up --on {on}"
            )
        self.kind.export()
        cluster = connect(self.kind.context, kubeconfig=self.kind.kubeconfig, loop=self.loop)
        self.kube = Kube(_Both(cluster.transport, EngineApi(self.engine, self.loop)))
        self.kubernetes = str(self.kube.call("GET", "/version").body.get("gitVersion", ""))
        self.capabilities = Capabilities(node_containers=self.engine)
        wake(self.engine, self.kind.name)
        self.node_keeper = NodeKeeper(self.kube, self.engine, self.loop)
        self.node_keeper.start()

    def instance_state(self, node: Obj) -> InstanceState:
        """What the engine says of the node's container: it is the machine here."""
        try:
            with answered():
                state = self.engine.api.inspect_container(name_of(node))["State"]
        except NotFound:
            return "terminated"
        except KubeError:
            return "unknown"
        return "running" if state.get("Running") else "terminated"

    def assumptions(self) -> Sequence[Assumption]:
        """GPUs are advertised only."""
        return (Assumption("GPU nodes are stand-ins: kubelets and containers are real, devices are not"),)

    def close(self) -> None:
        """Stop listening; idempotent."""
        self.node_keeper.stop()
        self.engine.api.close()


def restoring(on: str, folder: Path, loop: WallLoop) -> Kube:
    """The API of a kind cluster and of its engine, for ``killcheck restore``; nodes that went in a drill come back."""
    kind = Kind(kind_name(on), folder)
    kind.export()
    engine = Engine()
    wake(engine, kind.name)
    cluster = connect(kind.context, kubeconfig=kind.kubeconfig, loop=loop)
    return Kube(_Both(cluster.transport, EngineApi(engine, loop)))


def wake(engine: Engine, name: str) -> None:
    """Start node containers that a dead run's stand-in for an autoscaler left off."""
    with answered():
        for one in engine.api.containers(all=True, filters={"label": f"{KIND_LABEL}={name}", "status": "exited"}):
            engine.api.start(one["Id"])
