"""How many devices a pod holds by its ResourceClaims: four cards of one claim are four GPUs.

Source: resource.k8s.io/v1 ResourceClaim (``status.allocation.devices.results``), Pod (``resourceClaimStatuses``).
"""

from __future__ import annotations

from killcheck.kube import gpus
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, dig, namespace_of, uid_of

__all__ = ["Claimed"]


class Claimed:
    """Counts by allocation, asking the API for a pod's claims until they are allocated.

    What cannot be read counts one device a claim, as what is not known to be none must. A count never falls while its
    pod is there: a claim that was deallocated in the meantime ends no process.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: dict[str, int] = {}
        #: Pods whose claims were all seen allocated, or cannot be read.
        self._settled: set[str] = set()

    def devices(self, pod: Obj) -> int:
        """The devices of a pod whose spec has ``resourceClaims``."""
        uid = uid_of(pod)
        if uid not in self._settled:
            self._known[uid] = max(self._known.get(uid, 0), self._asked(pod, uid))
        return self._known[uid]

    def _asked(self, pod: Obj, uid: str) -> int:
        made = {
            s.get("name"): s.get("resourceClaimName") for s in dig(pod, "status", "resourceClaimStatuses", default=[])
        }
        entries = dig(pod, "spec", "resourceClaims", default=[])
        names = {str(entry.get("resourceClaimName") or made.get(entry.get("name")) or "") for entry in entries} - {""}
        found: list[Obj] = []
        try:
            for name in sorted(names):
                claim = self._kube.find(r.RESOURCECLAIMS, name, namespace_of(pod))
                found += [claim] if claim is not None else []
        except KubeError:
            self._settled.add(uid)
            return gpus.devices(pod)
        if len(found) == len(entries) and all(dig(claim, "status", "allocation") for claim in found):
            self._settled.add(uid)
        return gpus.devices(pod, gpus.claims_of(found))
