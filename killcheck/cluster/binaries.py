"""The programs of a real control plane, run on loopback for a drill: etcd, kube-apiserver, and what acts on it.

Found in ``KUBEBUILDER_ASSETS`` or on the PATH. All that they write is in a folder of theirs, which goes with them.
Where this process is killed, a shell that outlives it for that alone kills them and takes the folder away. What even
that left, because all was killed at once, goes with the next start.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from killcheck.capabilities.cluster import ClusterError
from killcheck.clock import WallLoop
from killcheck.embedded import Identity, Pki
from killcheck.kube.client import Kube
from killcheck.kube.config import connect
from killcheck.kube.errors import KubeError

__all__ = ["ASSETS", "PROGRAMS", "ControlPlane", "found", "sweep"]

#: The variable that setup-envtest and kubebuilder set.
ASSETS = "KUBEBUILDER_ASSETS"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
#: Seconds until the API server has to be ready, and until what was told to end has to be gone.
READY_S, END_S = 120.0, 10.0
LOOK_S = 0.2
_PR_SET_PDEATHSIG = 1
_PREFIX = "killcheck-envtest-"
#: Held by the process whose folder it is: what nobody holds is left of one that was killed.
_OWNED = "owned"
#: Reads the pid of each program; the end of its input, without a word, is the end of this process.
_GUARDIAN = """
while read -r pid; do [ "$pid" = done ] && exit; pids="$pids $pid"; done
[ -n "$pids" ] && kill -9 $pids
tries=0
while [ -e "$1" ] && [ $tries -lt 50 ]; do rm -rf -- "$1"; tries=$((tries + 1)); sleep 0.1; done
"""
_SERVICES = "10.96.0.0/12"
_ISSUER = "https://kubernetes.default.svc.cluster.local"


def found() -> dict[str, Path]:
    """Each of :data:`PROGRAMS`. Raises ClusterError where one is missing."""
    folder = os.environ.get(ASSETS, "")
    where = os.pathsep.join(filter(None, (folder, os.environ.get("PATH", ""))))
    there = {name: shutil.which(name, path=where) for name in PROGRAMS}
    lacking = [name for name, path in there.items() if path is None]
    if lacking:
        looked = f"{ASSETS} ({folder})" if folder else f"{ASSETS}, which is not set,"
        raise ClusterError(
            f"--on envtest: {', '.join(lacking)} is neither in {looked} nor on the PATH. setup-envtest brings etcd and "
            "kube-apiserver; a release's kubernetes-server archive has all but etcd"
        )
    return {name: Path(path) for name, path in there.items() if path is not None}


class ControlPlane:
    """etcd, kube-apiserver, kube-controller-manager and kube-scheduler, from :meth:`start` to :meth:`stop`."""

    def __init__(self, context: str) -> None:
        self.context = context
        self.folder = Path()
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._programs = found()
        self._guardian: subprocess.Popen[bytes] | None = None
        self._lock: IO[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        """Its administrator's."""
        return self.folder / "admin.kubeconfig"

    def start(self) -> None:
        """Start all four. Raises ClusterError with the last words of what did not come up."""
        sweep()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            self._guard()
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End them, the last one first, and take their folder away; idempotent."""
        for _, process in reversed(self._processes):
            process.terminate()
        for _, process in reversed(self._processes):
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = Path()
        if self._guardian is not None:
            self._guardian.communicate(b"done\n")
            self._guardian = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # -- inside --------------------------------------------------------------------------------------------
    def _guard(self) -> None:
        self._lock = (self.folder / _OWNED).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._guardian = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDIAN, "killcheck", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _start(self) -> None:
        clients, peers, secure = _free_ports(3)
        etcd, url = f"http://127.0.0.1:{clients}", f"https://127.0.0.1:{secure}"
        self._write_certificates(url)
        data = str(self.folder / "etcd")
        self._run(
            "etcd",
            *(f"--data-dir={data}", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}"),
            *(f"--listen-peer-urls=http://127.0.0.1:{peers}", "--unsafe-no-fsync"),
        )
        self._run("kube-apiserver", *self._api_server(etcd, secure))
        self._until_ready()
        self._run(
            "kube-controller-manager",
            *self._controller("kcm"),
            *("--use-service-account-credentials=true", f"--root-ca-file={self.folder / 'ca.crt'}"),
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
        )
        self._run("kube-scheduler", *self._controller("scheduler"))

    def _api_server(self, etcd: str, port: int) -> list[str]:
        at = self.folder
        return [
            *(f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={port}"),
            *("--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"),
            *(f"--client-ca-file={at / 'ca.crt'}", f"--tls-cert-file={at / 'server.crt'}"),
            *(f"--tls-private-key-file={at / 'server.key'}", "--authorization-mode=Node,RBAC"),
            *("--enable-admission-plugins=NodeRestriction", f"--service-account-issuer={_ISSUER}"),
            *(f"--service-account-key-file={at / 'sa.crt'}", f"--service-account-signing-key-file={at / 'sa.key'}"),
            *(f"--service-cluster-ip-range={_SERVICES}", "--allow-privileged=true", "--profiling=false"),
            *(f"--kubelet-client-certificate={at / 'kubelet.crt'}", f"--kubelet-client-key={at / 'kubelet.key'}"),
            f"--cert-dir={at}",
        ]

    def _controller(self, who: str) -> list[str]:
        file = self.folder / f"{who}.kubeconfig"
        (port,) = _free_ports(1)
        told = [
            f"--{option}={file}" for option in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        ]
        return [
            *told,
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--leader-elect=false",
            f"--cert-dir={self.folder}",
        ]

    def _write_certificates(self, url: str) -> None:
        pki = Pki()
        (self.folder / "ca.crt").write_text(pki.ca_pem)
        who = {
            "admin": pki.admin,
            "kcm": pki.client("system:kube-controller-manager"),
            "scheduler": pki.client("system:kube-scheduler"),
            "kubelet": pki.client("kube-apiserver-kubelet-client", ("system:masters",)),
            "server": pki.server,
            "sa": pki.client("service-accounts"),  # of which the key alone is used
        }
        for name, one in who.items():
            self._secret(f"{name}.crt", one.certificate_pem)
            self._secret(f"{name}.key", one.key_pem)
        for name in ("admin", "kcm", "scheduler"):
            self._secret(f"{name}.kubeconfig", json.dumps(_kubeconfig(self.context, url, pki.ca_pem, who[name])))

    def _secret(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text)

    def _run(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(self._programs[name]), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one call of the kernel, and no lock
            )
        self._processes.append((name, process))
        if self._guardian is not None and self._guardian.stdin is not None:
            self._guardian.stdin.write(b"%d\n" % process.pid)
            self._guardian.stdin.flush()

    def _until_ready(self) -> None:
        loop = WallLoop()
        kube = connect(self.context, kubeconfig=self.kubeconfig, loop=loop)
        while not _is_ready(kube):
            dead = next((name for name, process in self._processes if process.poll() is not None), "")
            if dead or loop.monotonic() > READY_S:
                name = dead or "kube-apiserver"
                what = "ended" if dead else f"was not ready within {READY_S:g} s"
                raise ClusterError(f"--on envtest: {self._programs[name]} {what}{self._last_words(name)}")
            loop.sleep(LOOK_S)

    def _last_words(self, name: str) -> str:
        lines = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""


def sweep() -> list[Path]:
    """Take away what killed runs of this user left, and say what that was."""
    gone = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        try:
            with (folder / _OWNED).open("rb") as lock:
                if folder.lstat().st_uid != os.getuid():
                    continue
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                gone.append(folder)
        except OSError:  # another's, one that is in use, or no such folder of ours
            continue
    return gone


def _is_ready(kube: Kube) -> bool:
    try:
        kube.call("GET", "/readyz")
    except KubeError:
        return False
    return True


def _kubeconfig(context: str, url: str, authority: str, identity: Identity) -> dict[str, object]:
    def text(pem: str) -> str:
        return base64.b64encode(pem.encode()).decode()

    user = {"client-certificate-data": text(identity.certificate_pem), "client-key-data": text(identity.key_pem)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": {"server": url, "certificate-authority-data": text(authority)}}],
        "users": [{"name": context, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }


def _free_ports(count: int) -> Sequence[int]:
    """Ports of the loopback that nothing listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _die_with_parent() -> None:
    """In the child: it is killed where this process ends in any way; on other systems the guardian alone does that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
