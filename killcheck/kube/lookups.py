"""Whom a pod asks for names: the cluster's DNS, its node's resolver, or name servers of its own.

Source: pkg/kubelet/network/dns/dns.go, getPodDNSType: a pod in its host's network whose policy is ClusterFirst (the
default) falls back to Default, which is the node's resolver; that knows no Service.
"""

from __future__ import annotations

from ipaddress import ip_address

from killcheck.kube.objects import Obj, dig

__all__ = ["by_cluster", "own_servers"]


def by_cluster(spec: Obj) -> bool:
    """Whether a pod asks the cluster's DNS, by its spec."""
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    return policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.get("hostNetwork"))


def own_servers(spec: Obj) -> list[str]:
    """Name servers that a pod asks instead (``dnsPolicy: None``) and that could be the cluster's: private addresses."""
    if spec.get("dnsPolicy") != "None":
        return []
    return [server for server in map(str, dig(spec, "dnsConfig", "nameservers", default=[])) if _is_private(server)]


def _is_private(server: str) -> bool:
    try:
        return not ip_address(server).is_global
    except ValueError:
        return True
