"""The programs of manifests rehearsed, on as many processors as there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from killcheck.kube import releases
from killcheck.kube.objects import Obj
from killcheck.spec.killpath import API_VERSION

if TYPE_CHECKING:
    from killcheck.kube.manifests import Loaded
    from killcheck.rehearsal.record import Rehearsed

__all__ = ["known", "rehearsed", "stood_in"]

#: A worker is worth its start from so many programs on.
PROGRAMS_A_WORKER = 3


def known(
    found: Loaded,
    now: datetime,
    folders: Sequence[Path],
    *,
    fire: bool,
    kubernetes_version: str = "",
) -> dict[str, Rehearsed]:
    """What is known of programs: fired, or, where folders hold machines' schedules and no object at all, read.

    Raises LoadError, ClusterError, OSError.
    """
    if fire:
        return rehearsed(found, now, beside=folders, kubernetes_version=kubernetes_version)
    if found.manifests:
        return {}
    from killcheck.machine import rehearsed as machines

    return machines.read(folders)


def stood_in(kubernetes_version: str) -> list[str]:
    """What is to be said of a cluster on whose own release its programs are not rehearsed."""
    why = releases.nearest(kubernetes_version)[1]
    return [f"programs were rehearsed on another Kubernetes: {why}"] if why else []


def rehearsed(
    found: Loaded | Sequence[Obj],
    now: datetime,
    *,
    live: bool = False,
    beside: Sequence[Path] = (),
    kubernetes_version: str = "",
) -> dict[str, Rehearsed]:
    """Every program of the manifests, fired once in a sandbox of this host. Raises LoadError, ClusterError.

    ``live``: they were listed in a cluster; copies of them are rehearsed here, and nothing is asked of it.
    ``beside``: folders whose systemd timers and crontabs are fired too. ``kubernetes_version``: of the cluster that
    programs act on, whatever it says of itself; of one that is not modelled the nearest stands in.
    """
    from killcheck.kube.manifests import Loaded as _Loaded
    from killcheck.machine import rehearsed as machines
    from killcheck.rehearsal.copied import copied
    from killcheck.rehearsal.programs import programs
    from killcheck.rehearsal.stage import rehearse
    from killcheck.run import parallel

    version = releases.nearest(kubernetes_version)[0].version if kubernetes_version else ""
    given = found.objects if isinstance(found, _Loaded) else found
    objects = [o for o in (copied(given) if live else given) if o.get("apiVersion") != API_VERSION]
    timers = machines.rehearse(objects, beside, now)
    count = min(parallel.processors(), len(programs(objects)) // PROGRAMS_A_WORKER)
    if count < 2:
        return rehearse(objects, now, kubernetes_version=version) | timers
    with parallel.mortal_workers(count) as pool:
        return rehearse(objects, now, pool=pool, share=count, kubernetes_version=version) | timers
