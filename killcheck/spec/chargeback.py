"""Whose bill it is: the labels by which a drill's GPU-hours are told apart, what a GiB out of a store costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

__all__ = ["DOWNLOADS", "OWNERS", "Chargeback", "owner_labels"]

#: Names of labels (whatever is before their slash) that say whose something is, where the spec names none.
OWNERS = frozenset(
    {"team", "owner", "owned-by", "contact", "squad", "cost-center", "costcenter", "maintainer", "oncall"}
)
#: On a pod: how much each start of it fetches from outside its network, as a quantity of bytes (``140Gi``).
DOWNLOADS = "killcheck.dev/downloads"


class Chargeback(Struct, frozen=True):
    """``labels``: keys that every holder of GPUs must have (none: any of :data:`OWNERS`). ``egress_usd_per_gib``: what
    a store bills for traffic that leaves it; None: nobody said.
    """

    labels: tuple[str, ...] = ()
    egress_usd_per_gib: float | None = None


def owner_labels(said: Chargeback | None, described: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The labels that say whose something is; ``described``: a pod's, its owner's, its namespace's, nearest first."""
    wanted = said.labels if said else ()
    found: dict[str, str] = {}
    for labels in described:
        for key, value in labels.items():
            if key in wanted if wanted else key.rpartition("/")[2] in OWNERS:
                found.setdefault(key, value)
    return dict(sorted(found.items()))
