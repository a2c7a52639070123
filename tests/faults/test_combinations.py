"""Several faults at once: what cannot be told apart is refused, the rest is injected in an order that lets it bite."""

from __future__ import annotations

import itertools
import os
import random

import pytest
from faults_world import World
from safety_world import differences, picture

from killcheck import events, faults
from killcheck.faults.base import FaultError, Plan
from killcheck.faults.combination import apart, in_order, refuse_clashes
from killcheck.kube import resources as r

KINDS = {kind.name: kind for kind in faults.ALL}
#: What a pair of faults is drilled with; all 900 and more pairs before a release.
PAIRS = os.environ.get("KILLCHECK_PAIRS", "6")

#: What a drill says of a slot that passed while the schedule was sabotaged.
MAKES_UP = "passed while CronJob gpu-nightly-off could not fire: it makes up for it by itself"

CLASHING = [
    ("image-gone", "pull-secret-expired"),
    ("token-dead", "token-audience"),
    ("egress-denied", "dns-denied"),
    ("keda-minimum", "rival-operator"),
    ("spot-notice", "spot-reclaim"),
    ("clocks-back", "image-gone"),
    ("missed-firings", "controller-manager-down"),
    ("registry-quota", "registry-unreachable"),
]


@pytest.fixture
def world():
    made = World()
    made.settle()
    yield made
    made.close()


@pytest.mark.parametrize("names", CLASHING, ids="+".join)
def test_two_that_set_the_same_field_are_refused_before_anything_is_changed(names):
    world = World(under=[KINDS[name] for name in names])
    try:
        world.settle()
        result = world.drill(*(KINDS[name] for name in names))
    finally:
        world.close()
    assert str(result.verdict) == "inconclusive"
    assert f"{names[0]} and {names[1]} both set" in result.why or f"{names[1]} and {names[0]} both set" in result.why
    assert result.healed == ()


def test_what_needs_a_working_cluster_comes_first(world):
    result = world.drill(KINDS["quota-exhausted"], KINDS["pdb-blocks"])
    injected = [event.fault for event in world.seen if isinstance(event, events.FaultInjected)]
    assert injected == ["pdb-blocks", "quota-exhausted"]
    assert set(result.bites) == {"quota-exhausted", "pdb-blocks"}
    # Taken back from the last to the first.
    (healed,) = [event for event in world.seen if isinstance(event, events.Healed)]
    order = [said for said in healed.undone if "killcheck-" in said]
    assert "quota" in order[1], order  # the drill's Job is the newest
    assert "pdb-blocks" in order[-1], order


def test_two_ways_to_hold_a_node_are_two_objects(world):
    before = picture(world.cluster.embedded)
    result = world.drill(KINDS["pdb-blocks"], KINDS["do-not-disrupt"])
    assert set(result.bites) == {"pdb-blocks", "do-not-disrupt"}
    assert str(result.verdict) == "exposed"
    world.settle()
    assert differences(before, picture(world.cluster.embedded)) == []


def test_a_run_that_hangs_hides_no_exposure(world):
    result = world.drill(KINDS["laptop-killed"], KINDS["no-room"], horizon_s=1800.0)
    assert (str(result.verdict), set(result.bites)) == ("exposed", {"laptop-killed", "no-room"}), result.why


def test_a_part_of_a_field_is_the_field():
    with pytest.raises(FaultError, match=r"a and b both set CronJob/n/c\.spec\.suspend"):
        refuse_clashes({"a": Plan((), edits=("CronJob/n/c.spec",)), "b": Plan((), edits=("CronJob/n/c.spec.suspend",))})
    refuse_clashes({"a": Plan((), edits=("CronJob/n/c.spec",)), "b": Plan((), edits=("CronJob/n/cd.spec",))})


def test_ranks_and_then_the_order_in_which_they_were_named():
    named = ["registry-quota", "suspended", "pdb-blocks", "image-gone", "egress-denied"]
    found = [fault.name for fault in in_order([KINDS[name]() for name in named])]
    assert found == ["pdb-blocks", "egress-denied", "suspended", "image-gone", "registry-quota"]


def test_names_apart():
    assert apart(["a+b", "c"]) == ("a", "b", "c")
    for words, told in ((["a+"], "is missing"), (["a", "b+a"], "a is named twice")):
        with pytest.raises(ValueError, match=told):
            apart(words)


def test_a_slot_that_passed_is_made_up_for_afterwards_and_that_is_said():
    world = World(under=[KINDS["missed-firings"]])
    try:
        world.settle()
        result = world.drill(KINDS["missed-firings"], horizon_s=1800.0)
        assert any(MAKES_UP in said for said in result.notes), result.notes
        world.settle()
        assert world.cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["replicas"] == 0
    finally:
        world.close()


def pairs():
    """Other pairs every time the library grows, the same ones every time it does not."""
    every = list(itertools.combinations(sorted(KINDS), 2))
    return every if PAIRS == "all" else random.Random(len(every)).sample(every, int(PAIRS))


@pytest.mark.parametrize("names", pairs(), ids="+".join)
@pytest.mark.one_in(2)
def test_any_two_are_refused_or_leave_nothing_behind(names, record_property):
    world = World(under=[KINDS[name] for name in names])
    try:
        world.settle()
        before = picture(world.cluster.embedded)
        result = world.drill(*(KINDS[name] for name in names), horizon_s=1800.0)
        world.settle()
        if any(MAKES_UP in said for said in result.notes):  # the schedule did the night's work; in the morning it is on
            world.cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 1}}, "inference")
            world.settle()
        left = differences(before, picture(world.cluster.embedded))
        stopped = set(world.cluster.embedded.stopped)
    finally:
        world.close()
    record_property("verdict", str(result.verdict))
    record_property("why", result.why)
    assert result.problems == ()
    assert (left, stopped) == ([], set())
    assert set(result.bites) <= set(names)
    if str(result.verdict) != "inconclusive":
        assert set(result.bites) == set(names)
