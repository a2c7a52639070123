"""How the engine's API says no: a Status as Kubernetes' own."""

from __future__ import annotations

from killcheck.kube.client import Answer
from killcheck.kube.objects import Obj

__all__ = ["Refusal"]


class Refusal(Exception):
    """A request that is answered with a failure: HTTP status, reason, one sentence."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        super().__init__(message)

    def answer(self) -> Answer:
        """As the API answers it."""
        body: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
        }
        return Answer(self.code, body)
