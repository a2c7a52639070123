"""The API server answers badly for a while: 429, 503, broken connections."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec import Struct, field

from killcheck.capabilities.offered import Capability
from killcheck.clock import Loop
from killcheck.faults.base import Plan
from killcheck.faults.kubernetes.executor import ExecutorFault
from killcheck.layers.base import LayerRun, Stage

__all__ = ["ApiBrownout"]


class _Brownout(Struct):
    """Answers in the API server's place: a rate limit, a failure, a broken connection, in turns."""

    loop: Loop
    lasts_s: float
    until: datetime | None = None
    met: list[str] = field(default_factory=list)

    def __call__(self, request: Any) -> Any:
        from killcheck.embedded import RESET, Response

        now = self.loop.now()
        self.until = self.until or now + timedelta(seconds=self.lasts_s)
        if now >= self.until:
            return None
        turn = len(self.met) % 3
        self.met.append(f"{request.method} {request.path}")
        if turn == 2:
            return RESET
        code, reason = ((429, "TooManyRequests"), (503, "ServiceUnavailable"))[turn]
        return Response(
            code,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "code": code,
                "reason": reason,
                "message": "the server is overloaded (killcheck)",
            },
            {"Retry-After": "1"},
        )


class ApiBrownout(ExecutorFault):
    """Reproduces rows 24 and 26: an executor that tries once is one that fails."""

    name = "api-brownout"
    simulates = "the API server answers executors with 429, 503 and broken connections for a minute and a half"
    family = "network"
    failures = (24, 26)
    needs = (Capability.WIRE,)
    rank = 2

    #: How long it lasts from the first request on, in seconds.
    lasts_s: ClassVar[float] = 90.0

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """What comes in over the wire is answered badly."""
        return Plan(("requests that come over the wire are answered badly for a while",), edits=("the wire",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Put ourselves before the API server."""
        self.brownout = _Brownout(stage.cluster.loop, self.lasts_s)
        stage.journal.set_attribute(Capability.WIRE, self.simulates, "interceptor", self.brownout)
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Somebody was answered so: only executors come over the wire here."""
        met = getattr(self, "brownout", None)
        if met is None or not met.met:
            return None
        return f"{len(met.met)} request(s) answered badly, first: {met.met[0]}"
