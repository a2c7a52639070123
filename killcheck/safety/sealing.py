"""What a journal keeps that must not be read in it: an object that is made again may have secrets in its variables.

Such an object is written down encrypted (Fernet: AES-128-CBC with HMAC-SHA256) under a key derived from the one that
the journal is signed with, so that who may read a ConfigMap or a checkout reads nothing of it. Only its kind and name
are left to see. Whoever has not the key is told that it cannot be made again from there.
"""

from __future__ import annotations

import base64
import hmac
import json
from functools import lru_cache
from typing import Any

from killcheck.kube.objects import Obj, dig
from killcheck.safety.changes import FORESEEN
from killcheck.text.redaction import redact

__all__ = ["SEALED", "holds_secrets", "is_sealed", "opened", "sealed"]

#: The field of an undo's body that holds the rest of it, encrypted.
SEALED = "killcheck.dev/sealed"
_PURPOSE = b"killcheck journal: bodies of objects that are made again"


def sealed(entry: Obj, key: bytes) -> Obj:
    """An entry as it is written down. ``entry``: as :meth:`~killcheck.safety.undo.Entry.to_json` has it."""
    undo = entry.get("undo") or {}
    body = undo.get("body")
    if undo.get("action") == "merge" and entry.get("owner") == FORESEEN:
        return {**entry, "undo": undo | {part: _closed(undo.get(part), key) for part in ("body", "left")}}
    if undo.get("action") != "create" or not isinstance(body, dict) or is_sealed(body):
        return entry
    token = _token(json.dumps(body), key)
    if token is None:
        return entry
    meta = body.get("metadata") or {}
    kept = {name: body[name] for name in ("apiVersion", "kind") if name in body}
    kept |= {"metadata": {name: meta[name] for name in ("name", "namespace") if name in meta}, SEALED: token}
    return {**entry, "undo": {**undo, "body": kept}}


def _closed(patch: Any, key: bytes) -> Any:
    """A patch as it is written down: encrypted where there may be a secret in it (an item of a list, put back)."""
    token = _token(json.dumps(patch), key) if isinstance(patch, dict) and not is_sealed(patch) else None
    return patch if token is None else {SEALED: token}


@lru_cache(maxsize=256)
def _token(text: str, key: bytes) -> str | None:
    """An object's JSON encrypted; None: nothing in it is anybody's secret."""
    if not holds_secrets(json.loads(text)):
        return None
    from cryptography.fernet import Fernet

    return Fernet(_derived(key)).encrypt(text.encode()).decode("ascii")


def opened(body: Any, key: bytes) -> Any:
    """A body as it was; as it is where it is not sealed, or not with this key."""
    if not is_sealed(body):
        return body
    from cryptography.fernet import Fernet, InvalidToken

    try:
        found = json.loads(Fernet(_derived(key)).decrypt(str(body[SEALED]).encode()))
    except (InvalidToken, ValueError):
        return body
    return (
        found if isinstance(found, dict) and dig(found, "metadata", "name") == dig(body, "metadata", "name") else body
    )


def is_sealed(body: Any) -> bool:
    """Whether a body can only be read with the key that it was written with."""
    return isinstance(body, dict) and SEALED in body


def holds_secrets(obj: Any) -> bool:
    """Whether something in it may be anybody's secret: it looks like one, or is a variable."""
    text = json.dumps(obj)
    return redact(text) != text or _has_variables(obj)


def _has_variables(obj: Any) -> bool:
    """Whether variables are written into it, whatever they are called."""
    if isinstance(obj, list):
        return any(map(_has_variables, obj))
    if not isinstance(obj, dict):
        return False
    variables = obj.get("env")
    if isinstance(variables, list) and any(isinstance(one, dict) and one.get("value") for one in variables):
        return True
    return any(map(_has_variables, obj.values()))


def _derived(key: bytes) -> bytes:
    return base64.urlsafe_b64encode(hmac.new(key, _PURPOSE, "sha256").digest())
