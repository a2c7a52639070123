"""What a spec says of the cloud beneath the cluster, and of the alarm: who is asked, and what may be done there.

What may *not* live here: anything that asks (:mod:`killcheck.cloud`), files, YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

__all__ = ["Alarm", "CloudAccess", "Experiment"]


class Experiment(Struct, frozen=True):
    """A fault-injection experiment of AWS FIS: ``role`` (ARN) carries it out; ``stop_alarms`` (ARNs of CloudWatch
    alarms) end it; at most ``max_targets`` instances are interrupted.
    """

    role: str
    stop_alarms: tuple[str, ...]
    max_targets: int = 1


class CloudAccess(Struct, frozen=True):
    """Where the cloud is asked what it bills.

    EC2 through boto3 (``region``, ``profile``), or for other clouds a file that was exported (``states``: a path
    beside the spec) or a program (``command``) that prints it; both as JSON, provider id to state. ``endpoint`` is the
    URL of a stand-in on loopback; ``stand-in`` starts one (the embedded cluster only). ``cluster``, ``tags`` and
    ``launch_templates`` find the instances that belong to the cluster, Node or not. ``account`` is the AWS account
    whose machines these are: faults change nothing in any other. ``queue`` is the URL of the interruption queue that a
    handler reads. ``results`` are S3 URLs (keys, or prefixes ending in '/') at which a run must leave something.
    """

    region: str = ""
    profile: str = ""
    endpoint: str = ""
    account: str = ""
    cluster: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    launch_templates: tuple[str, ...] = ()
    queue: str = ""
    experiment: Experiment | None = None
    states: str = ""
    #: A :class:`killcheck.spec.killpath.Command`.
    command: Any = None
    results: tuple[str, ...] = ()


class Alarm(Struct, frozen=True):
    """The alert that must be raised where GPUs stay on (P5): shell patterns over ``alerts`` names (none: any that is
    about GPUs), and how long after the trigger it may take to fire, in seconds.
    """

    alerts: tuple[str, ...] = ()
    within_s: float = 3600.0
