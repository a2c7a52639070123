"""How an executor's image gets to its node: pull secrets, DaemonSets that keep it there, the nodes' architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from killcheck.probes.world import Executor, World

from killcheck.kube import gpus
from killcheck.kube.objects import Obj, dig, labels_of, ref_of
from killcheck.kube.selectors import node_terms
from killcheck.kube.workloads import templates

__all__ = ["ARCH", "arches_of_nodes", "kept_by", "pull_secrets"]

ARCH = "kubernetes.io/arch"
#: What nodes of clouds are, where others are excluded.
_USUAL = frozenset({"amd64", "arm64"})


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


def arches_of_nodes(world: World, one: Executor) -> set[str]:
    """The architectures of the nodes that its pod may run on; empty where nobody says."""
    selector: Mapping[str, str] = one.spec.get("nodeSelector") or {}
    if selector.get(ARCH):
        return {selector[ARCH]}
    chosen = [set(_chosen(term)) for term in node_terms(one.spec)]
    if chosen and all(chosen):  # any term will do: one that names none leaves it to the nodes
        return set().union(*chosen)
    nodes = [n for n in world.of("Node") if not gpus.node_devices(n) and selector.items() <= labels_of(n).items()]
    if nodes:
        return {labels_of(node)[ARCH] for node in nodes if ARCH in labels_of(node)}
    pools = [pool for pool in world.of("NodePool") if pool not in world.gpu_pools]
    return {
        str(value)
        for pool in pools
        for requirement in dig(pool, "spec", "template", "spec", "requirements", default=[])
        if requirement.get("key") == ARCH and requirement.get("operator") == "In"
        for value in requirement.get("values") or ()
    }


def _chosen(term: Obj) -> Iterator[str]:
    """The architectures that a term of a node affinity names."""
    for wanted in term.get("matchExpressions") or ():
        values = {str(value) for value in wanted.get("values") or ()}
        if wanted.get("key") == ARCH and wanted.get("operator") in ("In", "NotIn"):
            yield from values if wanted["operator"] == "In" else _USUAL - values
