"""Cluster IPs of Services: handed out one after the other from the service range."""

from __future__ import annotations

import ipaddress

from killcheck.embedded.api import status
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.validation.fields import invalid
from killcheck.kube.objects import Obj, dig

__all__ = ["Addresses"]

_SERVICES = ("", "services")
_RANGE = ipaddress.IPv4Network("10.96.0.0/12")


class Addresses:
    """10.96.0.0/12, as kubeadm sets it up; 10.96.0.1 is the API server's own, 10.96.0.10 the DNS server's."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._next = int(ipaddress.ip_address("10.96.0.16"))

    def check(self, service: Obj, *, dry_run: bool = False) -> None:
        """Whether a Service may have the address that it asks for; a dry run does not see who has it.

        Not asked of what is loaded: a cluster that manifests were taken from may have another range.
        Raises StatusError 422.
        """
        spec = service.get("spec") or {}
        asked = spec.get("clusterIP")
        if spec.get("type") == "ExternalName" or asked in (None, "", "None"):
            return
        why = _refused(asked, self._taken(), dry_run=dry_run)
        if why is not None:
            raise status.invalid("Service", "", str(service["metadata"].get("name") or ""), [why])

    def _taken(self) -> set[str]:
        return {dig(other, "spec", "clusterIP") for other in self.store.values(_SERVICES)}

    def assign(self, service: Obj) -> None:
        """Give a new Service its address, in place, unless it asks for one, for none, or needs none."""
        spec = service.setdefault("spec", {})
        if spec.get("type") == "ExternalName":
            return
        if not spec.get("clusterIP"):
            taken = self._taken()
            while (address := str(ipaddress.ip_address(self._next))) in taken:
                self._next += 1
            self._next += 1
            spec["clusterIP"] = address
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        both = spec["clusterIP"] == "None" and not spec.get("selector")  # whose addresses somebody else writes
        policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if policy != "SingleStack" and both else ["IPv4"])


def _refused(asked: str, taken: set[str], *, dry_run: bool) -> Obj | None:
    """Why a Service may not have the address (pkg/registry/core/service: storage/alloc.go, ipallocator)."""
    address = ipaddress.ip_address(asked)
    if address.version != _RANGE.version:
        return invalid("spec.clusterIPs[0]", [asked], "IPv6 is not configured on this cluster")
    said = f"failed to allocate IP {asked}: "
    if address not in _RANGE or address in (_RANGE.network_address, _RANGE.broadcast_address):
        outside = f"the provided IP ({asked}) is not in the valid range. The range of valid IPs is {_RANGE}"
        return invalid("spec.clusterIPs", [asked], said + (outside if dry_run else _ELSEWHERE))
    if asked in taken and not dry_run:
        return invalid("spec.clusterIPs", [asked], said + "provided IP is already allocated")
    return None


_ELSEWHERE = "the provided network does not match the current range"
