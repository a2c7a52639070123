"""Finds the kill path in a cluster or in manifests: what holds GPUs, what turns it off, where, and by when."""

from __future__ import annotations

from killcheck.discover.finding import (
    Discovery,
    DiscoveryError,
    Holder,
    fired_files,
    from_cluster,
    from_objects,
    holders,
)
from killcheck.discover.unknown import Unknown, unknown_holders

__all__ = [
    "Discovery",
    "DiscoveryError",
    "Holder",
    "Unknown",
    "fired_files",
    "from_cluster",
    "from_objects",
    "holders",
    "unknown_holders",
]
