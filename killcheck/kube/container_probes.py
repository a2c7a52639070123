"""How long a container's probes let it be before they end it.

Source: pkg/kubelet/prober/worker.go of Kubernetes v1.36: a livenessProbe waits for the startupProbe where there is one.
"""

from __future__ import annotations

import math
from typing import Literal

from killcheck.kube.objects import Obj

__all__ = ["FAILURES", "PERIOD_S", "patience"]

#: Defaults (v1 SetDefaults_Probe).
PERIOD_S, FAILURES = 10.0, 3


def patience(container: Obj) -> tuple[Literal["startup", "liveness"] | None, float]:
    """Which probe ends a container that does not answer, and how many seconds after its start; None: none does."""
    kind: Literal["startup", "liveness"] = "startup" if "startupProbe" in container else "liveness"
    probe = container.get(f"{kind}Probe")
    if not probe:
        return None, math.inf
    failures = int(probe.get("failureThreshold") or FAILURES)
    period_s, delay_s = float(probe.get("periodSeconds") or PERIOD_S), float(probe.get("initialDelaySeconds") or 0.0)
    return kind, delay_s + (failures - 1) * period_s
