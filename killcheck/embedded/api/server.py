"""The API server, without any IO: one :class:`Request` in, one :class:`Response` out.

The caller holds the loop's lock. Routing and the order of things (who are you, may you, is it there) live here; what
each verb does is next door: ``reads``, ``writes``, ``patching``, ``deletion``, ``subresources``, ``crds``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from killcheck.clock import Loop
from killcheck.embedded.api import componentstatus, health, negotiation, ours, status
from killcheck.embedded.api.aggregation import Aggregation
from killcheck.embedded.api.bounds import too_deep
from killcheck.embedded.api.call import Call, Route, route, verb_of
from killcheck.embedded.api.core import MASTERS, Config, Core
from killcheck.embedded.api.crds import CustomResources
from killcheck.embedded.api.deletion import Deleter
from killcheck.embedded.api.http import Request, Response, User
from killcheck.embedded.api.kinds import builtin, subresource_of
from killcheck.embedded.api.patching import Patcher
from killcheck.embedded.api.policystatus import PolicyStatus
from killcheck.embedded.api.protobuf_answers import in_protobuf
from killcheck.embedded.api.rbac import Attributes
from killcheck.embedded.api.reads import Reader
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.subresources import Subresources
from killcheck.embedded.api.writes import Writer
from killcheck.kube.objects import Obj

__all__ = ["ApiServer"]

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
#: Subresources whose answers are no objects.
_UNSHAPED = frozenset({"log", "exec", "attach", "portforward", "proxy"})
#: What is said with every answer about a type (``APILifecycleDeprecated`` in k8s.io/api).
_DEPRECATED = {
    componentstatus.TABLE: "v1 ComponentStatus is deprecated in v1.19+",
    ("", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}


class ApiServer(Core):
    """A Kubernetes API over a :class:`Store`."""

    def __init__(self, store: Store, loop: Loop, config: Config) -> None:
        super().__init__(store, loop, config)
        #: What of an answer was guessed, and what to do: of objects that nobody described.
        self.guessed: Callable[[Request, Response], tuple[str, str] | None] = lambda _request, _response: None
        #: Which client from outside this process made the write of a resource version.
        self.authors: dict[int, str] = {}
        #: Who is told of every request and its answer, once it is answered.
        self.auditors: list[Callable[[Request, Response], None]] = []
        self.metrics = health.Metrics()
        self.reader = Reader(self)
        self.deleter = Deleter(self, self.reader)
        self.custom = CustomResources(self)
        self.writer = Writer(self, self.deleter, self.custom)
        self.patcher = Patcher(self, self.writer)
        self.subresources = Subresources(self, self.reader, self.writer, self.patcher, self.deleter)
        self.aggregation = Aggregation(self)
        PolicyStatus(self)
        if self.release.on("ConstrainedImpersonation"):
            self.authenticator.attributes_of = _attributes_of
        self._verbs: dict[str, Callable[[Call], Response]] = {
            "get": self.reader.get,
            "list": self.reader.listing,
            "watch": self.reader.watch,
            "create": self.writer.post,
            "update": self.writer.put,
            "patch": self.patcher.patch,
            "delete": self.deleter.delete,
            "deletecollection": self.deleter.delete_collection,
        }

    def handle(self, request: Request) -> Response:
        """Answer a request; failures come back as Status bodies, never as exceptions."""
        user = request.user
        at = route(request.path)
        revision = self.limits.version()
        try:
            if user is None or "impersonate-user" in request.headers:
                user = self.authenticator.authenticate(request)
            response = self._answer(request, user, at)
        except StatusError as error:
            response = Response(error.code, error.status, dict(error.headers))
        except RecursionError:  # a client's own doing, of which nothing is stored: no end of the drill
            response = Response(501, too_deep().status)
        met = None
        if request.user is None and at.plural:
            of = (at.group, at.version, at.plural, at.subresource)
            self.metrics.count(verb_of(request, at), of, response)
        if request.user is None and user is not None:
            met = ours.limit_of(self.kinds, _builtin_groups(), request, response) or self.guessed(request, response)
        if met is not None and user is not None:
            self.limits.meet(ours.who(user), *met)
        if request.user is None and user is not None and self.limits.version() > revision:
            self.authors |= dict.fromkeys(range(revision + 1, self.limits.version() + 1), ours.who(user))
        for auditor in self.auditors:
            auditor(request, response)
        if request.user is None and "protobuf" in request.headers.get("accept", ""):
            return in_protobuf(request, response) if at.group in _builtin_groups() else response
        return response

    def _answer(self, request: Request, user: User, at: Route) -> Response:
        """Raises StatusError."""
        if not at.plural:
            return self._elsewhere(request, user)
        verb = verb_of(request, at)
        self._authorize(user, at, verb, request)
        if not self._routed(at):
            return self.aggregation.respond(request) or health.no_page()
        if request.method not in _METHODS:
            raise status.method_not_allowed()
        call = self._call(request, user, at, verb)
        try:
            response = self._dispatch(call)
        except StatusError as error:
            response = Response(error.code, error.status, dict(error.headers))
        if call.warnings:
            response.headers["Warning"] = ", ".join(_warning(text) for text in call.warnings)
        return response

    # -- inside --------------------------------------------------------------------------------------------
    def _authorize(self, user: User, at: Route, verb: str, request: Request) -> None:
        if MASTERS not in user.groups:
            self.authorize(user, _attributes(at, verb, request))

    def _routed(self, at: Route) -> bool:
        """Whether a path leads into a built-in group, or to a custom resource that is served."""
        return at.group in _builtin_groups() or self.kinds.find(at.group, at.version, at.plural) is not None

    def _call(self, request: Request, user: User, at: Route, verb: str) -> Call:
        """Raises StatusError 404 or 405."""
        kind = self.kinds.find(at.group, at.version, at.plural)
        if kind is None:
            raise status.path_not_found()
        namespace = at.namespace
        if not kind.resource.namespaced:
            if namespace and not (kind.table == ("", "namespaces") and namespace == at.name):
                raise status.path_not_found()
            namespace = ""
        elif at.name and not namespace:
            raise status.path_not_found()
        call = Call(request, user, kind, namespace, at.name, at.subresource, verb)
        verbs = kind.verbs
        if at.subresource:
            sub = subresource_of(kind, at.subresource)
            if sub is None and kind.crd is not None:
                raise status.not_found(kind.resource.plural, kind.resource.group, at.name)
            if sub is None:
                raise status.path_not_found()
            verbs = sub.verbs
        else:
            if kind.crd is not None and not at.name and verb in ("update", "patch"):
                raise status.bad_request("name must be provided")
            homeless = kind.resource.namespaced and not namespace and verb in ("create", "deletecollection")
            misplaced = bool(at.name) if verb == "create" else verb in ("update", "patch") and not at.name
            if homeless or (misplaced and kind.crd is None):
                raise status.method_not_allowed()
        watched = verb == "watch" and kind.table == componentstatus.TABLE  # refused by what answers, not by the mux
        if verb not in verbs and not watched:
            raise status.method_not_allowed()
        return call

    def _dispatch(self, call: Call) -> Response:
        shaped = call.over_wire and call.subresource not in _UNSHAPED
        if shaped:
            negotiation.check_route(call)
        if call.kind.table in _DEPRECATED:  # said with its handler's refusals too
            call.warn(_DEPRECATED[call.kind.table])
        if shaped:
            negotiation.shape_of(call)  # refused before the object is looked for
        if call.subresource:
            return self.subresources.handle(call)
        if call.kind.table == componentstatus.TABLE:
            return componentstatus.respond(self, call)
        if len(call.kind.verbs) == 1:
            return self.subresources.review(call)
        return self._verbs[call.verb](call)

    def _elsewhere(self, request: Request, user: User) -> Response:
        """Discovery, OpenAPI, health, version: what is no resource."""
        path = request.path
        self.authorize(user, Attributes(verb_of(request, Route(name=path)), path=path))
        if path.split("/")[1] in ("healthz", "readyz", "livez"):
            return health.respond(request)
        if path == "/metrics":
            objects = ((".".join(filter(None, reversed(table))), n) for table, n in self.store.sizes())
            return self.metrics.respond(self.version, objects, self.watches.count)
        if path == "/":
            from killcheck.embedded.api import openapi

            return Response(200, {"paths": openapi.paths(self.kinds)})
        if path.rstrip("/") in ("/openid/v1/jwks", "/.well-known/openid-configuration") and self.issuer is not None:
            jwks = path.startswith("/openid")
            accept, served = (
                request.headers.get("accept", ""),
                "application/jwk-set+json" if jwks else "application/json",
            )
            if accept:
                negotiation.check_media(accept, (served,))
            host = request.headers.get("host", "127.0.0.1")
            body = self.issuer.jwks() if jwks else self.issuer.discovery(f"https://{host}/openid/v1/jwks")
            kept = {
                "Content-Type": "application/jwk-set+json" if jwks else "application/json",
                "Cache-Control": "public, max-age=3600",
            }
            return Response(200, body, kept)
        if path.rstrip("/") == "/version":  # the Python client asks for /version/
            self._check_document(request)
            return Response(200, self._version())
        if path.startswith("/openapi"):
            from killcheck.embedded.api import openapi

            answered = openapi.respond(self.kinds, request)
        else:
            from killcheck.embedded.api import discovery

            answered = discovery.respond(self.kinds, request)
        if answered is not None and path.startswith("/api"):
            self._check_document(request)
        if answered is not None and path.rstrip("/") == "/apis":
            return self.aggregation.listed(answered)
        if answered is None:
            answered = self.aggregation.respond(request)
        if answered is None and self._is_served(path):
            raise status.path_not_found()
        return answered or health.no_page()

    def _is_served(self, path: str) -> bool:
        """Whether something else is served below a path's first parts: whose group it is says that there is no such."""
        parts = [part for part in path.split("/") if part]
        return parts[0] == "api" or (len(parts) > 2 and parts[0] == "apis" and parts[1] in _builtin_groups())

    def _check_document(self, request: Request) -> None:
        """Documents of go-restful's routes can only be read, as what they are. Raises StatusError 405 or 406."""
        parts = [part for part in request.path.split("/") if part]
        listed = parts[0] == "apis" and len(parts) < 3  # by a handler of its own, not a route
        if request.method != "GET" and not listed:
            raise status.method_not_allowed()
        served = negotiation.SERVED if parts[0] != "version" else negotiation.SERVED[:1]
        accept = request.headers.get("accept", "")
        if len(parts) > 1 or "g=apidiscovery.k8s.io" not in accept:
            negotiation.check_document(accept, served, routed=not listed)

    def _version(self) -> Obj:
        major, minor = self.version.removeprefix("v").split(".")[:2]
        return {
            "major": major,
            "minor": minor,
            "emulationMajor": major,
            "emulationMinor": minor,
            "minCompatibilityMajor": major,
            "minCompatibilityMinor": str(int(minor) - 1),
            "gitVersion": self.version,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "",
            "goVersion": "",
            "compiler": "gc",
            "platform": "linux/amd64",
        }


@cache
def _builtin_groups() -> frozenset[str]:
    return frozenset(kind.resource.group for kind in builtin())


def _attributes_of(request: Request) -> Attributes:
    """What a request would do, to whoever decides about it."""
    at = route(request.path)
    if not at.plural:
        return Attributes(verb_of(request, Route(name=request.path)), path=request.path)
    return _attributes(at, verb_of(request, at), request)


def _attributes(at: Route, verb: str, request: Request) -> Attributes:
    name = at.name
    if not name and verb in ("list", "watch", "deletecollection"):
        selector = request.param("fieldSelector")
        if selector.startswith("metadata.name=") and "," not in selector:
            name = selector.removeprefix("metadata.name=").lstrip("=")
    namespace = "" if at.plural == "namespaces" and not at.group and not at.name else at.namespace
    return Attributes(verb, at.group, at.plural, at.subresource, name, namespace)


def _warning(text: str) -> str:
    """One value of a Warning header (RFC 7234)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
