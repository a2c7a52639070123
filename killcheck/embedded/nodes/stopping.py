"""How containers stop: their preStop hook, SIGTERM, and what those that nobody runs make of it.

Annotations of the pod change that: ``killcheck.dev/ignores-sigterm``, ``killcheck.dev/stops-after-s`` (SIGTERM to its
end).
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from killcheck.embedded.nodes import hooks
from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.execution import Exit
from killcheck.kube.objects import Obj, annotations_of, dig
from killcheck.kube.pod_annotations import IGNORES_SIGTERM, STOPS_AFTER
from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.embedded.nodes.pod_worker import PodWorker

__all__ = ["ignores_sigterm", "stop"]

#: Seconds from SIGTERM to the end of a server that handles it.
STOP_S = 1.5
#: Programs that, as the first process of a container, ignore SIGTERM: nobody installed a handler (recordings 01, 21b).
_DEAF = frozenset({"sleep", "tail", "cat", "sh", "bash", "ash", "dash", "python", "python3"})
#: A shell that shuts its ears: ``trap "" TERM`` (recordings 21, 21b, 30b).
_SHUT = lazy_re.compile(r"""trap\s+(?:""|'')\s+[^;\n]*\b(?:SIG)?(?:TERM|15)\b""")
_SLEEP = lazy_re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)([smhd]?)\b")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def stop(life: PodWorker, container: Container, grace_s: float) -> None:
    """preStop, then SIGTERM; whoever asks kills what is left at the end of the grace."""
    if container.stopping:
        return
    container.stopping = True
    if hooks.begin(life, container, "preStop", lambda _: _terminate(life, container)):
        return
    before = min(_pre_stop_s(container), grace_s)
    if before:
        life.after(before, _terminate, life, container)
    else:
        _terminate(life, container)


def _terminate(life: PodWorker, container: Container) -> None:
    if not container.alive or life.kubelet.stopped:
        return
    if container.running is not None:
        container.running.terminate()
    elif not ignores_sigterm(life, container):
        own = annotations_of(life.pod).get(STOPS_AFTER)
        life.after(float(own) if own else STOP_S, life.exited, container, _ended(life.pod))


def _ended(pod: Obj) -> Exit:
    """How a program that nobody runs ends at SIGTERM: a server has served, and what was to be done is not done."""
    serves = dig(pod, "spec", "restartPolicy", default="Always") == "Always"
    return Exit(0) if serves else Exit(128 + signal.SIGTERM, signal.SIGTERM)


def ignores_sigterm(life: PodWorker, container: Container) -> bool:
    """Whether the container's first process takes no notice of SIGTERM."""
    own = annotations_of(life.pod).get(IGNORES_SIGTERM)
    if own is not None:
        return own == "true"
    command = [*(container.spec.get("command") or ()), *(container.spec.get("args") or ())]
    if not container.spec.get("command") or command[0].rpartition("/")[2] not in _DEAF:
        return False
    text = " ".join(command[1:])
    if _SHUT.search(text):
        return True
    return not any(word in text for word in ("trap", "exec ", "signal"))


def _pre_stop_s(container: Container) -> float:
    """How long the preStop hook takes: a sleep's seconds; anything else is over at once."""
    hook = dig(container.spec, "lifecycle", "preStop", default={})
    if "sleep" in hook:
        return float(hook["sleep"].get("seconds", 0))
    text = " ".join(dig(hook, "exec", "command", default=[]))
    return sum(float(number) * _UNITS[unit] for number, unit in _SLEEP.findall(text))
