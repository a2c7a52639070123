"""What can go wrong between killcheck and a Kubernetes API; HTTP statuses are mapped here and nowhere else.

'Could not ask' is never an empty answer: every way of not knowing raises one of these.
"""

from __future__ import annotations

from typing import Any

from killcheck.kube.objects import Obj, dig
from killcheck.text import lazy_re

__all__ = [
    "ApiError",
    "BadRequest",
    "Conflict",
    "CredentialsError",
    "Expired",
    "Forbidden",
    "Invalid",
    "KubeConfigError",
    "KubeError",
    "NotFound",
    "ServerFault",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    "api_error",
]

#: Nobody waits for longer on a server's word, in seconds.
LONGEST_WAIT_S = 86_400
#: How RBAC says what an account may not do (apiserver, endpoints/handlers/responsewriters).
_CANNOT = lazy_re.compile(r'cannot (\w+) resource "([\w./-]+)" in API group "([\w.-]*)"')


class KubeError(Exception):
    """Any failure to get an answer from a Kubernetes API. The message is one sentence for a person."""

    def __reduce__(self) -> tuple[Any, ...]:
        """A worker process hands it to its parent, whatever it was made from: by itself that would end the worker."""
        return _remade, (type(self), self.args), self.__dict__


def _remade(kind: type[KubeError], args: tuple[Any, ...]) -> KubeError:
    return kind.__new__(kind, *args)


class KubeConfigError(KubeError):
    """The kubeconfig is missing or broken, or names no such context; the message lists the nearest names."""


class CredentialsError(KubeError):
    """The credentials could not be obtained: an exec plugin failed, an SSO session expired, a file is missing."""


class Unreachable(KubeError):
    """No connection, a TLS failure, a time-out: nothing was answered (a write may or may not have happened)."""


class ApiError(KubeError):
    """The API server answered with a failure. ``status`` is its metav1.Status, ``code`` the HTTP status."""

    def __init__(self, code: int, status: Obj, what: str = "") -> None:
        self.code = code
        self.status = status
        self.reason = str(status.get("reason", ""))
        self.message = str(status.get("message", "")) or f"HTTP {code}"
        super().__init__(f"{what}: {self.message}" if what else self.message)

    @property
    def causes(self) -> list[Obj]:
        """``details.causes`` of the Status."""
        found = dig(self.status, "details", "causes", default=[])
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which the server asks to be called again, where it said so in whole seconds."""
        seconds = dig(self.status, "details", "retryAfterSeconds")
        return float(seconds) if isinstance(seconds, int) and 0 <= seconds <= LONGEST_WAIT_S else None


class BadRequest(ApiError):
    """400."""


class Unauthorized(ApiError):
    """401: the credentials were refused."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}: the API server does not take these credentials (expired, revoked, or another "
            "cluster's): log in again, or fetch a new kubeconfig"
        )


class Forbidden(ApiError):
    """403: RBAC, quota, admission."""

    @property
    def wanting(self) -> str:
        """The rule of a Role that would allow it, in one line of YAML; empty where RBAC is not what forbade it."""
        said = _CANNOT.search(self.message)
        return f'{{apiGroups: ["{said[3]}"], resources: [{said[2]}], verbs: [{said[1]}]}}' if said else ""


class NotFound(ApiError):
    """404: the object, or the resource type itself, does not exist."""


class Conflict(ApiError):
    """409: AlreadyExists or an optimistic-concurrency conflict; see ``reason``."""


class Expired(ApiError):
    """410: the resourceVersion is too old; list again."""


class Invalid(ApiError):
    """422: the object was refused; see ``causes``."""


class TooManyRequests(ApiError):
    """429: throttled, or an eviction that a disruption budget refuses."""


class ServerFault(ApiError):
    """5xx."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


def api_error(code: int, status: Obj, what: str = "") -> ApiError:
    """The exception for an HTTP status and the body that came with it."""
    kind = _BY_CODE.get(code, ServerFault if code >= 500 else ApiError)
    return kind(code, status, what)
