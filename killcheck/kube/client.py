"""A client for any Kubernetes API, in plain dicts, over any :class:`Transport`.

The drill, the probes, the faults and the embedded cluster's own controllers all speak to the API through it.
Every method raises a :class:`~killcheck.kube.errors.KubeError`; none answers 'nothing' for 'could not ask'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field

from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError, NotFound, ServerFault, api_error
from killcheck.kube.objects import Obj, dig
from killcheck.kube.resources import Resource
from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.kube.endpoint import Endpoint

__all__ = ["Answer", "Closer", "Kube", "Listing", "PatchType", "Transport", "WatchEvent", "next_page", "only_asks"]

PatchType = Literal["merge", "strategic", "json", "apply"]

_CONTENT_TYPES: dict[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}

#: What a kubelet writes where a log should be.
_NO_LOG = lazy_re.compile(
    r"(?:failed to try resolving symlinks in path|failed to (?:open|read) log file"
    r'|failed to tail -?\d+ lines of log file|failed to seek -?\d+ in log file) "/[^\n]*'
    r"|unable to retrieve container logs for [a-z]+://[^\n]*"
)

#: Objects asked for in one page of a list.
PAGE = 500
#: Pages of one list: two million objects, which no etcd holds. A server that always has one more is none.
PAGES = 4_000
#: Bytes of one list that is kept whole: two hundred thousand pods.
LISTED = 1 << 30


class Answer(Struct):
    """What came back: ``body`` is parsed JSON (dict), or text where the server sent text (logs).

    ``length``: the bytes of it on the wire, unpacked; 0 where it came over none.
    """

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int = 0


def only_asks(method: str, path: str, query: Mapping[str, str], body: Any) -> bool:
    """Whether nothing is kept of a request: it reads, tries (a dry run), or is a question of rights."""
    dry = query.get("dryRun") == "All" or (isinstance(body, dict) and body.get("dryRun") == ["All"])
    asks = path.rpartition("/")[2].endswith(("accessreviews", "rulesreviews", "tokenreviews"))
    return method == "GET" or dry or asks


def next_page(page: Any, query: Mapping[str, str], pages: int, length: int = 0) -> str:
    """The token of the page after this one, the ``pages``-th of a list; empty: it was the last.

    Raises ServerFault where the list has no end: the same token again, too many pages, or more than can be kept.
    """
    token = str(dig(page, "metadata", "continue") or "")
    if token and (token == query.get("continue") or pages >= PAGES or length > LISTED):
        raise ServerFault(500, {"message": f"a list without an end: {pages} pages, and there are more"}, "list")
    return token


class WatchEvent(Struct, frozen=True):
    """``type`` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Obj


class Listing(Struct, frozen=True):
    """A complete list (all pages) and the resourceVersion it is true for."""

    items: list[Obj]
    resource_version: str


Closer = Callable[[], None]


class Transport(Protocol):
    """How requests reach an API server: over TLS, or in this process. Who implements it says so, and has its defaults.

    ``keeps_labels``: whether a change can leave its mark at an object; ``endpoint`` None: it is in this process.
    """

    keeps_labels: bool = True
    endpoint: Endpoint | None = None

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
    ) -> Answer:
        """One request, one answer, whatever its status. Raises Unreachable or CredentialsError."""

    def sift(self, path: str, query: Mapping[str, str], worth: Callable[[bytes], bool]) -> Answer:
        """A page of a list, without items that are not ``worth`` reading, asked with their JSON; or with some of them.

        Raises Unreachable or CredentialsError.
        """
        return self.request("GET", path, query, None, {})

    def watch(
        self,
        path: str,
        query: Mapping[str, str],
        on_event: Callable[[Obj], None],
        on_end: Callable[[KubeError | None], None],
    ) -> Closer:
        """Open a watch; both callbacks run on the loop.

        ``on_event`` gets each decoded watch frame, ERROR frames included; ``on_end`` is called once when the stream
        is over (None: the server closed it, as it does every few minutes). The returned function closes the
        watch; neither callback is called after it.
        """


def _granted(answer: Answer, asked: str) -> Answer:
    """Raises the :class:`ApiError` for a status of 400 or more."""
    if answer.status >= 400:
        status = answer.body if isinstance(answer.body, dict) else {"message": str(answer.body).strip()}
        raise api_error(answer.status, status, asked)
    return answer


class Kube:
    """A Kubernetes API. ``field_manager`` names us in managedFields."""

    def __init__(self, transport: Transport, *, field_manager: str = "killcheck") -> None:
        self.transport = transport
        self.field_manager = field_manager

    # -- reading -------------------------------------------------------------------------------------------
    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Any request by its path; raises the :class:`ApiError` for a status of 400 or more."""
        return _granted(self.transport.request(method, path, query or {}, body, headers or {}), f"{method} {path}")

    def page(self, resource: Resource, query: Mapping[str, str], worth: Callable[[bytes], bool] | None = None) -> Any:
        """One page of a list, as it was sent; see :meth:`Transport.sift`."""
        if worth is None:
            return self.call("GET", resource.path(), query=query).body
        return _granted(self.transport.sift(resource.path(), query, worth), f"GET {resource.path()}").body

    def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Obj:
        """One object. Raises NotFound."""
        return self.call("GET", resource.path(namespace, name, subresource)).body  # type: ignore[no-any-return]

    def find(self, resource: Resource, name: str, namespace: str | None = None) -> Obj | None:
        """One object, or None where the server says that it (or its resource type) does not exist."""
        try:
            return self.get(resource, name, namespace)
        except NotFound:
            return None

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
    ) -> Listing:
        """Every object, page by page; ``labels`` and ``fields`` are selectors as kubectl takes them.

        A continue token that expires in the middle starts the list again, so that the answer is one
        consistent snapshot. Raises KubeError: a list that could not be had is never an empty one.
        """
        query = {"limit": str(PAGE)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        items: list[Obj] = []
        restarts = pages = length = 0
        while True:
            try:
                answer = self.call("GET", resource.path(namespace), query=query)
                page = answer.body
            except KubeError as error:
                if getattr(error, "code", 0) != 410 or "continue" not in query or restarts >= 3:
                    raise
                restarts += 1
                items.clear()
                del query["continue"]
                continue
            items.extend(page.get("items") or [])
            pages, length = pages + 1, length + answer.length
            token = next_page(page, query, pages, length)
            if not token:
                break
            query["continue"] = token
        for item in items:  # a list leaves out what every item has in common
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return Listing(items, str(dig(page, "metadata", "resourceVersion", default="")))

    def watch(
        self,
        resource: Resource,
        on_event: Callable[[WatchEvent], None],
        on_end: Callable[[KubeError | None], None],
        *,
        namespace: str | None = None,
        since: str = "",
        labels: str = "",
        fields: str = "",
    ) -> Closer:
        """Watch from resourceVersion ``since``; see :class:`~killcheck.kube.informer.Informer` for one that resumes.

        An ERROR frame ends the watch: ``on_end`` gets it as the ApiError that it is (410: Expired).
        """
        query = {"watch": "true", "allowWatchBookmarks": "true"}
        if since:
            query["resourceVersion"] = since
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        failed: list[KubeError] = []

        def frame(event: Obj) -> None:
            obj = event.get("object") or {}
            if event.get("type") == "ERROR":
                code = obj.get("code")
                told = api_error(code if isinstance(code, int) else 500, obj, f"watch {resource.qualified}")
                failed.append(told)
            else:
                on_event(WatchEvent(event["type"], obj))

        def ended(error: KubeError | None) -> None:
            on_end(failed[0] if failed else error)

        return self.transport.watch(resource.path(namespace), query, frame, ended)

    def logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str = "",
        previous: bool = False,
        tail_lines: int | None = None,
    ) -> str:
        """A container's log. Raises BadRequest where it never ran, NotFound where the pod is gone.

        A kubelet that cannot read a log says so in its place, and the API server answers 200 (seen on v1.36.2; the
        words are those of cri-client's logs.go and of the kubelet's kuberuntime_container.go): raises ServerFault.
        """
        query = {"container": container} if container else {}
        if previous:
            query["previous"] = "true"
        if tail_lines is not None:
            query["tailLines"] = str(tail_lines)
        text = str(self.call("GET", r.PODS.path(namespace, pod, "log"), query=query).body)
        if _NO_LOG.fullmatch(text.strip()):
            raise ServerFault(500, {"message": text.strip()}, f"the log of pod {namespace}/{pod}")
        return text

    # -- writing -------------------------------------------------------------------------------------------
    def create(
        self,
        resource: Resource,
        obj: Obj,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        name: str | None = None,
        subresource: str | None = None,
    ) -> Obj:
        """Create an object (or, with ``name`` and ``subresource``, POST to a subresource: eviction, token, binding)."""
        where = namespace or dig(obj, "metadata", "namespace")
        return self._write("POST", resource.path(where, name, subresource), obj, self._query(dry_run))

    def replace(
        self,
        resource: Resource,
        obj: Obj,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Obj:
        """PUT the object; Conflict where its ``metadata.resourceVersion`` is no longer the newest."""
        meta = obj["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"], subresource)
        return self._write("PUT", path, obj, self._query(dry_run))

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        kind: PatchType = "merge",
        subresource: str | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> Obj:
        """PATCH an object or a subresource of it."""
        query = self._query(dry_run)
        if force:
            query["force"] = "true"
        path = resource.path(namespace, name, subresource)
        return self._write("PATCH", path, patch, query, {"content-type": _CONTENT_TYPES[kind]})

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_s: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
        dry_run: bool = False,
    ) -> Obj:
        """DELETE an object, with preconditions; returns what the server said of it."""
        options: Obj = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation:
            options["propagationPolicy"] = propagation
        if dry_run:
            options["dryRun"] = ["All"]
        return self._write("DELETE", resource.path(namespace, name), options, {})

    def evict(self, name: str, namespace: str, *, dry_run: bool = False) -> None:
        """Ask for a pod's eviction. Raises TooManyRequests where a disruption budget refuses."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        self._write("POST", r.PODS.path(namespace, name, "eviction"), body, self._query(dry_run))

    # -- asking about the API itself -----------------------------------------------------------------------
    def may(
        self,
        verb: str,
        resource: str,
        *,
        group: str = "",
        subresource: str = "",
        name: str = "",
        namespace: str = "",
        user: str = "",
        groups: Sequence[str] = (),
    ) -> bool:
        """Whether we (or ``user``) may; asked with a (Self)SubjectAccessReview."""
        attributes = {
            "verb": verb,
            "resource": resource,
            "group": group,
            "subresource": subresource,
            "name": name,
            "namespace": namespace,
        }
        spec: Obj = {"resourceAttributes": {k: v for k, v in attributes.items() if v}}
        kind = r.SELFACCESSREVIEWS
        if user:
            kind = r.ACCESSREVIEWS
            spec |= {"user": user, "groups": list(groups)}
        review = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        return bool(dig(self.create(kind, review), "status", "allowed", default=False))

    def resource_for(self, api_version: str, kind: str) -> Resource:
        """The resource that serves ``kind``, from discovery where it is not a well-known one. Raises NotFound."""
        known = r.by_kind(api_version, kind)
        if known:
            return known
        for resource in self.resources(api_version):
            if resource.kind == kind:
                return resource
        message = f'no matches for kind "{kind}" in version "{api_version}"'
        raise NotFound(404, {"reason": "NotFound", "message": message})

    def resources(self, api_version: str) -> Iterator[Resource]:
        """The resources that the server serves in one group and version. Raises NotFound where it has no such group."""
        group, _, version = api_version.rpartition("/")
        root = f"/apis/{api_version}" if group else f"/api/{version}"
        for entry in self.call("GET", root).body.get("resources", []):
            if "/" not in entry["name"]:
                yield Resource(group, version, entry["name"], entry["kind"], bool(entry["namespaced"]))

    # -- inside --------------------------------------------------------------------------------------------
    def serves(self, resource: Resource) -> bool:
        """Whether the server has a resource, which everybody may ask. Raises KubeError where it does not say."""
        try:
            return any(one.plural == resource.plural for one in self.resources(resource.api_version))
        except NotFound:
            return False

    def _query(self, dry_run: bool) -> dict[str, str]:
        query = {"fieldManager": self.field_manager}
        if dry_run:
            query["dryRun"] = "All"
        return query

    def _write(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
    ) -> Obj:
        return self.call(method, path, query=query, body=body, headers=headers).body  # type: ignore[no-any-return]
