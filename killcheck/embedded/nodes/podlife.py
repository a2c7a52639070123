"""One pod on one node, from the kubelet's first sight of it to its object's end.

A pod worker's pass shows what the pass before found and then acts: that is why the waiting reason of a container lags
its events by one pass (recording 28b). Passes happen when something changed, and 10 to 15 s after one that failed.

Source: pkg/kubelet/{kubelet,pod_workers}.go and kuberuntime/kuberuntime_manager.go of Kubernetes v1.36; recordings 01,
02, 04-07, 20-22, 28b, 28c, 33.
"""

from __future__ import annotations

from datetime import timedelta
from math import inf

from killcheck.clock import Timer
from killcheck.embedded.nodes import starting, stopping
from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.environment import Context
from killcheck.embedded.nodes.execution import Exit
from killcheck.embedded.nodes.node_agent import NodeAgent
from killcheck.embedded.nodes.pod_worker import EXIT_SEEN_S, WORKER_BACKOFF_S, PodWorker
from killcheck.embedded.nodes.podstatus import phase_of
from killcheck.embedded.nodes.resizing import Resizing
from killcheck.embedded.nodes.volumes import MountError, volumes_of
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.objects import Obj, dig, parse_time

__all__ = ["PodLife"]

#: Seconds, as recorded on an idle machine: sandbox and network; from the status that shows a container's end to the
#: pod's final phase; from the last container's end to the removal of a deleted pod's object.
SANDBOX_S = 0.45
FINAL_PHASE_S = 1.1
REMOVAL_S = 0.4
#: Retries of a failing mount: doubled up to 2 min 2 s.
MOUNT_RETRY_S = 0.5
MOUNT_RETRY_MAX_S = 122.0
#: The shortest grace that a kubelet gives.
MINIMUM_GRACE_S = 2.0


class PodLife(PodWorker):
    """What happens to a pod: its passes, and its end."""

    def __init__(self, kubelet: NodeAgent, pod: Obj) -> None:
        super().__init__(kubelet, pod)
        self.resizing = Resizing(self)
        self._kill_at = 0.0
        self._killer: Timer | None = None
        self._mount_delay_s = MOUNT_RETRY_S

    # -- life ----------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """The kubelet has seen the pod for the first time."""
        started = dig(self.pod, "status", "startTime")
        if started:
            self.started_at = parse_time(started)
        if self.pod["metadata"].get("deletionTimestamp"):
            self._lose_all()
            self.all_ended()
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
        self.stir()
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
        self.kubelet.dropped(self.uid)

    def vanish(self) -> None:
        """The machine is gone, and all that ran on it."""
        self._cancel()
        for container in self.everything:
            if container.running is not None:
                container.running.kill()
            container.state = "exited"

    # -- passes --------------------------------------------------------------------------------------------
    def resume(self, pod: Obj) -> None:
        """The kubelet works again: take up what was left."""
        self.pod = pod
        deleted = pod["metadata"].get("deletionTimestamp")
        if self.terminating:
            if any(c.alive for c in self.everything):
                self._kill_by(max(self._kill_at, self.loop.monotonic() + MINIMUM_GRACE_S))
            else:
                self.all_ended()
        elif deleted:
            left = (parse_time(deleted) - self.loop.now()).total_seconds()
            self.terminate(max(left, MINIMUM_GRACE_S))
        elif not self.sandbox and not self.final:
            self._after(SANDBOX_S, self._make_sandbox)
        else:
            self.pass_in(EXIT_SEEN_S)

    def one_pass(self) -> None:
        """Show what the pass before found, and act."""
        self._pass = None
        if self.terminating or self.final or self.gone or self.kubelet.stopped:
            return
        self.begin_pass()
        self.show()
        starting.advance(self)
        self._finish_if_done()

    def _make_sandbox(self) -> None:
        if self.terminating or self.kubelet.stopped:
            return
        try:
            pod_ip = self.kubelet.next_pod_ip(self.pod)
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

    def evict(self, reason: str, message: str, within_s: float = inf) -> None:
        """End the pod from the kubelet's side, within ``within_s`` seconds: its object stays, Failed."""
        self.evicted = (reason, message)
        self.terminate(min(self.grace_s, within_s))

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

    def all_ended(self) -> None:
        """The last container of a pod that terminates has ended."""
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

    def _cancel(self) -> None:
        for timer in (*self._timers, *([self._pass] if self._pass else ())):
            timer.cancel()
        self._timers.clear()
        self._pass = None
