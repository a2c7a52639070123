"""The programs of a spec where it is drilled: as this machine's own, or on a modelled machine in virtual time."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from killcheck.capabilities.cluster import Cluster
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.embedded import Described, Mount
from killcheck.machine.programs import Files, LocalPrograms
from killcheck.spec.killpath import Command, KillPath, NodePool
from killcheck.text.values import replace

__all__ = ["equip", "late"]

#: Why a user's own programs do not run on the embedded cluster.
UNASKED = "it was not run: nobody allowed it to run on this host (--exec host)"


def equip(cluster: Cluster, kill_path: KillPath, *, allowed: bool, layer: str = "") -> None:
    """Give a cluster ``programs`` and ``files``, where the kill path has any use for them.

    ``allowed``: whether its programs may be run on this host for the embedded cluster (on a real one, consent decides).
    ``layer``: what is drilled. Raises ClusterError.
    """
    if isinstance(cluster, EmbeddedDrillCluster):
        cluster.embedded.assumed.pools = tuple(_described(pool) for pool in kill_path.nodes)
    if not kill_path.commands and not any(layer.sentinel for layer in kill_path.layers):
        return
    if not isinstance(cluster, EmbeddedDrillCluster):
        programs = LocalPrograms(
            cluster.loop, kill_path.folder, known=kill_path.commands, witnesses=_witnesses(kill_path)
        )
        cluster.capabilities = replace(cluster.capabilities, programs=programs, files=Files())
        return
    from killcheck.embedded import NoRuntime
    from killcheck.executor import scripts
    from killcheck.machine.modelled import Machine

    folder = Path(kill_path.folder)
    written = [layer.sentinel.path for layer in kill_path.layers if layer.sentinel and layer.sentinel.path]
    written += [
        lock.path for layer in kill_path.layers if layer.command for lock in scripts.locks(layer.command, folder)
    ]
    machine = Machine(
        cluster.embedded.nodes.runtime if allowed else NoRuntime(UNASKED),
        cluster.loop,
        folder,
        data=[str(PurePosixPath(path).parent) for path in written],
        known=kill_path.commands,
        witnesses=_witnesses(kill_path),
        more=_kubeconfigs(cluster, kill_path, folder) if allowed and kill_path.in_kubernetes else [],
    )
    cluster.machine = machine
    cluster.capabilities = replace(
        cluster.capabilities, programs=machine, machine=machine, timers=machine.timers, files=Files(machine.path)
    )
    units = [folder, *(folder / name for layer in kill_path.layers if layer.sentinel for name in layer.sentinel.units)]
    latest = late(kill_path, folder)
    for one in kill_path.layers:
        persistent = scripts.persistent(one.command, units) if one.command else None
        machine.keep(one, persistent=persistent, late_s=latest.get(one.name, 0.0))
    if any(target.machines and target.machines.stand_in for target in kill_path.targets):
        from killcheck.cluster.rental_market import equip_with_market

        equip_with_market(cluster, kill_path, layer)


def late(kill_path: KillPath, folder: Path) -> dict[str, float]:
    """How many seconds after their slots the layers' own timers may go off, by the layers' names, where they may."""
    from killcheck.machine import scheduled

    own = {one.name: one.command for one in kill_path.layers if one.command is not None and one.schedule}
    delayed = [one for one in scheduled.find([folder]) if one.late_s] if own else []
    by_command = {one.command.argv: one.late_s for one in delayed}
    return {name: by_command[command.argv] for name, command in own.items() if command.argv in by_command}


def _kubeconfigs(cluster: EmbeddedDrillCluster, kill_path: KillPath, folder: Path) -> list[Mount]:
    """What leads a kubectl of the spec's own programs to the cluster; nothing where none of them asks one."""
    from killcheck.executor.scripts import texts
    from killcheck.machine import kubeconfigs

    own = kill_path.commands  # a request that makes a target busy, and a checkpoint, ask as a layer does
    if not any("kube" in text for command in own for _, text in texts(command, folder)):
        return []
    cluster.embedded.nodes.runtime.assume(kubeconfigs.ASSUMED)
    return kubeconfigs.mounts(cluster.embedded, own, folder)


def _described(pool: NodePool) -> Described:
    """A pool of the spec, for the nodes that are made where no manifest describes any."""
    labels = dict(
        part.split("=", 1)
        for part in pool.node_selector.replace("==", "=").split(",")
        if re.fullmatch(r"[^=!()<> ]+=[^=!()<> ]+", part)
    )
    return Described(labels, pool.instance_type, pool.removed_by, pool.removed_after_s, pool.floor)


def _witnesses(kill_path: KillPath) -> list[Command]:
    """The commands of those who look at a machine from outside: who counts, who starts, who makes a request."""
    found = [command for target in kill_path.targets for command in (target.count, target.start)]
    found.append(kill_path.items.count if kill_path.items else None)
    for layer in kill_path.layers:
        found += [layer.busy, layer.checkpoint.command if layer.checkpoint else None]
    return [command for command in found if command is not None]
