"""How an executor's image gets to its node: pull secrets, and DaemonSets that keep it there."""

from __future__ import annotations

from killcheck.probes.world import Executor, World

from killcheck.kube.objects import Obj, dig, ref_of
from killcheck.kube.workloads import templates

__all__ = ["kept_by", "pull_secrets"]


def pull_secrets(world: World, executor: Executor) -> list[str]:
    """Names of the pull secrets that the executor's pod gets, from its spec or else its ServiceAccount."""
    own = [str(entry.get("name")) for entry in executor.spec.get("imagePullSecrets") or ()]
    account = world.find("ServiceAccount", executor.namespace, executor.account)
    return own or [str(entry.get("name")) for entry in dig(account, "imagePullSecrets", default=[])]


def kept_by(world: World, image: str) -> str | None:
    """The DaemonSet that runs ``image`` on its nodes and so keeps it there; empty: none."""
    return next((ref_of(daemon) for daemon in world.of("DaemonSet") if image in _images(daemon)), None)


def _images(obj: Obj) -> set[str]:
    return {
        str(container.get("image"))
        for template in templates(obj)
        for kind in ("initContainers", "containers")
        for container in dig(template.spec, kind, default=[])
    }
