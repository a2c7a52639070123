"""The runtime of containers that really run: processes on this host, in the cluster's time."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from killcheck.clock import Loop
from killcheck.embedded.nodes import beyond, shims
from killcheck.embedded.nodes.execution import Exit, Launch, NotRun, Runtime, StartError
from killcheck.embedded.nodes.host_side import Door, HostSide
from killcheck.embedded.nodes.isolation import LEVELS, Level, here, ways_out
from killcheck.embedded.nodes.network import Network, shared
from killcheck.embedded.nodes.process import HostProcess, lacks
from killcheck.embedded.nodes.spawnerclient import NoSandbox, SetUpError, SpawnerClient, remove
from killcheck.entries import Assumption
from killcheck.executor import python_versions
from killcheck.images.contents import contents_of
from killcheck.images.reference import InvalidReference, parse
from killcheck.kube.objects import uid_of
from killcheck.text import lazy_re

__all__ = ["HostRuntime", "Isolation"]

Isolation = Literal["sandbox", "shipped", "namespaces", "bubblewrap", "unisolated"]

_HERE = sys.version_info[:2]
#: How a shell names a time zone for what it runs; those that are UTC anyway.
_ZONE = lazy_re.compile(r"\bTZ=[\"']?:?([A-Z][\w+-]{1,30}(?:/[\w+-]{1,30}){0,2})")
_NO_ZONES = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "UTC0", "GMT0"})
#: What each of them tries, in order.
_TRIED: dict[Isolation, tuple[Level, ...]] = {
    "sandbox": LEVELS,
    "shipped": (*LEVELS, Level.UNISOLATED),
    "namespaces": (Level.NAMESPACES,),
    "bubblewrap": (Level.BUBBLEWRAP,),
    "unisolated": (Level.UNISOLATED,),
}


class HostRuntime(HostSide, Runtime):
    """Runs containers on this host.

    ``isolation``: ``sandbox`` is the strongest level that there is here, or nothing is run; one of the levels is that
    one or nothing; ``shipped``, for killcheck's own manifests alone, does without where there is none.
    """

    assumptions: list[Assumption]

    def __init__(self, loop: Loop, wire: Door, *, isolation: Isolation = "sandbox") -> None:
        super().__init__(loop, wire)
        self.isolation: Isolation = isolation
        #: Networks that several containers share, by their pod's uid.
        self.networks: dict[str, Network] = {}
        self._closed = False

    # -- the Runtime protocol ------------------------------------------------------------------------------
    def start(
        self,
        launch: Launch,
        on_exit: Callable[[Exit], None],
        on_unknown: Callable[[str], None],
    ) -> HostProcess:
        """Start a container. Raises StartError or NotRun."""
        if not launch.argv:
            raise NotRun(f"what image {launch.image} starts is not known, and the manifest has no command")
        self._compare_python(launch)
        self._compare_zones(launch)
        try:
            return self._start(launch, on_exit, on_unknown)
        except StartError as error:
            if not beyond.named_program(launch, str(error)):
                raise
            raise NotRun(self.host.keeps_out(launch.argv[0]) or lacks(launch, launch.argv[0])) from error

    def _compare_python(self, launch: Launch) -> None:
        """Raises NotRun where the image's Python would make another thing of a program than this host's does."""
        image = launch.contents.python_version
        if image in (None, _HERE) or not any("python" in one for one in launch.texts()):
            return
        has, here = (".".join(map(str, one)) for one in (image, _HERE))
        found = python_versions.unlike(launch.texts(), image, _HERE)
        if found is not None:
            raise NotRun(
                f"image {launch.image} has Python {has}, and this host would run it with {here}, which differ in "
                f"{found}: write it so that both read it alike; --exec docker runs the image itself"
            )
        self.assume(Assumption(f"image {launch.image} has Python {has}: its programs were run with {here}"))

    def _compare_zones(self, launch: Launch) -> None:
        """Note that a zone which a program names is UTC in its image."""
        if launch.contents.zones:
            return
        named = [launch.env.get("TZ"), *(one for text in launch.texts() for one in _ZONE.findall(text))]
        zone = next((one for one in named if one and one not in _NO_ZONES), None)
        if zone is not None:
            self.assume(
                Assumption(
                    f"image {launch.image} has no time zones: TZ={zone} is UTC in it (add tzdata to the image, or "
                    "say the zone in the CronJob's timeZone alone)"
                )
            )

    def _start(
        self,
        launch: Launch,
        on_exit: Callable[[Exit], None],
        on_unknown: Callable[[str], None],
    ) -> HostProcess:
        """Raises StartError or NotRun."""
        spawner = self._ready()
        apart = spawner.level is not Level.UNISOLATED
        started = None
        try:
            network = self._network(launch, spawner) if apart else Network(self, launch, self.next_name())
            started = HostProcess(self, launch, network, on_exit, on_unknown)
            if apart:
                started.begin_isolated(spawner)
            else:
                started.begin_relocated(spawner)
        except SetUpError as error:
            if started is not None:
                started.discard()
            raise NotRun(f"its sandbox could not be made: {error}") from error
        return started

    @property
    def level(self) -> str | None:
        """How well what has run here was kept in; None: nothing has."""
        return str(self.spawner.level) if self.spawner is not None and self.made else None

    def settle(self) -> Level:
        """Find the level that this host has, before anything is started; idempotent. Raises NoSandbox, NotRun."""
        if self._closed:
            raise NotRun("the cluster is being closed")
        if self.spawner is not None:
            return self.spawner.level
        why = []
        for level in _TRIED[self.isolation]:
            if level in LEVELS and not here().startswith("linux"):
                why.append(f"{level}: a sandbox takes Linux, and this is {here()}")
                continue
            spawner = None
            try:
                spawner = SpawnerClient(self.loop, self.processes.get, level)
                spawner.settle()
            except NoSandbox as error:
                why.append(f"{level}: {error}")
                if spawner is not None:
                    spawner.close()
                continue
            self.spawner = spawner
            if level is Level.UNISOLATED:
                self.assume(
                    Assumption("what was run here was not isolated: it could do all that killcheck's own user can")
                )
            return level
        raise NoSandbox(f"this machine has no sandbox for the manifests' programs ({'; '.join(why)}): {ways_out()}")

    def foresee(self, images: Iterable[str]) -> None:
        """Find out what every fork of this process would have to find out for itself; nothing is left of the trial.

        ``images``: those whose programs will be run.
        """
        self.host.lacks(frozenset())
        for name in {name for image in images for name in _commands(image)}:
            self.host.find(name)
        shims.site()
        with contextlib.suppress(NoSandbox, NotRun):
            self.settle()
        if self.spawner is not None:
            self.spawner.close()
            self.spawner = None

    def release(self, pod_uid: str) -> None:
        """Remove a pod's scratch space, and its network."""
        network = self.networks.pop(pod_uid, None)
        if network is not None:
            network.close()
        spawner = self.spawner
        if spawner is not None and spawner.level is Level.UNISOLATED:
            remove(spawner.files / pod_uid)
        elif spawner is not None:
            spawner.send({"do": "release", "pod": pod_uid})

    @property
    def folder(self) -> Path:
        """Where on this host the containers' scratch space is; removed at the end. Raises NotRun."""
        return self._ready().files

    def close(self) -> None:
        """Kill every process and remove every file; idempotent."""
        if self._closed:
            return
        self._closed = True
        for process in list(self.processes.values()):
            process.discard()
        for pod_uid in list(self.networks):
            self.networks.pop(pod_uid).close()
        if self.spawner is not None:
            self.spawner.close()
            self.spawner = None

    def pod_gone(self) -> None:
        """A pod's object is gone: programs that poll for that get their turn before time moves on."""
        for process in self.processes.values():
            process.give_turn()

    def hurry(self) -> None:
        """Nobody waits any more for what programs do: no loop of theirs holds the end up."""
        self.hurried = True

    def _network(self, launch: Launch, spawner: SpawnerClient) -> Network:
        """The pod's network where it has several containers, else a container's own. Raises SetUpError."""
        if not shared(launch.pod):
            return Network(self, launch, self.next_name())
        uid = uid_of(launch.pod)
        network = self.networks.get(uid)
        if network is None or not network.fits(launch):
            if network is not None:
                self.networks.pop(uid).close()
            network = Network(self, launch, self.next_name())
            network.keep(spawner)
            self.networks[uid] = network
        return network

    def _ready(self) -> SpawnerClient:
        if self.spawner is None:
            try:
                self.settle()
            except NoSandbox as error:
                raise NotRun(str(error)) from error
        assert self.spawner is not None
        return self.spawner


def _commands(image: str) -> Iterable[str]:
    try:
        return (contents_of(parse(image)).commands or {}).values()
    except InvalidReference:
        return ()
