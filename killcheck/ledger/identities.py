"""Whose rights a pod, or an object that has pods made, acts with: its ServiceAccount, and the tokens that it is given.

Sources: Pod ``automountServiceAccountToken`` (a pod's own goes before its account's), projected ``serviceAccountToken``
volumes, Secrets of type kubernetes.io/service-account-token (kubernetes.io, Configure Service Accounts for Pods). What
an account of nobody may (``system:unauthenticated``) every pod may.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from posixpath import normpath
from typing import Any

from killcheck.kube.objects import Obj, annotations_of, dig, name_of
from killcheck.kube.permissions import ANONYMOUS
from killcheck.kube.secret_text import OWNER, TOKEN, secrets_of, unread
from killcheck.ledger.kinds import is_inert_group
from killcheck.ledger.stakes import Stakes, group_of, home_of
from killcheck.text import lazy_re

__all__ = ["named_in", "of_pod", "told", "unknown"]

#: Fields of custom resources by which their controllers know whose rights their pods are to have.
_NAMING = frozenset({"serviceaccountname", "serviceaccount", "serviceaccountref"})
#: ...and those that what makes pods has.
_OF_PODS = frozenset({"containers", "image", "initcontainers", "podtemplate", "replicas"})
_MOST_DEPTH = 16
#: Where a node keeps kubeconfigs of its own, and by what a pod is known to use one that it is given.
_ON_NODES = lazy_re.compile(r"^/etc/(kubernetes|rancher|k0s)(/|$)|/\.kube(/|$)|^/var/lib/(rancher|k0s)(/|$)")
#: Below them, what is for others: sockets of plugins, features of nodes, images, volumes.
_FOR_OTHERS = lazy_re.compile(
    r"^/etc/kubernetes/(azure\.json|cni|kubelet-plugins|node-feature-discovery|secrets-store-csi-providers|volumeplugins)"
    r"(/|$)|^/var/lib/rancher/(k3s|rke2)/(storage|agent/((etc/)?containerd|etc/cni|images|logs))(/|$)"
)
_KUBECONFIG = lazy_re.compile(r"kube-?config|\.kube\b", re.IGNORECASE)
#: What they lie in: given to a pod whole, and told to it by name.
_AROUND_THEM = lazy_re.compile(r"/|/etc|/root|/home(/[^/]+)?|/var(/lib)?")
_ON_A_NODE = lazy_re.compile(
    r"kube-?config|/\.kube/|\b(admin|super-admin|kubelet|controller-manager)\.conf\b", re.IGNORECASE
)


def told(namespace: str, account: str) -> str:
    """As a sentence has it."""
    return f"ServiceAccount {namespace}/{account}" if account != ANONYMOUS else "whoever brings no token"


def of_pod(spec: Obj, namespace: str, stakes: Stakes) -> Iterator[tuple[str, str]]:
    """(namespace, name) of every account that a pod of this spec has a token of, and that of nobody."""
    own = str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")
    if _mounted(spec, namespace, own, stakes) or _projected(spec):
        yield namespace, own
    secrets = set(secrets_of(spec))
    for obj in stakes.objects if secrets else ():
        is_token = obj.get("kind") == "Secret" and obj.get("type") == TOKEN and home_of(obj) == namespace
        if is_token and name_of(obj) in secrets:
            yield namespace, annotations_of(obj).get(OWNER, "default")
    yield namespace, ANONYMOUS


def unknown(spec: Obj, namespace: str, stakes: Stakes) -> str | None:
    """Whom a pod acts as that no manifest tells of, in a phrase: an account, a kubeconfig. None: nobody.

    An account of which there is a binding is known by that.
    """
    own = str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default")
    absent = own != "default" and not {(namespace, own)} & {*stakes.accounts, *stakes.permissions.accounts}
    if absent and (_mounted(spec, namespace, own, stakes) or _projected(spec)):
        return f"{told(namespace, own)}, which no manifest holds"
    for volume in dig(spec, "volumes", default=[]):
        at = str(dig(volume, "hostPath", "path", default=""))
        if _ON_NODES.search(normpath(at)) and not _FOR_OTHERS.search(normpath(at)):
            return f"whoever the node's {at} says"
        if _AROUND_THEM.fullmatch(normpath(at)) and at and _ON_A_NODE.search(json.dumps(spec.get("containers"))):
            return f"whoever a kubeconfig below the node's {at} says"
    brought = _brought(spec, namespace, stakes)
    if not brought:
        return None
    return f"whoever the kubeconfig in {brought} says" if _KUBECONFIG.search(json.dumps(spec)) else None


def _brought(spec: Obj, namespace: str, stakes: Stakes) -> str | None:
    """The first Secret that a pod is given, and whose content is not among the manifests; None: there is none."""
    known = {
        name_of(obj)
        for obj in stakes.objects
        if obj.get("kind") == "Secret" and home_of(obj) == namespace and unread(obj) is None
    }
    name = next((name for name in secrets_of(spec) if name and name not in known), None)
    return f"Secret {namespace}/{name}" if name else None


def named_in(obj: Obj, stakes: Stakes) -> Iterator[tuple[str, str]]:
    """(namespace, name) of the accounts that a custom resource's pods may have: its controller gives them their rights.

    Those that it names; where it names none, its namespace's ``default``, and where it makes pods also those that are
    called after it.
    """
    home = str((obj.get("metadata") or {}).get("namespace") or "")
    if not home:
        return
    named, makes = set(_named(obj.get("spec"), 0)) - {""}, _makes_pods(obj.get("spec"), 0)
    after = re.compile(rf"{re.escape(name_of(obj))}(-.*)?")
    called = {name for space, name in stakes.permissions.accounts if makes and space == home and after.fullmatch(name)}
    own = {"default"} if makes or not is_inert_group(group_of(obj)) else set()
    yield from ((home, name) for name in sorted(named or called | own))


def _mounted(spec: Obj, namespace: str, account: str, stakes: Stakes) -> bool:
    said = spec.get("automountServiceAccountToken")
    if said is None:
        said = stakes.accounts.get((namespace, account), {}).get("automountServiceAccountToken")
    return said is not False


def _projected(spec: Obj) -> bool:
    return any(
        "serviceAccountToken" in source
        for volume in dig(spec, "volumes", default=[])
        for source in dig(volume, "projected", "sources", default=[])
    )


def _makes_pods(value: Any, depth: int) -> bool:
    if isinstance(value, Mapping) and depth <= _MOST_DEPTH:
        return any(str(key).lower() in _OF_PODS or _makes_pods(inner, depth + 1) for key, inner in value.items())
    return isinstance(value, list) and any(_makes_pods(inner, depth + 1) for inner in value[:_MOST_DEPTH])


def _named(value: Any, depth: int) -> Iterator[str]:
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if str(key).lower() in _NAMING:
                yield str(inner.get("name", "")) if isinstance(inner, Mapping) else str(inner)
            else:
                yield from _named(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, depth + 1)
