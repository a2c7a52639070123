"""Containers that nobody runs, starting: servers that get ready and serve until they are told to stop.

Annotations of the pod change that: ``killcheck.dev/ready-after-s`` (seconds until it is ready),
``killcheck.dev/never-ready``. How they stop: :mod:`killcheck.embedded.nodes.stopping`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from killcheck.embedded.nodes import probes
from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.execution import Exit
from killcheck.kube.objects import annotations_of, dig

if TYPE_CHECKING:
    from killcheck.embedded.nodes.pod_worker import PodWorker

__all__ = ["NEVER_READY", "READY_AFTER", "started"]

READY_AFTER = "killcheck.dev/ready-after-s"
NEVER_READY = "killcheck.dev/never-ready"


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
    own = annotations_of(life.pod).get(READY_AFTER)
    life.after(max(delay + 1.0, float(own) if own else 0.0), _passed, life, container, container.started_at)


def _passed(life: PodWorker, container: Container, started_at: object) -> None:
    if not container.alive or container.started_at is not started_at or life.kubelet.stopped:
        return
    container.passed_startup = container.ready = True
    life.show()
    if container.role == "sidecar":
        life.pass_in(0.0)


def _flag(life: PodWorker, name: str) -> bool:
    return annotations_of(life.pod).get(name) == "true"
