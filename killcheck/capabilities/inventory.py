"""What there is on a cluster besides what a drill watches: the manifests that were loaded, or a live listing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from killcheck.kube.manifests import Loaded
from killcheck.kube.objects import Obj

__all__ = ["Inventory"]


@dataclass(eq=False)
class Inventory:
    """``live``: the objects are a real cluster's, whose controllers run; ``unread``: why a kind could not be listed.

    ``loaded``: where the objects were written. ``not_read``: (document, why) of manifests that were passed over and
    may hold anything; ``refused``: (object, why) of those that the API server of a drill did not take. ``kept``: what
    was found out about it once, by whoever found it out.
    """

    objects: Sequence[Obj] = ()
    live: bool = False
    unread: Mapping[str, str] = field(default_factory=dict)
    loaded: Loaded | None = None
    not_read: Sequence[tuple[str, str]] = ()
    refused: Sequence[tuple[Obj, str]] = ()
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)
