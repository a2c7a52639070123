"""Pulls that the start of the executor hangs on."""

from __future__ import annotations

import re
from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.pulls import kept_by, pull_secrets
from killcheck.probes.world import World

__all__ = ["PullTrap"]


class PullTrap(Probe):
    """Always asks the registry although the node has the image; Never fails on a new node; ECR tokens live 12 hours."""

    id = "pull-trap"
    claim = "The executor starts although the registry is down or its pull secret old."
    remedy = "imagePullPolicy: IfNotPresent with a digest, and a DaemonSet that keeps the image on the nodes."
    severity = "warning"
    failures = (5, 6)
    sources = (
        "k3s-io/k3s#10209",
        "scality/metalk8s#3601",
        "fluxcd/image-reflector-controller#71",
        "recordings 04 and 35",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """Pull policies and pull secrets of executors."""
        for one in world.layer_executors:
            for path, container in one.containers:
                policy, image = container.get("imagePullPolicy"), str(container.get("image", ""))
                where = (*path, "imagePullPolicy")
                if policy == "Always":
                    message = "Always: with the registry down the switch does not start, image or no image"
                    yield self.finding(world, one.owner, where, message)
                elif policy == "Never" and not kept_by(world, image):
                    message = "Never, and nothing puts the image on new nodes: ErrImageNeverPull"
                    yield self.finding(world, one.owner, where, message, severity="error")
                if re.match(r"\d+\.dkr\.ecr\.", image) and pull_secrets(world, one):
                    message = "a pull secret for ECR holds a token of 12 hours: who renews it before 3 a.m.?"
                    yield self.finding(
                        world,
                        one.owner,
                        (*path, "image"),
                        message,
                        remedy="Let the kubelet's credential provider (the node's role) pull it: no pull secret.",
                    )
