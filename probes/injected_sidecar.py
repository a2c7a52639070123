"""Sidecars that a webhook puts beside what turns GPUs off."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.injection import asked_for
from killcheck.kube.objects import Obj

__all__ = ["InjectedSidecar"]


class InjectedSidecar(Probe):
    """The mesh's proxy goes on when the program has ended: the Job never does, and Forbid skips every later night."""

    id = "injected-sidecar"
    claim = "No injector adds containers to what turns GPUs off."
    remedy = 'Leave its pods out of injection: sidecar.istio.io/inject: "false", linkerd.io/inject: disabled.'
    severity = "warning"
    failures = (11,)
    sources = ("istio/istio#11045", "istio/istio#11657", "istio/istio#11659")

    def ask(self, world: World) -> Iterable[Finding]:
        """Executors of layers whose pods, or whose namespace, ask for injection."""
        for one in world.layer_executors:
            namespace: Obj = world.find("Namespace", "", one.namespace) or {}
            mark = asked_for(one.template.metadata, namespace)
            if mark is not None and not _is_beside(one.template.spec, mark):
                message = f"{mark}: containers are added to its pods, and its Job ends when the last of them does"
                yield self.finding(world, one.owner, (*one.path[:-1], "metadata"), message)


def _is_beside(spec: Obj, mark: str) -> bool:
    """Whether the injector's container is written out as a native sidecar, which ends with the others."""
    sidecars = (c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always")
    return any(str(c.get("name", "")).partition("-")[0] in mark.partition("=")[0] for c in sidecars if c.get("name"))
