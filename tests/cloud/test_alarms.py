"""P5: alert rules evaluated on what a drill produced; what PromQL is understood, and what is not is said to be not."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from killcheck import fixtures
from killcheck.drill.sequence import Options
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec import specfile
from killcheck.spec.cloud_access import Alarm
from killcheck.spec.killpath import Proof
from killcheck.witnesses import alarms
from killcheck.witnesses.alarms import History
from killcheck.witnesses.promql import Unsupported, duration_s, parse


class Series:
    """A source with the same value at every moment."""

    def __init__(self, **metrics):
        self.metrics = {
            name: {frozenset(labels.items()): value for labels, value in series} for name, series in metrics.items()
        }

    def known(self, name):
        return name in self.metrics

    def instant(self, name, at):
        return self.metrics.get(name, {})

    def window(self, name, at, length):
        return {labels: [value] * max(1, int(length // 30)) for labels, value in self.instant(name, at).items()}

    def epoch(self, at):
        return 1000.0 + at


A, B = {"pod": "a", "ns": "x"}, {"pod": "b", "ns": "y"}
SOURCE = Series(util=[(A, 0.0), (B, 80.0)], other=[({"pod": "a"}, 2.0)], none=[])


def value(text):
    found = parse(text).evaluate(SOURCE, 60.0)
    return {tuple(sorted(labels)): one for labels, one in found.items()}


PA, PB = (("ns", "x"), ("pod", "a")), (("ns", "y"), ("pod", "b"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("util", {PA: 0.0, PB: 80.0}),
        ("util < 5", {PA: 0.0}),
        ("util == bool 0", {PA: 1.0, PB: 0.0}),
        ('util{ns="x"}', {PA: 0.0}),
        ('util{ns!="x"}', {PB: 80.0}),
        ('util{ns=~"x|z"}', {PA: 0.0}),
        ('util{ns!~"x.*"}', {PB: 80.0}),
        ('util{missing=""}', {PA: 0.0, PB: 80.0}),
        ("sum(util)", {(): 80.0}),
        ("avg by (ns) (util)", {(("ns", "x"),): 0.0, (("ns", "y"),): 80.0}),
        ("max(util) without (ns)", {(("pod", "a"),): 0.0, (("pod", "b"),): 80.0}),
        ("count(util > 5)", {(): 1.0}),
        ("avg_over_time(util[5m]) < 5", {PA: 0.0}),
        ("sum_over_time(util{ns='y'}[1m])", {PB: 160.0}),
        ("util and on(pod) other", {PA: 0.0}),
        ("util unless on(pod) other", {PB: 80.0}),
        ("util + on(pod) other", {(("pod", "a"),): 2.0}),
        ("absent(none)", {(): 1.0}),
        ("absent(util)", {}),
        ("none or util", {PA: 0.0, PB: 80.0}),
        ("time() - 60", {(): 1000.0}),
        ("1 + 2 * 3 - 4 / 2", {(): 5.0}),
        ("-(2) ", {(): -2.0}),
        ("80 - util", {PA: 80.0, PB: 0.0}),
        ("5 > util", {PA: 0.0}),
        ("vector(1) > 0", {(): 1.0}),
        ("abs(-util)", {PA: 0.0, PB: 80.0}),
    ],
)
def test_what_is_understood_means_what_prometheus_means(text, expected):
    assert value(text) == expected


def test_a_division_by_zero_is_no_number_and_fires_nothing():
    assert all(math.isnan(one) for one in value("other / on(pod) util").values())
    assert value("other / on(pod) util > 0") == {}


@pytest.mark.parametrize(
    "text",
    [
        "rate(util[5m])",
        "increase(util[1h])",
        "util offset 1h",
        "util[5m]",
        "histogram_quantile(0.9, util)",
        "util * on(pod) group_left other",
        '{__name__="util"}',
        "util >",
        "sum(util",
        "util{ns=x}",
        "util{ns=~'('}",
        "max_over_time(util[1h:5m])",
        "sum(1)",
        "unknown_metric > 0",
        "topk(1, util)",
        "util @ 5",
        "",
    ],
)
def test_what_is_outside_is_refused_and_never_taken_for_silence(text):
    with pytest.raises(Unsupported):
        parse(text).evaluate(SOURCE, 0.0)


@pytest.mark.parametrize(("text", "seconds"), [("5m", 300.0), ("1h30m", 5400.0), ("500ms", 0.5), ("2d", 172800.0)])
def test_durations(text, seconds):
    assert duration_s(text) == seconds


# -- rules on a history ------------------------------------------------------------------------------------
START = datetime(2026, 11, 21, 3, tzinfo=UTC)
POD = {
    "metadata": {"namespace": "inference", "name": "vllm-1"},
    "spec": {"nodeName": "n1", "containers": [{"name": "vllm", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
    "status": {"phase": "Running"},
}


def history(*, stay_on=False, gone_at=None):
    made = History(START, stay_on=stay_on)
    made.record(START, alarms.samples([POD], [], [], []))
    if gone_at is not None:
        made.record(START + timedelta(seconds=gone_at), alarms.samples([], [], [], []))
    return made


def rule(expr, wait="0s", name="GPUIdle"):
    obj = {
        "metadata": {"namespace": "monitoring", "name": "gpus"},
        "spec": {
            "groups": [
                {"rules": [{"alert": name, "expr": expr, "for": wait}, {"record": "x", "expr": "DCGM_FI_DEV_GPU_UTIL"}]}
            ]
        },
    }
    return alarms.rules_of([obj], Alarm())


@pytest.mark.parametrize(
    ("expr", "wait", "fires"),
    [
        ("DCGM_FI_DEV_GPU_UTIL < 5", "10m", 600.0),
        ("DCGM_FI_DEV_GPU_UTIL < 5", "0s", 0.0),
        # Busy until the trigger: the average falls below 3 when one busy sample of sixty is left.
        ("avg_over_time(DCGM_FI_DEV_GPU_UTIL[30m]) < 3", "0s", 1740.0),
        ("avg_over_time(DCGM_FI_DEV_GPU_UTIL[30m]) < 3", "10m", 2340.0),
        ("avg_over_time(DCGM_FI_DEV_GPU_UTIL[30m]) < 0", "0s", None),
        ("DCGM_FI_DEV_GPU_UTIL < 5", "2h", None),
        ('DCGM_FI_DEV_GPU_UTIL{exported_namespace="other"} < 5', "0s", None),
        ('sum(kube_pod_container_resource_requests{resource="nvidia_com_gpu"}) > 1', "5m", 300.0),
    ],
)
def test_when_a_rule_fires_while_the_gpus_stay_on(expr, wait, fires):
    (told,) = alarms.evaluate(rule(expr, wait), history(), 3600.0)
    assert (told.fires_s, told.unproven) == (fires, "")


def test_gpus_that_went_off_ring_nothing_and_the_same_night_with_them_on_does():
    rules = rule("DCGM_FI_DEV_GPU_UTIL < 5", "10m")
    assert alarms.evaluate(rules, history(gone_at=300.0), 3600.0)[0].fires_s is None
    assert alarms.evaluate(rules, history(gone_at=300.0, stay_on=True), 3600.0)[0].fires_s == 600.0


def test_only_alerts_about_gpus_or_those_that_are_named():
    assert rule("up == 0") == []
    obj = {"metadata": {"name": "x"}, "spec": {"groups": [{"rules": [{"alert": "Down", "expr": "up == 0"}]}]}}
    (named,) = alarms.rules_of([obj], Alarm(alerts=("Do*",)))
    assert "up is nothing that a drill produces" in alarms.evaluate([named], history(), 3600.0)[0].unproven


def test_a_wait_that_cannot_be_read_is_unproven():
    assert "no duration" in alarms.evaluate(rule("DCGM_FI_DEV_GPU_UTIL < 5", "soon"), history(), 60.0)[0].unproven


# -- in a drill --------------------------------------------------------------------------------------------
def drilled(tmp_path, rules, *under, proof=True):
    path = specfile.load(fixtures.spec("dead-man"))
    wanted = path.proof | {Proof.P5} if proof else path.proof
    session = Session(fixture="dead-man", _kill_path=replace(path, proof=wanted, alarm=Alarm(within_s=3600.0)))
    objects = [
        *session.objects,
        *(
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PrometheusRule",
                "metadata": {"name": "gpus", "namespace": "inference"},
                "spec": {"groups": [{"name": "gpus", "rules": rules}]},
            }
            for _ in rules[:1]
        ),
    ]
    session._objects = objects
    planned = PlannedDrill("nightly-off", under, Options(horizon_s=7200.0))
    return Run(session, [planned], folder=tmp_path).execute().drills[0]


IDLE = {"alert": "GPUIdle", "expr": "avg_over_time(DCGM_FI_DEV_GPU_UTIL[15m]) < 3", "for": "5m"}


def test_p5_is_proven_by_a_rule_that_would_fire(tmp_path):
    drill = drilled(tmp_path, [IDLE])
    assert str(drill.verdict) == "survived", drill.why
    assert any("alert GPUIdle fires 20 min after the trigger, had the GPUs stayed on" in note for note in drill.notes)


@pytest.mark.parametrize(
    ("rules", "verdict", "why"),
    [
        ([], "exposed", "no alert is about idle GPUs"),
        ([{**IDLE, "for": "12h"}], "exposed", "GPUIdle would not fire"),
        (
            [{**IDLE, "expr": "rate(DCGM_FI_DEV_GPU_UTIL[5m]) == 0"}],
            "inconclusive",
            "P5 unproven: GPUIdle: not evaluated",
        ),
    ],
)
def test_p5_without_an_alarm_is_exposed_and_one_that_nobody_can_evaluate_unproven(tmp_path, rules, verdict, why):
    drill = drilled(tmp_path, rules)
    assert str(drill.verdict) == verdict
    assert why in drill.why


def test_a_night_on_which_they_stay_on_says_when_the_alarm_rings(tmp_path):
    drill = drilled(tmp_path, [IDLE], "image-gone", proof=False)
    assert str(drill.verdict) == "exposed"
    assert any("alert GPUIdle fires 20 min after the trigger (evaluated" in note for note in drill.notes)
