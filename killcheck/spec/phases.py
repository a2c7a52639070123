"""The phases that a drill can go through: one table, and one name for each wherever it is said."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["DAY_S", "PHASES", "Phase", "stuck_before", "words_of"]


class Phase(StrEnum):
    """In the order in which they come; not every layer has every phase. The value is what records and specs say."""

    TRIGGERED = "triggered"
    JOB_CREATED = "job_created"
    POD_CREATED = "pod_created"
    POD_SCHEDULED = "pod_scheduled"
    IMAGE_PULLED = "image_pulled"
    CONTAINER_STARTED = "container_started"
    EXECUTOR_FINISHED = "executor_finished"
    SCALE_WRITTEN = "scale_written"
    PODS_TERMINATING = "pods_terminating"
    PODS_GONE = "pods_gone"
    NODE_CORDONED = "node_cordoned"
    NODE_DRAINED = "node_drained"
    NODE_GONE = "node_gone"
    INSTANCE_GONE = "instance_gone"
    STARTS_REFUSED = "starts_refused"
    HELD = "held"

    @property
    def words(self) -> str:
        """As a person is told it."""
        return _WORDS.get(self, self.replace("_", " "))


#: Every hour has come in so many seconds.
DAY_S = 86400.0
#: All of them, in order.
PHASES = tuple(Phase)
#: Where the name alone does not say of what.
_WORDS = {
    Phase.TRIGGERED: "trigger pulled",
    Phase.JOB_CREATED: "Job created",
    Phase.POD_CREATED: "executor's pod created",
    Phase.SCALE_WRITTEN: "replicas 0 written",
    Phase.PODS_TERMINATING: "GPU pods terminating",
    Phase.PODS_GONE: "GPU pods gone",
    Phase.INSTANCE_GONE: "instance terminated",
    Phase.STARTS_REFUSED: "every starter refused",
    Phase.HELD: "stayed off",
}


def stuck_before(phase: str) -> str:
    """Why a drill is exposed whose cause nobody was asked for yet."""
    return f"stuck before {words_of(phase)}"


def words_of(name: str) -> str:
    """A phase of a record as a person is told it; what is none stays as it is."""
    return Phase(name).words if name in PHASES else name
