"""How machines are refused, whoever is asked for them: a model, a stand-in."""

from __future__ import annotations

__all__ = ["MachineRefused"]


class MachineRefused(Exception):
    """A machine was not launched or not ended; ``code`` is the cloud's own error code, empty where it was not asked."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code
