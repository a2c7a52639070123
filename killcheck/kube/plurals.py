"""The resources of kinds."""

from __future__ import annotations

__all__ = ["plural_of"]


def plural_of(kind: str) -> str:
    """The resource of a kind, as RBAC and URLs have it (Kubernetes' kinds form their plurals regularly)."""
    lower = kind.lower()
    if lower.endswith(("s", "x", "ch")):
        return lower if lower.endswith("sets") else lower + "es"
    return lower[:-1] + "ies" if lower.endswith("y") else lower + "s"
