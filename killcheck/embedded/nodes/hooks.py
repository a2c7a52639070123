"""Commands of a container's lifecycle, in containers that really run.

Source: pkg/kubelet/kuberuntime/kuberuntime_container.go (startContainer, executePreStopHook) of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.execution import Enterable
from killcheck.kube.objects import dig

if TYPE_CHECKING:
    from killcheck.embedded.nodes.pod_worker import PodWorker

__all__ = ["begin"]


def begin(life: PodWorker, container: Container, hook: str, then: Callable[[bool], None]) -> bool:
    """Run ``postStart`` or ``preStop``; False: there is no such command that can be run here.

    ``then`` is told whether it went well, unless the container has ended meanwhile.
    """
    command = [str(word) for word in dig(container.spec, "lifecycle", hook, "exec", "command", default=[])]
    running, run = container.running, container.started_at
    if not command or not isinstance(running, Enterable):
        return False

    def ended(outcome: int | str) -> None:
        if not container.alive or container.started_at is not run or life.kubelet.stopped:
            return
        if outcome != 0:
            name = hook[0].upper() + hook[1:]
            life.event("Warning", f"Failed{name}Hook", f"{name}Hook failed", container)
        then(outcome == 0)

    running.command(command).start(lambda *_: None, ended)
    return True
