"""The one place through which a drill writes to a cluster that is somebody's, with what was consented to in hand.

It stands before the transport of the drill's :class:`~killcheck.kube.client.Kube`: sabotage, trigger, journal, Leases
and healing alike pass here, and what nobody named is refused before it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from killcheck.kube.client import Answer, Closer, Kube, Transport, only_asks
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, labels_of, name_of, namespace_of
from killcheck.kube.permissions import Permission
from killcheck.kube.resources import Resource
from killcheck.safety.changes import LABEL
from killcheck.safety.consent import LABEL as CONSENT

__all__ = ["Consented", "Guard", "OutsideConsent", "guarded", "writable"]


class OutsideConsent(KubeError):
    """A write to what nobody named; it was not sent."""


class Consented(Struct, frozen=True):
    """What may be written to. ``named``: the rights of the plan that was agreed to; ``in_pool``: whether a node is the
    kill path's; ``run``: whose label tells what this run has made; ``objects``: (resource, name) of what is in no
    namespace and was named; ``machines``: paths of the containers that are the kill path's nodes (kind).
    """

    run: str
    namespaces: frozenset[str]
    named: tuple[Permission, ...] = ()
    in_pool: Callable[[Obj], bool] = lambda node: False
    objects: frozenset[tuple[str, str]] = frozenset()
    machines: frozenset[str] = frozenset()


class Guard(Transport):
    """A transport that sends no write to what has not consented."""

    def __init__(self, inner: Transport, consented: Consented) -> None:
        self.inner = inner
        self.keeps_labels, self.endpoint = inner.keeps_labels, inner.endpoint
        self.consented = consented

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
    ) -> Answer:
        """As the protocol says; raises OutsideConsent too."""
        if not only_asks(method, path, query, body):
            why = self._objection(method, path, body)
            if isinstance(why, Answer):
                return why
            if why:
                raise OutsideConsent(f"{method} {path}: not sent, for {why}")
        return self.inner.request(method, path, query, body, headers)

    def watch(
        self,
        path: str,
        query: Mapping[str, str],
        on_event: Callable[[Obj], None],
        on_end: Callable[[KubeError | None], None],
    ) -> Closer:
        """As the protocol says."""
        return self.inner.watch(path, query, on_event, on_end)

    def _objection(self, method: str, path: str, body: Any) -> str | Answer | None:
        """Why a write may not be; None: it may. What is not there is answered so, and nothing is sent."""
        if any(word.strip(".") == "" or "%" in word for word in path.strip("/").split("/")):
            return "its path is not sent as it is read"
        if method == "PATCH" and path in self.consented.machines:
            return None
        namespace, group, plural, name = _parts(path)
        if plural == "namespaces":
            namespace = name
        if namespace:
            known = namespace in self.consented.namespaces
            return None if known else f"nobody named the namespace {namespace}"
        given = name_of(body) if method == "POST" and isinstance(body, dict) else name
        if (plural, given) in self.consented.objects or (method != "POST" and self._is_named(group, plural, name)):
            return None
        if method == "POST":
            made = isinstance(body, dict) and labels_of(body).get(LABEL) == self.consented.run
            return None if made else f"a {plural} that is in no namespace does not carry the run's label"
        whole = path[: path.index(f"/{plural}/") + len(f"/{plural}/{name}")] if name else path
        found = self.inner.request("GET", whole, {}, None, {})
        if found.status >= 400 or not isinstance(found.body, dict):
            return found if found.status == 404 else f"whether {plural} {name} consents could not be asked"
        return None if self._own(found.body, plural) else f"nobody named {plural} {name}"

    def consents(self, resource: Resource, obj: Obj) -> bool:
        """Whether an object, as it is, may be written to."""
        name = name_of(obj)
        if resource.namespaced:
            return namespace_of(obj) in self.consented.namespaces
        named = (resource.plural, name) in self.consented.objects or self._is_named(
            resource.group, resource.plural, name
        )
        return named or self._own(obj, resource.plural)

    def _is_named(self, group: str, plural: str, name: str) -> bool:
        return any((p.group, p.resource, p.name) == (group, plural, name) and name for p in self.consented.named)

    def _own(self, found: Obj, plural: str) -> bool:
        labels = labels_of(found)
        if labels.get(LABEL) == self.consented.run or labels.get(CONSENT) == "true":
            return True
        # NodeClaims come and go with the pools' nodes: what Karpenter made meanwhile is deleted by its uid alone.
        return plural == "nodeclaims" or (plural == "nodes" and self.consented.in_pool(found))


def guarded(kube: Kube, consented: Consented) -> None:
    """From now on ``kube`` writes to nothing else; what was consented to before counts no more."""
    inner = kube.transport.inner if isinstance(kube.transport, Guard) else kube.transport
    kube.transport = Guard(inner, consented)


def writable(kube: Kube, resource: Resource, obj: Obj) -> bool:
    """Whether an object may be written to through ``kube``; nobody guards a cluster that is killcheck's own."""
    guard = kube.transport
    return not isinstance(guard, Guard) or guard.consents(resource, obj)


def _parts(path: str) -> tuple[str, str, str, str]:
    """The namespace, group, resource and name that a path speaks of; empty where it has none."""
    words = path.strip("/").split("/")
    group, rest = ("", words[2:]) if words[0] == "api" else (words[1] if len(words) > 1 else "", words[3:])
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name = [*rest, "", ""][:2]
    return namespace, group, plural, name
