"""The executor's registry does not serve: unreachable, or its pull quota used up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from killcheck.capabilities.offered import Capability, present
from killcheck.faults.base import Evidence, Plan
from killcheck.faults.kubernetes.executor import COPY, ExecutorFault, containers, images, spared
from killcheck.faults.kubernetes.registries import NOWHERE, host_of, pull_failure
from killcheck.kube.objects import Obj
from killcheck.layers.base import LayerRun, Stage

__all__ = ["RegistryQuota", "RegistryUnreachable"]


class _RegistryFault(ExecutorFault):
    """The state of a registry, where it can be set."""

    family = "image"
    rank = 2
    state: ClassVar[str]
    shows = Evidence.TRIED

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The registries of the executor's images change their state."""
        return Plan(
            tuple(f"registry {host}: {self.state}" for host in self._hosts(layer)),
            edits=tuple(f"registry {host}.state" for host in self._hosts(layer)),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Set the state of every registry that the executor's images come from."""
        done = []
        registry = present(stage.cluster.capabilities.registry)
        for host in self._hosts(layer):
            what = f"registry {host}: {self.state}"
            before = registry.host(host).state
            stage.journal.call(Capability.REGISTRY, what, ("set_state", host, self.state), ("set_state", host, before))
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A kubelet's pull failed; or one that is tried here and now does, whether the executor had a copy or not."""
        hosts = self._hosts(layer)
        return (pull_failure(stage, *hosts) if hosts else "") or self._tried(stage, layer)

    def _tried(self, stage: Stage, layer: LayerRun) -> str | None:
        """What every image of the executor's is answered to a pull; None: one of them can be had."""
        if stage.timeline is None:
            return None
        registry = present(stage.cluster.capabilities.registry)
        said = [registry.would_refuse(image, stage.cluster.loop.now()) for image in images(layer)]
        return f"a pull that was tried now: {said[0]}" if said and all(said) else None

    @staticmethod
    def _hosts(layer: LayerRun) -> list[str]:
        return sorted({host_of(image) for image in images(layer)})


class RegistryQuota(_RegistryFault):
    """Reproduces row 4: 429 toomanyrequests, which a NAT's other users have earned."""

    name = "registry-quota"
    simulates = "the registry answers every pull with 429: the pull quota is used up"
    failures = (4,)
    needs = (Capability.REGISTRY,)
    state = "rate-limited"


class RegistryUnreachable(_RegistryFault):
    """Reproduces rows 3 and 5: on the embedded cluster the registry is down, and a cached image starts all the same.

    Elsewhere the drill's own copy asks a registry whose name does not resolve, so that no cached copy can help.
    """

    name = "registry-unreachable"
    simulates = "the registry of the executor's image cannot be reached"
    failures = (3, 5)
    state = "refusing"
    shows = Evidence.TRIED

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The registry's state, or nothing that exists."""
        if stage.cluster.capabilities.registry is not None:
            return super().plan(stage, layer)
        return Plan(
            (f"the drill's own copy of the Job pulls from {NOWHERE}, which does not resolve",), edits=(f"{COPY}.image",)
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Take the registry down, or point the drill's Job to one that is not there."""
        if stage.cluster.capabilities.registry is not None:
            return super().inject(stage, layer)

        def rewrite(template: Obj) -> None:
            for container in containers(template):
                image = container["image"]
                path = image.partition("/")[2] if host_of(image) != "docker.io" else image
                container["image"] = f"{NOWHERE}/{path}"

        stage.rewrites.append(rewrite)
        self.bars = True
        return [f"the drill's copy of the Job pulls from {NOWHERE}"]

    def spares(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Who runs the same image, where it is the drill's own copy that asks another registry."""
        return () if stage.cluster.capabilities.registry is not None else spared(stage, layer, self.name)

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The registry's state, or the kubelet's waiting reason."""
        if stage.cluster.capabilities.registry is not None:
            return super().bitten(stage, layer)
        return pull_failure(stage, NOWHERE)
