"""Who wrote a line: an HMAC under a key that is made of the journal's (:mod:`killcheck.safety.keys`).

A checkout can bring any file that this machine could have written, its hashes recomputed. The key lies outside of every
checkout, so what it sealed was written here, or by a machine that has the same ``KILLCHECK_KEY``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from enum import StrEnum

from killcheck.safety.keys import known_keys, signing_key

__all__ = ["PREFIX", "Purpose", "Whose", "fingerprint", "seal", "whose"]

#: How a seal begins; 64 hexadecimal digits follow.
PREFIX = "hmac-sha256:"


class Purpose(StrEnum):
    """What is sealed: a seal of one kind of file is none of another."""

    RECORD = "killcheck run record: its last line"
    EXPLORED = "killcheck explored scenarios: each line"


class Whose(StrEnum):
    """Whose seal it is."""

    OURS = "ours"
    ANOTHERS = "another machine's"  #: or somebody made it up
    NOBODYS = "nobody's"  #: there is none


def seal(purpose: Purpose, text: str) -> str:
    """The seal of a text. Raises KeyProblem where there is no key."""
    return _seal(signing_key(), purpose, text)


def whose(purpose: Purpose, text: str, said: str | None, keys: Sequence[bytes] | None = None) -> Whose:
    """Whose seal ``said`` is, of this text. ``keys``: those that are believed; None: read now."""
    if said is None:
        return Whose.NOBODYS
    known = known_keys() if keys is None else keys
    ours = said.isascii() and any(hmac.compare_digest(said, _seal(key, purpose, text)) for key in known)
    return Whose.OURS if ours else Whose.ANOTHERS


def fingerprint() -> str:
    """What changes when other keys are known here, and gives none of them away."""
    made = sorted(hmac.new(key, b"killcheck: which key", hashlib.sha256).hexdigest()[:16] for key in known_keys())
    return "+".join(made)


def _seal(key: bytes, purpose: Purpose, text: str) -> str:
    own = hmac.digest(key, purpose.encode(), "sha256")
    return PREFIX + hmac.digest(own, text.encode("utf-8", "surrogatepass"), "sha256").hex()
