"""How a capability says that it could not do what it was asked for."""

from __future__ import annotations

__all__ = ["UndoProblem"]


class UndoProblem(Exception):
    """Something could not be put back, and trying again would not help."""
