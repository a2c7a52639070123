"""How what a controller makes refers to whose it is."""

from __future__ import annotations

from killcheck.kube.objects import Obj, name_of, uid_of
from killcheck.kube.resources import Resource

__all__ = ["controller_ref"]


def controller_ref(owner: Obj, resource: Resource) -> Obj:
    """The owner reference of a controller to what it makes."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }
