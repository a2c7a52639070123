"""Who sends requests by a clock of its own to what sleeps until it is asked: a target that scales to zero never does.

A blackbox probe, a synthetic check, a CronJob with ``curl``: each request wakes the target, or keeps it awake. What
asks because a person does is none of these. Sources: KEDA's HTTP add-on (``hosts`` of an HTTPScaledObject); Knative and
KServe (NAME.NAMESPACE is the host of a Service and of an InferenceService); Prometheus operator, Probe.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from killcheck.kube.objects import Obj, dig
from killcheck.ledger.stakes import Stakes
from killcheck.text import lazy_re

__all__ = ["asks"]

#: Kinds of targets that wake by requests to a host of their own.
_SERVED = frozenset({("serving.knative.dev", "Service"), ("serving.kserve.io", "InferenceService")})
#: Fields that say that something comes again and again.
_BY_THE_CLOCK = lazy_re.compile(
    r'(?i)"(scrape_?|probe_?|check_?)?(interval|schedule|period|frequency|cron)(_?seconds)?":'
)


def asks(obj: Obj, stakes: Stakes) -> str | None:
    """What an object sends requests to by the clock, and that would wake a target, in a phrase; None: to nothing.

    An object that scales or routes to a target says nothing of when it is asked.
    """
    if obj in stakes.scalers or stakes.is_target(obj):
        return None
    hosts = list(_hosts(stakes))
    spoken = json.dumps(obj.get("spec"), default=str) if hosts else ""
    host = next((one for one in hosts if re.search(rf"(?<![\w.-]){re.escape(one)}(?![\w-])", spoken)), None)
    if host is None or not _BY_THE_CLOCK.search(spoken):
        return None
    return f"it asks {host} by the clock, and each request wakes what is asked"


def _hosts(stakes: Stakes) -> Iterator[str]:
    """By which hosts targets are woken."""
    for scaler in stakes.scalers:
        if scaler.get("kind") == "HTTPScaledObject":
            yield from (str(host) for host in dig(scaler, "spec", "hosts", default=[]))
    for held in stakes.targets:
        if (held.group, held.kind) in _SERVED:
            yield f"{held.name}.{held.namespace}"
            yield f"{held.name}-predictor.{held.namespace}"
