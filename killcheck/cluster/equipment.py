"""The programs of a spec where it is drilled: as this machine's own, or on a modelled machine in virtual time."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from killcheck.cluster.base import Cluster
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.killpath import KillPath
from killcheck.programs import Files, LocalPrograms

__all__ = ["equip"]

#: Why a user's own programs do not run on the embedded cluster.
UNASKED = "it was not run: nobody allowed it to run on this host (--exec host)"


def equip(cluster: Cluster, kill_path: KillPath, *, allowed: bool) -> None:
    """Give a cluster the levers ``programs`` and ``files``, where the kill path has any use for them.

    ``allowed``: whether its programs may be run on this host for the embedded cluster (on a real one, consent decides).
    """
    if not kill_path.commands and not any(layer.sentinel for layer in kill_path.layers):
        return
    if not isinstance(cluster, EmbeddedDrillCluster):
        cluster.levers["programs"] = LocalPrograms(cluster.loop, kill_path.folder, known=kill_path.commands)
        cluster.levers["files"] = Files()
        return
    from killcheck.embedded.machine import Machine
    from killcheck.embedded.nodes.hollownodes import NoRuntime

    sentinels = [layer.sentinel.path for layer in kill_path.layers if layer.sentinel and layer.sentinel.path]
    machine = Machine(
        cluster.embedded.nodes.runtime if allowed else NoRuntime(UNASKED), cluster.loop, Path(kill_path.folder),
        data=[str(PurePosixPath(path).parent) for path in sentinels], known=kill_path.commands)
    cluster.machine = machine
    cluster.levers["programs"] = machine
    cluster.levers["files"] = Files(machine.path)
    for layer in kill_path.layers:
        machine.keep(layer)
