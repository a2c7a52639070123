"""Models rest while the workload of their own program is at zero, whether the manifests have it so or a switch.

A switch that scales Karpenter away before its targets has nobody left to remove their nodes; one that scales KEDA or
Argo CD away has nobody left to put them back. A workload of a model is known by its image
(:mod:`killcheck.kube.program_images`). Where no manifest shows one, its model runs as if it were elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from killcheck.clock import Loop
from killcheck.embedded.controllers.runtime import Informers
from killcheck.embedded.models.nodetermination import NodeTerminationHandler
from killcheck.kube import program_images
from killcheck.kube import resources as r
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, key_of
from killcheck.kube.resources import Resource
from killcheck.kube.workloads import templates

__all__ = ["OwnWorkloads"]

#: Models that look at the workloads of their own programs themselves: pods, variables and all.
_LOOK_THEMSELVES = frozenset({NodeTerminationHandler.name})


class Running(Protocol):
    """What runs, as a cluster has it."""

    @property
    def controllers(self) -> Collection[str]:
        """The names of those that run."""

    def stop_controller(self, name: str) -> None:
        """Stop one. Raises KeyError."""

    def start_controller(self, name: str) -> None:
        """Start again what was stopped."""


class OwnWorkloads:
    """The workloads of models' own programs, and which models rest because of them."""

    def __init__(self, running: Running, loop: Loop, informers: Informers) -> None:
        self.running, self.loop = running, loop
        #: By model and image: the workloads that run it, and whether each asks for a pod.
        self._asked: dict[tuple[str, str], dict[tuple[str, str, str], bool]] = {}
        self._rests: set[str] = set()
        for resource in (r.DEPLOYMENTS, r.STATEFULSETS):
            self._follow(resource, informers)

    def _follow(self, resource: Resource, informers: Informers) -> None:
        def changed(change: Change, _old: Obj | None, new: Obj) -> None:
            self._changed(resource.kind, change, new)

        informers.of(resource).handlers.append(changed)

    def _changed(self, kind: str, change: Change, obj: Obj) -> None:
        for template in templates({"kind": kind, "apiVersion": "apps/v1"} | obj):
            for container in program_images.acting(template):
                model = program_images.controller_of_image(container)
                if model is not None and model not in _LOOK_THEMSELVES:
                    image = program_images.repository_of(str(container["image"]))
                    asks = change != "deleted" and (obj.get("spec") or {}).get("replicas") != 0
                    self._asked.setdefault((model, image), {})[kind, *key_of(obj)] = asks
                    # Not at once: whoever else follows this workload is told of the change first.
                    self.loop.call_soon(self._settle, model)

    def _settle(self, model: str) -> None:
        """Several images of one program are all needed: without one of them it does nothing."""
        rests = any(not any(asked.values()) for (of, _), asked in self._asked.items() if of == model)
        if rests and model in self.running.controllers:
            self.running.stop_controller(model)
            self._rests.add(model)
        elif not rests and model in self._rests:
            self._rests.discard(model)
            self.running.start_controller(model)
