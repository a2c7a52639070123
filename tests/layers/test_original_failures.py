"""Failures that the seeds tell of, put back into their reference paths: each is found, for what it is.

What is told of the others is beside what their layers are tested with; tests/matrix/test_reference_suites.py lists all.
"""

from __future__ import annotations

import pytest
from layers_world import setting

from killcheck.kube.objects import dig, name_of
from killcheck.verdict import Verdict


@pytest.mark.weekly
def test_one_gpu_that_is_kept_warm_bills_for_the_night(drilled):
    """Seed 1: 'minimum 1 instance', 847 hours billed for 200 of work."""

    def warm(obj):
        if obj["kind"] == "NodePool" and name_of(obj).startswith("gpu"):
            obj["spec"]["replicas"] = 2
            del obj["spec"]["disruption"]
            obj["spec"]["limits"] = {"nodes": "4"}

    result = drilled("self-terminating", "worker-idle-exit", warm)
    assert result.verdict is Verdict.EXPOSED
    assert "is static: its nodes stay whatever runs on them" in result.cause
    assert result.failures == (45,)
    assert result.seconds_to_zero is not None


def test_a_worker_that_waits_for_a_dead_orchestrator_waits_for_ever(drilled):
    """Seed 1: 'if the worker waits for the orchestrator to kill it, it might wait forever'."""

    def waiting(obj):
        if obj["kind"] == "Job":
            dig(obj, "spec", "template", "spec", "containers")[0]["env"] = [
                {"name": "MAX_IDLE_MINUTES", "value": "100000"}
            ]
        elif obj["kind"] == "CronJob":
            obj["spec"]["suspend"] = True

    result = drilled("self-terminating", "worker-idle-exit", waiting)
    assert result.verdict is Verdict.EXPOSED
    assert result.cause == "no worker ended by itself, although nothing came from its queue"
    assert "MAX_IDLE" in result.remedy


def test_an_interface_that_nobody_uses_owns_a_card_all_day(drilled):
    """Seed 2: a render UI without traffic since lunch, and training jobs waiting behind it."""
    result = drilled("scale-to-zero", "render-ui-idle", setting("HTTPScaledObject", 1, "spec", "replicas", "min"))
    assert result.verdict is Verdict.EXPOSED
    assert "never goes to zero: minReplicaCount 1" in result.cause


def test_what_nothing_wakes_again_was_turned_off_for_good(drilled):
    """Seed 2: 'scale the deployment to zero when idle. The problem: nothing wakes it back up.'"""

    def deaf(obj):
        """Never active, and so at zero at once, but for the first quarter of an hour."""
        setting("ScaledObject", "5", "spec", "triggers", 0, "metadata", "activationListLength")(obj)
        setting("ScaledObject", 900, "spec", "initialCooldownPeriod")(obj)

    result = drilled("scale-to-zero", "video-idle", deaf)
    assert result.verdict is Verdict.EXPOSED
    assert result.cause.startswith("nothing wakes it: its triggers read 1 again, and 3 min later")
    assert result.seconds_to_zero is not None
    woke = drilled("scale-to-zero", "video-idle")
    assert woke.verdict is Verdict.SURVIVED
    assert any("its triggers read 1 again: it woke, and a pod of each target is ready after" in n for n in woke.notes)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("spec", "scaleTargetRef", "port"), 8081, "Service render/render-ui has no port 8081 (it has 8080)"),
        (("spec", "scaleTargetRef", "service"), "render", "its Service render/render is not there"),
        (("spec", "timeouts"), {"conditionWait": "5s"}, "5 s is timeouts.conditionWait"),
    ],
)
@pytest.mark.one_in(3)
def test_a_user_who_lands_on_a_502_is_who_turns_the_scaler_off(drilled, path, value, says):
    """Seed 2: 'A user opens the URL, lands on a 502, and you are the one getting pinged.'"""
    result = drilled("scale-to-zero", "render-ui-idle", setting("HTTPScaledObject", value, *path))
    assert result.verdict is Verdict.EXPOSED
    assert says in result.cause


def test_a_queue_that_holds_and_does_not_drain_keeps_what_it_admitted(drilled):
    """Seed 4: a queue that admits nothing more, and four workers that go on."""

    def holds(obj):
        if obj["kind"] == "CronJob":
            container = dig(obj, "spec", "jobTemplate", "spec", "template", "spec", "containers", 0)
            container["args"] = [container["args"][0].replace("HoldAndDrain", "Hold")]

    result = drilled("kueue-quota", "nightly-hold", holds)
    assert result.verdict is Verdict.EXPOSED
    assert result.cause.startswith("ClusterQueue gpu-cluster-queue is on Hold")
    assert "HoldAndDrain" in result.remedy


def test_four_cards_of_one_claim_are_four_gpus_in_hours_and_by_a_nodes_own_price_in_dollars(drilled):
    """Seed 2: a coherent set of four, on a machine of our own."""

    def priced(folder):
        spec = folder / "killcheck.yaml"
        spec.write_text(spec.read_text() + "\nprices: {rack-1: 2.0}\n")

    result = drilled("scale-to-zero", "video-idle", folder=priced)
    assert result.verdict is Verdict.SURVIVED
    assert result.bill["gpu_hours"] == pytest.approx(4 * result.usd / 2.0, rel=0.01)


def test_work_that_is_lit_again_by_a_new_day_is_not_the_cause_of_the_night(drilled):
    """What was seen when it was too late is why: the long watch reaches the morning start."""
    result = drilled("held-mornings", "nightly-off", under=["pool-floor"])
    assert result.verdict is Verdict.EXPOSED
    assert result.cause == "NodePool gpu never consolidates: consolidateAfter: Never"


def test_a_pool_that_keeps_empty_nodes_for_longer_than_the_deadline_is_the_cause(drilled):
    patient = setting("NodePool", "16h", "spec", "disruption", "consolidateAfter")
    result = drilled("dead-man", "nightly-off", patient)
    assert (result.verdict, result.stuck_at) == (Verdict.EXPOSED, "node_cordoned")
    assert result.cause.startswith("NodePool gpu keeps an empty node for 16h (consolidateAfter)")
