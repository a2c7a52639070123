"""The pods that wait for a node: those to try now, those whose back-off runs, and those that nothing can help yet.

Source: pkg/scheduler/backend/queue of Kubernetes v1.36: one second after the first failure, doubled up to ten. Nobody
waits for that while the scheduler has nothing better to do (SchedulerPopFromBackoffQ, on by default since v1.33;
recording 32): who backs off only comes after everybody else. What failed for an error does wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from killcheck.clock import Loop, Timer
from killcheck.embedded.controllers.scheduler.nodes import PodInfo

__all__ = ["Backlog", "Waiting"]

FIRST_S = 1.0
LONGEST_S = 10.0


@dataclass(slots=True)
class Waiting:
    """A pod without a node. ``plugins`` are those that refused it; empty: any change may help."""

    info: PodInfo
    since: int
    attempts: int = 0
    failed_at: float = 0.0
    plugins: frozenset[str] = frozenset()
    active: bool = True
    erred: bool = False
    timer: Timer | None = field(default=None, repr=False)

    @property
    def ready_at(self) -> float:
        """When the back-off is over, in the loop's monotonic seconds."""
        if not self.attempts:
            return self.failed_at
        return self.failed_at + min(LONGEST_S, FIRST_S * 2.0 ** min(self.attempts - 1, 8))


class Backlog:
    """Calls ``run`` (once a moment) when a pod is ready to be tried."""

    def __init__(self, loop: Loop, run: Callable[[], None]) -> None:
        self.loop = loop
        self.run = run
        self.pods: dict[str, Waiting] = {}
        self._count = 0
        self._wake: Timer | None = None
        self.stopped = False

    def add(self, info: PodInfo) -> None:
        """A pod came, or changed so that it should be tried at once."""
        waiting = self.pods.get(info.uid)
        if waiting is None:
            self._count += 1
            waiting = self.pods[info.uid] = Waiting(info, self._count)
        waiting.info = info
        self._activate(waiting)

    def renew(self, info: PodInfo) -> None:
        """A pod changed in a way that matters to nothing but what is known of it."""
        waiting = self.pods.get(info.uid)
        if waiting is not None:
            waiting.info = info

    def drop(self, uid: str) -> None:
        """A pod has a node, or has gone."""
        waiting = self.pods.pop(uid, None)
        if waiting is not None and waiting.timer is not None:
            waiting.timer.cancel()

    def failed(self, uid: str, plugins: frozenset[str], *, retry: bool = False) -> None:
        """A pod was tried in vain; with ``retry`` (an error) again after its back-off, else when something changes."""
        waiting = self.pods.get(uid)
        if waiting is None:
            return
        waiting.active = False
        waiting.attempts += 1
        waiting.failed_at = self.loop.monotonic()
        waiting.plugins = plugins
        waiting.erred = retry
        if retry:
            self._activate(waiting)

    def changed(self, plugin: str, *, but: Callable[[Waiting], bool] = lambda _: False) -> None:
        """Something happened that concerns a plugin (empty: any): whoever it refused is tried again, ``but`` some."""
        for waiting in list(self.pods.values()):
            concerned = not plugin or not waiting.plugins or plugin in waiting.plugins
            if not waiting.active and concerned and not but(waiting):
                self._activate(waiting)

    def ready(self) -> list[Waiting]:
        """Everything that is ready, in the order in which to try it."""
        found = [waiting for waiting in self.pods.values() if waiting.active and waiting.timer is None]
        now = self.loop.monotonic()

        def turn(waiting: Waiting) -> tuple[float, ...]:
            backs_off = waiting.ready_at if waiting.attempts and waiting.ready_at > now else 0.0
            return backs_off, -waiting.info.priority, waiting.since

        return sorted(found, key=turn)

    def stop(self) -> None:
        """Forget all that is due."""
        self.stopped = True
        for waiting in self.pods.values():
            if waiting.timer is not None:
                waiting.timer.cancel()
        if self._wake is not None:
            self._wake.cancel()

    def _activate(self, waiting: Waiting) -> None:
        waiting.active = True
        if waiting.timer is not None:
            return
        left = waiting.ready_at - self.loop.monotonic()
        if waiting.erred and left > 0:
            waiting.timer = self.loop.call_later(left, self._due, waiting)
        else:
            self._call()

    def _due(self, waiting: Waiting) -> None:
        waiting.timer = None
        self._call()

    def _call(self) -> None:
        if self._wake is None and not self.stopped:
            self._wake = self.loop.call_soon(self._run)

    def _run(self) -> None:
        self._wake = None
        self.run()
