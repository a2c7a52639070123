"""Which program of this host stands for the shell of an image.

``sh`` is busybox' ash in Alpine's images, dash in Debian's, bash in Red Hat's, and they differ: ash knows ``pipefail``,
``[[``, ``${name//a/b}`` and ``source``, dash none of them. This host's busybox cannot stand for one, as it would not
look for ``sleep`` and ``date`` where a container's clock is; bash can (as ``sh`` in POSIX mode), unless a script has
what only bash knows: that goes to dash, which stumbles over it as ash does. Sources: busybox shell/ash.c
(BASH_COMPAT), dash(1), bash(1) "POSIX mode".
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.embedded.nodes import startable
from killcheck.embedded.nodes.execution import Launch
from killcheck.embedded.nodes.hostprograms import HostPrograms
from killcheck.text import lazy_re

__all__ = ["TRACED", "program"]

#: The variable in a container's environment by which its interpreters are to tell where they are.
TRACED = "KILLCHECK_TRACE"

#: For each shell of an image the host's programs that may stand for it, the best first.
_STAND_INS = {"ash": ("bash", "sh"), "dash": ("dash", "sh"), "bash": ("bash",)}
#: What bash understands and ash does not: arrays, here-strings, process substitution, arithmetic commands, indirection.
_BASH_ONLY = lazy_re.compile(
    r"""(?m)\w\+?=\(|<<<|[<>]\(|(?:^|[;&|]|\bthen|\bdo|\bif|\bwhile)[ \t]*\(\(|\bfor\s*\(\("""
    r"""|\$\{!|\$\{\w+(?:\[|\^|,|@)|\b(?:declare|typeset|mapfile|readarray|shopt|coproc|select|pushd|popd)\s"""
    r"""|\bread\s+-[a-z]*a|\bprintf\s+-v|\btrap\s.{0,200}\b(?:ERR|DEBUG)\b|\|&|\bPIPESTATUS\b|\bBASH_\w+"""
)


def program(name: str, launch: Launch, host: HostPrograms) -> str | None:
    """The real path of what stands for a program of an image; None where this host has none."""
    stand_ins = _STAND_INS.get(name)
    if stand_ins is None:
        return _alone(host.find(name), launch)
    if TRACED in launch.env:  # only bash tells its lines; whoever traces compares how it ends
        stand_ins = ("bash",)
    elif name == "ash" and any(map(_BASH_ONLY.search, _texts(launch))):
        stand_ins = ("dash", "sh")
    return next((found for one in stand_ins if (found := host.find(one)) is not None), None)


def _alone(real: str | None, launch: Launch) -> str | None:
    """A program that an image can start: of a script of this host it has the interpreter."""
    starts = startable.interpreter(real) if real and launch.contents.known else None
    return real if starts is None or launch.contents.has(starts) or launch.contents.find(starts) else None


def _texts(launch: Launch) -> Iterator[str]:
    """What the container's shell may be given to run: its command line and the files of its volumes."""
    yield from launch.argv
    for mount in launch.mounts:
        for file in mount.volume.files.values():
            yield file.content.decode("utf-8", "replace")
