"""Until when certificates are good: those of a kubeconfig, and PEM text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from killcheck.kube.objects import Obj, dig
from killcheck.text.files import bytes_of, enclosed, text_of
from killcheck.text.yamlfile import YamlError, documents

__all__ = ["decoded", "in_kubeconfig", "kubeconfigs", "not_after", "signed_in"]


def decoded(value: object) -> bytes:
    """Base64 as Kubernetes has it; nothing where it is none."""
    try:
        return base64.b64decode(str(value or ""), validate=False)
    except (ValueError, binascii.Error):
        return b""


def not_after(pem: bytes) -> datetime | None:
    """When the first of them ends; None where none can be read."""
    from cryptography import x509

    try:
        return min((found.not_valid_after_utc for found in x509.load_pem_x509_certificates(pem)), default=None)
    except ValueError:
        return None


def kubeconfigs(text: str) -> list[Obj]:
    """The kubeconfigs that a text holds; none where it is no YAML."""
    try:
        return [doc.value for doc in documents(text, "kubeconfig") if isinstance(doc.value, dict)]
    except YamlError:
        return []


def in_kubeconfig(text: str) -> Iterator[tuple[str, bytes]]:
    """(what it is, PEM) of the certificates that are written into a kubeconfig."""
    for config in kubeconfigs(text):
        for kind, entry, key in (
            ("users", "user", "client-certificate-data"),
            ("clusters", "cluster", "certificate-authority-data"),
        ):
            for named in config.get(kind) or ():
                pem = decoded(dig(named, entry, key))
                if pem:
                    yield f"the {key.removesuffix('-data')} of {entry} {named.get('name')}", pem


def signed_in(file: Path) -> tuple[str, bytes] | None:
    """(user, PEM) of the client certificate that the current context of a kubeconfig is let in with; None: with none.

    The certificate may be a file beside it (client-go resolves such a path from the kubeconfig's own folder). Raises
    OSError.
    """
    for config in kubeconfigs(text_of(file, errors="replace")):
        contexts = {one.get("name"): one.get("context") or {} for one in config.get("contexts") or ()}
        name = dig(contexts.get(config.get("current-context")) or {}, "user")
        for user in config.get("users") or ():
            if name and user.get("name") == name:
                pem = decoded(dig(user, "user", "client-certificate-data"))
                beside = dig(user, "user", "client-certificate")
                if not pem and beside and enclosed(file.parent / str(beside), file.parent):
                    pem = bytes_of(file.parent / str(beside))
                return (str(name), pem) if pem else None
    return None
