"""Idle monitors that are Deployments, workers that end themselves, queues: what each does to busy and idle targets."""

from __future__ import annotations

import pytest

from killcheck.drill import night
from killcheck.entries import Status
from killcheck.kube.objects import dig
from killcheck.layers import idle_workload
from killcheck.machine.modelled import Machine
from killcheck.verdict import Verdict

AS_WORKLOAD = (
    "    cronJob: {namespace: batch, name: idle-monitor}\n",
    "    workload: {kind: Deployment, namespace: batch, name: idle-monitor}\n"
    "    deadlines: {scaleWritten: 20m, podsGone: 22m, nodeDrained: 28m, nodeGone: 33m}\n",
)


def deployment(idle_minutes="15", loop="while true; do python3 /app/monitor.py; sleep 450; done"):
    """The idle monitor's CronJob as a Deployment that looks every three minutes."""

    def change(obj):
        if obj["kind"] == "Job":  # the workers do nothing here: one is enough
            obj["spec"]["parallelism"] = 1
        if obj["kind"] != "CronJob":
            return
        template = obj["spec"]["jobTemplate"]["spec"]["template"]
        template["metadata"] = {"labels": {"app": "idle-monitor"}}
        spec = template["spec"]
        spec["restartPolicy"] = "Always"
        container = spec["containers"][0]
        container["command"] = ["/bin/sh", "-c", loop]
        container["env"][1]["value"] = idle_minutes
        obj |= {"apiVersion": "apps/v1", "kind": "Deployment"}
        obj["spec"] = {"replicas": 1, "selector": {"matchLabels": {"app": "idle-monitor"}}, "template": template}

    return change


@pytest.fixture(autouse=True)
def two_hours(monkeypatch):
    """A program that looks every three minutes is not played for a day: whether nights hold is asked elsewhere."""
    monkeypatch.setattr(night, "LEAST_S", 2 * 3600.0)


def monitor(drilled, edited, change, night_s=1300.0):
    return drilled(
        "self-terminating",
        "idle-monitor",
        change,
        exec_mode="host",
        night_s=night_s,
        folder=lambda path: edited(path / "killcheck.yaml", *AS_WORKLOAD),
    )


def test_a_deployment_that_watches_turns_off_what_has_been_idle(drilled, edited):
    result = monitor(drilled, edited, deployment(), 3600.0)
    assert (result.verdict, result.off_by) == (Verdict.SURVIVED, "idle-monitor"), result.why
    assert "and the targets had been idle for 1" in result.why
    assert result.seconds_to_zero > 600
    # Nobody could make them busy: what that leaves open is said.
    (untried,) = [entry for entry in result.ledger.telling if entry.object == "layer idle-monitor"]
    assert untried.status is Status.ASSUMED
    assert untried.because.startswith("whether it leaves busy targets on was not tried: the spec gives no busy command")


@pytest.mark.weekly
def test_one_that_is_too_eager_is_found(drilled, edited):
    result = monitor(drilled, edited, deployment("5"), 3600.0)
    assert result.verdict is Verdict.EXPOSED
    assert "acts on a busy target: it went off " in result.cause
    assert "is to be left on for 900 s" in result.cause


def test_one_that_never_finds_anything_idle_is_found(drilled, edited):
    result = monitor(drilled, edited, deployment("100000"))
    assert result.verdict is Verdict.EXPOSED
    assert "is at work and left its targets on: it does not take them for idle" in result.cause


def test_one_that_goes_by_the_hour_was_not_seen_at_its_hour(drilled, edited):
    """At another hour it may act: that it left its targets on at this one exposes nothing."""
    asks = "while true; do [ $(date -u +%-H) -lt 99 ] || python3 /app/monitor.py; sleep 180; done"
    result = monitor(drilled, edited, deployment(loop=asks))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "Deployment/batch/idle-monitor goes by the time of day (%-H): it left its targets on from " in result.why


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("H=$(date +%H)", True),
        ('date "+%k"', True),
        ("if datetime.now().hour > 20:", True),
        ("now.weekday() > 4", True),
        ("echo $(date +%H:%M:%S) idle", False),
        ("date -u +%Y-%m-%dT%H%MZ", False),
        ("per_hour = 3", False),
        ("printf '%user'", False),
    ],
)
def test_a_time_in_a_log_is_no_hour_that_it_goes_by(text, asks):
    assert bool(idle_workload._BY_HOUR.search(text)) is asks


def test_one_that_does_not_run_is_found(drilled, edited):
    result = monitor(drilled, edited, deployment(loop="echo cannot reach metrics; exit 1"))
    assert result.verdict is Verdict.EXPOSED
    assert "Deployment/batch/idle-monitor is not at work: " in result.cause
    assert "after exit code 1" in result.cause


@pytest.fixture
def fed(monkeypatch):
    """What feeds the workers: an item in the spool of every one of them, put there by the spec's busy command."""
    real = Machine.run

    def run(self, command):
        ran = real(self, command)
        if command.argv == ("true",):
            for folder in self.runtime.folder.glob("*/volumes/spool"):
                (folder / "item.json").write_text("{}")
        return ran

    monkeypatch.setattr(Machine, "run", run)


def with_work(edited, argv='["true"]'):
    fed = f"    idle: 10m\n    busy: {{argv: {argv}}}\n"
    return lambda path: edited(path / "killcheck.yaml", "    idle: 10m\n", fed)


def alone(obj):
    """Without the monitor, which would come first: nobody tells it of the item."""
    if obj["kind"] == "CronJob":
        obj["spec"]["suspend"] = True


@pytest.mark.weekly
def test_a_gap_shorter_than_the_delay_does_not_end_a_worker(drilled, edited, fed):
    result = drilled(
        "self-terminating", "worker-idle-exit", alone, folder=with_work(edited), exec_mode="host", night_s=3600.0
    )
    assert result.verdict is Verdict.SURVIVED, result.why
    assert "after a gap of 6 min it was fed (true)" in result.notes
    assert result.seconds_to_zero > 590  # the whole delay again, from the item on


@pytest.mark.weekly
def test_a_worker_that_counts_from_its_start_dies_in_the_gap_after_its_item(drilled, edited, fed):
    def forgets(obj):
        if obj["kind"] == "ConfigMap" and "worker.py" in obj["data"]:
            before = "        last_item = time.monotonic()\n"
            assert before in obj["data"]["worker.py"]
            obj["data"]["worker.py"] = obj["data"]["worker.py"].replace(before, "")

    result = drilled(
        "self-terminating", "worker-idle-exit", forgets, folder=with_work(edited), exec_mode="host", night_s=3600.0
    )
    assert result.verdict is Verdict.EXPOSED
    assert "before the 600 it must wait" in result.cause


@pytest.mark.weekly
def test_a_worker_that_cannot_be_fed_leaves_it_unproven(drilled, edited):
    result = drilled("self-terminating", "worker-idle-exit", folder=with_work(edited, '["false"]'), exec_mode="host")
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "could not be fed: false: exit code 1" in result.why


@pytest.mark.weekly
def test_exit_0_under_a_deployment_is_started_again(drilled, edited):
    def under_a_deployment(obj):
        if obj["kind"] == "Job":
            template = obj["spec"]["template"]
            template["spec"]["restartPolicy"] = "Always"
            obj |= {"apiVersion": "apps/v1", "kind": "Deployment"}
            obj["spec"] = {"replicas": 1, "selector": {"matchLabels": {"app": "embed-worker"}}, "template": template}

    def as_deployment(path):
        file = path / "killcheck.yaml"
        file.write_text(file.read_text().replace("kind: Job", "kind: Deployment"))

    result = drilled(
        "self-terminating",
        "worker-idle-exit",
        under_a_deployment,
        folder=as_deployment,
        exec_mode="host",
        night_s=960.0,
    )
    assert result.verdict is Verdict.EXPOSED
    assert "exit 0 is no end" in result.cause
    assert "a Deployment starts it again" in result.cause


def test_under_kueue_a_switch_that_deletes_pods_turns_nothing_off(drilled):
    """Seed 4: what is deleted is admitted again; only a queue that is held keeps it off."""

    def deletes_pods(obj):
        if obj["kind"] == "ClusterRole":
            obj["rules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["deletecollection"]}]
        elif obj["kind"] == "CronJob":
            args = dig(obj, "spec", "jobTemplate", "spec", "template", "spec", "containers", 0, "args")
            head = args[0].partition('-H "Content-Type')[0]
            args[0] = head + (
                "-X DELETE 'https://kubernetes.default.svc/api/v1/namespaces/ml-research/pods"
                "?labelSelector=app=training-run-82'\n"
            )

    result = drilled("kueue-quota", "nightly-hold", deletes_pods)
    assert result.verdict is Verdict.EXPOSED
    assert result.stuck_at in ("scale_written", "held", "pods_gone")
    assert result.cause
