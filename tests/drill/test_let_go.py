"""A controller that lights a target because a schedule has just let it go acts for that schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from killcheck.drill.night import Night
from killcheck.kube import resources as r
from killcheck.kube.objects import format_time
from killcheck.spec.killpath import Ref
from killcheck.watch.starts import Start

SINCE = datetime(2026, 1, 15, 21, 5, tzinfo=UTC)
NOW = SINCE + timedelta(hours=9)
OWNER = Start(Ref("argoproj.io/v1alpha1", "Application", "argocd", "clips"))


def _night(begun: datetime, line: str) -> Night:
    """A night in which one CronJob's Job began at ``begun`` and runs ``line``."""
    container = {"name": "c", "image": "alpine/k8s:1.32.0", "command": ["/bin/sh", "-c", line]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "dawn", "uid": "1", "controller": True}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "dawn-1", "namespace": "clips", "ownerReferences": [owner]},
        "spec": {"template": template},
        "status": {"startTime": format_time(begun)},
    }
    cron = {"kind": "CronJob", "metadata": {"name": "dawn", "namespace": "clips"}, "spec": {"schedule": "0 6 * * *"}}
    kube = SimpleNamespace(
        list=lambda resource: SimpleNamespace(items=[job] if resource is r.JOBS else []),
        find=lambda resource, name, namespace: cron if (resource, name) == (r.CRONJOBS, "dawn") else None,
    )
    night: Any = object.__new__(Night)
    night.since, night.stage = SINCE, SimpleNamespace(cluster=SimpleNamespace(kube=kube))
    return night  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("ago_s", "line", "behind"),
    [
        (60, "kubectl -n argocd patch application clips --type merge -p '{}'", True),
        (60, "kubectl -n clips scale deployment cutter --replicas=1", False),
        (3600, "kubectl -n argocd patch application clips --type merge -p '{}'", False),
        (9 * 3600 + 60, "kubectl -n argocd patch application clips --type merge -p '{}'", False),
    ],
)
def test_start_is_the_schedules_that_wrote_to_the_controllers_object(ago_s: int, line: str, behind: bool) -> None:
    """Only shortly before, only since everything was off, and only to that object's kind."""
    found = _night(NOW - timedelta(seconds=ago_s), line)._let_go_by(OWNER, NOW)
    assert (found is not None) is behind
    if found is not None:
        assert (found.ref.kind, found.ref.name, found.text) == ("CronJob", "dawn", "0 6 * * *")
