"""Commands that the executor's image does not contain."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import Executor, World

from killcheck import executor
from killcheck.executor import Reading
from killcheck.images.contents import Contents, contents_of
from killcheck.images.reference import InvalidReference, parse
from killcheck.text.yamlfile import Path

__all__ = ["CommandMissing"]


class CommandMissing(Probe):
    """A slim Python image has no curl (exit 127), a distroless kubectl no shell (StartError)."""

    id = "command-missing"
    claim = "Every image contains the commands that its container runs."
    remedy = "Take an image that has them, or use what is there (python: urllib.request; kubectl without a shell)."
    failures = (2,)
    sources = ("devantler-tech/platform#2384", "KBVE/kbve#11818", "LightconeResearch/lightcone-cli#140")

    def ask(self, world: World) -> Iterable[Finding]:
        """Each container by itself, where something is known of its image."""
        for one in world.layer_executors:
            for path, container in one.containers:
                image = str(container.get("image", ""))
                try:
                    contents = contents_of(parse(image))
                except InvalidReference:
                    continue
                reading = executor.read(
                    {**one.spec, "initContainers": [], "containers": [container]}, one.namespace, world.config_maps
                )
                if not contents.known:
                    continue
                yield from self._modules(world, one, (*path, "image"), reading, contents)
                missing = [tool for tool in reading.tools if not contents.find(tool)]
                if missing:
                    names = ", ".join(missing)
                    yield self.finding(
                        world,
                        one.owner,
                        (*path, "image"),
                        f"{image} has no {names} ({contents.source})",
                        severity="warning" if contents.assumed else "error",
                        also=[(one.owner, (*path, "command" if container.get("command") else "args"))],
                    )

    def _modules(
        self,
        world: World,
        one: Executor,
        path: Path,
        reading: Reading,
        contents: Contents,
    ) -> Iterable[Finding]:
        """What a script imports that the image's Python has not, and that nothing installs."""
        if reading.modules and not contents.python_packages and "pip install" not in one.text:
            names = ", ".join(reading.modules)
            yield self.finding(
                world,
                one.owner,
                path,
                f"its Python has no package {names} ({contents.source}): ModuleNotFoundError",
                remedy="Take an image that has it, or use what the standard library has (urllib.request).",
            )
