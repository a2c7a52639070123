"""Our models of KEDA and Kueue take the courses that the operators themselves were seen to take."""

from __future__ import annotations

import re

import pytest
from operator_courses import COURSES
from operators import LATE_S, Seen, differences, kept, on_embedded

#: What differs still, by course.
KNOWN: dict[str, tuple[str, ...]] = {
    "keda-two-over-one": (r"status.originalReplicaCount",),  # the second looked when the first had scaled
    "kueue-borrowed-and-reclaimed": (r"^event ",),  # which flavors were considered
    "kueue-deployment-unqueued": (r"gates", r"condition Finished"),  # topology is not modelled
    "kueue-queue-and-job-deleted": (r"condition Finished", r"Workloads"),  # of what goes at the same moment
    "kueue-no-queue": (r"^Workload/", r"^LocalQueue/"),  # our Kueue is idle until there is a ClusterQueue
}


@pytest.mark.parametrize("name", [name for name, course in COURSES.items() if kept(course)])
def test_the_model_does_what_the_operator_did(name):
    course = COURSES[name]
    real = kept(course)
    assert real is not None
    found = differences(real, on_embedded(course), course.end_s)
    assert [one for one in found if not any(re.search(known, one) for known in KNOWN.get(name, ()))] == []


def test_what_differs_is_told():
    real = Seen({("Deployment/a", "spec.replicas"): [(0.0, "1"), (5.0, "0")]}, {("a", "Normal", "R", "m"): 0.0})
    late = Seen({("Deployment/a", "spec.replicas"): [(0.0, "1"), (6.0 + LATE_S, "0")]}, dict(real.events))
    ours = Seen({("Deployment/a", "spec.replicas"): [(0.0, "1")]})
    assert differences(real, real, 9.0) == []
    assert differences(real, late, 9.0) == [f"Deployment/a spec.replicas 0: at {6.0 + LATE_S:.1f} s, not 5.0 s"]
    assert differences(real, ours, 9.0) == [
        "Deployment/a spec.replicas: 1 (0 s), not 1 (0 s), 0 (5 s)",
        "event a | Normal | R | m: not seen",
    ]
    assert Seen.from_json(real.as_json()) == real
