"""Answers that only this cluster gives: what a real one would have answered otherwise, or with more than we know.

One register for all of them. The API server, the hollow nodes and the containers' network write down what they had to
answer in a real cluster's place (a command in a hollow pod, a path that is not served here, a Service with nobody
behind it, a program that this host lacks), whom they answered and when. A verdict that rests on such an answer is
nothing that was seen. What may *not* live here: the answers themselves, and what becomes of a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from msgspec import Struct

from killcheck.clock import Loop

__all__ = ["DRILL_IT", "Limit", "Limits"]

#: What settles most of them.
DRILL_IT = "drill it on a real cluster (--on CONTEXT)"

#: How many are told in full.
TOLD = 2


class Limit(Struct, frozen=True):
    """One such answer. ``who``: the pod or account that was answered; ``what`` and ``remedy`` are half sentences."""

    at: datetime
    who: str
    what: str
    remedy: str = DRILL_IT
    #: The newest resource version when it was given: what was written after it is newer.
    version: int = 0

    def __str__(self) -> str:
        return f"{self.who}: {self.what}: a limit of the embedded cluster, and nothing of the executor's; {self.remedy}"


class Limits:
    """All of one cluster's, in their order; the same answer to the same client is kept once."""

    def __init__(self, loop: Loop, version: Callable[[], int] = lambda: 0) -> None:
        self.loop = loop
        self.version = version
        self.met: dict[tuple[str, str], Limit] = {}
        #: How many objects there may be, of types of which it is fewer than of any: a rehearsal has fewer pods.
        self.most: dict[tuple[str, str], int] = {}

    def meet(self, who: str, what: str, remedy: str = DRILL_IT) -> None:
        """Write one down: the first time counts."""
        self.met.setdefault((who, what), Limit(self.loop.now(), who, what, remedy, self.version()))

    def between(
        self,
        since: datetime,
        until: int | None = None,
        pods: Collection[str] | None = None,
    ) -> list[str]:
        """Those met since a moment, before the write of resource version ``until``, a sentence each; ``pods``: by these
        pods, and by whoever is no pod.
        """
        found = [
            str(limit)
            for limit in self.met.values()
            if limit.at >= since
            and (until is None or limit.version < until)
            and (pods is None or limit.who in pods or not limit.who.startswith("Pod/"))
        ]
        more = [f"{len(found) - TOLD} more such answer(s)"] if len(found) > TOLD else []
        return found[:TOLD] + more
