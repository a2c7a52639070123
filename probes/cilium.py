"""What Cilium's policies let out of a pod: whether the API server can be reached.

Source: docs.cilium.io, policy language: a pod that any policy's egress section selects may reach only what is allowed;
the API server is the entity ``kube-apiserver``, and part of ``all``; an ``egressDeny`` wins over everything.
"""

from __future__ import annotations

from collections.abc import Mapping

from killcheck.probes.world import World, namespace_or_default, selected
from msgspec import Struct

from killcheck.kube.objects import Obj, dig
from killcheck.text.yamlfile import Path

__all__ = ["Egress", "egress"]

#: Entities that hold the API server for certain.
_WITH_API = frozenset({"kube-apiserver", "all"})
#: Entities that may hold it: on a node of the cluster, or outside.
_MAYBE_API = frozenset({"cluster", "host", "remote-node", "world", "world-ipv4"})


class Egress(Struct, frozen=True):
    """``policy``: the first that has a say (None: none has); ``reaches_api``: None where nobody can tell from here."""

    policy: Obj | None = None
    path: Path = ()
    reaches_api: bool | None = True


def egress(world: World, namespace: str, labels: Mapping[str, str]) -> Egress:
    """What the policies for a pod with these labels say together."""
    found: list[tuple[Obj, Path, Obj]] = []
    for policy in world.of("CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"):
        if policy.get("kind") == "CiliumNetworkPolicy" and namespace_or_default(policy) != namespace:
            continue
        specs: list[tuple[Path, Obj]] = [(("spec",), dig(policy, "spec", default={}))]
        specs += [(("specs", i), spec) for i, spec in enumerate(policy.get("specs") or ())]
        found += [
            (policy, path, spec)
            for path, spec in specs
            if "egress" in spec and selected(_plain(spec.get("endpointSelector")), labels)
        ]
    if not found:
        return Egress()
    answers = [_reaches(rule) for _, _, spec in found for rule in spec.get("egress") or ()]
    policy, path, _ = found[0]
    reaches = True if True in answers else (None if None in answers else False)
    return Egress(policy, (*path, "egress"), reaches)


def _plain(selector: Obj | None) -> Obj:
    """A selector without Cilium's prefixes of label sources (``k8s:app``)."""
    labels = dig(selector or {}, "matchLabels", default={})
    plain = {key.removeprefix("k8s:").removeprefix("any:"): value for key, value in labels.items()}
    return {**(selector or {}), "matchLabels": plain}


def _reaches(rule: Obj) -> bool | None:
    """Whether one rule lets through what is sent to the API server."""
    entities = set(rule.get("toEntities") or ())
    if not any(key.startswith("to") and key != "toPorts" for key in rule):
        return _open(rule)
    if not _open(rule):
        return False
    if entities & _WITH_API:
        return True
    if entities & _MAYBE_API or rule.get("toCIDR") or rule.get("toCIDRSet") or rule.get("toServices"):
        return None
    return False


def _open(rule: Obj) -> bool:
    """Whether one of the ports that API servers listen on is open."""
    ports = [str(port.get("port")) for entry in rule.get("toPorts") or () for port in entry.get("ports") or ()]
    return not ports or bool({"443", "6443", "0"} & set(ports))
