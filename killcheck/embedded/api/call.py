"""One request to the API as the server understands it: the route, who asks, and the options in the query."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct, field

from killcheck.embedded.api.http import Request, User
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.status import StatusError, invalid
from killcheck.kube.objects import Obj

__all__ = ["Call", "Route", "route"]

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class Route(NamedTuple):
    """Where a path leads: a resource, or (``plural`` empty) something else."""

    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    #: ``/api/v1/watch/...``: what clients asked before a parameter said it.
    watched: bool = False


@lru_cache(maxsize=1024)
def route(path: str) -> Route:
    """Split a URL path as the API server's RequestInfo does."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, parts = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return Route()
    namespace = ""
    watched = parts[0] == "watch" and len(parts) > 1
    parts = parts[watched:]
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    proxied = parts[2:3] == ["proxy"]  # whose path goes on behind it
    return Route(group, version, namespace, parts[0], name, "proxy" if proxied else "/".join(parts[2:]), watched)


class Call(Struct):
    """A request on a resource, after routing and authentication."""

    request: Request
    user: User
    kind: Kind
    namespace: str
    name: str
    subresource: str
    verb: str
    warnings: list[str] = field(default_factory=list)
    #: Whether what is put names the uid and the version that it replaces, as what was read does.
    whole: bool = True
    #: POST on a name: the body's type where it is not the resource's own.
    _dry_run: bool | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The object's key in the store."""
        return (self.namespace, self.name)

    @property
    def over_wire(self) -> bool:
        """Whether somebody outside this process asks."""
        return self.request.user is None

    @property
    def shows_managers(self) -> bool:
        """Whether answers have managedFields: for those outside this process, and inside it for those who ask."""
        return self.over_wire or self.request.param("managedFields") == "true"

    @property
    def dry_run(self) -> bool:
        """``dryRun=All`` in the query. Raises StatusError 422 for any other value."""
        values = self.request.query.get("dryRun")
        if not values:
            return False
        if any(value != "All" for value in values):
            raise bad_dry_run(self.options_kind, values)
        return True

    @property
    def options_kind(self) -> str:
        """The meta.k8s.io type that the query's options belong to."""
        return {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}.get(
            self.verb, "DeleteOptions"
        )

    @property
    def validation(self) -> str:
        """``fieldValidation``: Ignore, Warn or Strict. Raises StatusError 422."""
        value = self.request.param("fieldValidation") or "Warn"
        if value not in ("Ignore", "Warn", "Strict"):
            message = f'Unsupported value: "{value}": supported values: "", "Ignore", "Strict", "Warn"'
            raise _bad_option(self.options_kind, "fieldValidation", message)
        return value

    @property
    def manager(self) -> str:
        """Who manages the fields that are written: ``fieldManager``, else the user agent up to the slash."""
        explicit = self.request.param("fieldManager")
        agent = self.request.headers.get("user-agent", "") or self.user.name.rpartition(":")[2]
        return explicit or agent.split("/")[0][:128] or "unknown"

    def content_type(self) -> str:
        """The body's media type without parameters."""
        return self.request.headers.get("content-type", "").split(";")[0].strip().lower()

    def warn(self, text: str) -> None:
        """Say something in a Warning header, once."""
        if text not in self.warnings:
            self.warnings.append(text)


def verb_of(request: Request, at: Route) -> str:
    """The verb that authorization is asked about."""
    verb = _VERBS.get(request.method, request.method.lower())
    if at.watched and verb == "get":
        return "watch"
    if not at.name:
        if verb == "get":
            return "watch" if request.flag("watch") else "list"
        if verb == "delete":
            return "deletecollection"
    return verb


def bad_dry_run(options_kind: str, values: list[str]) -> StatusError:
    """422: nothing but All can be asked for."""
    listed = "[" + ",".join(f'"{value}"' for value in values) + "]"
    return _bad_option(options_kind, "dryRun", f'Unsupported value: {listed}: supported values: "All"')


def _bad_option(options_kind: str, name: str, message: str) -> StatusError:
    causes: list[Obj] = [{"reason": "FieldValueNotSupported", "message": message, "field": name}]
    return invalid(options_kind, "meta.k8s.io", "", causes)
