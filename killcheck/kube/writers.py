"""Who last wrote a field of an object, as a cluster's own record has it: ``metadata.managedFields``.

A record of fields, not of requests: of each manager there is the last time alone, and a scale to zero leaves the number
to nobody. What a program asked for and was refused is in the audit log
(:mod:`killcheck.kube.audit_log`).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from killcheck.kube.objects import Obj, dig

__all__ = ["Writer", "told", "writer_of", "writer_of_replicas"]


class Writer(Struct, frozen=True):
    """``manager`` wrote it at ``time`` (RFC 3339, empty: not recorded), by ``subresource`` (empty: the object)."""

    manager: str
    time: str
    subresource: str = ""

    def __str__(self) -> str:
        by = f" ({self.subresource})" if self.subresource else ""
        return f"{self.manager}{by} at {self.time or 'a time that is not recorded'}"


def writer_of_replicas(obj: Obj) -> Writer | None:
    """The latest manager of ``spec.replicas``; None: nobody manages it."""
    return writer_of(obj, "spec", "replicas")


def writer_of(obj: Obj, *path: str) -> Writer | None:
    """The latest manager of a field, or of something in it; None: nobody manages it, or there is no record."""
    steps = [f"f:{step}" for step in path]
    found = [
        Writer(str(entry.get("manager", "")), str(entry.get("time") or ""), str(entry.get("subresource") or ""))
        for entry in dig(obj, "metadata", "managedFields", default=[])
        if steps[-1] in dig(entry, "fieldsV1", *steps[:-1], default={})
    ]
    return max(found, key=lambda one: one.time, default=None)


def told(who: str, obj: Obj) -> str | None:
    """A sentence about who wrote its replicas; None where the record says nothing (it is not there)."""
    if dig(obj, "spec", "replicas") is None or not dig(obj, "metadata", "managedFields"):
        return None
    writer = writer_of_replicas(obj)
    number = dig(obj, "spec", "replicas")
    if writer is not None:
        return f"read: {who} has {number} replicas, last written by {writer}"
    scaled: Sequence[Obj] = [
        entry for entry in dig(obj, "metadata", "managedFields", default=[]) if entry.get("subresource") == "scale"
    ]
    hint = f" ({scaled[-1].get('manager')} has scaled it)" if scaled else ""
    return f"read: {who} has {number} replicas, which nobody manages: so a scale to 0 leaves them{hint}"
