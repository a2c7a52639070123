"""What can go wrong with a certificate."""

from __future__ import annotations

__all__ = ["ProofError", "Refused", "SigningError"]


class ProofError(Exception):
    """What was named cannot be used: a key that is none, a library that is not there. The message says what to do."""


class Refused(Exception):
    """Nothing is proven by it, for the one reason that the message gives."""


class SigningError(Exception):
    """The service that keeps the key did not sign; the message is its own."""
