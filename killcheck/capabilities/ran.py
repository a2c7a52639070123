"""A pod of the embedded cluster whose own programs ran, and what they asked that nobody there could answer."""

from __future__ import annotations

from collections.abc import Container, Iterator

from msgspec import Struct

from killcheck.kube.objects import Obj, controller_of, name_of, namespace_of
from killcheck.text import lazy_re

__all__ = ["Ran"]

#: What a CronJob puts behind its name for a Job, and a Deployment for a ReplicaSet: the minute, the template's hash.
_MINUTE, _HASH = lazy_re.compile(r"-\d{8,}$"), lazy_re.compile(r"-[a-z0-9]+$")


class Ran(Struct, frozen=True):
    """``pod``: every one of its containers was started; ``unanswered``: what it asked in vain, half a sentence each."""

    pod: Obj
    unanswered: tuple[str, ...] = ()

    def makers(self, declared: Container[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
        """(kind, namespace, name) of the pod itself and of all that may have made it, by their names.

        ``declared``: what the manifests hold. A Job among them is nobody's, whatever CronJob its name resembles.
        """
        home = namespace_of(self.pod)
        yield "Pod", home, name_of(self.pod)
        owner = controller_of(self.pod)
        if owner is None:
            return
        kind, name = str(owner.get("kind")), str(owner.get("name"))
        yield kind, home, name
        if (kind, home, name) in declared:
            return
        if kind == "Job":
            yield "CronJob", home, _MINUTE.sub("", name)
        elif kind == "ReplicaSet":
            yield "Deployment", home, _HASH.sub("", name)
