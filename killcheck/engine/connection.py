"""The way to a Docker Engine, and what goes wrong on it, in one sentence each.

Uses the Docker SDK (``pip install 'killcheck[docker]'``), imported late: it takes 0.1 s.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from killcheck.kube.errors import KubeConfigError, Unreachable, api_error
from killcheck.kube.objects import Obj

if TYPE_CHECKING:
    from docker import APIClient

__all__ = ["PREFIX", "Engine", "answered", "host_of", "inspected", "is_docker"]

#: ``--on docker``, or ``--on docker:HOST`` with what DOCKER_HOST takes.
PREFIX = "docker"
#: Seconds that one answer of the engine may take; stopping a container waits for its grace period on top.
TIMEOUT_S = 30
#: The events of an engine that says nothing are not waited for longer than this without asking whether it lives.
HEARTBEAT_S = 2.0


def is_docker(on: str) -> bool:
    """Whether ``--on`` names a Docker Engine."""
    return on == PREFIX or on.startswith(PREFIX + ":")


def host_of(on: str) -> str:
    """The engine's address in ``--on docker[:HOST]``; DOCKER_HOST or the default socket where it says none.

    Raises KubeConfigError for a host that is no address.
    """
    named = on.partition(":")[2]
    host = named or os.environ.get("DOCKER_HOST", "") or "unix:///var/run/docker.sock"
    if host.startswith("/"):
        host = f"unix://{host}"
    if host.partition("://")[0] not in ("unix", "tcp", "ssh", "http", "https", "npipe"):
        raise KubeConfigError(
            f"--on {on}: expected an address such as unix:///var/run/docker.sock, tcp://HOST:2376 or ssh://USER@HOST, "
            f"found {host!r}"
        )
    return host


class Engine:
    """A Docker Engine at ``host``. Raises KubeConfigError without the SDK, Unreachable where no engine answers."""

    def __init__(self, host: str = "") -> None:
        self.host = host or host_of(PREFIX)
        self.api = self.another()
        with answered(self.host):
            version = self.api.version()
        self.version = str(version.get("Version", ""))

    def another(self, timeout_s: int = TIMEOUT_S) -> APIClient:
        """A connection of one's own, for another thread."""
        try:
            from docker import APIClient
            from docker.errors import DockerException
            from docker.tls import TLSConfig
        except ImportError as error:
            raise KubeConfigError(
                "a Docker Engine is reached through the Docker SDK: pip install 'killcheck[docker]'"
            ) from error
        if self.host.startswith("ssh:") and find_spec("paramiko") is None:
            raise KubeConfigError("a Docker Engine over ssh takes paramiko: pip install 'killcheck[docker]'")
        tls: TLSConfig | bool = False
        certificates = os.environ.get("DOCKER_CERT_PATH", "")
        if self.host.startswith("tcp:") and os.environ.get("DOCKER_TLS_VERIFY"):
            folder = certificates or os.path.expanduser("~/.docker")  # noqa: PTH111 - as docker itself does
            tls = TLSConfig(
                client_cert=(f"{folder}/cert.pem", f"{folder}/key.pem"), ca_cert=f"{folder}/ca.pem", verify=True
            )
        if self.host.startswith("unix://"):
            _knock(self.host)
        with answered(self.host):
            try:
                return APIClient(base_url=self.host, version="auto", timeout=timeout_s, tls=tls)
            except DockerException as error:  # what the SDK makes of a socket that is not there
                raise Unreachable(_no_engine(self.host, error)) from error


def _knock(host: str) -> None:
    """Whether anybody listens at a socket: the SDK leaves its own open where nobody does. Raises Unreachable."""
    with socket.socket(socket.AF_UNIX) as knock:
        knock.settimeout(TIMEOUT_S)
        try:
            knock.connect(host.removeprefix("unix://"))
        except OSError as error:
            raise Unreachable(_no_engine(host, error)) from error


def _no_engine(host: str, error: Exception) -> str:
    text = str(error)
    if "Permission" in text:
        return (
            f"no permission for the Docker Engine at {host}: add yourself to the group that owns the socket, or "
            "name another with --on docker:HOST"
        )
    if host.startswith("ssh:"):
        asked = f"ssh {host.removeprefix('ssh://')} docker version"
        return f"no Docker Engine answers at {host}: let `{asked}` answer without a question ({_short(text)})"
    return (
        f"no Docker Engine answers at {host}: start one (systemctl start docker), or name it with --on "
        f"docker:HOST or DOCKER_HOST ({_short(text)})"
    )


def _short(text: str) -> str:
    for mark, said in (
        ("No such file", "no such socket"),
        ("refused", "connection refused"),
        ("timed out", "no answer in time"),
        ("Name or service", "no such host"),
    ):
        if mark in text:
            return said
    return text[:200]


@contextmanager
def answered(what: str = "the Docker Engine") -> Iterator[None]:
    """Whatever the SDK raises inside becomes a KubeError: Unreachable, or the ApiError of the engine's own words."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    failures: tuple[type[Exception], ...] = (RequestException, HTTPError, ConnectionError, TimeoutError, *_by_ssh())
    try:
        yield
    except APIError as error:
        code = error.status_code or 500
        raise api_error(code, {"reason": _reason(code), "message": str(error.explanation or error)}) from error
    except failures as error:
        raise Unreachable(_no_engine(what, error)) from error
    except DockerException as error:
        raise Unreachable(_no_engine(what, error)) from error


def _by_ssh() -> tuple[type[Exception], ...]:
    """What paramiko raises, where the SDK has imported it: no such host, nobody there, a key or a login not taken."""
    paramiko = sys.modules.get("paramiko")
    if paramiko is None:
        return ()
    return socket.gaierror, paramiko.SSHException, paramiko.ssh_exception.NoValidConnectionsError


def inspected(api: APIClient, name: str) -> Obj | None:
    """A container as ``docker inspect`` has it; None where there is none, or no longer. To be called in
    :func:`answered`, which tells the rest."""
    from docker.errors import NotFound

    try:
        return dict(api.inspect_container(name))
    except NotFound:
        return None


def _reason(code: int) -> str:
    return {404: "NotFound", 409: "Conflict", 400: "BadRequest", 401: "Unauthorized", 403: "Forbidden"}.get(code, "")
