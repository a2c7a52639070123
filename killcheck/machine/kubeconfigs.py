"""The kubeconfig of a modelled machine: where its programs look for one, leading to the embedded cluster.

What a machine's own kubeconfig may do is in no manifest: here it is an administrator's, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from killcheck.embedded import Cluster, File, Mount, Volume
from killcheck.executor.scripts import texts
from killcheck.spec.killpath import Command

__all__ = ["ASSUMED", "mounts"]

ASSUMED = "the machine's kubeconfig is taken to lead to this cluster, and to be allowed everything there"
_HOME = "/root/.kube"
#: The API server's address, as every sandbox has it.
_SERVER = "https://10.96.0.1:443"
_NAMED = re.compile(r"(?:KUBECONFIG=|--kubeconfig[= ])[\"']?(/[\w./-]+)")


def mounts(cluster: Cluster, commands: Iterable[Command], folder: Path) -> list[Mount]:
    """One for each place that the commands or their scripts name, and for the user's own."""
    text = re.sub(r"server: \S+", f"server: {_SERVER}", cluster.kubeconfig())
    volume = Volume("kubeconfig", "configMap", {"config": File(text.encode(), 0o600)})
    commands = list(commands)
    homes = dict.fromkeys(["/root", *(home for command in commands if (home := command.env.get("HOME")))])
    named = dict.fromkeys(path for command in commands for path in _named(command, folder))
    return [
        *(Mount(volume, f"{home}/.kube") for home in homes if home.startswith("/") and ".." not in home),
        *(Mount(volume, path, sub_path="config") for path in named),
    ]


def _named(command: Command, folder: Path) -> Iterator[str]:
    own = command.env.get("KUBECONFIG", "")
    found = [own] if own.startswith("/") else []
    found += [path for _, text in texts(command, folder) for path in _NAMED.findall(text)]
    yield from (path for path in found if not path.startswith(f"{_HOME}/") and ".." not in path)
