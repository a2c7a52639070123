"""Probes that fail: the events they make, and the restarts they cause.

A hollow container's probe passes unless its program is one that says no (``false``, ``exit 1``). Source: pkg/kubelet/
prober/{worker,prober}.go and kuberuntime of Kubernetes v1.36; recording 23b. Workers tick every ``periodSeconds`` from
the pod's first sight on, and when a container starts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.execution import Exit
from killcheck.kube.objects import Obj, dig

if TYPE_CHECKING:
    from killcheck.embedded.nodes.podlife import PodLife

__all__ = ["refuses", "start"]

Kind = Literal["startup", "readiness", "liveness"]
#: prober defaults (v1 SetDefaults_Probe).
PERIOD_S, FAILURES = 10.0, 3
#: From a container's start to the first look, seconds.
FIRST_S = 0.03


def refuses(probe: Obj | None) -> bool:
    """Whether a probe is a program that says no, whatever it is asked."""
    command = [str(word) for word in dig(probe, "exec", "command", default=[])]
    if not command:
        return False
    name = command[0].rpartition("/")[2]
    shell = name in ("sh", "bash", "ash", "dash") and command[1:2] in (["-c"], ["-ec"]) and len(command) > 2
    return name == "false" or (shell and command[2].strip() in ("false", "exit 1"))


def start(life: PodLife, container: Container) -> None:
    """A container has begun to run: let its failing probes fail."""
    spec = container.spec
    startup = refuses(spec.get("startupProbe"))
    kinds: tuple[Kind, ...] = ("startup",) if startup else ("readiness", "liveness")
    for kind in kinds:  # the others wait for the startup probe
        probe = spec.get(f"{kind}Probe")
        if refuses(probe):
            _Worker(life, container, kind, probe or {}).begin()


class _Worker:
    """One probe of one run of a container."""

    def __init__(self, life: PodLife, container: Container, kind: Kind, probe: Obj) -> None:
        self.life = life
        self.container = container
        self.kind = kind
        self.period_s = float(probe.get("periodSeconds") or PERIOD_S)
        self.delay_s = float(probe.get("initialDelaySeconds") or 0.0)
        self.threshold = int(probe.get("failureThreshold") or FAILURES)
        self.failures = 0
        self.run = container.started_at

    def begin(self) -> None:
        """The first look comes with the container's start, the next ones on the worker's grid."""
        self.life.after(FIRST_S if not self.delay_s else self._to_grid(self.delay_s), self._tick)

    def _to_grid(self, least_s: float = 0.0) -> float:
        """Seconds to the worker's next tick that is more than ``least_s`` away."""
        age_s = (self.life.loop.now() - self.life.started_at).total_seconds()
        return (math.floor((age_s + least_s) / self.period_s) + 1) * self.period_s - age_s

    def _tick(self) -> None:
        life, container = self.life, self.container
        if not container.alive or container.started_at is not self.run:
            return
        ending = container.stopping or life.terminating
        if ending and self.kind != "readiness":  # readiness is asked to the end (StopLivenessAndStartup)
            return
        if life.kubelet.stopped:
            life.after(self._to_grid(), self._tick)
            return
        self.failures += 1
        life.event("Warning", "Unhealthy", f"{self.kind.capitalize()} probe failed: ", container)
        if self.kind == "readiness" or self.failures < self.threshold:
            life.after(self._to_grid(), self._tick)
            return
        life.event(
            "Normal", "Killing", f"Container {container.name} failed {self.kind} probe, will be restarted", container)
        self._restart()

    def _restart(self) -> None:
        from killcheck.embedded.nodes import hollow

        life, container = self.life, self.container
        hollow.stop(life, container, life.grace_s)
        life.after(life.grace_s, self._kill)

    def _kill(self) -> None:
        """The grace is over: what is still there is killed."""
        if self.container.alive and self.container.started_at is self.run and not self.life.terminating:
            if self.container.running is not None:
                self.container.running.kill()
            else:
                self.life.exited(self.container, Exit(137, 9))
