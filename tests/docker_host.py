"""What tests make on a Docker Engine, from images built of this host's own static busybox, docker CLI and registry."""

from __future__ import annotations

import fcntl
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path

import forked

VARIABLE = "KILLCHECK_TEST_DOCKER"
CONSENT = {"killcheck.dev/consent": "true"}
#: What ends at SIGTERM, and does nothing before.
IDLE = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
REGISTRY_CONFIG = """
version: 0.1
storage: {filesystem: {rootdirectory: /var/lib/registry}, delete: {enabled: true}}
http: {addr: ":5000"}
"""


class Host:
    """An engine, and what a test makes on it; everything goes at the end."""

    registry_config = REGISTRY_CONFIG

    def __init__(self, address: str) -> None:
        import docker

        self.address = address
        self.client = docker.DockerClient(base_url=address, timeout=120)
        self.socket = address.removeprefix("unix://")

    def close(self) -> None:
        self.client.close()

    def clean(self) -> None:
        for container in self.client.containers.list(all=True, ignore_removed=True):
            container.remove(force=True, v=True)
        for volume in self.client.volumes.list():
            volume.remove(force=True)
        for network in self.client.networks.list():
            if network.name not in ("bridge", "host", "none"):
                network.reload()
                for left in (network.attrs.get("Containers") or {}).values():  # the endpoint of one that is gone
                    self.client.api.disconnect_container_from_network(left["Name"], network.id, force=True)
                network.remove()
        for image in self.client.images.list():
            for tag in image.tags:
                if not tag.startswith("kept/"):
                    self.client.images.remove(tag, noprune=True)

    # -- what tests make -----------------------------------------------------------------------------------
    def image(self, name: str, programs: list[str], files: dict[str, str], *changes: str) -> str:
        """An image of these programs of the host, with the libraries they load, beside a static busybox."""
        if not self.client.images.list(name=f"kept/{name}"):
            root = _root(programs, files)
            made = self.client.api.import_image_from_data(
                root, repository=f"kept/{name}", tag="1", changes=["ENV PATH=/bin", *changes]
            )
            assert "error" not in made, made
        return f"kept/{name}:1"

    @property
    def busybox(self) -> str:
        return self.image("busybox", [], {})

    @property
    def cli(self) -> str:
        return self.image("cli", ["docker"], {})

    def run(self, name, *command, image="", labels=CONSENT, start=True, **more):
        """A container on no network unless asked otherwise, that consents unless asked otherwise."""
        more = {"network": "none", **more}
        made = self.client.containers.create(
            image or self.busybox, list(command) or IDLE, name=name, labels=dict(labels), **more
        )
        if start:
            made.start()
        return made

    def gpu_server(self, name="vllm", *command, gpus=2, **more):
        import docker

        request = docker.types.DeviceRequest(count=gpus, capabilities=[["gpu"]])
        return self.run(name, *command, device_requests=[request], **more)

    def cron(self, name="cron", **more):
        """A container with the docker CLI and this engine's socket."""
        return self.run(name, image=self.cli, volumes=[f"{self.socket}:/var/run/docker.sock"], **more)

    def registry(self, labels=CONSENT):
        """A real registry; returns where images of it are named."""
        image = self.image(
            "registry",
            ["docker-registry"],
            {"config.yml": REGISTRY_CONFIG, "tmp/.keep": "", "var/lib/registry/.keep": ""},
            "EXPOSE 5000",
        )
        network = self.client.networks.create("registry-net")
        made = self.run(
            "registry",
            "docker-registry",
            "serve",
            "/config.yml",
            image=image,
            network=network.name,
            ports={"5000/tcp": ("127.0.0.1", None)},
        )
        made.reload()
        port = made.attrs["NetworkSettings"]["Ports"]["5000/tcp"][0]["HostPort"]
        # The same port each time it starts: as Compose files have it.
        made.remove(force=True)
        self.run(
            "registry",
            "docker-registry",
            "serve",
            "/config.yml",
            image=image,
            network=network.name,
            labels=labels,
            ports={"5000/tcp": ("127.0.0.1", int(port))},
        )
        where = f"localhost:{port}"
        until(lambda: _answers(where), "the registry answers")
        return where

    def push(self, image: str, reference: str) -> None:
        self.client.images.get(image).tag(reference)
        for line in self.client.images.push(reference, stream=True, decode=True):
            assert "error" not in line, line

    # -- what they ask -------------------------------------------------------------------------------------
    def picture(self):
        """All that is on the engine, without what changes by itself."""
        containers = {}
        for one in self.client.api.containers(all=True):
            found = self.client.api.inspect_container(one["Id"])
            networks = {
                name: sorted(set(net.get("Aliases") or []) - {one["Id"][:12], found["Name"].lstrip("/")})
                for name, net in found["NetworkSettings"]["Networks"].items()
            }
            containers[found["Name"].lstrip("/")] = {
                "on": found["State"]["Running"],
                "paused": found["State"]["Paused"],
                "networks": networks,
                "image": found["Config"]["Image"],
                "env": found["Config"]["Env"],
                "cmd": found["Config"]["Cmd"],
                "labels": found["Config"]["Labels"],
            }
        return {
            "containers": containers,
            "volumes": sorted(v.name for v in self.client.volumes.list()),
            "images": sorted(tag for image in self.client.images.list() for tag in image.tags),
        }


@contextmanager
def engine(address):
    """The engine, empty, and nobody else's meanwhile."""
    lock = Path(tempfile.gettempdir()) / f"killcheck{address.replace('/', '_')}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        made = Host(address)
        made.clean()
        try:
            yield made
        finally:
            made.clean()
            made.close()


def _root(programs: list[str], files: dict[str, str]) -> bytes:
    """A tar of a root folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        busybox = shutil.which("busybox")
        assert busybox is not None
        tar.add(Path(busybox).resolve(), "bin/busybox")
        for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        libraries = set()
        for program in programs:
            path = Path(shutil.which(program) or "").resolve()
            tar.add(path, f"bin/{program}")
            listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
            libraries |= {word for line in listed.splitlines() for word in line.split() if word.startswith("/")}
        for library in sorted(libraries):
            tar.add(Path(library).resolve(), library.lstrip("/"))
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def _answers(where: str) -> bool:
    import urllib3

    try:
        return urllib3.request("GET", f"http://{where}/v2/", retries=False, timeout=2.0).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def until(done, what: str, seconds: float = 120.0) -> None:
    from killcheck.clock import WallLoop

    loop = WallLoop()
    until = loop.monotonic() + seconds
    while not done():
        assert loop.monotonic() < until, f"it never came that {what}"
        loop.sleep(0.05)


class Spec:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(
        self,
        layers: str,
        *,
        targets: str = "[{name: vllm, kind: Container, object: vllm}]",
        more: str = "",
        held: str = "1s",
        started: str = "60s",
        gone: str = "90s",
    ) -> Path:
        file = self.folder / "killcheck.yaml"
        file.write_text(
            "apiVersion: killcheck/v1\nname: workstation\n"
            f"targets: {targets}\nlayers:\n{layers}\n"
            f"deadlines: {{containerStarted: {started}, podsGone: {gone}, held: {held}}}\n"
            f"consent: {{contexts: ['docker*'], commands: ['*']}}\n{more}"
        )
        return file


CRON_LAYER = """
  - name: nightly-off
    type: dead-man
    covers: [vllm]
    schedule: "0 20 * * *"
    container: {name: cron, argv: [docker, stop, vllm]}
"""
ONE_SHOT_LAYER = """
  - name: nightly-off
    type: dead-man
    covers: [vllm]
    schedule: "0 20 * * *"
    container: {name: gpu-off}
"""


def killcheck(folder: Path, *argv: str, timeout: float = 240.0, first: str = "pass"):
    """The command in a process of its own, after the statements ``first``.

    Returns (exit code, what it printed, its JSON document if it has one).
    """
    ran = forked.killcheck(folder, *argv, first=first, timeout=timeout)
    document = json.loads(ran.stdout) if "--json" in argv and ran.stdout.strip().startswith("{") else {}
    return ran.returncode, ran.stdout + ran.stderr, document


def drilled(host, spec, fault, *argv):
    """One drill under a fault that bites, after which the engine is as it was: (exit code, the drill)."""
    before = host.picture()
    code, out, document = killcheck(
        spec.parent, "drill", str(spec), "--on", f"docker:{host.address}", "--under", fault, "--yes", "--json", *argv
    )
    assert document, out
    result = document["drills"][0]
    assert fault in result["bites"], result
    assert result["problems"] == []
    assert host.picture() == before
    return code, result
