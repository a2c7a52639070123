"""Executors in real containers: ``--exec docker``. Their images are real ones, not modelled; the API is this cluster's.

Each container is on a network of ours that leads nowhere but to the API server, under the names and the port that a pod
finds it at. While one runs, virtual time passes as the wall's does: what waits for a minute takes one. It is kept in as
a stranger's (:mod:`~killcheck.embedded.nodes.container_bounds`), and goes when killcheck does, however that ends.
"""

from __future__ import annotations

import io
import math
import os
import platform
import secrets
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from killcheck.clock import Hold, Loop, Timer, wall_now, wall_seconds
from killcheck.embedded.connection import Client
from killcheck.embedded.containerlog import ContainerLog, LogKeeper
from killcheck.embedded.nodes import container_guardian
from killcheck.embedded.nodes.container_bounds import Watch, bounds
from killcheck.embedded.nodes.container_guardian import LABEL
from killcheck.embedded.nodes.execution import Exit, Launch, NotRun, Runtime, StartError
from killcheck.embedded.nodes.isolation import Level
from killcheck.embedded.wire import Server
from killcheck.engine.connection import Engine, answered
from killcheck.engine.firings import has, pull
from killcheck.entries import Assumption
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.objects import parse_time

__all__ = ["ContainerRuntime"]

#: Names that a pod reaches the API server by.
NAMES = ("kubernetes.default.svc", "kubernetes.default", "kubernetes", "kubernetes.default.svc.cluster.local")
#: How far virtual time runs at once while a container works, in seconds.
TICK_S = 0.05
LOG_KEPT = 256_000


class ContainerRuntime(Runtime):
    """Runs containers on the local Docker Engine. Raises Unreachable where there is none."""

    def __init__(self, loop: Loop, wire: Server) -> None:
        self.loop = loop
        self.wire = wire
        self.engine = Engine()
        self.assumptions: list[Assumption] = []
        self.mark = f"{platform.node()}/{os.getpid()}"
        self.running: dict[str, list[_Running]] = {}
        #: Images that were really there, and run.
        self.images: set[str] = set()
        #: Whether the drill was interrupted: nobody waits any more for what containers do.
        self.hurried = False
        self._guardian: subprocess.Popen[bytes] | None = None
        self._client = Client("containers")
        self._network = ""
        self._gateway = ""
        self._port = 0
        self._sweep()

    def start(
        self,
        launch: Launch,
        on_exit: Callable[[Exit], None],
        on_unknown: Callable[[str], None],
    ) -> _Running:
        """Start a container. Raises StartError or NotRun."""
        if launch.network.api != "allow" or launch.network.dns != "allow":
            raise NotRun("network policies are not put on real containers: say --exec host")
        if not launch.cluster_dns:
            raise NotRun("its pod does not ask the cluster's DNS, and containers of the engine do: say --exec host")
        try:
            self._connect()
            if not has(self.engine.api, launch.image):
                pull(self.engine.api, launch.image, anonymous=True)
        except KubeError as error:
            raise NotRun(f"the Docker Engine cannot run {launch.image}: {getattr(error, 'message', error)}") from error
        if self._port != 443 and _names_the_port(launch):
            raise NotRun(
                "it asks kubernetes.default.svc at port 443, which only root may serve here: run killcheck as "
                "root, or say --exec host"
            )
        self.images.add(launch.image)
        running = _Running(self, launch, on_exit, on_unknown)
        self.running.setdefault(str(launch.pod["metadata"]["uid"]), []).append(running)
        return running

    @property
    def level(self) -> str | None:
        """How well what has run here was kept in; None: nothing has."""
        return str(Level.DOCKER) if self.images else None

    def release(self, pod_uid: str) -> None:
        """The pod's containers go."""
        for running in self.running.pop(pod_uid, []):
            running.remove()

    def pod_gone(self) -> None:
        """Containers poll in their own time."""

    def hurry(self) -> None:
        """Nobody waits any more for what containers do."""
        self.hurried = True

    def close(self) -> None:
        """Remove everything; idempotent."""
        for uid in list(self.running):
            self.release(uid)
        self.wire.drop(self._client)
        if self._network:
            with suppress(KubeError), answered():
                self.engine.api.remove_network(self._network)
            self._network = ""
        guardian, self._guardian = self._guardian, None
        if guardian is not None and guardian.stdin is not None:
            guardian.kill()
            guardian.wait()
            guardian.stdin.close()

    def _guard(self) -> None:
        """Whoever removes what is ours should this process be killed; started before there is anything."""
        if self._guardian is None:
            program = [sys.executable, "-P", str(Path(container_guardian.__file__)), self.engine.host, self.mark]
            self._guardian = subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True, cwd="/")

    # -- the way to the API --------------------------------------------------------------------------------
    def _connect(self) -> None:
        if self._network:
            return
        self._guard()
        with answered():
            made = self.engine.api.create_network(
                f"killcheck-exec-{secrets.token_hex(4)}", internal=True, labels={LABEL: self.mark}
            )
            self._network = str(made["Id"])
            found = self.engine.api.inspect_network(self._network)
        self._gateway = str(found["IPAM"]["Config"][0]["Gateway"]).partition("/")[0]
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            try:
                listener.bind((self._gateway, 443))
            except PermissionError:
                listener.bind((self._gateway, 0))
        except OSError as error:
            listener.close()
            raise NotRun(
                f"the API cannot be served to containers at {self._gateway}: {error} (is the engine on this machine?)",
            ) from error
        listener.listen(64)
        self._port = int(listener.getsockname()[1])
        self.wire.adopt(listener, self._client)

    def environment(self, launch: Launch) -> list[str]:
        """The pod's own, with the API where it can be reached."""
        env = {
            **launch.env,
            "KUBERNETES_SERVICE_HOST": NAMES[0],
            "KUBERNETES_SERVICE_PORT": str(self._port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(self._port),
            "KUBERNETES_PORT": f"tcp://{NAMES[0]}:{self._port}",
        }
        return [f"{name}={value}" for name, value in env.items() if name != "PATH" or value]

    def config(self, launch: Launch) -> dict[str, Any]:
        """What the engine is asked for."""
        hosts = {**dict.fromkeys(NAMES, self._gateway), **launch.hosts}
        found: dict[str, Any] = {
            "Image": launch.image,
            "Env": self.environment(launch),
            "Labels": {LABEL: self.mark},
            "Hostname": launch.hostname[:63],
            "WorkingDir": launch.working_dir,
            "HostConfig": {
                "NetworkMode": self._network,
                "ExtraHosts": [f"{name}:{address}" for name, address in hosts.items()],
                **bounds(launch, self._volumes(launch.image)),
            },
        }
        if launch.argv:
            found |= {"Entrypoint": launch.argv[:1], "Cmd": launch.argv[1:]}
        if launch.run_as is not None:
            found["User"] = str(launch.run_as)
        return found

    def _volumes(self, image: str) -> list[str]:
        """The paths at which an image wants volumes of its own."""
        with answered():
            config = self.engine.api.inspect_image(image).get("Config") or {}  # type: ignore[no-untyped-call]
        return sorted(config.get("Volumes") or ())

    def _sweep(self) -> None:
        """What processes that are no more have left."""
        api = self.engine.api
        with answered(self.engine.host):
            for one in api.containers(all=True, filters={"label": LABEL}):
                if _dead(one["Labels"][LABEL]):
                    api.remove_container(one["Id"], force=True, v=True)
            for net in api.networks(filters={"label": LABEL}):
                if _dead(net["Labels"][LABEL]):
                    api.remove_network(net["Id"])


class _Running:
    """One started container."""

    def __init__(
        self,
        runtime: ContainerRuntime,
        launch: Launch,
        on_exit: Callable[[Exit], None],
        on_unknown: Callable[[str], None],
    ) -> None:
        self.runtime = runtime
        self._on_exit = on_exit
        self._on_unknown = on_unknown
        self._said: ContainerLog | None = None
        self._timer: Timer | None = None
        self._hold: Hold | None = None
        self._gone = False
        api = runtime.engine.api
        try:
            with answered():
                made = api.create_container_from_config(runtime.config(launch))  # type: ignore[no-untyped-call]
                self.identity = str(made["Id"])
                api.put_archive(self.identity, "/", _mounted(launch))
        except KubeError as error:
            raise NotRun(f"the Docker Engine cannot make its container: {getattr(error, 'message', error)}") from error
        try:
            with answered():
                api.start(self.identity)
        except KubeError as error:
            self.remove()
            raise StartError(str(getattr(error, "message", error))) from error
        self._begun = (runtime.loop.monotonic(), wall_seconds())
        self._begun_at = (runtime.loop.now(), wall_now())
        self._hold = runtime.loop.hold(self._on_time)
        self._tick()
        self._watch = Watch(runtime.engine, self.identity, self._over)
        threading.Thread(target=self._wait, name=f"container {self.identity[:12]}", daemon=True).start()

    # -- time ----------------------------------------------------------------------------------------------
    def _on_time(self) -> float:
        """By how much virtual time is behind the wall's since the start, and so may pass: to the next tick at most."""
        virtual, wall = self._begun
        if self.runtime.hurried:
            return math.inf
        return math.inf if self.runtime.loop.monotonic() - virtual < wall_seconds() - wall else 0.0

    def _tick(self) -> None:
        self._timer = self.runtime.loop.call_later(TICK_S, self._tick)

    # -- its end -------------------------------------------------------------------------------------------
    def _wait(self) -> None:
        try:
            api = self.runtime.engine.another(timeout_s=24 * 3600)
            with answered():
                code = int(api.wait(self.identity)["StatusCode"])
                state = api.inspect_container(self.identity)["State"]
                said = self._written(api)
        except KubeError as error:
            self.runtime.loop.post(self._lost, str(error))
            return
        self.runtime.loop.post(self._ended, code, bool(state.get("OOMKilled")), said)

    def _ended(self, code: int, out_of_memory: bool, said: ContainerLog) -> None:
        self._said = said
        if self._release():
            signal = code - 128 if code > 128 else 0
            self._on_exit(Exit(code, signal, "OOMKilled" if out_of_memory else ""))

    def _over(self, why: str) -> None:
        """It is stopped for what it did to this host, and what it would have done is not known (any thread)."""
        self.kill()
        self.runtime.loop.post(self._lost, why)

    def _lost(self, why: str) -> None:
        if self._release() and not self._gone:
            self._on_unknown(why)

    def _release(self) -> bool:
        self._watch.close()
        hold, self._hold = self._hold, None
        if self._timer is not None:
            self._timer.cancel()
        if hold is not None:
            hold.release()
        return hold is not None

    # -- the Running protocol ------------------------------------------------------------------------------
    def terminate(self) -> None:
        """SIGTERM to its first process."""
        self._signal("SIGTERM")

    def kill(self) -> None:
        """SIGKILL to all of it."""
        self._signal("SIGKILL")

    def _signal(self, name: str) -> None:
        with suppress(KubeError), answered():
            self.runtime.engine.api.kill(self.identity, name)

    def log(self) -> ContainerLog:
        """What it has written so far."""
        if self._said is not None:
            return self._said
        try:
            with answered():
                return self._written(self.runtime.engine.api)
        except NotFound:
            return ContainerLog()

    def _written(self, api: Any) -> ContainerLog:
        """What the engine has kept, in the cluster's time."""
        # Asked twice: the engine puts a time before every 16 KiB of a line, too, where it cannot be told from the line.
        plain = bytes(api.logs(self.identity))
        stamped = bytes(api.logs(self.identity, timestamps=True))
        return _timed(plain, stamped, self._begun_at, self.runtime.loop.now())

    def remove(self) -> None:
        """It goes, running or not."""
        self._gone = True
        self._release()
        with suppress(KubeError), answered():
            self.runtime.engine.api.remove_container(self.identity, force=True, v=True)


def _timed(plain: bytes, stamped: bytes, begun: tuple[datetime, datetime], now: datetime) -> ContainerLog:
    """A log in the cluster's time. ``stamped``: the same, the wall's time before each line; ``begun``: both times."""
    virtual, wall = begun
    kept = LogKeeper(LOG_KEPT)
    lines = plain.split(b"\n")
    for index, (line, other) in enumerate(zip(lines, stamped.split(b"\n"), strict=False)):
        text = line + b"\n" if index < len(lines) - 1 else line
        if text:
            since = parse_time(other.partition(b" ")[0].decode("ascii")) - wall
            kept.add(text, max(virtual, min(virtual + since, now)))
    return kept.log()


def _mounted(launch: Launch) -> bytes:
    """What the pod's volumes hold, at their paths, as a tar of the root."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for mount in launch.mounts:
            place = mount.path.strip("/")
            folder = tarfile.TarInfo(place)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777 if mount.volume.writable else 0o755
            if not mount.sub_path or mount.sub_path not in mount.volume.files:
                tar.addfile(folder)
            for name, file in mount.volume.files.items():
                if mount.sub_path and name == mount.sub_path:
                    where = place
                elif mount.sub_path and not name.startswith(mount.sub_path.rstrip("/") + "/"):
                    continue
                else:
                    where = f"{place}/{name.removeprefix(mount.sub_path).lstrip('/')}"
                info = tarfile.TarInfo(where)
                info.size, info.mode = len(file.content), file.mode
                tar.addfile(info, io.BytesIO(file.content))
    return out.getvalue()


def _names_the_port(launch: Launch) -> bool:
    """Whether what it runs spells the API server's address out, and so leaves the variables unread."""
    told = " ".join(launch.argv) + " ".join(
        file.content.decode("utf-8", "replace") for mount in launch.mounts for file in mount.volume.files.values()
    )
    return "kubernetes.default" in told


def _dead(mark: str) -> bool:
    node, _, pid = mark.rpartition("/")
    if node != platform.node() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
