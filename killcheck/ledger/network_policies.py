"""Network policies that only a plugin's own agents read: a switch behind one may reach neither API server nor DNS.

Kubernetes' own NetworkPolicies are applied on the embedded cluster; these are not, as no plugin runs here.
Sources: cilium.io/v2 CiliumNetworkPolicy, CiliumClusterwideNetworkPolicy (``endpointSelector``, ``egress``,
``egressDeny``, ``specs``; entities ``kube-apiserver`` and ``all``); projectcalico.org/v3 NetworkPolicy,
GlobalNetworkPolicy (``types``, ``egress``, ``selector``); policy.networking.k8s.io (``egress``); crd.antrea.io.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from killcheck.kube.objects import Obj, dig, items, mappings, namespace_of, ref_of
from killcheck.kube.selectors import from_match_labels
from killcheck.kube.workloads import templates
from killcheck.ledger.stakes import Stakes, group_of, home_of

__all__ = ["around_a_switch"]

#: Groups of network policies that plugins bring.
_GROUPS = frozenset(
    {"cilium.io", "crd.antrea.io", "crd.projectcalico.org", "policy.networking.k8s.io", "projectcalico.org"}
)
#: How Cilium writes where a label is from.
_SOURCES = ("any:", "k8s:")
_EVERYTHING, _API_SERVER = "all", "kube-apiserver"
_DNS_PORT = "53"


def around_a_switch(obj: Obj, stakes: Stakes) -> str | None:
    """That a policy bounds where a switch's pods may go, in a phrase; None: no such policy, or it lets them through."""
    if group_of(obj) not in _GROUPS or not str(obj.get("kind")).endswith("Policy"):
        return None
    bounding = [one for one in (obj.get("spec"), *items(obj.get("specs"))) if isinstance(one, dict) and _bounds(one)]
    for switch in stakes.switching() if bounding else ():
        home = home_of(switch)
        labels = [dict(one.metadata.get("labels") or {}) for one in templates(switch)]
        within = namespace_of(obj) in ("", home)
        if within and any(_selects(one, had, home) for one in bounding for had in labels):
            return f"it says where the pods of {ref_of(switch)} may send to"
    return None


def _bounds(spec: Obj) -> bool:
    """Whether it bounds what leaves pods, otherwise than to the API server and to DNS at the least."""
    types = [str(one) for one in items(spec.get("types"))]
    if spec.get("egress") is None and not spec.get("egressDeny") and "Egress" not in types:
        return False
    rules = mappings(spec.get("egress"))
    entities = {str(one) for rule in rules if not rule.get("toPorts") for one in items(rule.get("toEntities"))}
    named = any(_DNS_PORT in _ports(rule) for rule in rules)
    open_to_both = _EVERYTHING in entities or (_API_SERVER in entities and named)
    return bool(spec.get("egressDeny")) or not open_to_both


def _ports(rule: Obj) -> Iterator[str]:
    for group in mappings(rule.get("toPorts")):
        yield from (str(one.get("port")) for one in mappings(group.get("ports")))


def _selects(spec: Obj, labels: Mapping[str, str], namespace: str) -> bool:
    """Whether it may be about pods of these labels: only a selector of Cilium's own is read, any other may be."""
    selector = spec.get("endpointSelector")
    if selector is None:
        return not spec.get("nodeSelector")
    had = {**labels, "io.kubernetes.pod.namespace": namespace}
    return from_match_labels(_without_sources(selector)).matches(had)


def _without_sources(selector: Any) -> Obj:
    wanted = {_plain(key): value for key, value in dig(selector, "matchLabels", default={}).items()}
    terms = [{**one, "key": _plain(str(one.get("key")))} for one in mappings(dig(selector, "matchExpressions"))]
    return {"matchLabels": wanted, "matchExpressions": terms}


def _plain(key: str) -> str:
    return next((key.removeprefix(source) for source in _SOURCES if key.startswith(source)), key)
