"""Secrets whose content nobody here can read: encrypted by SOPS, sealed, fetched from elsewhere, or a placeholder.

They are there, which is what a pod waits for; what is in them is not known, and is not guessed.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any

from killcheck.kube.objects import Obj, dig

__all__ = ["ANNOTATION", "as_present", "made_by"]

#: On a Secret whose values stand for content that is not known; says how it came to be so.
ANNOTATION = "killcheck.dev/unknown-content"
_UNKNOWN = base64.b64encode(b"(not known here)").decode()
_ENCRYPTED = re.compile(r"ENC\[.*\]", re.S)


def as_present(obj: Obj) -> Obj:
    """A Secret that cannot be read as one with the same keys and unknown values; any other object itself."""
    if obj.get("kind") != "Secret" or obj.get("apiVersion") != "v1":
        return obj
    data = dig(obj, "data", default={})
    strings = dig(obj, "stringData", default={})
    if not isinstance(data, dict) or not isinstance(strings, dict):
        return obj
    how = _how(obj, data, strings)
    return _secret(obj, {**data, **strings}, how, obj.get("type")) if how else obj


def _how(obj: Obj, data: Obj, strings: Obj) -> str | None:
    """How its content came to be unknown; None: it is known."""
    values = (*data.values(), *strings.values())
    if isinstance(obj.get("sops"), dict) or any(_ENCRYPTED.fullmatch(str(value)) for value in values):
        return "encrypted by SOPS"
    return None if all(_is_base64(value) for value in data.values()) else "a placeholder"


def _is_base64(value: Any) -> bool:
    if value is None:
        return True
    try:
        base64.b64decode("".join(str(value).split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return isinstance(value, str)


def made_by(obj: Obj) -> Obj | None:
    """The Secret that a SealedSecret or an ExternalSecret becomes; None for everything else."""
    group = str(obj.get("apiVersion", "")).partition("/")[0]
    if (group, obj.get("kind")) == ("bitnami.com", "SealedSecret"):
        template = dig(obj, "spec", "template", default={})
        metadata = {**obj["metadata"], **dig(template, "metadata", default={})}
        return _secret(
            {"metadata": metadata}, dig(obj, "spec", "encryptedData", default={}), "sealed", template.get("type")
        )
    if (group, obj.get("kind")) == ("external-secrets.io", "ExternalSecret"):
        keys = [str(entry.get("secretKey")) for entry in dig(obj, "spec", "data", default=[]) if entry.get("secretKey")]
        name = dig(obj, "spec", "target", "name") or obj["metadata"].get("name")
        metadata = {"name": name, "namespace": obj["metadata"].get("namespace", "")}
        return _secret({"metadata": metadata}, keys, "fetched from elsewhere", None)
    return None


def _secret(obj: Obj, keys: Iterable[str], how: str, type_: Any) -> Obj:
    metadata = {key: value for key, value in obj["metadata"].items() if value}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: how}
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": dict.fromkeys(keys, _UNKNOWN)}
    return {**made, "type": type_} if isinstance(type_, str) else made
