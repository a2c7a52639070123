"""Secrets whose content nobody here can read: encrypted by SOPS, sealed, fetched from elsewhere, or a placeholder.

They are there, which is what a pod waits for; what is in them is not known, and is not guessed. Who reads a Secret, and
who keeps one up to date, is here too. Sources: external-secrets.io (ExternalSecret ``spec.target.name``);
developer.hashicorp.com, Vault Secrets Operator (``spec.destination.name``); cert-manager.io (``spec.secretName``).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import Any

from killcheck.kube.objects import Obj, annotations_of, dig, name_of
from killcheck.text import lazy_re

__all__ = ["ANNOTATION", "KEEPERS", "OWNER", "TOKEN", "as_present", "kept", "made_by", "secrets_of", "unread"]

#: On a Secret whose values stand for content that is not known; says how it came to be so.
ANNOTATION = "killcheck.dev/unknown-content"
#: The type of a Secret that holds an account's token, and the annotation that says whose.
TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a type of Secret
OWNER = "kubernetes.io/service-account.name"
_UNKNOWN = base64.b64encode(b"(not known here)").decode()
_ENCRYPTED = lazy_re.compile(r"ENC\[.*\]", re.S)
#: Where objects that renew a Secret name it; one without a name gives it its own.
KEEPERS = {
    "ExternalSecret": ("spec", "target", "name"),
    "VaultStaticSecret": ("spec", "destination", "name"),
    "VaultDynamicSecret": ("spec", "destination", "name"),
    "VaultPKISecret": ("spec", "destination", "name"),
    "Certificate": ("spec", "secretName"),
}


def kept(obj: Obj) -> str | None:
    """The name of the Secret that an object keeps up to date, in its own namespace; None: it keeps none."""
    path = KEEPERS.get(str(obj.get("kind")))
    return str(dig(obj, *path, default="") or name_of(obj)) if path else None


def unread(obj: Obj) -> str | None:
    """How a Secret's content came to be unknown, in words; None: it is known, or the object is no Secret."""
    return annotations_of(obj).get(ANNOTATION) if obj.get("kind") == "Secret" else None


def secrets_of(spec: Obj) -> Iterator[str]:
    """The Secrets whose contents a pod is given."""
    for volume in dig(spec, "volumes", default=[]):
        yield str(dig(volume, "secret", "secretName", default=""))
        for source in dig(volume, "projected", "sources", default=[]):
            yield str(dig(source, "secret", "name", default=""))
    for container in (*dig(spec, "initContainers", default=[]), *dig(spec, "containers", default=[])):
        for source in dig(container, "envFrom", default=[]):
            yield str(dig(source, "secretRef", "name", default=""))
        for variable in dig(container, "env", default=[]):
            yield str(dig(variable, "valueFrom", "secretKeyRef", "name", default=""))


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
