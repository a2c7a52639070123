"""Whether a ServiceAccount may turn a target on again: RBAC as its objects say it, asked right by right.

Kubernetes checks the verbs ``update`` and ``patch`` of an object or its ``scale`` where replicas are written, and
``create`` where pods come into being (kubernetes.io, Authorization overview; RBAC).
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.kube.objects import name_of, namespace_of, ref_of
from killcheck.ledger.stakes import Held, Stakes, group_of, home_of, plural_of

__all__ = ["may_create", "may_write"]

_WRITES = ("patch", "update")
#: What makes pods, by group and resource.
_STARTS = (
    ("", "pods"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "replicasets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
)


def may_write(stakes: Stakes, account: str, namespace: str) -> str:
    """What it may write that turns a target on or keeps it on, in a phrase; empty where nothing."""
    return next(_writes(stakes, account, namespace), "")


def _writes(stakes: Stakes, account: str, namespace: str) -> Iterator[str]:
    for held in stakes.targets:
        yield from _of_target(stakes, account, namespace, held)
    for scaler in stakes.scalers:
        for verb in _WRITES:
            plural = plural_of(str(scaler.get("apiVersion")), str(scaler.get("kind")))
            if stakes.permissions.allows(
                account,
                namespace,
                verb=verb,
                group=group_of(scaler),
                resource=plural,
                name=name_of(scaler),
                namespace=home_of(scaler),
            ):
                yield f"{verb} {ref_of(scaler)}"
    for queue in stakes.queues:
        for verb in _WRITES:
            plural = plural_of(str(queue.get("apiVersion")), str(queue.get("kind")))
            if stakes.permissions.allows(
                account,
                namespace,
                verb=verb,
                group=group_of(queue),
                resource=plural,
                name=name_of(queue),
                namespace=namespace_of(queue),
            ):
                yield f"{verb} {ref_of(queue)}"
    for pool in sorted(stakes.pools):
        for verb, resource, name in (*((v, "nodepools", pool) for v in _WRITES), ("create", "nodeclaims", "")):
            if stakes.permissions.allows(
                account, namespace, verb=verb, group="karpenter.sh", resource=resource, name=name, everywhere=True
            ):
                yield f"{verb} {resource}" + (f" {pool}" if name else "")


def _of_target(stakes: Stakes, account: str, namespace: str, held: Held) -> Iterator[str]:
    for subresource in ("scale", ""):
        for verb in _WRITES:
            if stakes.permissions.allows(
                account,
                namespace,
                verb=verb,
                group=held.group,
                resource=held.plural,
                subresource=subresource,
                name=held.name,
                namespace=held.namespace,
            ):
                yield f"{verb} {held.plural}{'/' + subresource if subresource else ''} ({held})"


def may_create(stakes: Stakes, account: str, namespace: str) -> str:
    """What it may create in a target's namespace that makes pods, in a phrase; empty where nothing."""
    for where in sorted(stakes.namespaces):
        for group, resource in _STARTS:
            if stakes.permissions.allows(
                account, namespace, verb="create", group=group, resource=resource, namespace=where
            ):
                return f"create {resource} in {where}"
    return ""
