"""A switch that holds a queue: the Job under Kueue is what it must turn off, the queue is what must be open again."""

from killcheck import events
from killcheck.kube.objects import copy
from killcheck.run.session import Session


def test_a_held_queue_turns_its_job_off_for_good_and_is_open_again_afterwards(drill):
    done = drill(fixture="kueue-quota", layer="nightly-hold")
    result = done.only
    assert (str(result.verdict), result.off_by) == ("survived", "nightly-hold")
    assert result.problems == ()
    (healed,) = done.of(events.Healed)
    assert (healed.problems, healed.steady_again) == ([], True)
    assert any("ClusterQueue gpu-cluster-queue was open" in told for told in healed.undone), healed.undone


def test_while_a_workload_waits_for_quota_nothing_is_on_and_nothing_proven(drill, monkeypatch):
    from killcheck.embedded.models.kueue.workloads import Workloads

    monkeypatch.setattr(Workloads, "_admit", lambda *_: None)
    result = drill(fixture="kueue-quota", layer="nightly-hold").only
    assert str(result.verdict) == "inconclusive"
    assert "waits for its queue's admission" in result.cause


def test_a_queue_that_somebody_opens_again_brings_its_work_back(drill):
    done = drill(fixture="kueue-quota", layer="nightly-hold", under=["queue-released"])
    result = done.only
    assert str(result.verdict) == "exposed", result.why
    assert "killcheck-starter opened ClusterQueue/gpu-cluster-queue" in result.bites["queue-released"]
    assert result.cause == "scaled back: a second starter opened its queue again, and Job training-run-82 was admitted"
    assert result.problems == ()
    (healed,) = done.of(events.Healed)
    assert healed.steady_again


def test_a_switch_whose_script_is_in_a_config_map_closes_a_queue_as_well(drill):
    session = Session(fixture="kueue-quota")
    objects = [copy(one) for one in session.objects]
    (hold,) = [one for one in objects if one["kind"] == "CronJob" and one["metadata"]["name"] == "nightly-hold"]
    spec = hold["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (script,) = container["args"]
    kept = {"name": "hold-script", "namespace": hold["metadata"]["namespace"]}
    objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept, "data": {"hold.sh": script}})
    container |= {"command": ["/bin/sh", "/scripts/hold.sh"]}
    del container["args"]
    container.setdefault("volumeMounts", []).append({"name": "scripts", "mountPath": "/scripts"})
    spec.setdefault("volumes", []).append({"name": "scripts", "configMap": {"name": "hold-script"}})
    session._objects = objects
    result = drill(session=session, layer="nightly-hold", under=["queue-released"]).only
    assert str(result.verdict) == "exposed", result.why
    assert "opened ClusterQueue/gpu-cluster-queue" in result.bites["queue-released"]
    assert result.problems == ()


def test_fresh_tokens_that_nobody_believes_stop_two_switches_in_one_night(drill):
    result = drill(fixture="two-switches", layer="nightly-off", under=["issuer-keys-rotated"]).only
    assert (str(result.verdict), result.problems) == ("exposed", ())
    assert "401 Unauthorized" in result.cause
    assert "shows no token of this cluster" in result.remedy
