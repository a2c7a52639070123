"""Cluster IPs of Services: handed out one after the other from the service range."""

from __future__ import annotations

import ipaddress

from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig

__all__ = ["Addresses"]

_SERVICES = ("", "services")


class Addresses:
    """10.96.0.0/12, as kubeadm sets it up; 10.96.0.1 is the API server's own, 10.96.0.10 the DNS server's."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._next = int(ipaddress.ip_address("10.96.0.16"))

    def assign(self, service: Obj) -> None:
        """Give a new Service its address, in place, unless it asks for one, for none, or needs none."""
        spec = service.setdefault("spec", {})
        if spec.get("type") == "ExternalName":
            return
        if not spec.get("clusterIP"):
            taken = {dig(other, "spec", "clusterIP") for other in self.store.values(_SERVICES)}
            while (address := str(ipaddress.ip_address(self._next))) in taken:
                self._next += 1
            self._next += 1
            spec["clusterIP"] = address
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
