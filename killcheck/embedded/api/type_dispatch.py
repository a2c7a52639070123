"""Schemas, defaults and validation, for built-in types and custom resources alike; imported when first needed."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from importlib.util import find_spec

from killcheck.embedded.api.kinds import Kind
from killcheck.kube import releases
from killcheck.kube.objects import Obj

__all__ = ["apply_defaults", "decode", "validate"]


@cache
def _there(name: str) -> bool:
    return find_spec(f"killcheck.embedded.api.{name}") is not None


def decode(
    kind: Kind,
    obj: Obj,
    schema: str | None = None,
    *,
    partial: bool = False,
) -> tuple[Obj, list[str]]:
    """The object without the fields its schema does not have, and their paths. Raises StatusError 400.

    ``partial``: an applied configuration, to which nothing is added.
    """
    if kind.crd is not None and schema is None:
        from killcheck.embedded.api import crdschema, schemas

        if partial:
            return crdschema.prune(kind, obj)
        if isinstance(obj.get("metadata"), dict):
            schemas.decode("V1ObjectMeta", obj["metadata"])
        clean, unknown = crdschema.prune(kind, obj)
        crdschema.without_nulls(kind, clean)
        return clean, unknown
    schema = schema or kind.schema
    if schema is None:
        return obj, []
    from killcheck.embedded.api import schemas

    decoded = schemas.decode(schema, obj, partial=partial)
    if kind.release == releases.DEFAULT:
        return decoded.obj, decoded.unknown
    from killcheck.embedded.api import gates

    return decoded.obj, [*decoded.unknown, *gates.drop_unknown(schema, decoded.obj, kind.release)]


def apply_defaults(kind: Kind, obj: Obj, now: datetime) -> None:
    """Fill in what was left out, in place."""
    if kind.crd is not None:
        from killcheck.embedded.api import crdschema

        crdschema.apply_defaults(kind, obj)
        return
    from killcheck.embedded.api import defaults

    defaults.apply(kind, obj, now)


def validate(kind: Kind, new: Obj, old: Obj | None, subresource: str = "") -> list[Obj]:
    """What is wrong with an object, as causes."""
    if kind.crd is not None:
        from killcheck.embedded.api import crdschema

        return crdschema.validate(kind, new, old, status=subresource == "status")
    if not _there("validation"):
        return []
    from killcheck.embedded.api import validation
    from killcheck.embedded.api.validation import meta

    causes = validation.validate(kind, new, old, subresource)
    if kind.resource.kind == "CustomResourceDefinition" and not subresource:
        from killcheck.embedded.api import crdstructure

        causes += crdstructure.of_definition((new.get("spec") or {}).get("versions") or [])
    return causes or (meta.addressed(new["metadata"]) if old is None else [])
