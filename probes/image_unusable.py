"""Runs the executors' images, where the user said so: whether what they are told to run is in them, and starts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.objects import Obj

if TYPE_CHECKING:
    from killcheck.engine.connection import Engine

__all__ = ["ImageUnusable"]

#: Where programs are found by default.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ImageUnusable(Probe):
    """The command itself, in its own image, on a Docker Engine: no network, no credentials, no mounts, no rights.

    Asked of by ``lint --pull`` and ``drill --preflight`` alone: it runs the user's images on this machine. ``only``:
    the names of the layers whose images are run; None: every one's.
    """

    id = "image-unusable"
    on_request = True
    claim = "Every executor's image has the command that it is told to run, and the command starts."
    remedy = "Use an image that has what the command needs, for the architecture of the nodes; then pin it by digest."
    failures = (2,)
    sources = ("moby/moby: docs/api/v1.41.yaml", "LightconeResearch/lightcone-cli#140")

    def __init__(self, engine: Engine, only: Collection[str] | None = None) -> None:
        self._engine = engine
        self._only = only

    def ask(self, world: World) -> Iterable[Finding]:
        """One run for each executor's container."""
        from killcheck.engine.rehearsal import rehearse

        for one in world.layer_executors:
            if self._only is not None and one.layer is not None and one.layer.name not in self._only:
                continue
            for path, container in one.containers:
                image = str(container.get("image", ""))
                if not image:
                    continue
                came = rehearse(self._engine, image, _argv(container), _env(container))
                if came.starts is None:
                    yield self.unproven(world, one.owner, came.why)
                elif not came.starts and (mount := _lent(container, came.why)):
                    yield self.unproven(
                        world, one.owner, f"{image}: {came.why} - {mount} is mounted there, and nothing is here"
                    )
                elif not came.starts:
                    yield self.finding(world, one.owner, (*path, "image"), f"{image}: {came.why}")


def _argv(container: Obj) -> list[str]:
    """The command line; only ``args``: what the image's own entry point is given, which is left to the image."""
    command = [str(word) for word in container.get("command") or []]
    return [*command, *(str(word) for word in container.get("args") or [])] if command else []


def _env(container: Obj) -> dict[str, str]:
    """Its plain variables; nothing from Secrets or ConfigMaps."""
    return {str(one["name"]): str(one["value"]) for one in container.get("env") or [] if one.get("value") is not None}


def _lent(container: Obj, why: str) -> str | None:
    """The mount that may hold what was not found: it is named in ``why``, or programs are looked for in it."""
    searched = f"{_PATH}:{_env(container).get('PATH', '')}".split(":")
    for mount in container.get("volumeMounts") or []:
        path = str(mount.get("mountPath", "")).rstrip("/")
        names = "|".join(re.escape(name) for name in (path, path.rpartition("/")[2]))
        if path and (
            re.search(rf"(?<![\w.-])(?:{names})(?![\w.-])", why)
            or any(f"{folder}/".startswith(f"{path}/") for folder in searched)
        ):
            return path
    return None
