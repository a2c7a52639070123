"""What kube-green and the kube-downscalers put to sleep, and when: by their own words alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from killcheck.kube import downtimes

THURSDAY = datetime(2026, 1, 15, 18, 30, tzinfo=UTC)


def workload(kind: str = "Deployment", labels: Any = None, **notes: str) -> dict[str, Any]:
    told = {f"downscaler/{key.replace('_', '-')}": value for key, value in notes.items()}
    meta = {"name": "chat", "namespace": "lab", "labels": labels or {}, "annotations": told}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": {"replicas": 2}}


def sleep_info(**spec: Any) -> dict[str, Any]:
    said = {"weekdays": "1-5", "sleepAt": "20:00", "timeZone": "Europe/Rome", **spec}
    meta = {"name": "s", "namespace": "lab"}
    return {"apiVersion": "kube-green.com/v1alpha1", "kind": "SleepInfo", "metadata": meta, "spec": said}


def downscaler(*args: str, image: str = "ghcr.io/caas-team/py-kube-downscaler:25.2.0", **env: str) -> dict[str, Any]:
    given = [{"name": name, "value": value} for name, value in env.items()]
    pod = {"containers": [{"name": "d", "image": image, "args": [*args], "env": given}]}
    return {"kind": "Deployment", "metadata": {"name": "d", "namespace": "ops"}, "spec": {"template": {"spec": pod}}}


@pytest.mark.parametrize(
    ("spec", "obj", "sleeps"),
    [
        ({}, workload(), True),
        ({}, workload("StatefulSet"), True),
        ({"suspendStatefulSets": False}, workload("StatefulSet"), False),
        ({"excludeRef": [{"matchLabels": {"tier": "a"}}]}, workload(labels={"tier": "a"}), False),
        ({"excludeRef": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}]}, workload(), True),
        ({"includeRef": [{"matchLabels": {"tier": "a"}}]}, workload(), False),
        ({}, workload("LeaderWorkerSet"), False),
        ({}, {**workload(), "metadata": {"name": "chat", "namespace": "elsewhere"}}, False),
    ],
)
def test_what_a_sleep_info_puts_to_sleep(spec: Any, obj: Any, sleeps: bool) -> None:
    assert downtimes.puts_to_sleep(sleep_info(**spec), obj) is sleeps


def test_when_a_sleep_info_does() -> None:
    assert downtimes.sleeps_at(sleep_info()).next(THURSDAY) == datetime(2026, 1, 15, 19, tzinfo=UTC)
    assert downtimes.wakes_at(sleep_info()) is None


@pytest.mark.parametrize(
    ("made", "obj", "down"),
    [
        (downscaler("--default-uptime=Mon-Fri 08:00-19:00 Europe/Berlin"), workload(), True),
        (downscaler("--default-uptime", "Mon-Fri 08:00-20:00 Europe/Berlin"), workload(), False),
        (downscaler("--default-uptime=Mon-Fri 08:00-20:00 UTC"), workload(uptime="Sat-Wed 08:00-20:00 UTC"), True),
        (downscaler(DEFAULT_DOWNTIME="Fri-Thu 18:00-24:00 UTC"), workload(), True),
        (
            downscaler(DEFAULT_DOWNTIME="18:00-24:00", DEFAULT_TIMEZONE="UTC", DEFAULT_WEEKFRAME="Mon-Fri"),
            workload(),
            True,
        ),
        (downscaler("--default-uptime=never"), workload(exclude="true"), None),
        (downscaler("--default-uptime=never", "--namespace=web"), workload(), None),
        (downscaler("--default-uptime=never"), workload("StatefulSet"), None),
        (downscaler("--default-uptime=never", "--include-resources=statefulsets"), workload("StatefulSet"), True),
        (downscaler("--default-uptime=never"), workload(exclude_until="2026-02-01"), False),
        (downscaler("--default-uptime=never"), workload(exclude_until="2026-01-01T00:00:00Z"), True),
        (downscaler("--default-uptime=never"), workload(force_uptime="true"), False),
        (downscaler("--default-uptime=never"), workload(upscale_period="Mon-Fri 08:00-09:00 UTC"), None),
        (downscaler(), workload(force_downtime="true"), True),
    ],
)
def test_what_a_downscaler_takes_down_on_a_thursday_evening(made: Any, obj: Any, down: bool | None) -> None:
    """None: it does not look at it at all."""
    read, space = downtimes.Downscaler.of(made), {"metadata": {"name": "lab"}}
    assert (read.is_down(obj, space, THURSDAY) if read.reaches(obj, space) else None) is down


def test_one_whose_flags_are_not_all_read_is_none_of_ours() -> None:
    assert downtimes.is_downscaler(downscaler("--interval=30"))
    assert downtimes.is_downscaler(downscaler(image="hjacobs/kube-downscaler:23.2.0"))
    assert not downtimes.is_downscaler(downscaler("--matching-labels=a=b"))
    for odd in (
        "--interval=often",
        "--interval=nan",
        "--grace-period=1e999",
        "--exclude-namespaces=(a+)+",
        "--exclude-namespaces=(",
    ):
        assert not downtimes.is_downscaler(downscaler(odd)), odd
    one = downscaler("--interval=30")
    one["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "cfg", "optional": True}}]
    held = {"metadata": {"name": "cfg", "namespace": "ops"}, "data": {"DEFAULT_UPTIME": "never"}}
    assert [downtimes.Downscaler.of(one, maps).uptime for maps in ([], [held])] == ["always", "never"]
    with pytest.raises(ValueError, match="is no time span"):
        downtimes.Downscaler.of(downscaler("--default-uptime=9 to 5")).is_down(workload(), {}, THURSDAY)
