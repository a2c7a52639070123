"""Containers that nobody runs, starting: servers that get ready and serve until they are told to stop.

Annotations of the pod change that: ``killcheck.dev/ready-after-s`` (seconds until it is ready),
``killcheck.dev/never-ready``. A startupProbe or livenessProbe that has less patience than that ends them, and they
begin anew. How they stop: :mod:`killcheck.embedded.nodes.stopping`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from killcheck.embedded.nodes import probes
from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.execution import Exit
from killcheck.kube.container_probes import patience
from killcheck.kube.objects import annotations_of, dig
from killcheck.kube.pod_annotations import NEVER_READY, READY_AFTER

if TYPE_CHECKING:
    from killcheck.embedded.nodes.pod_worker import PodWorker

__all__ = ["started"]


def started(life: PodWorker, container: Container) -> None:
    """A container has begun to run: pass its probes when they would pass."""
    spec = container.spec
    container.passed_startup = "startupProbe" not in spec
    container.ready = container.passed_startup and "readinessProbe" not in spec and container.role != "init"
    if container.role == "ephemeral":
        return
    if container.role != "init":
        probes.start(life, container)
    if container.role == "init":
        if container.running is None and not container.unknown:
            life.after(0.05, life.exited, container, Exit(0))
        return
    ended = _ended_by_a_probe(life, container)
    if container.passed_startup and container.ready:
        if container.role == "sidecar":
            life.pass_in(0.0)
        return
    kinds = ("startupProbe", "readinessProbe")
    if _flag(life, NEVER_READY) or any(probes.refuses(spec.get(kind)) for kind in kinds):
        return
    if probes.asked(life, container):
        return
    delay = sum(float(dig(spec, kind, "initialDelaySeconds", default=0)) for kind in kinds)
    if not ended:
        life.after(max(delay + 1.0, _loads_s(life, container)), _passed, life, container, container.started_at)


def _ended_by_a_probe(life: PodWorker, container: Container) -> bool:
    """Whether a probe that is not asked has less patience than it takes to be ready; then it ends the container."""
    kind, patience_s = patience(container.spec)
    if kind is None or _loads_s(life, container) <= patience_s or probes.asked(life, container):
        return False
    life.after(patience_s + probes.FIRST_S, probes.give_up, life, container, kind, container.started_at)
    return True


def _loads_s(life: PodWorker, container: Container) -> float:
    """How long it takes to be ready, where somebody says so: the pod's annotation, a fault."""
    own = annotations_of(life.pod).get(READY_AFTER)
    return float(own) if own else life.kubelet.registry.loads_s.get(str(container.spec.get("image")), 0.0)


def _passed(life: PodWorker, container: Container, started_at: object) -> None:
    if not container.alive or container.started_at is not started_at or life.kubelet.stopped:
        return
    container.passed_startup = container.ready = True
    life.show()
    if container.role == "sidecar":
        life.pass_in(0.0)


def _flag(life: PodWorker, name: str) -> bool:
    return annotations_of(life.pod).get(name) == "true"
