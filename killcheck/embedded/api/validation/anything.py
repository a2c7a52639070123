"""Types without rules of their own: their metadata alone."""

from __future__ import annotations

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import meta, names
from killcheck.embedded.api.validation.fields import Causes
from killcheck.kube.objects import Obj

__all__ = ["create", "update"]


def create(kind: Kind, new: Obj) -> Causes:
    """A new object."""
    return meta.create(
        new["metadata"], names.dns_subdomain, core=meta.core(kind), generated=kind.resource.kind != "DeviceClass"
    )


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed object."""
    return meta.update(new["metadata"], old["metadata"], core=meta.core(kind), rule=meta.again(kind.resource.kind))
