"""Requests in another's name over the same connection: impersonation, so that the server itself bounds what is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from killcheck.kube.client import Answer, Closer, Kube, Transport
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj

__all__ = ["ActingAs", "acting_as"]


class ActingAs(Transport):
    """A transport whose requests carry the impersonation headers of one user in one group; it opens no watch."""

    def __init__(self, inner: Transport, user: str, group: str) -> None:
        self.inner = inner
        self.keeps_labels, self.endpoint = inner.keeps_labels, inner.endpoint
        self.headers = {"Impersonate-User": user, "Impersonate-Group": group}

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
    ) -> Answer:
        """As the protocol says."""
        return self.inner.request(method, path, query, body, {**headers, **self.headers})

    def watch(
        self,
        path: str,
        query: Mapping[str, str],
        on_event: Callable[[Obj], None],
        on_end: Callable[[KubeError | None], None],
    ) -> Closer:
        """As the protocol says; in the name of who opened the connection. Raises NotImplementedError: nobody asks."""
        raise NotImplementedError(f"watch {path} as {self.headers['Impersonate-User']}")


def acting_as(kube: Kube, user: str, group: str) -> Kube:
    """A client that asks as ``user`` of ``group``, by the rights of whom ``kube`` is: it must be let impersonate."""
    return Kube(ActingAs(kube.transport, user, group), field_manager=kube.field_manager)
