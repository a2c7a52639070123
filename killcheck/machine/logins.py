"""The kubeconfigs of a machine's programs, as far as they lie beside the spec: who is let in, and until when.

Nothing is run. What may *not* live here: what such a file leads to on the embedded cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from killcheck.clock import wall_now
from killcheck.executor.scripts import texts
from killcheck.kube.certificates import not_after, signed_in
from killcheck.spec.killpath import Command
from killcheck.text import lazy_re
from killcheck.text.files import enclosed

__all__ = ["has_ended", "homes", "kept", "paths"]

_HOME = "/root/.kube"
_NAMED = lazy_re.compile(r"(?:KUBECONFIG=|--kubeconfig[= ])[\"']?(/[\w./-]+)")


def kept(commands: Iterable[Command], folder: str | Path) -> Iterator[tuple[str, Path]]:
    """(path on the machine, the file of it that is here), in the machine's tree or by its name beside the spec.

    Only of programs that ask a Kubernetes API.
    """
    root, commands = Path(folder), list(commands)
    if not any("kube" in text for command in commands for _, text in texts(command, root)):
        return
    own = [f"{home}/.kube/config" for home in homes(commands)]
    for path in dict.fromkeys((*own, *paths(commands, root))):
        places = [root / "machine" / path.lstrip("/")]
        near = dict.fromkeys((root, *(root / command.folder for command in commands)))
        places += [] if path in own else [place / Path(path).name for place in near]
        found = next((one for one in places if enclosed(one, root) and os.access(one, os.R_OK)), None)
        if found is not None:
            yield path, found


def has_ended(file: Path) -> bool:
    """Whether who a kubeconfig lets in is let in no more, by the wall's clock: its certificate is a real one."""
    _, pem = signed_in(file) or ("", b"")
    until = not_after(pem)
    return until is not None and until <= wall_now()


def homes(commands: Iterable[Command]) -> list[str]:
    """The users' folders in which kubectl looks for a kubeconfig that nobody names."""
    found = dict.fromkeys(["/root", *(home for command in commands if (home := command.env.get("HOME")))])
    return [home for home in found if home.startswith("/") and ".." not in home]


def paths(commands: Iterable[Command], folder: Path) -> list[str]:
    """The kubeconfigs that commands and their scripts name, each once."""
    return list(dict.fromkeys(path for command in commands for path in _named(command, folder)))


def _named(command: Command, folder: Path) -> Iterator[str]:
    own = command.env.get("KUBECONFIG", "")
    found = [own] if own.startswith("/") else []
    found += [path for _, text in texts(command, folder) for path in _NAMED.findall(text)]
    yield from (path for path in found if not path.startswith(f"{_HOME}/") and ".." not in path)
