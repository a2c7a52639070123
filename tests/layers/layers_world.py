"""Changes of the manifests of a reference kill path."""

from __future__ import annotations

__all__ = ["setting"]


def setting(kind, value, *path):
    """A change of every object of a kind: ``value`` at ``path`` (keys, and numbers of a list's items)."""

    def change(obj):
        if obj["kind"] == kind:
            *way, last = path
            for part in way:
                obj = obj[part]
            obj[last] = value

    return change
