"""Probes: what they find, the events they make, the restarts they cause.

A container that really runs is asked (``probing.py``). A hollow one's probe passes unless its program is one that says
no (``false``, ``exit 1``). Source: pkg/kubelet/prober/{worker,prober,prober_manager}.go and kuberuntime of Kubernetes
v1.36; recording 23b. Workers tick every ``periodSeconds`` from the pod's first sight on, and when a container starts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from killcheck.embedded.nodes import stopping
from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.execution import Exit
from killcheck.embedded.nodes.probe_attempt import Answer, Look, answers
from killcheck.kube.container_probes import FAILURES, PERIOD_S
from killcheck.kube.objects import Obj, dig

if TYPE_CHECKING:
    from killcheck.embedded.nodes.pod_worker import PodWorker

__all__ = ["asked", "give_up", "refuses", "start"]

Kind = Literal["startup", "readiness", "liveness"]
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


def asked(life: PodWorker, container: Container) -> bool:
    """Whether anything is really asked before a container counts as ready: then its answers say when it is."""
    return any(answers(life, container, container.spec.get(f"{kind}Probe")) for kind in ("startup", "readiness"))


def start(life: PodWorker, container: Container) -> None:
    """A container has begun to run: let its probes look."""
    if _looks(life, container, "startup"):
        _begin(life, container, "startup")
    else:
        _started(life, container)


def _started(life: PodWorker, container: Container) -> None:
    """The other probes wait for the startup probe."""
    _begin(life, container, "readiness")
    _begin(life, container, "liveness")


def _looks(life: PodWorker, container: Container, kind: Kind) -> bool:
    probe = container.spec.get(f"{kind}Probe")
    return refuses(probe) or answers(life, container, probe)


def _begin(life: PodWorker, container: Container, kind: Kind) -> None:
    if _looks(life, container, kind):
        _Worker(life, container, kind, container.spec.get(f"{kind}Probe") or {}).begin()


def give_up(life: PodWorker, container: Container, kind: Kind, started_at: object) -> None:
    """A hollow container has not answered for as long as a probe of it has patience: it is ended, and starts anew."""
    if not container.alive or container.started_at is not started_at or life.kubelet.stopped:
        return
    message = f"{kind.capitalize()} probe failed: HTTP probe failed with statuscode: 503"
    life.event("Warning", "Unhealthy", message, container)
    _Worker(life, container, kind, container.spec.get(f"{kind}Probe") or {})._act(False)


class _Worker:
    """One probe of one run of a container."""

    def __init__(self, life: PodWorker, container: Container, kind: Kind, probe: Obj) -> None:
        self.life = life
        self.container = container
        self.kind: Kind = kind
        self.probe = probe
        self.period_s = float(probe.get("periodSeconds") or PERIOD_S)
        self.delay_s = float(probe.get("initialDelaySeconds") or 0.0)
        self.threshold = {
            False: int(probe.get("failureThreshold") or FAILURES),
            True: int(probe.get("successThreshold") or 1),
        }
        self.count = 0
        self.last: bool | None = None
        self.run = container.started_at
        self._look: Look | None = None

    def begin(self) -> None:
        """The first look comes with the container's start, the next ones on the worker's grid."""
        age_s = (self.life.loop.now() - self.run).total_seconds() if self.run else 0.0
        waits_s = self.delay_s - age_s
        self.life.after(FIRST_S if waits_s <= 0 else self._to_grid(waits_s), self._tick)

    def _to_grid(self, least_s: float = 0.0) -> float:
        """Seconds to the worker's next tick that is more than ``least_s`` away."""
        age_s = (self.life.loop.now() - self.life.started_at).total_seconds()
        return (math.floor((age_s + least_s) / self.period_s) + 1) * self.period_s - age_s

    @property
    def _here(self) -> bool:
        return self.container.alive and self.container.started_at is self.run

    def _tick(self) -> None:
        life, container = self.life, self.container
        if not self._here:
            return
        ending = container.stopping or life.terminating
        if ending and self.kind != "readiness":  # readiness is asked to the end (StopLivenessAndStartup)
            return
        if life.kubelet.stopped:
            self._again()
        elif answers(life, container, self.probe):
            self._look = Look(life, container, self.probe, self._answered)
        else:
            self._answered(Answer("failure"))

    def _again(self) -> None:
        self.life.after(self._to_grid(), self._tick)

    def _answered(self, answer: Answer) -> None:
        if not self._here or self.life.gone:
            return
        life, container, name = self.life, self.container, self.kind.capitalize()
        if answer.verdict == "error":  # the result is thrown away
            life.event(
                "Warning",
                "Unhealthy",
                f"{name} probe errored and resulted in unknown state: {answer.output}",
                container,
            )
            self._again()
            return
        if answer.verdict == "failure":
            life.event("Warning", "Unhealthy", f"{name} probe failed: {answer.output}", container)
        elif answer.verdict == "warning":
            life.event("Warning", "ProbeWarning", f"{name} probe warning: {answer.output}", container)
        good = answer.verdict != "failure"
        self.count = self.count + 1 if good == self.last else 1
        self.last = good
        if self.count < self.threshold[good] or not self._act(good):
            self._again()

    def _act(self, good: bool) -> bool:
        """The result counts; True: there is nothing more to ask of this run."""
        life, container = self.life, self.container
        if self.kind == "readiness":
            if container.ready != good:
                container.ready = good
                life.show()
            return False
        if not good:
            life.event(
                "Normal",
                "Killing",
                f"Container {container.name} failed {self.kind} probe, will be restarted",
                container,
            )
            self._restart()
            return True
        if self.kind == "liveness":
            return False
        container.passed_startup = True
        container.ready = "readinessProbe" not in container.spec
        life.show()
        _started(life, container)
        if container.role == "sidecar":
            life.pass_in(0.0)
        return True

    def _restart(self) -> None:
        life, container = self.life, self.container
        stopping.stop(life, container, life.grace_s)
        life.after(life.grace_s, self._kill)

    def _kill(self) -> None:
        """The grace is over: what is still there is killed."""
        if self._here and not self.life.terminating:
            if self.container.running is not None:
                self.container.running.kill()
            else:
                self.life.exited(self.container, Exit(137, 9))
