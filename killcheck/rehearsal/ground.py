"""What a stage stands on: a throw-away cluster that holds as many of the manifests as it takes.

What may *not* live here: what is fired on it.
"""

from __future__ import annotations

from datetime import datetime

from killcheck.embedded import Cluster, LoadError
from killcheck.kube.objects import Obj, name_of, namespace_of
from killcheck.rehearsal.open_kinds import open_definitions

__all__ = ["booted", "empty"]

#: Virtual seconds that an empty cluster is let run for to be another's ground: in a day it takes some 40 steps.
NEAR_S = 2 * 86400.0
#: Pods of one stage: more tell nothing more, and every pair of them that waits is looked at.
MOST_PODS = 1_000


def empty(start: datetime, version: str) -> Cluster:
    """A cluster in which nothing is; schedules fire nothing in it by themselves."""
    cluster = Cluster(start=start, disabled={"cronjob-controller"}, kubernetes_version=version)
    cluster.server.limits.most["", "pods"] = MOST_PODS
    return cluster


def booted(objects: list[Obj], start: datetime, version: str, ground: Cluster | None = None) -> Cluster:
    """A cluster with as many of the objects as it takes; on the ``ground``, where that is not long before."""
    left_out: list[Obj] = []
    objects = [*open_definitions(objects), *objects]
    if ground is not None:
        early_s = (start - ground.loop.now()).total_seconds()
        if not 0 <= early_s <= NEAR_S:
            ground.close()
            ground = None
        else:
            ground.loop.sleep(early_s)
    while True:
        cluster, ground = ground or empty(start, version), None
        try:
            cluster.load([obj for obj in objects if not any(obj is other for other in left_out)])
        except LoadError as error:
            cluster.close()
            refused = [obj for one in error.refused for obj in objects if _same(obj, one.obj)]
            if all(any(obj is other for other in left_out) for obj in refused):
                raise  # it is none of theirs
            left_out += refused
        except BaseException:
            cluster.close()
            raise
        else:
            return cluster


def _same(one: Obj, other: Obj) -> bool:
    return (one.get("kind"), namespace_of(one), name_of(one)) == (
        other.get("kind"),
        namespace_of(other),
        name_of(other),
    )
