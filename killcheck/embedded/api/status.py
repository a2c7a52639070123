"""Failures in Kubernetes' own words: every constructor makes the metav1.Status that the real API server sends.

Source: k8s.io/apimachinery/pkg/api/errors/errors.go, and the recorded answers of a v1.36 API server.
"""

from __future__ import annotations

from killcheck.kube.objects import Obj

__all__ = [
    "StatusError",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "gone",
    "internal",
    "invalid",
    "method_not_allowed",
    "not_acceptable",
    "not_found",
    "success",
    "too_many_requests",
    "unauthorized",
    "unsupported_media_type",
]


class StatusError(Exception):
    """Raised anywhere while a request is handled; the server answers with ``status``."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Obj | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers or {}
        self.status: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.status["reason"] = reason
        if details is not None:
            self.status["details"] = details
        self.status["code"] = code


def _details(resource: str, group: str, name: str) -> Obj:
    """Details name the resource by its plural ('kind' holds the plural where it came from a resource)."""
    details: Obj = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = resource
    return details


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def success(resource: str, group: str, name: str, uid: str) -> Obj:
    """What a DELETE that removed the object at once answers."""
    details = _details(resource, group, name) | {"uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def not_found(resource: str, group: str, name: str) -> StatusError:
    """404 for an object."""
    message = f'{_qualified(resource, group)} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_details(resource, group, name))


def path_not_found() -> StatusError:
    """404 for a path or a resource type that is not served."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(resource: str, group: str, name: str, *, ending: bool = False) -> StatusError:
    """409 on create; ``ending``: what is there is being deleted."""
    message = f'{"object is being deleted: " if ending else ""}{_qualified(resource, group)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=_details(resource, group, name))


def conflict(resource: str, group: str, name: str, why: str = "") -> StatusError:
    """409 on update."""
    why = why or ("the object has been modified; please apply your changes to the latest version and try again")
    message = f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(resource, group, name))


def forbidden(resource: str, group: str, name: str, why: str) -> StatusError:
    """403; ``why`` is the whole explanation after the colon."""
    if not resource:
        return StatusError(403, "Forbidden", f"forbidden: {why}", details={})
    subject = f'{_qualified(resource, group)} "{name}"' if name else _qualified(resource, group)
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", details=_details(resource, group, name))


def unauthorized() -> StatusError:
    """401."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> StatusError:
    """400."""
    return StatusError(400, "BadRequest", message)


def method_not_allowed() -> StatusError:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def not_acceptable(message: str) -> StatusError:
    """406."""
    return StatusError(406, "NotAcceptable", message)


def unsupported_media_type(message: str) -> StatusError:
    """415."""
    return StatusError(415, "UnsupportedMediaType", message)


def expired(message: str = "The provided continue parameter is too old") -> StatusError:
    """410 for an expired continue token or resourceVersion."""
    return StatusError(410, "Expired", message)


def gone(requested: int, oldest: int) -> StatusError:
    """410 for a watch from a compacted resourceVersion."""
    return StatusError(410, "Expired", f"too old resource version: {requested} ({oldest})")


def invalid(kind: str, group: str, name: str, causes: list[Obj]) -> StatusError:
    """422. ``causes``: dicts with reason (FieldValueInvalid...), message (after 'field: ') and field.

    A cause that is found twice is listed twice, and said once.
    """
    texts = list(dict.fromkeys(f"{cause['field']}: {cause['message']}" for cause in causes))
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details: Obj = {"name": name, "group": group, "kind": kind, "causes": causes}
    return StatusError(
        422, "Invalid", f'{qualified} "{name}" is invalid: {joined}', details={k: v for k, v in details.items() if v}
    )


def too_many_requests(
    message: str,
    *,
    retry_after_s: int | None = None,
    causes: list[Obj] | None = None,
) -> StatusError:
    """429."""
    details: Obj = {}
    if causes:
        details["causes"] = causes
    headers = {}
    if retry_after_s is not None:
        details["retryAfterSeconds"] = retry_after_s
        headers["Retry-After"] = str(retry_after_s)
    return StatusError(429, "TooManyRequests", message, details=details, headers=headers)


def internal(message: str) -> StatusError:
    """500; Kubernetes prefixes what it says to a client and puts the bare text in a cause."""
    return StatusError(
        500, "InternalError", f"Internal error occurred: {message}", details={"causes": [{"message": message}]}
    )
