"""What ``init`` writes of the starts that it finds: mornings are declared, any other is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import yaml
from click.testing import CliRunner

from killcheck import discover
from killcheck.cli import main
from killcheck.kube import manifests
from killcheck.spec import specfile
from killcheck.watch import starts

TEXT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: asr, namespace: voice}
spec:
  selector: {matchLabels: {app: asr}}
  template:
    metadata: {labels: {app: asr}}
    spec:
      containers: [{name: a, image: a:1, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def cron(name, schedule, zone, replicas):
    line = f"kubectl -n voice scale deployment asr --replicas={replicas}"
    container = {"name": "k", "image": "alpine/k8s:1.32.0", "command": ["sh", "-c", line]}
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "voice"},
        "spec": {"schedule": schedule, "timeZone": zone, "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }


def _suspends(how):
    return f'kubectl -n voice patch hr asr --type merge -p \'{{"spec":{{"suspend":{how}}}}}\''


QUOTA = "quota no-gpus"
HELD = "configmap fleet"


@pytest.mark.parametrize(
    ("off", "on", "declared"),
    [
        (f"kubectl create {QUOTA} --hard=requests.nvidia.com/gpu=0", f"kubectl delete {QUOTA}", True),
        (f"kubectl label {HELD} on=no", f"kubectl label {HELD} on-", True),
        (f"kubectl create {QUOTA} --hard=requests.nvidia.com/gpu=0", "kubectl delete configmap no-gpus", False),
        (_suspends("true"), _suspends("false"), True),
        (_suspends("true"), "kubectl -n voice rollout resume deployment asr", True),
        ("true", "kubectl -n voice label deployment asr seen=$(date +%F) --overwrite", False),
        (f"kubectl label {HELD} on=no", "kubectl label configmap of-others on-", False),
    ],
)
def test_what_takes_back_what_a_switch_wrote_is_a_start(off, on, declared, tmp_path):
    scaled = cron("off", "0 21 * * *", "Etc/UTC", 0)
    container = scaled["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    container["command"][2] += f"\n{off}"
    morning = cron("on", "0 7 * * *", "Etc/UTC", 2)
    morning["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"][2] = on
    (tmp_path / "all.yaml").write_text(TEXT + "---\n" + yaml.safe_dump_all([scaled, morning]))
    spec = tmp_path / "killcheck.yaml"
    ran = CliRunner().invoke(main, ["init", "--manifests", str(tmp_path / "all.yaml"), "-o", str(spec)])
    assert ran.exit_code == 0, ran.output
    found = specfile.load(spec)
    assert [layer.name for layer in found.layers] == ["off"]
    assert [one.name for one in found.starts] == (["on"] if declared else [])


@pytest.mark.parametrize(
    ("schedule", "zone", "declared"),
    [
        ("0 7 * * 1-5", "Asia/Tokyo", True),
        ("0 7 * * *", "Etc/UTC", True),
        ("0 23 * * *", "Etc/UTC", False),
        ("0 7,9 * * *", "Etc/UTC", False),
        ("0 1 * * *", "America/New_York", False),
    ],
)
def test_init_declares_mornings_and_tells_of_other_starts(schedule, zone, declared, tmp_path):
    objects = [cron("off", "0 21 * * *", "Etc/UTC", 0), cron("on", schedule, zone, 2)]
    (tmp_path / "all.yaml").write_text(TEXT + "---\n" + yaml.safe_dump_all(objects))
    spec = tmp_path / "killcheck.yaml"
    ran = CliRunner().invoke(main, ["init", "--manifests", str(tmp_path / "all.yaml"), "-o", str(spec)])
    assert ran.exit_code == 0, ran.output
    assert [one.name for one in specfile.load(spec).starts] == (["on"] if declared else [])
    assert ("which is no morning" in ran.output) is not declared
    found, kill_path = manifests.load([tmp_path / "all.yaml"]).objects, specfile.load(spec)
    for hour in range(24):  # whenever somebody looks
        mornings, _ = starts.proposed(found, kill_path, datetime(2026, 3, 3, hour, 30, tzinfo=UTC))
        assert bool(mornings) is declared, hour


@pytest.mark.parametrize(
    ("stop", "start", "declared"),
    [
        ("0 20 * * 1-5", "0 7 * * *", False),
        ("0 20 * * 0-5", "0 7 * * *", False),
        ("0 20 1-30 * *", "0 7 * * *", False),
        ("0 20 * * 1-5", "0 7 * * 1-5", True),
        ("0 20 * * 5", "0 7 * * 1", True),
        ("0 20 * * *", "0 7 * * *", True),
    ],
)
def test_what_is_lit_on_a_day_without_a_stop_is_declared_by_nobody(stop, start, declared, tmp_path):
    objects = [cron("off", stop, "Etc/UTC", 0), cron("on", start, "Etc/UTC", 2)]
    (tmp_path / "all.yaml").write_text(TEXT + "---\n" + yaml.safe_dump_all(objects))
    spec = tmp_path / "killcheck.yaml"
    ran = CliRunner().invoke(main, ["init", "--manifests", str(tmp_path / "all.yaml"), "-o", str(spec)])
    assert ran.exit_code == 0, ran.output
    assert [one.name for one in specfile.load(spec).starts] == (["on"] if declared else [])


def test_another_targets_stop_ends_no_day(tmp_path):
    """Each of two targets has a daily morning; one of them has no stop at the weekend."""
    twin = TEXT.replace("name: asr", "name: tts").replace("app: asr", "app: tts")
    second = [cron("off-b", "0 20 * * 1-5", "Etc/UTC", 0), cron("on-b", "0 8 * * *", "Etc/UTC", 2)]
    objects = [cron("off", "0 21 * * *", "Etc/UTC", 0), cron("on", "0 7 * * *", "Etc/UTC", 2)]
    text = yaml.safe_dump_all(second).replace("asr", "tts")
    file = tmp_path / "all.yaml"
    file.write_text("---\n".join([TEXT, twin, yaml.safe_dump_all(objects), text]))
    spec = tmp_path / "killcheck.yaml"
    ran = CliRunner().invoke(main, ["init", "--manifests", str(file), "-o", str(spec)])
    assert ran.exit_code == 0, ran.output
    assert len(specfile.load(spec).targets) == 2
    assert [one.name for one in specfile.load(spec).starts] == ["on"]
    linted = CliRunner().invoke(main, ["lint", str(spec), "--manifests", str(file), "--json"])
    assert "second-starter" in linted.output
    assert "on-b" in linted.output


def test_what_scales_to_a_number_that_nobody_can_read_is_a_start_beside_a_switch(tmp_path):
    """A morning that puts back what an annotation says; alone it is taken for the switch, and drilled."""
    was = "$(kubectl -n voice get deployment asr -o jsonpath='{.metadata.annotations.was}')"
    for name, objects in {
        "off": [cron("off", "0 21 * * *", "Etc/UTC", 0), cron("up", "0 7 * * *", "Etc/UTC", was)],
        "up": [cron("up", "0 7 * * *", "Etc/UTC", was)],
    }.items():
        (tmp_path / "all.yaml").write_text(TEXT + "---\n" + yaml.safe_dump_all(objects))
        spec = tmp_path / f"{name}.yaml"
        ran = CliRunner().invoke(main, ["init", "--manifests", str(tmp_path / "all.yaml"), "-o", str(spec)])
        assert ran.exit_code == 0, ran.output
        assert [layer.name for layer in specfile.load(spec).layers] == [name]


def test_a_switch_that_makes_a_job_of_another_schedule_does_what_that_does(tmp_path):
    asleep = cron("scaler", "0 0 1 1 *", "Etc/UTC", 0)
    asleep["spec"]["suspend"] = True
    fires = cron("nightly", "0 21 * * *", "Etc/UTC", 0)
    container = fires["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    container["command"][-1] = "kubectl -n voice create job --from=cronjob/scaler now"
    (tmp_path / "all.yaml").write_text(TEXT + "---\n" + yaml.safe_dump_all([asleep, fires]))
    spec = tmp_path / "killcheck.yaml"
    ran = CliRunner().invoke(main, ["init", "--manifests", str(tmp_path / "all.yaml"), "-o", str(spec)])
    assert ran.exit_code == 0, ran.output
    assert [layer.name for layer in specfile.load(spec).layers] == ["nightly"]


@pytest.mark.parametrize(
    ("schedule", "least_h"),
    [("0 7,9 * * *", 2), ("0 7 * * *", 24), ("0 0,1 * * 1", 1), ("*/5 1 * * *", 1 / 12), ("0 7 1,2 * *", 24)],
)
def test_what_a_schedule_is_like_does_not_depend_on_the_hour(schedule, least_h):
    """Between two firings of one day the next is far off: it is no other schedule for that."""
    made = cron("on", schedule, "Etc/UTC", 2)
    hours = [datetime(2026, 3, 2, tzinfo=UTC) + timedelta(minutes=30 + 60 * hour) for hour in range(0, 30, 2)]
    assert {starts.period_s(made, now) for now in hours} == {least_h * 3600}


@pytest.mark.parametrize(
    ("slept", "seconds"), [("", 0), ("sleep 900; ", 900), ("sleep 10m; ", 600), ("sleep 5h; ", 3600)]
)
def test_found_deadlines_hold_for_what_a_switch_says_that_it_sleeps(slept, seconds):
    """An hour at most: what comes later is no end of a night."""
    switch = cron("off", "0 22 * * *", "Etc/UTC", 0)
    container = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    container["command"][-1] = slept + container["command"][-1]
    found = discover.from_objects([yaml.safe_load(TEXT), switch]).kill_path.deadlines
    assert found.pods_gone_s == 420 + seconds
