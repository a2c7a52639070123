"""What is known of one pod on one node, and how its object comes to say it: containers, conditions, status, events.

What may *not* live here: what happens to the pod. The parts of its life (``starting``, ``stopping``, ``probes``,
``hooks``, ``resizing``) know this, and :mod:`podlife`, which knows them, calls them.

Source: pkg/kubelet/{kubelet,pod_workers}.go and kuberuntime/kuberuntime_manager.go of Kubernetes v1.36.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from killcheck.clock import Timer
from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.execution import Exit
from killcheck.embedded.nodes.node_agent import NodeAgent
from killcheck.embedded.nodes.podstatus import Conditions, initialized, phase_of
from killcheck.embedded.nodes.volumes import Volume
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, KubeError, NotFound
from killcheck.kube.machineless import HOLLOW
from killcheck.kube.objects import Obj, dig, format_time, labels_of, name_of, namespace_of, uid_of

__all__ = ["EXIT_SEEN_S", "WORKER_BACKOFF_S", "PodWorker"]

#: Seconds, as recorded on an idle machine: the second pass, which the sandbox's event triggers; from a container's end
#: to the status that shows it.
SECOND_PASS_S = 0.4
EXIT_SEEN_S = 0.2
#: ``workerBackOffPeriod`` with its jitter: 10 s and up to half as much again.
WORKER_BACKOFF_S = 10.0
_MEAN_S = 1.25 * WORKER_BACKOFF_S
#: How long a pod worker rests at most: a minute, with the same jitter.
RESYNC_S = 60.0


class PodWorker(ABC):
    """A pod as its kubelet knows it. ``pod`` is the newest object seen; every method runs with the loop's lock held."""

    def __init__(self, kubelet: NodeAgent, pod: Obj) -> None:
        self.kubelet = kubelet
        self.loop = kubelet.loop
        self.pod = pod
        self.uid = uid_of(pod)
        self.key = (namespace_of(pod), name_of(pod))
        self.containers = _containers(pod)
        #: Debugging containers, which count for nothing.
        self.ephemerals = [Container(spec, "ephemeral") for spec in pod["spec"].get("ephemeralContainers") or ()]
        self.conditions = Conditions(pod)
        #: Conditions of a resize that is under way, by type.
        self.resize_conditions: dict[str, Obj] = {}
        self.volumes: dict[str, Volume] | None = None
        self.started_at = self.loop.now()
        self.pod_ip = ""
        self.sandbox = False
        #: What its sandbox is called; drawn from nothing that others draw from.
        self.sandbox_id = self.uid.replace("-", "") * 2
        self.phase = "Pending"
        self.final = False
        self.terminating = False
        self.evicted: tuple[str, str] | None = None
        #: The condition that says that the kubelet ended it for its node's sake.
        self.disrupted: Obj | None = None
        self.gone = False
        self._passes = 0
        self._pass: Timer | None = None
        #: What this pass has said; since when it rests, in the loop's monotonic seconds.
        self._said: list[tuple[str, str, str, Container | None]] = []
        self._rests_since: float | None = None
        self._timers: list[Timer] = []
        self._shown: Obj | None = None
        self._shown_mark: object = None

    @property
    def policy(self) -> str:
        """restartPolicy."""
        return str(self.pod["spec"].get("restartPolicy", "Always"))

    @property
    def grace_s(self) -> float:
        """terminationGracePeriodSeconds."""
        return float(self.pod["spec"].get("terminationGracePeriodSeconds", 30))

    def shown_reason(self, container: Container) -> str:
        """Why a container waits, as the pod's status says it."""
        shown = self._shown or {}
        statuses: list[Obj] = [*shown.get("containerStatuses", ()), *shown.get("initContainerStatuses", ())]
        found = next((s for s in statuses if s["name"] == container.name), None)
        return str(dig(found, "state", "waiting", "reason", default="ContainerCreating"))

    @property
    def everything(self) -> list[Container]:
        """Its containers, and those for debugging."""
        return [*self.containers, *self.ephemerals]

    # -- what happens to it, above -------------------------------------------------------------------------
    @abstractmethod
    def one_pass(self) -> None:
        """Show what the pass before found, and act."""

    @abstractmethod
    def all_ended(self) -> None:
        """The last container of a pod that terminates has ended."""

    # -- passes --------------------------------------------------------------------------------------------
    def pass_in(self, delay_s: float) -> None:
        """Make a pass after ``delay_s`` seconds, or earlier if one is due earlier."""
        due = self.loop.monotonic() + delay_s
        if self._pass is not None and not self._pass.cancelled:
            if self._pass.when <= due:
                return
            self._pass.cancel()
        self._pass = self.loop.call_later(delay_s, self.one_pass)

    def retry(self, until: float | None = None) -> None:
        """Make a pass after the worker's back-off; the first retry comes with the sandbox's own event.

        ``until``: before that moment of the loop's no pass finds anything else, unless the pod is stirred; what none
        of them would write is left out, and counted (``None``: nobody knows).
        """
        self._passes += 1
        if self._passes == 1:
            self.pass_in(SECOND_PASS_S)
            return
        rest_s = 0.0 if until is None else min(until - self.loop.monotonic(), self._silent_s())
        if rest_s < 2 * WORKER_BACKOFF_S:
            self.pass_jittered(WORKER_BACKOFF_S)
            return
        self._rests_since = self.loop.monotonic()
        self.pass_in(rest_s + _MEAN_S * self.kubelet.rng.random())

    def stir(self) -> None:
        """Something has changed that it may rest for: the next pass is one that it would have made anyway."""
        if self._rests_since is not None:
            self.pass_in(_MEAN_S * self.kubelet.rng.random())

    def begin_pass(self) -> None:
        """Count what the passes that were left out would have said."""
        since, self._rests_since = self._rests_since, None
        said, self._said = self._said, []
        times = int((self.loop.monotonic() - since) / _MEAN_S) if since is not None else 0
        for kind, reason, message, container in said if times else ():
            self.kubelet.events.passed_over(times, self.pod, kind, reason, message, **self._about(container))

    def _silent_s(self) -> float:
        kinds = {kind for kind, *_ in self._said}
        return self.kubelet.events.silent_s(self.pod, kinds, api_version="v1", object_kind="Pod")

    def pass_jittered(self, delay_s: float) -> None:
        """Make a pass in ``delay_s`` seconds (a minute at most) and up to half as much again."""
        self.pass_in(min(delay_s, RESYNC_S) * (1 + 0.5 * self.kubelet.rng.random()))

    # -- containers ----------------------------------------------------------------------------------------
    def exited(self, container: Container, ended: Exit) -> None:
        """A container's process has ended."""
        if container.state == "exited":
            return
        container.state = "exited"
        container.exit = ended
        container.finished_at = self.loop.now()
        container.finished_mono = self.loop.monotonic()
        container.ready = container.passed_startup = False
        container.stopping = container.stopping and (self.terminating or container.role == "sidecar")
        if container.running is not None:
            container.log = container.running.log()
            container.running = None
        if self.terminating:
            if not any(c.alive for c in self.everything):
                self.all_ended()
        else:
            self.pass_in(EXIT_SEEN_S)

    def outcome_unknown(self, container: Container, why: str) -> None:
        """A container is not run here: it stays as if it ran, and nobody knows how it would end."""
        container.unknown = why
        container.running = None
        self.kubelet.unknown(self.pod, why)
        if container.alive and not self._has_machine:
            self.show()

    @property
    def _has_machine(self) -> bool:
        """False for a hollow node of a real cluster."""
        return HOLLOW not in labels_of(self.kubelet.node)

    def kill_one(self, container: Container, started_at: object) -> None:
        """The grace of one run of a container is over."""
        if container.alive and container.started_at is started_at and not self.kubelet.stopped:
            if container.running is not None:
                container.running.kill()
            else:
                self.exited(container, Exit(137, 9))

    # -- status --------------------------------------------------------------------------------------------
    def show(self) -> None:
        """Write the pod's status as it is now, where it differs from what was written last."""
        if self.gone or self.kubelet.stopped:
            return
        mark = self._mark()
        if mark == self._shown_mark:
            return
        status = self._status()
        if status == self._shown:
            return
        patch = {
            "metadata": {"uid": self.uid},
            "status": status
            | {
                "conditions": self._without(status["conditions"]),
                "$setElementOrder/conditions": self._order(status["conditions"]),
            },
        }
        try:
            self.kubelet.kube.patch(r.PODS, self.key[1], patch, self.key[0], kind="strategic", subresource="status")
            self._shown, self._shown_mark = status, mark
        except (NotFound, Conflict):  # the pod has gone, or another has its name
            return
        except KubeError:
            self._after(WORKER_BACKOFF_S, self.show)

    def _mark(self) -> object:
        """What the status is made of; most passes of a stuck pod find it as it was."""
        return (
            self.terminating,
            self.final,
            self.sandbox,
            self.evicted,
            self.pod_ip,
            self.phase,
            self.pod["metadata"].get("generation"),
            *(
                (
                    c.state,
                    c.reason,
                    c.message,
                    c.ready,
                    c.passed_startup,
                    c.restarts,
                    c.lost,
                    c.image_id,
                    c.container_id,
                )
                for c in self.everything
            ),
            *self.resize_conditions,
        )

    def _without(self, conditions: list[Obj]) -> list[Obj]:
        """Conditions as a strategic merge patch wants them: what one no longer has is null."""
        before = {c["type"]: c for c in (self._shown or {}).get("conditions", ())}
        gone = [{"type": kind, "$patch": "delete"} for kind in before if kind not in {c["type"] for c in conditions}]
        return [*(dict.fromkeys(before.get(c["type"], ())) | c for c in conditions), *gone]

    def _order(self, own: list[Obj]) -> list[Obj]:
        """Others' conditions come first (mergePodStatus, kubelet_pods.go)."""
        types = [c["type"] for c in own]
        others = [c["type"] for c in dig(self.pod, "status", "conditions", default=[]) if c["type"] not in types]
        return [{"type": kind} for kind in (*others, *types)]

    def _status(self) -> Obj:
        terminal = self.terminating or self.evicted is not None
        computed = phase_of(self.containers, self.policy, terminal=terminal)
        if computed not in ("Succeeded", "Failed") or self.final:
            self.phase = computed
        now = self.loop.now()
        generation = int(self.pod["metadata"].get("generation") or 0)
        waiting = "PodInitializing" if initialized(self.containers) and self.sandbox else "ContainerCreating"
        unstarted = any(c.role == "main" and c.state == "none" for c in self.containers)
        reasoned = "Pending" if unstarted and terminal else computed
        status: Obj = {
            "phase": self.phase,
            "conditions": [
                *self.resize_conditions.values(),
                *([self.disrupted] if self.disrupted else ()),
                *self.conditions.render(
                    self.containers,
                    reasoned,
                    sandbox=self.sandbox,
                    now=now,
                    generation=generation,
                    machine=self._has_machine,
                ),
            ],
            "startTime": format_time(self.started_at),
            "hostIP": self.kubelet.host_ip,
            "hostIPs": [{"ip": self.kubelet.host_ip}],
            "containerStatuses": [c.status(self.policy, waiting) for c in self.containers if c.role == "main"],
            "resources": {},
        }
        inits = [c.status(self.policy, "PodInitializing") for c in self.containers if c.role != "main"]
        if inits:
            status["initContainerStatuses"] = inits
        if self.ephemerals:
            status["ephemeralContainerStatuses"] = [c.status(self.policy, waiting) for c in self.ephemerals]
        if generation:
            status["observedGeneration"] = generation
        if self.pod_ip:
            status |= {"podIP": self.pod_ip, "podIPs": [{"ip": self.pod_ip}]}
        if self.evicted:
            status["reason"], status["message"] = self.evicted
        return status

    def event(self, kind: str, reason: str, message: str, container: Container | None = None) -> None:
        """Say something about the pod, or one container of it."""
        self._said.append((kind, reason, message, container))
        self.kubelet.events.emit(self.pod, kind, reason, message, **self._about(container))

    def _about(self, container: Container | None) -> dict[str, str]:
        path = ""
        if container is not None:
            listed = {"main": "containers", "ephemeral": "ephemeralContainers"}.get(container.role, "initContainers")
            path = f"spec.{listed}{{{container.name}}}"
        return {"field_path": path, "api_version": "v1", "object_kind": "Pod"}

    # -- inside --------------------------------------------------------------------------------------------
    def after(self, delay_s: float, fn: object, *args: object) -> Timer:
        """A timer that ends with the pod."""
        timer = self.loop.call_later(delay_s, fn, *args)  # type: ignore[arg-type]
        if len(self._timers) > 16:
            self._timers = [t for t in self._timers if not t.cancelled and t.when >= self.loop.monotonic()]
        self._timers.append(timer)
        return timer

    _after = after


def _containers(pod: Obj) -> list[Container]:
    found = []
    for spec in pod["spec"].get("initContainers") or ():
        found.append(Container(spec, "sidecar" if spec.get("restartPolicy") == "Always" else "init"))
    return found + [Container(spec, "main") for spec in pod["spec"]["containers"]]
