"""``killcheck explore``: minimal sets, the likeliest first, modelled, and confirmed by drills with real executors."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys

import pytest
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main
from killcheck.kube.objects import copy, dig
from killcheck.run import explore as searching
from killcheck.run.session import Session
from killcheck.verdict import DrillResult, Verdict

FAULTS = ["image-gone", "registry-unreachable", "cached-copy-evicted"]


def explore(*argv, code):
    done = CliRunner().invoke(main, ["explore", *argv])
    assert done.exit_code == code, done.output
    return done


def test_what_holds_an_exposing_set_is_not_tried_again():
    exposing = [frozenset({"image-gone"}), frozenset({"suspended", "finalizer"})]
    names = [*FAULTS, "suspended", "finalizer"]
    tried = list(searching.levels(names, exposing, 3))
    assert tried
    assert not [found for found in tried if any(one <= set(found) for one in exposing)]
    free = [
        s
        for s in itertools.combinations(sorted(set(names) - {"image-gone"}), 3)
        if not {"suspended", "finalizer"} <= set(s)
    ]
    assert sorted(tried) == sorted(free)


def test_the_likeliest_come_first():
    singles = [name for (name,) in searching.levels(["spot-notice", "suspended", "image-gone"], [], 1)]
    assert singles == ["image-gone", "suspended", "spot-notice"]
    assert searching.weight(["image-gone"]) > searching.weight(["image-gone", "suspended"])


def test_minimal_sets_are_found_and_confirmed_by_drills_that_run():
    argv = [word for name in FAULTS for word in ("--under", name)]
    found = json.loads(explore("--example", "dead-man", *argv, "--max-faults", "3", "--json", code=1).stdout)
    assert {tuple(one["faults"]): one["confirmed"] for one in found["minimal"]} == {
        ("image-gone",): True,
        ("cached-copy-evicted", "registry-unreachable"): True,
    }
    assert found["scenarios"] == 1 + 3 + 1, "undisturbed, each alone, the pair without what exposes; no triple is left"
    assert found["left"] == {}
    pair = next(one for one in found["minimal"] if len(one["faults"]) == 2)
    assert pair["replay"] == (
        "killcheck drill --layer nightly-off --under cached-copy-evicted --under registry-unreachable --example dead-man"
    )


@pytest.mark.weekly
def test_sets_across_layers_are_found_by_following_who_saved_the_night():
    """The image of one switch and the token of the other: neither alone does any harm, and no set of one layer does."""
    argv = [fixtures.spec("two-switches"), "--layer", "nightly-off", "--under", "image-gone", "--under", "token-dead"]
    found = json.loads(explore(*map(str, argv), "--max-faults", "2", "--json", code=1).stdout)
    sets = {tuple(one["faults"]): one["confirmed"] for one in found["minimal"]}
    first, second = (
        ("image-gone@nightly-off", "token-dead@nightly-off"),
        ("image-gone@second-switch", "token-dead@second-switch"),
    )
    assert sets == {tuple(sorted(pair)): True for pair in itertools.product(first, second)}
    assert found["inconclusive"] == [], "of two faults that stop one executor, one hides the other: not tried together"
    assert found["left"] == {}


@pytest.mark.weekly
def test_a_fault_of_a_named_layer_is_there_whoever_is_pulled():
    path = str(fixtures.spec("two-switches"))
    for under, verdict in (
        (["token-dead@second-switch"], "survived"),
        (["image-gone@nightly-off"], "covered"),
        (["image-gone@nightly-off", "token-dead@second-switch"], "exposed"),
    ):
        argv = [word for name in under for word in ("--under", name)]
        done = CliRunner().invoke(main, ["drill", path, "--layer", "nightly-off", *argv, "--json"])
        (result,) = json.loads(done.stdout)["drills"]
        assert (result["verdict"], set(result["bites"])) == (verdict, set(under)), result["why"]
        assert result["problems"] == []


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("image-gone@second-swich", 2, "the spec has no layer 'second-swich'; did you mean second-switch?"),
        ("image-goen@second-switch", 2, "did you mean image-gone?"),
        ("keda-minimum@second-switch", 3, "keda-minimum is no fault of a layer's own executor"),
        ("token-dead@second-swich=2s", 2, "did you mean second-switch?"),
        ("token-dead=2s..1s", 2, "expected a fault to be lifted after it struck, found '2s..1s'"),
        ("token-dead=5", 2, "expected a duration such as 90s"),
        ("clocks-back=5s", 2, "clocks-back is of a whole night"),
    ],
)
def test_a_fault_that_cannot_be_another_layers_or_of_a_time_says_why(name, code, says):
    path = str(fixtures.spec("two-switches"))
    done = CliRunner().invoke(main, ["drill", path, "--layer", "nightly-off", "--under", name, "--no-color"])
    assert done.exit_code == code, done.output
    assert says in " ".join(done.output.split())


def test_nothing_found_is_proven_only_where_everything_was_tried():
    argv = ("--under", "registry-unreachable", "--max-faults", "2")
    assert json.loads(explore("--example", "dead-man", *argv, "--json", code=0).stdout)["minimal"] == []
    told = explore("--example", "dead-man", *argv, "--under", "api-brownout", "--budget", "1", code=3).stdout
    assert "not tried: 1 sets of 1 fault(s) (--budget)" in told
    assert "not tried: api-brownout" in told


@pytest.mark.parametrize(("most", "code"), [("2", 0), ("3", 3)])
def test_a_part_is_proven_only_where_nothing_of_it_waits_for_others(tmp_path, most, code):
    argv = [word for name in ("podsecurity", "registry-unreachable", "laptop-killed") for word in ("--under", name)]
    part = ("--shard", "1/2", "--tree", str(tmp_path / "one.jsonl"), "--max-faults", most)
    told = explore("--example", "dead-man", "--layer", "nightly-off", *argv, *part, code=code).stdout
    assert "sets of 2 faults, by other parts" in told
    assert ("larger sets wait until they are known" in told) == (code == 3)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ecr-token-expired", "ecr-token-expired"),  # of another cluster
        ("image-gone@nightly-off", ""),  # of a named layer: tried as such
        ("cli-gone", "means nothing to nightly-off"),
    ],
)
@pytest.mark.one_in(3)
def test_what_was_named_is_never_left_out(name, why):
    found = json.loads(
        explore("--example", "dead-man", "--under", name, "--max-faults", "1", "--json", code=3 if why else 1).stdout
    )
    assert found["scenarios"] == 2, "undisturbed, and under it"
    told = [(one["faults"], one["why"]) for one in (*found["inconclusive"], *found["minimal"])]
    assert [(faults, why in said) for faults, said in told] == [([name], True)], told


@pytest.mark.weekly
def test_two_nights_are_no_night():
    argv = ("--under", "clocks-forward", "--under", "clocks-back", "--max-faults", "2")
    found = json.loads(explore("--example", "dead-man", *argv, "--json", code=0).stdout)
    assert (found["refused"], found["inconclusive"]) == (1, [])


def test_a_real_drill_that_proves_nothing_refutes_nothing():
    one = searching.Found(searching.Scenario("nightly-off", ("image-gone",)), "exposed", "modelled")
    found = searching.Explored(1, (one,), (), {}, (), 1.0, 1)
    for verdict, confirmed in ((Verdict.EXPOSED, True), (Verdict.INCONCLUSIVE, None), (Verdict.COVERED, False)):
        said = DrillResult("nightly-off", ("image-gone",), verdict, "said")
        assert searching.confirm(found, [said]).minimal[0].confirmed is confirmed


def test_a_fault_is_there_from_when_to_when_it_is_said():
    """Its executor tries again, soon and then later: 4 s of missing rights are made up for, 4 min are not."""
    ends = {
        "rolebinding-gone=..4m": ("exposed", "403 Forbidden"),
        "rolebinding-gone=..4s": ("survived", "turned the GPUs off"),
        "rolebinding-gone=1h": ("inconclusive", "everything was over before it struck (from 1h after the trigger on)"),
        "image-gone=2s": ("inconclusive", "is of the executor's Job as it is made"),
    }
    kept = []
    searching.explore(
        Session(fixture="dead-man"),
        seconds=lambda: 0.0,
        workers=1,
        max_faults=1,
        only_faults=list(ends),
        keep=kept.append,
    )
    found = {one.scenario.faults[0]: one for one in kept if one.scenario.faults}
    assert {name: (one.verdict, ends[name][1] in one.why) for name, one in found.items()} == {
        name: (verdict, True) for name, (verdict, _) in ends.items()
    }, found


def searched(change, kind="CronJob", path=("spec", "jobTemplate", "spec", "template", "spec", "containers", 0), **more):
    """Of the reference path with its executor, or another part of it, changed."""
    session = Session(fixture="dead-man")
    session._objects = [copy(obj) for obj in session.objects]
    for obj in session._objects:
        if obj["kind"] == kind:
            change(dig(obj, *path))
    return searching.explore(session, seconds=lambda: 0.0, workers=1, max_faults=1, **more)


def test_an_executor_that_cannot_be_read_is_not_modelled_and_proves_nothing():
    def change(container):
        container["image"] = "registry.example.com/ours:1"  # nothing is known of what it contains
        container["command"] = ["aws", "ec2", "stop-instances", "--instance-ids", "i-1"]

    found = searched(change, only_faults=["image-gone"])
    assert not [one for one in found.minimal if not one.scenario.faults]
    assert any(not one.scenario.faults for one in found.inconclusive)


def test_a_path_that_does_not_work_undisturbed_is_its_own_minimal_set():
    def change(container):
        container["command"] = ["kubectl", "scale", "deployment/vllm", "--replicas=0"]  # not in this image

    found = searched(change, only_faults=["image-gone", "suspended"])
    assert [one.scenario.faults for one in found.minimal] == [()]
    assert found.tried == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [(lambda spec: dig(spec, "template", "spec").update(nodeSelector={"of": "nowhere"}), "no steady state")],
)
def test_a_path_that_never_gets_on_is_found_so_by_every_scenario(change, why):
    """What ready-making came to is thrown away: each fork looks for itself, and says what it saw."""
    found = searched(change, "Deployment", ("spec",), only_faults=["image-gone", "suspended"])
    assert {one.scenario.faults for one in found.inconclusive} == {(), ("image-gone",), ("suspended",)}
    assert all(why in one.why for one in found.inconclusive), found.inconclusive
    assert found.minimal == ()


@pytest.mark.parametrize(
    ("fixture", "layer", "flaw"),
    [("self-terminating", "idle-monitor", "acts on a busy target"), ("held-mornings", "hold", "although ConfigMap")],
)
@pytest.mark.one_in(2)
def test_what_acts_only_under_a_condition_is_not_exposed_by_a_model_that_has_none(fixture, layer, flaw):
    found = searching.explore(
        Session(fixture=fixture),
        seconds=lambda: 0.0,
        workers=1,
        max_faults=1,
        only_layers=[layer],
        only_faults=["suspended"],
    )
    (undisturbed,) = [one for one in found.inconclusive if not one.scenario.faults]
    assert flaw in undisturbed.why
    assert not [one for one in found.minimal if not one.scenario.faults]


@pytest.mark.parametrize(
    ("dies", "why"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "its process died"),
        (lambda: os.kill(os.getpid(), signal.SIGALRM), "took longer than"),
        (lambda: os._exit(0), "its process died"),
        (lambda: {}["nothing"], "KeyError"),
        (sys.exit, "SystemExit"),
    ],
)
def test_a_scenario_whose_process_dies_proves_nothing(dies, why):
    scenario = searching.Scenario("nightly-off", ())
    found = searching._forked(dies, scenario)
    assert (found.verdict, found.scenario) == ("inconclusive", scenario)
    assert why in found.why


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--under", "image-gone@nightly"), "the spec has no layer 'nightly'; did you mean nightly-off?"),
        (("--under", "image-gone+suspended"), "a search combines faults by itself"),
        (("--layer", "nightly"), "did you mean nightly-off?"),
        (("--under", "image-goen"), "did you mean image-gone?"),
        (("--max-faults", "9"), "not in the range"),
    ],
)
def test_bad_input_is_one_sentence(argv, says):
    done = explore("--example", "dead-man", *argv, code=2)
    assert says in done.stderr
    assert "Traceback" not in done.output


# -- outside Kubernetes ------------------------------------------------------------------------------------
@pytest.mark.weekly
def test_a_machines_sets_are_drilled_with_its_own_programs():
    path = str(fixtures.spec("single-controller"))
    done = explore(path, "--layer", "daily-cycle", "--under", "cli-gone", "--json", code=1)
    document = json.loads(done.stdout)
    assert [document[part] for part in ("scenarios", "left", "unmodelled", "inconclusive")] == [2, {}, [], []]
    (found,) = document["minimal"]
    assert (found["faults"], found["confirmed"]) == (["cli-gone"], True)
    assert "gcloud: command not found" in found["why"]


def test_somebody_elses_machine_is_not_searched_unasked(tmp_path):
    shutil.copytree(fixtures.path("single-controller"), tmp_path / "path")
    done = explore(str(tmp_path / "path" / "killcheck.yaml"), code=2)
    assert "the machine's own programs run on this host while sets of faults are tried; --exec host" in done.output
