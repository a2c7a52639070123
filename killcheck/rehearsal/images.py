"""Images that cannot be pulled, run all the same: one cause must not hide every other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from killcheck.embedded import Cluster
from killcheck.images.reference import InvalidReference
from killcheck.kube.objects import dig
from killcheck.rehearsal.programs import Program

__all__ = ["pull_anyway"]


def pull_anyway(cluster: Cluster, program: Program, now: datetime) -> Iterator[tuple[str, str]]:
    """Let every image of a program be pulled from now on; those that could not be, with the pull's own words."""
    for image in dict.fromkeys(_images(program)):
        try:
            why = cluster.registry.pull_anyway(image, now)
        except InvalidReference:
            continue  # its container says so when it is made
        if why is not None:
            yield image, why


def _images(program: Program) -> Iterator[str]:
    for kind in ("initContainers", "containers"):
        for container in dig(program.pod_spec, kind, default=[]):
            if container.get("image") and container.get("imagePullPolicy") != "Never":
                yield str(container["image"])
