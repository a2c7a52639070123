"""A workload that wakes, and a request that never reaches it."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube import http_routes
from killcheck.kube.objects import Obj, dig, namespace_of
from killcheck.kube.workloads import templates

__all__ = ["Unanswered"]


class Unanswered(Probe):
    """Where the first request gets a 502 or a 504, somebody turns the scaler off, and the GPUs stay on for good."""

    id = "unanswered"
    claim = "A request wakes what sleeps, reaches it, and is not sent before the model is loaded."
    remedy = "Let scaleTargetRef name the workload, its Service and a port of that; give the server a readinessProbe."
    severity = "error"
    failures = (27,)
    sources = (
        "kedacore/http-add-on interceptor/middleware/endpoint_resolver.go",
        "kedacore/http-add-on CHANGELOG v0.9.0 (scaleTargetRef.deployment)",
        "kubernetes.io/docs: readiness probes, Services without ready endpoints",
    )
    needs = ("HTTPScaledObject",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Each HTTPScaledObject: where its requests go, and whether they wait for the model."""
        services = list(world.of("Service"))
        for declared in world.of("HTTPScaledObject"):
            workload = self._workload(world, declared)
            pods = [] if workload is None else [_pod(workload, one.spec, one.metadata) for one in templates(workload)]
            broken = http_routes.broken(declared, services, pods)
            if broken is not None and (world.knows("Service") or not world.live):
                yield self.finding(world, declared, ("spec", "scaleTargetRef"), f"nobody is answered: {broken}")
            around = http_routes.past(declared, world.of("Ingress", "HTTPRoute", "VirtualService"))
            if around is not None:
                message = f"a request wakes nothing: {around}. While it sleeps, who asks gets a 502 or a 503"
                remedy = "Let the route lead to the interceptor (keda-add-ons-http-interceptor-proxy) for these hosts."
                yield self.finding(world, declared, ("spec", "hosts"), message, remedy=remedy)
            if workload is not None and not any(map(http_routes.says_when_ready, pods)):
                message = (
                    "is ready as soon as it is started: the request that wakes it is sent before the model is loaded"
                )
                remedy = "Give it a readinessProbe that waits for the model."
                yield self.finding(world, workload, (), message, severity="note", remedy=remedy)

    @staticmethod
    def _workload(world: World, declared: Obj) -> Obj | None:
        ref = dig(declared, "spec", "scaleTargetRef", default={})
        return world.find(str(ref.get("kind") or "Deployment"), namespace_of(declared), str(ref.get("name") or ""))


def _pod(workload: Obj, spec: Obj, metadata: Obj) -> Obj:
    return {"metadata": {**metadata, "namespace": namespace_of(workload)}, "spec": spec}
