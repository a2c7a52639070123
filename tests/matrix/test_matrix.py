"""The matrix: which drills, what the policy lets pass, side by side as one after the other."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from killcheck.fixtures import spec

from killcheck.cli import main
from killcheck.kube.objects import copy
from killcheck.run import matrix
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec.killpath import Outcome
from killcheck.spec.specfile import load
from killcheck.verdict import DrillResult, Verdict

PATH = load(spec("two-switches"))


def test_every_layer_is_drilled_undisturbed_and_under_what_applies():
    planned = matrix.plan(PATH, only_faults=["image-gone", "suspended"])
    assert [(d.layer, d.faults, d.require) for d in planned] == [
        (layer, faults, Outcome.COVERED if faults else Outcome.SURVIVED)
        for layer in ("nightly-off", "second-switch")
        for faults in ((), ("image-gone",), ("suspended",))
    ]


def test_faults_without_their_lever_are_left_out_and_named():
    assert "argo-selfheal" in matrix.left_out(PATH, set())
    assert "argo-selfheal" not in {name for d in matrix.plan(PATH, capabilities=set()) for name in d.faults}


@pytest.mark.parametrize(
    ("fixture", "layer", "fault", "there"),
    [
        ("kueue-quota", "nightly-hold", "keda-minimum", False),
        ("scale-to-zero", "video-idle", "keda-minimum", True),
        ("scale-to-zero", "video-idle", "pool-floor", False),
        ("kueue-quota", "nightly-hold", "pool-floor", True),
        ("spot-training", "spot-reclaim", "spot-notice", False),
        ("kueue-quota", "nightly-hold", "spot-notice", True),
    ],
)
def test_what_finds_nothing_to_act_on_is_no_cell(fixture, layer, fault, there):
    planned = matrix.plan(load(spec(fixture)), only_layers=[layer])
    assert ((fault,) in [d.faults for d in planned]) is there


def test_on_a_real_cluster_what_is_there_says_which_cells_mean_anything():
    found = Session(fixture="dead-man")
    job = copy(next(obj for obj in found.objects if obj["kind"] == "CronJob"))
    job["spec"]["concurrencyPolicy"] = "Allow"
    standing = matrix.Standing([job], {"keda-minimum": "KEDA is not installed here"})
    before, now = (
        {name for d in matrix.plan(found.kill_path, standing=one) for name in d.faults} for one in (None, standing)
    )
    assert before - now >= {"keda-minimum", "job-hung-under-forbid"}
    assert now >= {"image-gone", "token-dead", "suspended"}
    said = matrix.unneeded(found.kill_path, set(), standing.objects, standing.absent)
    assert "keda-minimum: KEDA is not installed here" in said
    assert "job-hung-under-forbid: concurrencyPolicy is Allow: a Job that hangs does not hold up the next" in said
    named = matrix.plan(found.kill_path, only_faults=["keda-minimum"], standing=standing)
    assert ("keda-minimum",) in [d.faults for d in named]  # what was named is never left out


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("machine-off", "machine-off means nothing to nightly-off: the layer is no program of a machine"),
        ("ecr-token-expired", "ecr-token-expired cannot be injected on embedded: it needs stand-in"),
        ("suspended+machine-off", "machine-off means nothing to nightly-off"),
        ("suspended@nightly-off", ""),
    ],
)
@pytest.mark.one_in(2)
def test_what_was_named_is_never_left_out(named, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(main, ["drill", "--example", "dead-man", "--matrix", "--under", named, "--json"])
    cells = json.loads(run.stdout)["matrix"]["cells"]
    assert [(cell["layer"], cell["fault"]) for cell in cells] == [("nightly-off", None), ("nightly-off", named)]
    assert cells[0]["verdict"] == "survived"
    if why:
        assert (cells[1]["verdict"], run.exit_code) == ("inconclusive", 3)
        assert why in cells[1]["why"]
    else:
        assert cells[1]["verdict"] in ("survived", "covered", "exposed"), cells[1]


@pytest.mark.parametrize(
    ("second", "undisturbed", "zero_s", "foregone"),
    [
        (True, Verdict.INCONCLUSIVE, None, True),
        (True, Verdict.INCONCLUSIVE, 60.0, False),
        (True, Verdict.EXPOSED, None, False),
        (False, Verdict.INCONCLUSIVE, None, False),
    ],
    ids=["nothing was seen", "the GPUs went off", "they stayed on", "somebody named it"],
)
def test_what_nothing_was_seen_of_undisturbed_is_not_drilled_under_faults(second, undisturbed, zero_s, foregone):
    planned = PlannedDrill("off", ("image-gone",), second=second)
    others = DrillResult("other", (), Verdict.INCONCLUSIVE, "")
    found = planned.foregone([others, DrillResult("off", (), undisturbed, "", seconds_to_zero=zero_s)])
    assert (found is not None) is foregone
    assert found is None or found.verdict is Verdict.INCONCLUSIVE
    assert planned.foregone([others]) is None


@pytest.mark.parametrize(
    ("required", "verdict", "passes"),
    [
        (Outcome.SURVIVED, Verdict.SURVIVED, True),
        (Outcome.SURVIVED, Verdict.COVERED, False),
        (Outcome.COVERED, Verdict.COVERED, True),
        (Outcome.COVERED, Verdict.EXPOSED, False),
        (Outcome.COVERED, Verdict.INCONCLUSIVE, False),
        (Outcome.KNOWN, Verdict.EXPOSED, True),
        (Outcome.KNOWN, Verdict.SURVIVED, True),
        (Outcome.KNOWN, Verdict.INCONCLUSIVE, False),
    ],
)
def test_the_policy_decides(required, verdict, passes):
    assert matrix.Cell("l", "f", required, DrillResult("l", ("f",), verdict, "")).passes is passes
    other = matrix.Cell("l", "f", required, DrillResult("l", ("f",), verdict, "", cause="it is gone"), ("401",))
    assert other.passes is (passes and verdict is not Verdict.EXPOSED)
    assert "another cause" in other.word or verdict is not Verdict.EXPOSED or required is not Outcome.KNOWN
    left = DrillResult("l", ("f",), verdict, "", problems=("a quota is still there",))
    assert not matrix.Cell("l", "f", required, left).passes


def test_side_by_side_finds_what_one_after_the_other_finds(tmp_path):
    planned = [PlannedDrill("nightly-off"), PlannedDrill("nightly-off", ("image-gone",))]
    session = Session(fixture="two-switches")
    both = [Run(session, planned, folder=tmp_path / str(n), workers=n).execute() for n in (1, 2)]
    told = [[(str(d.verdict), d.off_by, d.seconds_to_zero) for d in run.drills] for run in both]
    assert [verdict for verdict, _, _ in told[0]] == ["survived", "covered"]
    assert [t[:2] for t in told[0]] == [t[:2] for t in told[1]]


@pytest.mark.parametrize(
    ("cause", "known"),
    [
        ((), True),
        (("is suspended",), True),
        (("cronjob * IS Suspended: nothing",), True),
        (("401", "suspended"), True),
        (("401",), False),
        (("suspended * CronJob",), False),
        (("is (suspended)",), False),
    ],
)
def test_a_known_exposure_is_one_of_the_causes_that_are_named(cause, known):
    result = DrillResult("l", ("f",), Verdict.EXPOSED, "", cause="CronJob off is suspended: nothing fires")
    assert result.meets(Outcome.KNOWN, cause) is known
    assert not result.meets(Outcome.COVERED, cause)


@pytest.mark.parametrize(
    ("rule", "passes", "code"),
    [
        ("{fault: suspended, cause: '*'}", True, 0),
        ("{fault: suspended, cause: is suspended}", True, 0),
        ("{fault: suspended, cause: ['401', image]}", False, 1),
        ("{fault: suspended, require: covered}", False, 1),
    ],
)
@pytest.mark.one_in(2)
def test_the_command_prints_one_document_and_fails_by_policy(tmp_path, rule, passes, code):
    copied = tmp_path / "killcheck.yaml"
    copied.write_text(spec("dead-man").read_text().replace("  rules:\n", f"  rules:\n    - {rule}\n"))
    done = CliRunner().invoke(
        main,
        [
            "drill",
            str(copied),
            "--matrix",
            "--under",
            "suspended",
            "--json",
            "--exec",
            "host",
            "--manifests",
            str(spec("dead-man").parent),
        ],
    )
    assert done.exit_code == code, done.output
    document = json.loads(done.stdout)
    cells = {(c["layer"], c["fault"]): (c["verdict"], c["passes"]) for c in document["matrix"]["cells"]}
    assert cells == {("nightly-off", None): ("survived", True), ("nightly-off", "suspended"): ("exposed", passes)}
