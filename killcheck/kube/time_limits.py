"""After how long the cluster ends a workload, whatever that does: by its own fields, or by those that Kueue reads."""

from __future__ import annotations

from killcheck.kube.objects import Obj, dig, labels_of
from killcheck.text.numbers import whole

__all__ = ["MOST", "limit_of"]

#: How many seconds a Job under Kueue may run: copied to its Workload when that is made.
MOST = "kueue.x-k8s.io/max-exec-time-seconds"
_QUEUE = "kueue.x-k8s.io/queue-name"


def limit_of(obj: Obj) -> float | None:
    """After how many seconds the cluster ends a Job; None: it lets it run, or the object is no Job."""
    if obj.get("kind") != "Job":
        return None
    most = labels_of(obj).get(MOST, "") if labels_of(obj).get(_QUEUE) else ""
    given = [dig(obj, "spec", "activeDeadlineSeconds"), whole(most)]
    return min((float(one) for one in given if isinstance(one, int) and one > 0), default=None)
