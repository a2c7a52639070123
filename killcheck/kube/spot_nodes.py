"""Nodes that say that they are spot capacity: by the labels that node provisioners give them."""

from __future__ import annotations

from killcheck.kube.objects import Obj, labels_of

__all__ = ["is_spot"]

_SPOT = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-provisioning": "spot",
    "kubernetes.azure.com/scalesetpriority": "spot",
}


def is_spot(node: Obj) -> bool:
    """Whether a node says that it is spot capacity."""
    labels = labels_of(node)
    return any(labels.get(key) == value for key, value in _SPOT.items())
