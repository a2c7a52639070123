"""What would have survived a fault: the remedy where a drill under it left the GPUs on.

What killcheck did itself is put back by the drill; to undo it again is nobody's work. What may *not* live here: why a
drill got stuck (:mod:`killcheck.diagnosis` says that, and of a drill without a fault also the remedy).
Source for nodes: karpenter.sh/docs/concepts/disruption (expireAfter and terminationGracePeriod of a NodePool end a node
in spite of PodDisruptionBudgets and of karpenter.sh/do-not-disrupt).
"""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.faults.base import Fault
from killcheck.text.remedies import ANOTHER, MACHINES

__all__ = ["remedy"]

_MACHINES = f"add {MACHINES} themselves (the cloud's own)"
_HOUR = "add a dead-man's switch that turns the targets off at a fixed hour, whatever is read then"

#: By the fault's family: what the layer would have had to be, or to have beside it.
_BY_FAMILY = {
    "image": f"keep the executor's image on its node and in a registry of your own, or add {ANOTHER}",
    "credentials": f"add {ANOTHER} with an identity of its own, and alert where the layer's run fails",
    "network": f"let the layer try again until it succeeds, or add {ANOTHER} and acts from somewhere else",
    "spot": f"add {ANOTHER} and needs no notice",
    "orchestrator": f"add {ANOTHER} and runs outside this control plane, and alert on GPU nodes that stay on",
    "schedule": f"add {ANOTHER} on a clock of its own, and alert where the schedule did not fire",
    "admission": f"exempt the executor from what refuses pods (namespace, priority, quota), or add {ANOTHER}",
    "rivals": f"hold the targets off (a sentinel that every starter asks), or add {ANOTHER} and acts again",
    "drain": f"give the NodePool expireAfter and terminationGracePeriod, or add {MACHINES}",
}
#: Of single faults, where the family's is not it.
_BY_NAME = {
    "issuer-keys-rotated": f"add {ANOTHER} and shows no token of this cluster (the cloud's own), and alert where a run "
    "fails",
    "command-missing": f"pin the executor's image by a digest that was tried, or add {ANOTHER}",
    **dict.fromkeys(
        ("cli-gone", "script-gone", "script-not-executable"),
        f"install the program with what its timer needs, as one package, or add {ANOTHER} from another machine",
    ),
    "proxy-in-the-way": f"set NO_PROXY for the API server in the executor's own template, or add {ANOTHER}",
    "sidecar-not-ready": f"leave the executor's pods out of injection, or add {ANOTHER} and acts from somewhere else",
    "sidecar-stays": "give the Job an activeDeadlineSeconds below the period of its schedule, or leave its pods out of "
    "injection",
    "dns-slow": "give the request 30 s and tries, or let it call $KUBERNETES_SERVICE_HOST, which is an address",
    "handshake-lost": f"give request and Job a time limit, so that the next try comes, and add {ANOTHER} and acts from "
    "somewhere else",
    **dict.fromkeys(
        ("certificate-ended", "node-clock-behind"),
        f"alert where a certificate ends or a clock is off, and add {ANOTHER} and asks another API (the cloud's own)",
    ),
    **dict.fromkeys(("reading-stuck", "trigger-fails", "queue-runaway", "never-idle"), _HOUR),
    "cli-no-effect": f"let the program look whether what it stopped has stopped, or add {ANOTHER}",
    "sentinel-lost": f"keep the sentinel where no reboot and no clean-up takes it, or add {ANOTHER}",
    **dict.fromkeys(
        ("disk-full", "disk-read-only", "machine-off", "machine-asleep", "clock-behind"),
        f"add {ANOTHER} and runs on another machine, and alert where the layer did not run",
    ),
    **dict.fromkeys(
        ("node-partitioned", "node-paused", "node-disconnected"),
        f"{_MACHINES}, and alert on GPU nodes that do not answer",
    ),
    "pool-floor": f"{_MACHINES}, or alert on GPU nodes that run nothing",
}


def remedy(faults: Sequence[Fault]) -> str | None:
    """What would have survived all of ``faults`` at once, each said once; empty without any."""
    said = (f"to survive {fault.name}: {_BY_NAME.get(_bare(fault)) or _BY_FAMILY[fault.family]}" for fault in faults)
    return "; ".join(dict.fromkeys(said))


def _bare(fault: Fault) -> str:
    """Its name without a named layer and without times."""
    return fault.name.partition("=")[0].partition("@")[0]
