"""The kubeconfig of a modelled machine: where its programs look for one, leading to the embedded cluster.

What a machine's own kubeconfig may do is in no manifest: here it is an administrator's, and that is said. One that lies
beside the spec, or in the machine's tree, says itself until when it is let in: past that it is let in nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from killcheck.embedded import Cluster, File, Mount, Volume
from killcheck.entries import Assumption
from killcheck.machine import logins
from killcheck.spec.killpath import Command
from killcheck.text import lazy_re

__all__ = ["ASSUMED", "mounts"]

ASSUMED = Assumption("the machine's kubeconfig is taken to lead to this cluster, and to be allowed everything there")
#: The API server's address, as every sandbox has it.
_SERVER = "https://10.96.0.1:443"
#: In place of an administrator's certificate where the machine's has ended: an API server answers 401 to either.
_ENDED = "token: a-certificate-that-has-ended"
_ADMIN = lazy_re.compile(r"client-certificate-data: \S+\s+client-key-data: \S+")


def mounts(cluster: Cluster, commands: Iterable[Command], folder: Path) -> list[Mount]:
    """One for each place that the commands or their scripts name, and for the user's own."""
    text = re.sub(r"server: \S+", f"server: {_SERVER}", cluster.kubeconfig())
    commands = list(commands)
    ended = {path for path, file in logins.kept(commands, folder) if logins.has_ended(file)}

    def volume(path: str) -> Volume:
        said = _ADMIN.sub(_ENDED, text) if path in ended else text
        return Volume("kubeconfig", "configMap", {"config": File(said.encode(), 0o600)})

    return [
        *(Mount(volume(f"{home}/.kube/config"), f"{home}/.kube") for home in logins.homes(commands)),
        *(Mount(volume(path), path, sub_path="config") for path in logins.paths(commands, folder)),
    ]
