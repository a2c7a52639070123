"""Commands that the executor's image does not contain."""

from __future__ import annotations

import re
from collections.abc import Iterable
from posixpath import join, normpath

from killcheck.probes.base import Finding, Probe
from killcheck.probes.pulls import ARCH, arches_of_nodes
from killcheck.probes.rehearsed import not_found
from killcheck.probes.script_lines import of_end
from killcheck.probes.world import Executor, World

from killcheck import executor
from killcheck.executor import Reading
from killcheck.images.contents import Contents, contents_of, is_known
from killcheck.images.reference import InvalidReference, parse
from killcheck.kube.objects import Obj
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path

__all__ = ["CommandMissing", "fetched"]

#: A script's first line that ends as Windows ends lines: the carriage return is taken for a part of the name.
_RETURNS = lazy_re.compile(r"^#![^\n]*\r(?=\n)", re.M)
#: Who fetches a program while a script runs: a package manager, or a download that is written under its name.
_FETCHES = (
    r"(?:\b(?:apk|apt|apt-get|yum|dnf|microdnf|tdnf|zypper|pip3?|npm|go|brew)\b[^\n;&|]*\b(?:add|install)\b"
    r"|\b(?:curl|wget)\b)"
)


def fetched(text: str, tool: str) -> bool:
    """Whether a script fetches a program before it calls it."""
    return re.search(rf"{_FETCHES}[^\n;&|]*(?<![\w.-]){re.escape(tool)}(?![\w.-])", text) is not None


def _is_read(image: str) -> bool:
    try:
        parse(image)
    except InvalidReference:
        return False
    return True


def _called(container: Obj, contents: Contents) -> list[str]:
    """Programs that an image surely lacks and that its command names, in whatever language."""
    text = "\n".join(map(str, (*(container.get("command") or ()), *(container.get("args") or ()))))
    return [tool for tool in sorted(contents.without) if re.search(rf"(?<![\w./$-]){tool}(?=[\s\"'`])", text)]


def lacking(contents: Contents, tool: str) -> bool:
    """Whether a command is surely not in an image."""
    return not contents.find(tool) if contents.known else tool in contents.without


def _mode(spec: Obj, container: Obj, path: str) -> int | None:
    """The mode of a file that a volume of ConfigMaps or Secrets puts at a path; None: none does."""
    volumes = {str(volume.get("name")): volume for volume in spec.get("volumes") or ()}
    mounts = sorted(container.get("volumeMounts") or (), key=lambda mount: -len(str(mount.get("mountPath", ""))))
    for mount in mounts:
        base = str(mount.get("mountPath", "")).rstrip("/")
        if path == base or path.startswith(base + "/"):
            volume = volumes.get(str(mount.get("name")), {})
            source = volume.get("configMap") or volume.get("secret") or {}
            own = [item.get("mode") for item in source.get("items") or () if path.endswith(f"/{item.get('path')}")]
            mode = own[0] if own and own[0] is not None else source.get("defaultMode", 0o644)
            return mode if source and isinstance(mode, int) else None
    return None


class CommandMissing(Probe):
    """A slim Python image has no curl (exit 127), a distroless kubectl no shell (StartError)."""

    id = "command-missing"
    claim = "Every image contains the commands that its container runs."
    remedy = "Take an image that has them, or use what is there (python: urllib.request; kubectl without a shell)."
    failures = (2,)
    sources = ("devantler-tech/platform#2384", "KBVE/kbve#11818", "LightconeResearch/lightcone-cli#140")

    def ask(self, world: World) -> Iterable[Finding]:
        """Each container by itself, where something is known of its image."""
        for one in world.watched:
            yield from self._seen(world, one)
        for one in world.layer_executors:
            if one.seen is not None and one.seen.ran:
                continue
            for path, container in one.containers:
                yield from self._bare_file(world, one, path, container)
                image = str(container.get("image", ""))
                try:
                    contents = contents_of(parse(image))
                except InvalidReference:
                    continue
                wanted = arches_of_nodes(world, one)
                if contents.arches and wanted and not wanted & set(contents.arches):
                    theirs = ", ".join(sorted(wanted))
                    message = f"{image} is for {contents.arches[0]} by its name, and its nodes are {theirs}"
                    remedy = f"Build it for {theirs} too, or let its pod select nodes of its own by {ARCH}."
                    yield self.finding(
                        world, one.owner, (*path, "image"), f"{message}: exec format error", remedy=remedy
                    )
                reading = executor.read(
                    {**one.spec, "initContainers": [], "containers": [container]}, one.namespace, world.config_maps
                )
                if contents.known:
                    yield from self._modules(world, one, (*path, "image"), reading, contents)
                named = _called(container, contents) if reading.not_understood else []
                absent = [tool for tool in dict.fromkeys((*reading.tools, *named)) if lacking(contents, tool)]
                missing = [tool for tool in absent if not fetched(one.text, tool)]
                brought = ", ".join(tool for tool in absent if tool not in missing)
                if brought:
                    yield self.finding(
                        world,
                        one.owner,
                        (*path, "image"),
                        f"{image} has no {brought}, and fetches it when it runs: where it comes from is a part of the "
                        "kill path",
                        severity="warning",
                        remedy="Build it into an image of your own, pinned by digest.",
                    )
                if missing:
                    names = ", ".join(missing)
                    yield self.finding(
                        world,
                        one.owner,
                        (*path, "image"),
                        f"{image} has no {names} ({contents.source})",
                        severity="warning" if contents.source.startswith("assumed") else "error",
                        also=[(one.owner, (*path, "command" if container.get("command") else "args"))],
                    )

    def _bare_file(self, world: World, one: Executor, path: Path, container: Obj) -> Iterable[Finding]:
        """A script of a ConfigMap that is run by its path, and whose mode says that it is no program."""
        program = str((container.get("command") or [""])[0])
        mode = _mode(one.spec, container, normpath(join(str(container.get("workingDir") or "/"), program)))
        if "/" in program and mode is not None and not mode & 0o111:
            message = f"{program} is a file of a volume with mode {mode:04o}: permission denied"
            remedy = "Set the volume's defaultMode: 0755, or run it by its interpreter (sh FILE)."
            yield self.finding(world, one.owner, (*path, "command"), message, remedy=remedy)
        elif "/" in program and mode is not None and (first := _RETURNS.search(one.text)):
            message = f"its script begins with {first[0]!r}: no interpreter is called that, no such file or directory"
            remedy = "End its lines as Unix ends them, without \\r."
            yield self.finding(world, one.owner, (*path, "command"), message, remedy=remedy)

    def _seen(self, world: World, one: Executor) -> Iterable[Finding]:
        """What shells said in a rehearsal, where something is known of the image; else this host may lack it."""
        endings = one.seen.first.endings if one.seen else ()
        for path, container in one.containers:
            image = str(container.get("image", ""))
            yield from self._silent(world, one, path, container)
            for ending in endings:
                missing = not_found(ending) if ending.container == container.get("name") else []
                if not missing:
                    continue
                words = ", ".join(missing)
                if is_known(image) or set(missing) <= contents_of(parse(image)).without:
                    at, said = of_end(world, one, ending), f"{image} has no {words}: {ending.last_words}"
                    at = at and at._replace(points=False)  # the image is to be mended
                    yield self.finding(world, one.owner, (*path, "image"), said, seen=True, at=at)
                else:
                    yield self.unproven(
                        world, one.owner, f"whether {image} has {words}: nothing is known of it, and this host has not"
                    )

    def _silent(self, world: World, one: Executor, path: Path, container: Obj) -> Iterable[Finding]:
        """A program that nobody missed aloud (Perl's system() says nothing), where nothing went off."""
        first = one.seen.first if one.seen else None
        image = str(container.get("image", ""))
        if first is None or first.off or any(not_found(ending) for ending in first.endings) or not _is_read(image):
            return
        contents = contents_of(parse(image))
        missing = [tool for tool in _called(container, contents) if not fetched(one.text, tool)]
        if missing:
            yield self.finding(
                world, one.owner, (*path, "image"), f"{image} has no {', '.join(missing)} ({contents.source})"
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
