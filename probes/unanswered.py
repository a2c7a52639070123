"""A workload that wakes, and a request that never reaches it."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube import http_routes
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
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
            if broken is not None and workload is None and world.incomplete:
                why = f"nobody is answered: {broken}, nor what it scales: both may be in what was not read"
                yield self.unproven(world, declared, why)
            elif broken is not None and (world.knows("Service") or not world.live):
                yield self.finding(world, declared, ("spec", "scaleTargetRef"), f"nobody is answered: {broken}")
            around = http_routes.past(declared, world.of("Ingress", "HTTPRoute", "VirtualService"))
            if around is not None:
                message = f"a request wakes nothing: {around}. While it sleeps, who asks gets a 502 or a 503"
                remedy = "Let the route lead to the interceptor (keda-add-ons-http-interceptor-proxy) for these hosts."
                yield self.finding(world, declared, ("spec", "hosts"), message, remedy=remedy)
            yield from self._impatient(world, declared, workload)
            if workload is not None and not any(map(http_routes.says_when_ready, pods)):
                message = (
                    "is ready as soon as it is started: the request that wakes it is sent before the model is loaded"
                )
                remedy = "Give it a readinessProbe that waits for the model."
                yield self.finding(world, workload, (), message, severity="note", remedy=remedy)

    def _impatient(self, world: World, declared: Obj, workload: Obj | None) -> Iterable[Finding]:
        """An interceptor that gives up before the workload can be there: whoever wakes it gets a 504."""
        patience_s, says = http_routes.gives_up(declared, world.of("Deployment"))
        if patience_s is None:
            return
        for wait_s, why in _cold_starts(world, declared, workload):
            if wait_s > patience_s:
                message = (
                    f"the interceptor gives up after {patience_s:.0f} s ({says}), and {why}: who wakes it gets a 504"
                )
                remedy = "Let timeouts.conditionWait be as long as the cold start."
                yield self.finding(world, declared, ("spec", "timeouts"), message, remedy=remedy)
                return

    @staticmethod
    def _workload(world: World, declared: Obj) -> Obj | None:
        ref = dig(declared, "spec", "scaleTargetRef", default={})
        return world.find(str(ref.get("kind") or "Deployment"), namespace_of(declared), str(ref.get("name") or ""))


def _pod(workload: Obj, spec: Obj, metadata: Obj) -> Obj:
    return {"metadata": {**metadata, "namespace": namespace_of(workload)}, "spec": spec}


def _cold_starts(world: World, declared: Obj, workload: Obj | None) -> Iterable[tuple[float, str]]:
    """How long a pod may take until it answers, and who says so."""
    for layer in world.kill_path.layers:
        ref = layer.scaler
        if ref and (ref.kind, ref.namespace, ref.name) == (
            "HTTPScaledObject",
            namespace_of(declared),
            name_of(declared),
        ):
            yield layer.cold_start_s or 0.0, f"coldStart of {layer.name} is {layer.cold_start_s or 0:.0f} s"
    for template in templates(workload) if workload else ():
        for container in template.spec.get("containers") or ():
            delay = dig(container, "readinessProbe", "initialDelaySeconds", default=0)
            if isinstance(delay, int):
                yield float(delay), f"its readinessProbe begins after {delay} s"
