"""Every fault on the reference path: it bites, the verdict and the cause are right, and it heals to what was before."""

from __future__ import annotations

import pytest
from faults_world import World
from safety_world import differences, picture

from killcheck import events, faults
from killcheck.faults.kubernetes.image_gone import ImageGone
from killcheck.layers.dead_man import DeadMan

KINDS = {kind.name: kind for kind in faults.ALL}
#: How remedies begin that mend the kill path itself.
MENDS_THE_PATH = ("keep the schedule out of", "raise startingDeadlineSeconds")
#: fault -> (verdict, stuck at, words of the cause). The reference path survives what it was built to survive.
EXPECTED = {
    "image-gone": ("exposed", "image_pulled", "not found"),
    "registry-unreachable": ("survived", "", ""),
    "registry-quota": ("survived", "", ""),
    "pull-secret-expired": ("exposed", "image_pulled", "403 Forbidden"),
    "cached-copy-evicted": ("survived", "", ""),
    "command-missing": ("exposed", "executor_finished", "127"),
    "token-dead": ("exposed", "executor_finished", "401"),
    "token-audience": ("exposed", "executor_finished", "401"),
    "token-not-mounted": ("exposed", "executor_finished", "no ServiceAccount token"),
    "rolebinding-gone": ("exposed", "executor_finished", "403"),
    "egress-denied": ("exposed", "executor_finished", "could not resolve host"),
    "dns-denied": ("exposed", "executor_finished", "could not resolve host"),
    "api-unreachable": ("exposed", "executor_finished", "Failed to connect"),
    "node-partitioned": ("exposed", "pods_gone", "its node does not answer"),
    "dns-wrong": ("exposed", "executor_finished", "could not connect"),
    "proxy-in-the-way": ("exposed", "executor_finished", "192.0.2.1"),
    "sidecar-not-ready": ("exposed", "container_started", "killcheck-proxy"),
    "sidecar-stays": ("survived", "", ""),
    "dns-slow": ("survived", "", ""),
    "handshake-lost": ("exposed", "executor_finished", "timed out"),
    "certificate-ended": ("exposed", "executor_finished", "certificate has expired"),
    "node-clock-behind": ("exposed", "executor_finished", "certificate is not yet valid"),
    "issuer-keys-rotated": ("exposed", "executor_finished", "401"),
    "api-brownout": ("survived", "", ""),
    "suspended": ("exposed", "triggered", "suspended"),
    "job-hung-under-forbid": ("survived", "", ""),
    "zone-changed": ("exposed", "triggered", "Etc/GMT+8"),
    "clocks-forward": ("survived", "", ""),
    "clocks-back": ("survived", "", ""),
    "missed-firings": ("exposed", "triggered", "startingDeadlineSeconds"),
    "quota-exhausted": ("exposed", "pod_created", "exceeded quota"),
    "webhook-down": ("exposed", "pod_created", "failed calling webhook"),
    "podsecurity": ("survived", "", ""),
    "no-room": ("exposed", "pod_scheduled", "Insufficient cpu"),
    "keda-minimum": ("exposed", "scale_written", "KEDA"),
    "argo-selfheal": ("exposed", "scale_written", "Argo CD"),
    "rival-operator": ("exposed", "scale_written", "an operator"),
    "second-starter": ("exposed", "scale_written", "a second starter"),
    "pool-floor": ("exposed", "node_cordoned", "consolidateAfter: Never"),
    "pdb-blocks": ("exposed", "node_cordoned", "PodDisruptionBudget"),
    "do-not-disrupt": ("exposed", "node_cordoned", "do-not-disrupt"),
    "long-grace": ("exposed", "pods_gone", "terminationGracePeriodSeconds"),
    "finalizer": ("exposed", "pods_gone", "finalizer"),
    "volume-stuck": ("survived", "", ""),
    "laptop-killed": ("survived", "", ""),
    "run-never-finishes": ("survived", "", ""),
    "spot-notice": ("survived", "", ""),
    "spot-notice-queue": ("survived", "", ""),
    "spot-notice-metadata": ("survived", "", ""),
    "spot-rebalance": ("survived", "", ""),
    "spot-reclaim": ("survived", "", ""),
    "autoscaler-down": ("exposed", "node_cordoned", "dead autoscaler"),
    "controller-manager-down": ("exposed", "pod_created", "job controller"),
}


#: Faults of layers that the reference path has not: tests/layers/test_scaler_faults.py, tests/drill/test_held_queues.py,
#: tests/cloud/test_pools_by_command_line.py.
ELSEWHERE = {
    "reading-stuck",
    "trigger-fails",
    "queue-runaway",
    "cold-start-slow",
    "model-loads-slow",
    "queue-released",
    "no-spot",
    "cloud-identity-gone",
}
#: Faults whose effect is that the trigger meets them.
MET_BY_THE_TRIGGER = {
    "suspended",
    "zone-changed",
    "clocks-forward",
    "clocks-back",
    "missed-firings",
    "job-hung-under-forbid",
}
#: Faults whose effect is tried by killcheck itself: a pull, an eviction, a pod that does not comply.
TRIED = {"registry-quota", "registry-unreachable", "pdb-blocks", "podsecurity"}


@pytest.fixture
def early(monkeypatch):
    """Makes of a kind of fault one whose evidence is asked for at the very moment when the trigger is pulled."""
    found, made, trigger = [], [], DeadMan.trigger

    def kept(kind):
        class Kept(kind):
            def __init__(self):
                super().__init__()
                made.append(self)

        return Kept

    def pulled(run):
        said = trigger(run)
        found.extend(fault.name for fault in made if fault.bitten(run.stage, run))
        return said

    monkeypatch.setattr(DeadMan, "trigger", pulled)
    kept.found = found
    return kept


@pytest.fixture
def world(request):
    name = request.node.callspec.params.get("name") if hasattr(request.node, "callspec") else None
    made = World(under=[KINDS[name]] if name else [])
    yield made
    made.cluster.close()


def test_nothing_is_missing_from_the_table():
    assert set(EXPECTED) | ELSEWHERE == set(KINDS)


@pytest.mark.parametrize("name", EXPECTED)
def test_it_bites_is_seen_for_what_it_is_and_heals(world, name, early):
    """That it was injected is no evidence: nothing has bitten before something met it."""
    world.settle()
    before = picture(world.cluster.embedded)
    result = world.drill(early(KINDS[name]))
    assert not set(early.found) - MET_BY_THE_TRIGGER - TRIED
    verdict, stuck, words = EXPECTED[name]
    assert list(result.bites) == [name], result.why
    assert (str(result.verdict), result.stuck_at) == (verdict, stuck), result.cause
    assert words.lower() in result.cause.lower()
    if verdict == "exposed":
        assert set(result.failures) & set(KINDS[name].failures), (result.failures, result.cause)
        assert result.remedy.startswith((f"to survive {name}: ", *MENDS_THE_PATH)), "nobody undoes what the drill did"
    assert result.problems == ()
    (healed,) = [event for event in world.seen if isinstance(event, events.Healed)]
    assert healed.steady_again
    world.settle()
    assert differences(before, picture(world.cluster.embedded)) == []
    wire = world.cluster.embedded.wire
    assert (wire.interceptor, wire.handshakes, wire.names, wire.certificate) == (None, None, None, "own")
    assert world.cluster.embedded.stopped == set()


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.one_in(8)
def test_without_teeth_it_proves_nothing(world, name):
    class Toothless(KINDS[name]):
        """Its injection does nothing."""

        def inject(self, stage, layer):
            return ["nothing"]

    result = world.drill(Toothless, horizon_s=1800.0)
    assert str(result.verdict) == "inconclusive"
    assert result.bites == {}
    assert "did not bite" in result.why


def test_a_job_without_a_deadline_holds_up_the_next_firing():
    def no_deadline(objects):
        for obj in objects:
            if obj["kind"] == "CronJob":
                obj["spec"]["jobTemplate"]["spec"].pop("activeDeadlineSeconds")

    world = World(no_deadline)
    try:
        result = world.drill(KINDS["job-hung-under-forbid"])
    finally:
        world.cluster.close()
    assert (str(result.verdict), result.stuck_at, result.failures) == ("exposed", "triggered", (8,))
    assert "Forbid" in result.cause


def test_several_at_once_all_have_to_bite_and_all_are_healed(world):
    world.settle()
    before = picture(world.cluster.embedded)
    result = world.drill(KINDS["registry-unreachable"], KINDS["cached-copy-evicted"], KINDS["pool-floor"])
    # The image cannot be had any more, so the GPUs stay on and the pool's floor never comes to bear.
    assert str(result.verdict) == "inconclusive"
    assert "pool-floor did not bite" in result.why
    world.settle()
    assert differences(before, picture(world.cluster.embedded)) == []


def test_a_dead_registry_and_an_evicted_copy_together_do_what_neither_does_alone(world):
    result = world.drill(KINDS["registry-unreachable"], KINDS["cached-copy-evicted"])
    assert (str(result.verdict), result.stuck_at) == ("exposed", "image_pulled")
    assert "connection refused" in result.cause


def test_every_fault_says_what_it_is():
    for kind in faults.ALL:
        assert all((kind.name, kind.simulates, kind.family, kind.failures)), kind
        assert "row" in (kind.__doc__ or ""), kind
    assert {kind.family for kind in faults.ALL} == {
        "image",
        "credentials",
        "network",
        "spot",
        "orchestrator",
        "schedule",
        "admission",
        "rivals",
        "drain",
    }


def test_a_foreign_fault_is_held_to_the_contract(monkeypatch):
    class Entry:
        name = "mine"

        @staticmethod
        def load():
            return type("Mine", (ImageGone,), {"name": "mine", "simulates": ""})

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Entry] if group == faults.GROUP else [])
    faults._foreign.cache_clear()
    try:
        with pytest.raises(faults.FaultError, match="simulates"):
            faults.every()
    finally:
        faults._foreign.cache_clear()
