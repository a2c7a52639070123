"""A switch that holds a queue: the Job under Kueue is what it must turn off, the queue is what must be open again."""

from killcheck import events


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


def test_fresh_tokens_that_nobody_believes_stop_two_switches_in_one_night(drill):
    result = drill(fixture="two-switches", layer="nightly-off", under=["issuer-keys-rotated"]).only
    assert (str(result.verdict), result.problems) == ("exposed", ())
    assert "401 Unauthorized" in result.cause
    assert "shows no token of this cluster" in result.remedy
