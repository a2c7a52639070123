"""The inventory of a live cluster."""

from __future__ import annotations

from killcheck.capabilities.inventory import Inventory
from killcheck.kube import listing
from killcheck.kube.client import Kube

__all__ = ["listed"]


def listed(kube: Kube) -> Inventory:
    """What a live cluster has that may turn targets on; what cannot be listed is said, and nothing raised."""
    found = listing.starters(kube)
    return Inventory(found.objects, live=True, unread=found.unread)
