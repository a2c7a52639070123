"""Anonymous pulls from Docker Hub."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.pulls import kept_by, pull_secrets
from killcheck.probes.world import World

from killcheck.images.reference import InvalidReference, parse

__all__ = ["ImageQuota"]


class ImageQuota(Probe):
    """Docker Hub answers 429 once the address (a whole NAT gateway's) has pulled enough."""

    id = "image-quota"
    claim = "No executor's start depends on Docker Hub's quota for anonymous pulls."
    remedy = "Mirror the image, give a pull secret, or keep it on every node with a DaemonSet that names it."
    severity = "warning"
    failures = (4,)
    sources = ("pangeo-data/pangeo-binder#194", "docs.docker.com/docker-hub/usage")

    def ask(self, world: World) -> Iterable[Finding]:
        """Images of docker.io without a pull secret that no DaemonSet keeps on the nodes."""
        for one in world.layer_executors:
            if pull_secrets(world, one):
                continue
            for path, container in one.containers:
                image = str(container.get("image", ""))
                if _host(image) == "docker.io" and not kept_by(world, image):
                    yield self.finding(
                        world,
                        one.owner,
                        (*path, "image"),
                        f"{image} is pulled from Docker Hub without credentials: its quota is shared by everything "
                        "behind the same address",
                        severity="warning" if container.get("imagePullPolicy") == "Always" else "note",
                    )


def _host(image: str) -> str | None:
    try:
        return parse(image).host
    except InvalidReference:
        return None
