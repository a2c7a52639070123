"""What programs ask the clouds' command lines for: kept, and answered by nobody.

No account is behind a rehearsal. A cloud's command line is taken to accept what it is asked, and says nothing; or to
refuse everything, so that it shows whether anybody would hear of it. What follows from an answer is not known here.
"""

from __future__ import annotations

from msgspec import Struct

from killcheck.text.redaction import redact

__all__ = ["CloudCall", "Clouds"]

#: As they refuse, by program: exit code and words (AWS CLI's return codes; gcloud's and az's own texts).
_REFUSED = {
    "aws": (254, "An error occurred (AccessDenied) when calling the operation: not authorized to perform it"),
    "gcloud": (1, "ERROR: (gcloud) PERMISSION_DENIED: required permission is missing"),
    "az": (1, "(AuthorizationFailed) The client does not have authorization to perform the action"),
}
_OTHERS = (1, "Error: 403 Forbidden: AccessDenied")
#: So many calls are kept, and so many characters of a word.
_KEPT, _LONGEST = 200, 400


class CloudCall(Struct, frozen=True):
    """One call of a cloud's command line, without its secrets; ``refused``: it was told that it may not."""

    argv: tuple[str, ...]
    refused: bool = False

    def __str__(self) -> str:
        return " ".join(self.argv)


class Clouds:
    """Answers for them. ``refusing``: with a refusal."""

    def __init__(self) -> None:
        self.asked: list[CloudCall] = []
        self.refusing = False

    def __call__(self, _launch: object, argv: list[str]) -> tuple[int, str]:
        """One call: its exit code, and what it says."""
        if len(self.asked) < _KEPT:
            self.asked.append(CloudCall(tuple(redact(word[:_LONGEST]) for word in argv), self.refusing))
        return _REFUSED.get(argv[0], _OTHERS) if self.refusing else (0, "")
