"""One pod on one node, from the kubelet's first sight of it to its object's end.

A pod worker's pass shows what the pass before found and then acts: that is why the waiting reason of a container lags
its events by one pass (recording 28b). Passes happen when something changed, and 10 to 15 s after one that failed.

Source: pkg/kubelet/{kubelet,pod_workers}.go and kuberuntime/kuberuntime_manager.go of Kubernetes v1.36; recordings 01,
02, 04-07, 20-22, 28b, 28c, 33.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from killcheck.clock import Timer
from killcheck.embedded.nodes import starting, stopping
from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.environment import Context
from killcheck.embedded.nodes.execution import Exit
from killcheck.embedded.nodes.podstatus import Conditions, initialized, phase_of
from killcheck.embedded.nodes.resizing import Resizing
from killcheck.embedded.nodes.volumes import MountError, Volume, volumes_of
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, KubeError, NotFound
from killcheck.kube.machineless import HOLLOW
from killcheck.kube.objects import Obj, dig, format_time, labels_of, name_of, namespace_of, parse_time, uid_of

if TYPE_CHECKING:
    from killcheck.embedded.nodes.kubelet import Kubelet

__all__ = ["PodLife"]

#: Seconds, as recorded on an idle machine: sandbox and network; the second pass, which the sandbox's event triggers;
#: from a container's end to the status that shows it; from there to the pod's final phase; from the last container's
#: end to the removal of a deleted pod's object.
SANDBOX_S = 0.45
SECOND_PASS_S = 0.4
EXIT_SEEN_S = 0.2
FINAL_PHASE_S = 1.1
REMOVAL_S = 0.4
#: ``workerBackOffPeriod`` with its jitter: 10 s and up to half as much again.
WORKER_BACKOFF_S = 10.0
#: How long a pod worker rests at most: a minute, with the same jitter.
RESYNC_S = 60.0
#: Retries of a failing mount: doubled up to 2 min 2 s.
MOUNT_RETRY_S = 0.5
MOUNT_RETRY_MAX_S = 122.0
#: The shortest grace that a kubelet gives.
MINIMUM_GRACE_S = 2.0


class PodLife:
    """A pod worker. ``pod`` is the newest object seen; every method runs with the loop's lock held."""

    def __init__(self, kubelet: Kubelet, pod: Obj) -> None:
        self.kubelet = kubelet
        self.loop = kubelet.loop
        self.pod = pod
        self.uid = uid_of(pod)
        self.key = (namespace_of(pod), name_of(pod))
        self.containers = _containers(pod)
        #: Debugging containers, which count for nothing.
        self.ephemerals = [Container(spec, "ephemeral") for spec in pod["spec"].get("ephemeralContainers") or ()]
        self.resizing = Resizing(self)
        self.conditions = Conditions(pod)
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
        self.gone = False
        self._passes = 0
        self._pass: Timer | None = None
        self._timers: list[Timer] = []
        self._kill_at = 0.0
        self._killer: Timer | None = None
        self._mount_delay_s = MOUNT_RETRY_S
        self._shown: Obj | None = None
        self._shown_mark: object = None

    # -- life ----------------------------------------------------------------------------------------------
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

    def begin(self) -> None:
        """The kubelet has seen the pod for the first time."""
        started = dig(self.pod, "status", "startTime")
        if started:
            self.started_at = parse_time(started)
        if self.pod["metadata"].get("deletionTimestamp"):
            self._lose_all()
            self._end_soon()
            return
        self.show()
        self._after(SANDBOX_S, self._make_sandbox)
        deadline = self.pod["spec"].get("activeDeadlineSeconds")
        if deadline is not None:
            due = self.started_at + timedelta(seconds=float(deadline))
            self._timers.append(self.loop.call_at_time(due, self._past_deadline))

    def update(self, pod: Obj) -> None:
        """The object has changed."""
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            # Deleted by force: the object is as good as gone, and its processes run on (as seen, for minutes).
            self.terminate(grace if grace or self.terminating else self.grace_s)
            return
        known = {c.name for c in self.ephemerals}
        fresh = [c for c in pod["spec"].get("ephemeralContainers") or () if c["name"] not in known]
        self.ephemerals += [Container(spec, "ephemeral") for spec in fresh]
        if fresh and self.sandbox:
            self.pass_in(0.0)
        self._redefine()
        self.resizing.look()

    def _redefine(self) -> None:
        """A container with another image starts again, whatever the restart policy (computePodActions)."""
        wanted = {
            c["name"]: c["image"] for kind in ("initContainers", "containers") for c in self.pod["spec"].get(kind) or ()
        }
        for container in self.containers:
            image = wanted.get(container.name, container.spec["image"])
            if container.role == "init" or image == container.spec["image"] or self.terminating or self.final:
                continue
            container.spec = container.spec | {"image": image}
            if container.alive and not container.stopping:
                self.event(
                    "Normal", "Killing", f"Container {container.name} definition changed, will be restarted", container
                )
                container.again = True
                stopping.stop(self, container, self.grace_s)
                self._after(self.grace_s, self.kill_one, container, container.started_at)
            elif not container.alive:
                self.pass_in(0.0)

    def kill_one(self, container: Container, started_at: object) -> None:
        """The grace of one run of a container is over."""
        if container.alive and container.started_at is started_at and not self.kubelet.stopped:
            if container.running is not None:
                container.running.kill()
            else:
                self.exited(container, Exit(137, 9))

    @property
    def everything(self) -> list[Container]:
        """Its containers, and those for debugging."""
        return [*self.containers, *self.ephemerals]

    def removed(self) -> None:
        """The object is gone: by our own removal, or by force while containers still run."""
        self.gone = True
        if any(c.alive for c in self.everything):
            self.terminate(self.grace_s)
        else:
            self.forget()

    def forget(self) -> None:
        """Nothing of the pod is left on the node."""
        self._cancel()
        self.kubelet.dropped(self)

    def vanish(self) -> None:
        """The machine is gone, and all that ran on it."""
        self._cancel()
        for container in self.everything:
            if container.running is not None:
                container.running.kill()
            container.state = "exited"

    # -- passes --------------------------------------------------------------------------------------------
    def pass_in(self, delay_s: float) -> None:
        """Make a pass after ``delay_s`` seconds, or earlier if one is due earlier."""
        due = self.loop.monotonic() + delay_s
        if self._pass is not None and not self._pass.cancelled:
            if self._pass.when <= due:
                return
            self._pass.cancel()
        self._pass = self.loop.call_later(delay_s, self._one_pass)

    def retry(self) -> None:
        """Make a pass after the worker's back-off; the first retry comes with the sandbox's own event."""
        self._passes += 1
        if self._passes == 1:
            self.pass_in(SECOND_PASS_S)
        else:
            self.pass_jittered(WORKER_BACKOFF_S)

    def pass_jittered(self, delay_s: float) -> None:
        """Make a pass in ``delay_s`` seconds (a minute at most) and up to half as much again."""
        self.pass_in(min(delay_s, RESYNC_S) * (1 + 0.5 * self.kubelet.rng.random()))

    def resume(self, pod: Obj) -> None:
        """The kubelet works again: take up what was left."""
        self.pod = pod
        deleted = pod["metadata"].get("deletionTimestamp")
        if self.terminating:
            if any(c.alive for c in self.everything):
                self._kill_by(max(self._kill_at, self.loop.monotonic() + MINIMUM_GRACE_S))
            else:
                self._end_soon()
        elif deleted:
            left = (parse_time(deleted) - self.loop.now()).total_seconds()
            self.terminate(max(left, MINIMUM_GRACE_S))
        elif not self.sandbox and not self.final:
            self._after(SANDBOX_S, self._make_sandbox)
        else:
            self.pass_in(EXIT_SEEN_S)

    def _one_pass(self) -> None:
        self._pass = None
        if self.terminating or self.final or self.gone or self.kubelet.stopped:
            return
        self.show()
        starting.advance(self)
        self._finish_if_done()

    def _make_sandbox(self) -> None:
        if self.terminating or self.kubelet.stopped:
            return
        try:
            pod_ip = self.kubelet.next_pod_ip(self)
            self.volumes = volumes_of(Context(self.pod, self.kubelet.node, self.kubelet.kube, pod_ip))
        except MountError as error:
            self._mount_failed(str(error))
            return
        except KubeError:  # the API server does not answer: as a mount that has to be tried again
            self._after(MOUNT_RETRY_S, self._make_sandbox)
            return
        self.pod_ip = pod_ip
        self.sandbox = True
        self.show()
        starting.advance(self)
        self._finish_if_done()

    def _mount_failed(self, message: str) -> None:
        self.event("Warning", "FailedMount", message)
        self.kubelet.lacks(self.pod, message)
        self._after(self._mount_delay_s, self._make_sandbox)
        self._mount_delay_s = min(self._mount_delay_s * 2, MOUNT_RETRY_MAX_S)

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
                self._end_soon()
        else:
            self.pass_in(EXIT_SEEN_S)

    def outcome_unknown(self, container: Container, why: str) -> None:
        """A container is not run here: it stays as if it ran, and nobody knows how it would end."""
        container.unknown = why
        container.running = None
        self.kubelet.unknown(self, why)
        if container.alive and not self._has_machine:
            self.show()

    @property
    def _has_machine(self) -> bool:
        """False for a hollow node of a real cluster."""
        return HOLLOW not in labels_of(self.kubelet.node)

    def _finish_if_done(self) -> None:
        if phase_of(self.containers, self.policy, terminal=False) in ("Succeeded", "Failed") and not self.final:
            others = [c for c in self.everything if c.role in ("sidecar", "ephemeral") and c.alive]
            if any(not c.stopping for c in others):
                self._after(self.grace_s, self._kill)
            for other in others:
                stopping.stop(self, other, self.grace_s)
            if not others and all(c.state != "running" for c in self.containers):
                self.show()
                self.final = True
                self._after(FINAL_PHASE_S, self._show_final)

    def _show_final(self) -> None:
        if not self.terminating:
            self.sandbox = False
            self.show()

    # -- the end -------------------------------------------------------------------------------------------
    def terminate(self, grace_s: float) -> None:
        """Stop every container within ``grace_s`` seconds of now; called again, it can only shorten that."""
        due = self.loop.monotonic() + grace_s
        if self.kubelet.stopped:
            return
        if self.terminating:
            if due < self._kill_at:
                self._kill_by(due)
            return
        self.terminating = True
        if self._pass is not None:
            self._pass.cancel()
        alive = [c for c in self.everything if c.alive]
        if not alive:
            self._nothing_ran()
            return
        self._kill_by(due)
        for container in alive:
            self.event("Normal", "Killing", f"Stopping container {container.name}", container)
            stopping.stop(self, container, grace_s)

    def evict(self, reason: str, message: str) -> None:
        """End the pod from the kubelet's side: its object stays, Failed."""
        self.evicted = (reason, message)
        self.terminate(self.grace_s)

    def _past_deadline(self) -> None:
        if self.terminating or self.final or self.kubelet.stopped:
            return
        message = "Pod was active on the node longer than the specified deadline"
        self.event("Normal", "DeadlineExceeded", "Pod was active on the node longer than specified deadline")
        self.evict("DeadlineExceeded", message)

    def _kill_by(self, due: float) -> None:
        self._kill_at = due
        if self._killer is not None:
            self._killer.cancel()
        self._killer = self.loop.call_at(due, self._kill)
        self._timers.append(self._killer)

    def _kill(self) -> None:
        if self.kubelet.stopped:
            return
        for container in self.everything:
            if container.alive:
                if container.running is not None:
                    container.running.kill()
                else:
                    self.exited(container, Exit(137, 9))

    def _nothing_ran(self) -> None:
        waiting = [c for c in self.containers if c.state == "none"]
        for container in waiting:
            container.reason = container.message = ""
        self.show()
        self.sandbox = False
        if waiting and not self.final:
            self._after(0.1, self.show)
            self._after(0.9, self._end_now, 0.02)
        else:
            self._after(0.05, self._end_now, REMOVAL_S)

    def _end_soon(self) -> None:
        self._after(EXIT_SEEN_S, self._end_now, REMOVAL_S)

    def _lose_all(self) -> None:
        for container in self.containers:
            container.lost = container.state == "none"

    def _end_now(self, removal_s: float) -> None:
        if self.kubelet.stopped:
            return
        self._lose_all()
        self.final = True
        self.sandbox = False
        if self.gone:
            self.forget()
            return
        self.show()
        self._cancel()
        if self.pod["metadata"].get("deletionTimestamp"):
            self._after(removal_s, self._remove)
        else:
            self.terminating = False

    def _remove(self) -> None:
        try:
            self.kubelet.kube.delete(r.PODS, self.key[1], self.key[0], uid=self.uid, grace_s=0)
        except NotFound:
            self.forget()
        except KubeError:
            self._after(WORKER_BACKOFF_S, self._remove)

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
            *self.resizing.conditions,
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
                *self.resizing.conditions.values(),
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
        path = ""
        if container is not None:
            listed = {"main": "containers", "ephemeral": "ephemeralContainers"}.get(container.role, "initContainers")
            path = f"spec.{listed}{{{container.name}}}"
        self.kubelet.events.emit(self.pod, kind, reason, message, field_path=path, api_version="v1", object_kind="Pod")

    # -- inside --------------------------------------------------------------------------------------------
    def after(self, delay_s: float, fn: object, *args: object) -> Timer:
        """A timer that ends with the pod."""
        timer = self.loop.call_later(delay_s, fn, *args)  # type: ignore[arg-type]
        if len(self._timers) > 16:
            self._timers = [t for t in self._timers if not t.cancelled and t.when >= self.loop.monotonic()]
        self._timers.append(timer)
        return timer

    _after = after

    def _cancel(self) -> None:
        for timer in (*self._timers, *([self._pass] if self._pass else ())):
            timer.cancel()
        self._timers.clear()
        self._pass = None


def _containers(pod: Obj) -> list[Container]:
    found = []
    for spec in pod["spec"].get("initContainers") or ():
        found.append(Container(spec, "sidecar" if spec.get("restartPolicy") == "Always" else "init"))
    return found + [Container(spec, "main") for spec in pod["spec"]["containers"]]
