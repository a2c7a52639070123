"""P5: alert rules evaluated on what a drill produced; what PromQL is understood, and what is not is said to be not."""

import json
import math
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from killcheck import fixtures
from killcheck.alerting import chain, loading, rules, servers
from killcheck.drill.sequence import Options
from killcheck.promql.language import Unsupported, duration_s, parse
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec import specfile
from killcheck.spec.cloud_access import Alarm
from killcheck.spec.killpath import Proof
from killcheck.text.values import replace
from killcheck.witnesses import alarms, exported
from killcheck.witnesses.series import History


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
        moments = [at - 30.0 * n for n in reversed(range(max(1, int(length // 30))))]
        return {labels: [(one, value) for one in moments] for labels, value in self.instant(name, at).items()}

    def spend(self, moments):
        """As many as they like."""

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


def test_a_division_by_zero_is_infinite_as_in_prometheus_and_nothing_by_nothing_is_no_number():
    assert value("other / on(pod) util > 0") == {(("pod", "a"),): math.inf}
    assert all(math.isnan(one) for one in value("util{pod='a'} / util{pod='a'}").values())


@pytest.mark.parametrize(
    "text",
    [
        "util[5m]",
        "histogram_quantile(0.9, util)",
        '{__name__="util"}',
        "util >",
        "sum(util",
        "util{ns=x}",
        "util{ns=~'('}",
        "sum(1)",
        "unknown_metric > 0",
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
    made.record(START, exported.samples([POD], [], [], []))
    if gone_at is not None:
        made.record(START + timedelta(seconds=gone_at), exported.samples([], [], [], []))
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
    return rules.rules_of([obj], Alarm())


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
        ("increase(DCGM_FI_DEV_GPU_UTIL[5m]) < 0", "0s", None),
        ('DCGM_FI_DEV_GPU_UTIL < 5 and on(pod) kube_pod_status_phase{phase="Running"} == 1', "10m", 600.0),
        ("DCGM_FI_DEV_GPU_UTIL offset 10m < 5", "0s", 600.0),
        ("max_over_time(DCGM_FI_DEV_GPU_UTIL[20m:1m]) < 5", "0s", 1140.0),
        ("gpu:idle:sum > 0", "5m", 300.0),
    ],
)
def test_when_a_rule_fires_while_the_gpus_stay_on(expr, wait, fires):
    recorded = [rules.Record("gpu:idle:sum", "sum by (pod) (DCGM_FI_DEV_GPU_UTIL < bool 5)", (("team", "x"),))]
    (told,) = alarms.evaluate(rule(expr, wait), history(), 3600.0, recorded)
    assert (told.fires_s, told.unproven) == (fires, "")


@pytest.mark.parametrize(
    "expr",
    [
        "max_over_time(DCGM_FI_DEV_GPU_UTIL[1y:1s]) < 5",
        "DCGM_FI_DEV_GPU_UTIL and on() max_over_time(vector(1)[1y:1s]) < 0",
        "DCGM_FI_DEV_GPU_UTIL and on() max_over_time(max_over_time(vector(1)[1d:1m])[1d:1m]) < 0",
        "max_over_time(gpu:idle:sum[5y]) < 0",
    ],
)
def test_a_rule_that_looks_at_more_than_a_night_is_worth_is_not_evaluated(expr):
    recorded = [rules.Record("gpu:idle:sum", "sum by (pod) (DCGM_FI_DEV_GPU_UTIL < bool 5)", ())]
    (told,) = alarms.evaluate(rule(expr), history(), 3600.0, recorded)
    assert (told.fires_s, "moments" in told.unproven) == (None, True)


def test_a_range_beyond_the_series_is_cut_where_they_begin():
    (told,) = alarms.evaluate(rule("max_over_time(DCGM_FI_DEV_GPU_UTIL[90y]) < 0"), history(), 300.0)
    assert (told.fires_s, told.unproven) == (None, "")


#: The fourth article's own.
ARTICLE = '(DCGM_FI_DEV_GPU_UTIL < 5) * on(node) group_left() (kube_node_labels{label_karpenter_sh_capacity_type="on-demand"})'


@pytest.mark.parametrize(
    ("capacity", "allowed", "fires", "silent"),
    [
        ("on-demand", None, 3600.0, False),
        ("on-demand", {"nodes": frozenset({"karpenter.sh/capacity-type"})}, 3600.0, False),
        ("on-demand", {"nodes": frozenset({"team"})}, None, False),  # the label is not exported
        ("on-demand", {}, None, False),  # no series at all
        ("spot", None, None, False),
    ],
)
def test_the_alert_of_the_fourth_article_joins_cards_to_their_nodes_labels(capacity, allowed, fires, silent):
    node = {"metadata": {"name": "n1", "labels": {"karpenter.sh/capacity-type": capacity}}, "status": {}}
    made = History(START, labels_taken=allowed is None)
    made.record(START, exported.samples([POD], [node], [], [], exported.Exporters(allowed)))
    (told,) = alarms.evaluate(rule(ARTICLE, "1h"), made, 3600.0)
    assert (told.fires_s, told.unproven) == (fires, "")
    taken = " ".join(told.taken)
    assert "label node" in taken
    assert ("--metric-labels-allowlist" in taken) is (allowed is None)


@pytest.mark.parametrize(
    ("expr", "taken"),
    [
        (
            'DCGM_FI_DEV_GPU_UTIL{exported_namespace="inference"} < 5',
            ["calls dcgm-exporter's labels exported_namespace"],
        ),
        (
            'DCGM_FI_DEV_GPU_UTIL{namespace="inference"} < 5',
            ["keeps dcgm-exporter's labels namespace (honorLabels: true"],
        ),
        ("sum by (pod, namespace) (DCGM_FI_DEV_GPU_UTIL) < 5", ["keeps dcgm-exporter's labels namespace, pod ("]),
        ("gpu:idle:sum > 0", ["keeps dcgm-exporter's labels pod"]),
        ("DCGM_FI_DEV_GPU_UTIL < 5", []),
    ],
)
def test_it_is_told_whose_labels_a_scrape_is_taken_to_keep(expr, taken):
    """One of the two is silent, by honorLabels of the ServiceMonitor."""
    recorded = [rules.Record("gpu:idle:sum", "sum by (pod) (DCGM_FI_DEV_GPU_UTIL < bool 5)", ())]
    (told,) = alarms.evaluate(rule(expr), history(), 3600.0, recorded)
    assert told.fires_s is not None
    assert [said in one for said, one in zip(taken, told.taken, strict=True)] == [True] * len(taken)


@pytest.mark.parametrize(
    ("status", "failures"),
    [
        ({}, {"": 0.0}),
        ({"failed": 2}, {"": 2.0}),
        (
            {"failed": 2, "conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]},
            {"BackoffLimitExceeded": 0.0, "DeadlineExceeded": 1.0, "Evicted": 0.0},
        ),
    ],
)
def test_why_a_job_failed_is_a_label_and_how_often_is_not_said_then(status, failures):
    job = {"metadata": {"name": "off", "namespace": "x"}, "spec": {"activeDeadlineSeconds": 60}, "status": status}
    said = list(exported.samples([], [], [job], []))
    assert failures == {of.get("reason", ""): n for name, of, n in said if name == "kube_job_status_failed"}
    assert ("kube_job_spec_active_deadline_seconds", 60.0) in {(name, n) for name, _, n in said}
    assert {name for name, _, _ in said} <= exported.KNOWN


def test_a_mistyped_metric_never_fires_and_its_name_is_told():
    (told,) = alarms.evaluate(rule("DCGM_FI_DEV_GPU_UTILISATION < 5"), history(), 3600.0)
    assert (told.fires_s, told.unproven) == (None, "")
    assert "it makes DCGM_FI_DEV_GPU_UTIL" in told.silent


def test_what_fires_while_the_gpus_work_says_nothing_of_a_night():
    told = alarms.evaluate(
        rule('sum(kube_pod_container_resource_requests{resource="nvidia_com_gpu"}) > 1'), history(), 60.0
    )
    assert "while the GPUs work too" in told[0].unproven


def test_a_label_that_a_program_on_the_node_gives_is_unknown_where_none_was_seen():
    expr = 'kube_node_labels{label_nvidia_com_gpu_product="H100"} unless on(node) DCGM_FI_DEV_GPU_UTIL > 5'
    assert "label_nvidia_com_gpu_product" in alarms.evaluate(rule(expr), history(), 60.0)[0].unproven


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (["--metric-labels-allowlist=nodes=[karpenter.sh/capacity-type,team],pods=[*]"], {"nodes", "pods"}),
        (["--port=8080"], set()),
    ],
)
def test_which_labels_kube_state_metrics_exports_is_read_from_its_arguments(words, allowed):
    image = "registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.17.0"
    deployment = {"spec": {"template": {"spec": {"containers": [{"image": image, "args": words}]}}}}
    assert set(exported.allowed_labels([deployment])) == allowed
    assert exported.allowed_labels([{"spec": {"template": {"spec": {"containers": [{"image": "nginx"}]}}}}]) is None


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool here")
@pytest.mark.parametrize(
    ("expr", "fires", "says"),
    [
        ("histogram_quantile(0.9, DCGM_FI_DEV_GPU_UTIL) > 0 or deriv(DCGM_FI_DEV_GPU_UTIL[10m]) < 0", 0.0, ""),
        ("predict_linear(DCGM_FI_DEV_GPU_UTIL[5m], 60) < 5", 300.0, ""),
        ("DCGM_FI_DEV_GPU_UTIL <<< 5", None, "Prometheus refuses it"),
    ],
)
def test_prometheus_own_engine_is_asked_what_is_not_understood_here(expr, fires, says):
    (told,) = alarms.evaluate(rule(expr), history(), 1200.0)
    assert told.unproven == ""
    assert (told.fires_s is None) is (fires is None)
    assert says in told.silent


def test_gpus_that_went_off_ring_nothing_and_the_same_night_with_them_on_does():
    rules = rule("DCGM_FI_DEV_GPU_UTIL < 5", "10m")
    assert alarms.evaluate(rules, history(gone_at=300.0), 3600.0)[0].fires_s is None
    assert alarms.evaluate(rules, history(gone_at=300.0, stay_on=True), 3600.0)[0].fires_s == 600.0


def test_only_alerts_about_gpus_or_those_that_are_named():
    assert rule("up == 0") == []
    obj = {"metadata": {"name": "x"}, "spec": {"groups": [{"rules": [{"alert": "Down", "expr": "up == 0"}]}]}}
    (named,) = rules.rules_of([obj], Alarm(alerts=("Do*",)))
    assert "up is nothing that a drill produces" in alarms.evaluate([named], history(), 3600.0)[0].unproven


IDLES = "DCGM_FI_DEV_GPU_UTIL"


def grouped(expr, *others, labels=None, **group):
    """A PrometheusRule of one alert, its group with further fields and rules."""
    said = {"alert": "GPUIdle", "expr": expr, "for": "0s", "labels": labels or {}}
    spec = {"groups": [{"name": "g", **group, "rules": [said, *others]}]}
    return {"kind": "PrometheusRule", "metadata": {"namespace": "monitoring", "name": "gpus"}, "spec": spec}


@pytest.mark.parametrize(
    ("made", "unproven", "silent"),
    [
        # What Prometheus' parser refuses, and so may not be taken to fire.
        (grouped(f"avg_over_time({IDLES}[10m]) offset 5m < 3"), "an offset of something", "pars"),
        (grouped(f"{IDLES} < 5 and on(node) group_left() kube_pod_info"), "group_left after 'and'", "pars"),
        (grouped(f"{IDLES} * on(node) group_left(node) kube_pod_info < 5"), "a label both in on", "pars"),
        (grouped(f"{IDLES} + bool 0 < 5"), "bool after '+'", "pars"),
        (grouped(f"sum by (node pod) ({IDLES}) < 5"), "expected ,", "pars"),
        (grouped(IDLES + '{gpu="0" pod="x"} < 5'), "expected ,", "pars"),
        (grouped(f"avg_over_time({IDLES}[1m1h]) < 5"), "is no duration", "pars"),
        (grouped(IDLES + '{gpu=~"(?!x).*"} < 5'), "no regular expression of Prometheus'", "pars"),
        # What it fails to evaluate.
        (
            grouped(f'label_replace(sum by (gpu) ({IDLES}), "gpu", "all", "gpu", ".*") < 5'),
            "several series the same",
            "refuses it",
        ),
        (
            grouped(f"sum by (gpu, node) ({IDLES}) * on(node) group_left(gpu) kube_pod_info < 5"),
            "the same",
            "refuses it",
        ),
        (
            grouped(f"sum by (gpu) ({IDLES}) < 5", labels={"gpu": "all"}),
            None,
            "its labels make several alerts the same",
        ),
        (grouped(f"{IDLES} < 5", limit=1), None, "its group's limit is 1"),
        # What its group says of when it is evaluated.
        (grouped(f"{IDLES} < 5", interval="6h"), None, ""),
        (grouped(f"{IDLES} < 5", query_offset="2h"), None, ""),
        # Labels that nobody knows, and values that nothing has.
        (grouped(f"{IDLES} offset -1h < 5"), "yet to come", None),
        (grouped(f"kube_cronjob_status_active > 0 or {IDLES} < 5"), "a copy that its CronJob does not own", None),
        (grouped('karpenter_nodepools_usage{resource_type="nvidia.com/gpu"} > 0'), "change with its version", None),
        (grouped(IDLES + '{job="nvidia-dcgm-exporter"} < 5'), "what the scrape calls its job", None),
        (grouped(IDLES + '{modelName=~".*H100.*"} < 5'), "a label modelName is not known", None),
        (grouped(IDLES + '{exported_namepace="inference"} < 5'), "it has exported_namespace", None),
        (grouped(IDLES + '{namespace="inference",exported_namespace="inference"} < 5'), "is read by both", None),
        (grouped(f"{IDLES} < 5 and on(uid) kube_pod_info"), "joined by uid", None),
        (grouped(IDLES + '{exported_namespace="infrence"} < 5'), None, "(there is inference)"),
        (grouped(f"max by (node) ({IDLES}) < 5 and ignoring(pod, namespace) kube_pod_info"), None, ""),
    ],
)
def test_what_never_rings_is_not_taken_to_ring(made, unproven, silent):
    """``unproven``: what is said without promtool; ``silent``: what is known, or said with it (None: nothing)."""
    (told,) = alarms.evaluate(rules.rules_of([made], Alarm()), history(), 3600.0)
    assert told.fires_s is None
    if told.unproven or silent is None:
        assert unproven is not None
        assert unproven in told.unproven
    else:
        assert silent in told.silent


def test_what_no_schema_would_take_among_groups_is_passed_over():
    odd = {"name": "g", "interval": "9" * 5000 + "s", "rules": ["x", {"alert": "A", "expr": IDLES, "labels": ["x"]}]}
    obj = {"metadata": {"name": "x"}, "spec": {"groups": ["x", None, {"rules": 5}, odd]}}
    assert [one.alert for one in rules.rules_of([obj], Alarm())] == ["A"]


SENDS = {"alertmanagers": [{"namespace": "monitoring", "name": "alertmanager-operated", "port": "web"}]}


def prometheus(namespace="monitoring", **spec):
    told = {"alerting": SENDS, **spec}
    return {"kind": "Prometheus", "metadata": {"namespace": namespace, "name": "k8s"}, "spec": told}


@pytest.mark.parametrize(
    ("server", "silent", "problem", "interval"),
    [
        (prometheus(ruleSelector={}), "", "", None),
        (prometheus(), "selects no rules of that namespace", "", None),
        (prometheus("other", ruleSelector={}), "selects no rules of that namespace", "", None),
        (prometheus("other", ruleSelector={}, ruleNamespaceSelector={}), "", "", None),
        (prometheus(ruleSelector={"matchLabels": {"release": "kps"}}), "k8s is release=kps", "", None),
        (prometheus(ruleSelector={"matchExpressions": [{"key": "a", "operator": "x"}]}), "selects no rules", "", None),
        (prometheus(ruleSelector="x"), "selects no rules", "", None),
        (prometheus(ruleSelector={}, evaluationInterval="5m"), "", "", 300.0),
        (prometheus(ruleSelector={}, enforcedNamespaceLabel="namespace"), "", "enforcedNamespaceLabel", None),
        (prometheus(ruleSelector={}, alerting=None), "sends its alerts to no Alertmanager", "", None),
        (prometheus(ruleSelector={}, replicas=0), "has no replicas", "", None),
        (prometheus(ruleSelector={}, paused=True), "", "is paused", None),
        (prometheus(ruleSelector={}, shards=2), "", "each of them sees a part", None),
        (prometheus(ruleSelector={}, additionalAlertRelabelConfigs={"name": "x"}), "", "additionalAlertRelabel", None),
        (prometheus(ruleSelector={}, query={"lookbackDelta": "1s"}), "", "what spec.query of", None),
        (
            prometheus(ruleSelector={}, alerting={"alertmanagers": [{"name": "x", "alertRelabelings": [{}]}]}),
            "",
            "relabels or drops alerts",
            None,
        ),
    ],
)
def test_whether_a_prometheus_loads_a_rule(server, silent, problem, interval):
    made = grouped(f"{IDLES} < 5")
    (told,) = loading.as_loaded(rules.rules_of([made], Alarm()), [made], loading.Loading([loading.Server(server)]))
    assert (bool(told.silent), bool(told.problem)) == (bool(silent), bool(problem))
    assert silent in told.silent
    assert problem in told.problem
    assert told.interval_s == interval


@pytest.mark.parametrize(
    ("spec", "args", "is_one"),
    [
        ("PrometheusAgent", [], True),
        ("StatefulSet", ["--config.file=x", "--agent"], True),
        ("StatefulSet", ["--enable-feature=native-histograms,agent"], True),
        ("StatefulSet", ["--enable-feature=agents"], False),
    ],
)
def test_an_agent_that_only_scrapes_loads_no_rules(spec, args, is_one):
    server = {"kind": spec, "metadata": {"namespace": "monitoring", "name": "edge"}}
    containers = [{"image": "quay.io/prometheus/prometheus:v3.5.0", "args": args}]
    seen = servers.agents([server | {"spec": {"template": {"spec": {"containers": containers}}}}])
    made = grouped(f"{IDLES} < 5")
    (told,) = loading.as_loaded(rules.rules_of([made], Alarm()), [made], loading.Loading(agents=seen))
    assert ("monitoring/edge loads no rules, and no Prometheus that does is here" in told.problem) is is_one


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool here")
@pytest.mark.parametrize(
    ("other", "refused"),
    [
        ({"alert": "X", "expr": "sum(up{) > 1"}, True),
        ({"alert": "X", "expr": "up", "annotations": {"s": "{{ $l "}}, True),
        ({"alert": "X", "expr": "up == 0"}, False),
    ],
)
def test_a_rule_beside_it_that_is_refused_takes_it_along(other, refused):
    made = grouped(f"{IDLES} < 5", other, partial_response_strategy="warn")
    (told,) = loading.as_loaded(rules.rules_of([made], Alarm()), [made], loading.Loading())
    assert ("refuses its PrometheusRule whole" in told.silent) is refused


def monitor(*ends, name="dcgm-exporter", labels=None, **spec):
    metadata = {"name": name, "namespace": "monitoring", "labels": labels or {}}
    said = {"selector": {"matchLabels": {"app": name}}, "endpoints": list(ends), **spec}
    return {"kind": "ServiceMonitor", "metadata": metadata, "spec": said}


@pytest.mark.parametrize(
    ("ends", "expr", "fires"),
    [
        ([{"port": "metrics"}], IDLES + '{namespace="inference"} < 5', None),
        ([{"port": "metrics"}], IDLES + '{exported_namespace="inference"} < 5', 0.0),
        ([{"honorLabels": True}], IDLES + '{namespace="inference"} < 5', 0.0),
        ([{"honorLabels": True}], IDLES + '{exported_namespace="inference"} < 5', None),
    ],
)
def test_the_monitor_of_the_exporter_says_what_its_labels_are_called(ends, expr, fires):
    made = History(START, honours_taken=False)
    exporters = exported.Exporters(scrapes=loading.scrapes(None, [monitor(*ends)], [], {}))
    made.record(START, exported.samples([POD], [], [], [], exporters))
    (told,) = alarms.evaluate(rule(expr), made, 3600.0)
    assert told.fires_s == fires


SLACK = {"slack_configs": [{"channel": "#ops"}]}


def alertmanager(*routes, receiver="ops", ops=SLACK, **more):
    config = {
        "global": {"slack_api_url": "https://hooks.slack.example/x"},
        "route": {"receiver": receiver, "routes": list(routes)},
        "receivers": [{"name": "null"}, {"name": "ops", **ops}],
        **more,
    }
    metadata = {"namespace": "monitoring", "name": "alertmanager-main"}
    return {"kind": "Secret", "metadata": metadata, "stringData": {"alertmanager.yaml": json.dumps(config)}}


PAGER = "http://pager.example/x"
MAIL = {"from": "killcheck@b.example", "smarthost": "smtp.b.example:587"}


def sent(route, receiver="null", **more):
    return {"receiver": receiver, "matchers": [route], **more}


@pytest.mark.parametrize(
    ("config", "receiver", "silent", "unproven"),
    [
        (alertmanager(), "ops", "", ""),
        (alertmanager(receiver="null"), "", "receiver null, which tells nobody", ""),
        (
            alertmanager(receiver="lost"),
            "",
            "refuses Secret/monitoring/alertmanager-main: receiver lost is not there",
            "",
        ),
        (alertmanager(sent("alertname=GPUIdle")), "", "receiver null", ""),
        (alertmanager(sent('alertname=~"GPU.+"'), receiver="ops"), "", "receiver null", ""),
        (alertmanager({"receiver": "null", "match": {"severity": "info"}}), "", "receiver null", ""),
        (alertmanager({"receiver": "null", "match_re": {"severity": "none|info"}}), "", "receiver null", ""),
        (alertmanager(sent('alertname=~"A.*|B.*|C.*|GPU.*"')), "", "receiver null", ""),
        (alertmanager(sent('alertname=~"(?:A.*|B.*|C.*|D.*)"')), "ops", "", ""),
        (alertmanager(sent('alertname=~"(([A-Za-z])+)+!"')), "", "", "its label (([A-Za-z])+)+!"),
        (alertmanager({"receiver": "null", "match": ["alertname"]}), "", "receiver null", ""),
        (alertmanager(sent('{alertname="GPUIdle",namespace="x"}')), "ops", "", ""),
        (alertmanager(sent('namespace=~"inference,x|inference"')), "", "receiver null", ""),
        (alertmanager(sent("severity=info", **{"continue": True}), sent("severity=info", "ops")), "ops", "", ""),
        (alertmanager({"matchers": ["severity=info"], "routes": [sent("team=ml")]}), "", "", "its label team"),
        (alertmanager(sent("cluster=staging")), "", "", "its label cluster"),
        (
            alertmanager(
                sent("severity=info", "ops", mute_time_intervals=["nights"]), time_intervals=[{"name": "nights"}]
            ),
            "",
            "",
            "by the clock (nights)",
        ),
        (alertmanager(sent("severity=info", "ops", mute_time_intervals=["nights"])), "", "nights is not there", ""),
        (alertmanager(sent("a=b", "lost")), "", "refuses Secret/monitoring/alertmanager-main: receiver lost", ""),
        (alertmanager(sent("severity=info", "ops", groupby=["x"])), "", "", "is not known (groupby)"),
        (alertmanager(sent("severity=info", "ops", group_wait="59m")), "ops", "", ""),
        (alertmanager(sent("severity=info", "ops", group_wait="2h")), "", "waits 2h before it tells anybody", ""),
        (alertmanager(sent("severity=info", "ops", group_wait="a while")), "", "a while is no duration", ""),
        (alertmanager(sent("a=b", repeat_interval="4 hours")), "", "repeat_interval 4 hours is no duration", ""),
        (alertmanager(sent("a=b", group_interval="1h30m", repeat_interval="1d")), "ops", "", ""),
        (alertmanager(sent("severity=info", "ops"), sent("a=~*gpu")), "", "", "nothing to repeat"),
        (alertmanager({"matchers": "a=b"}), "", "matchers is no list", ""),
        (alertmanager(ops={"webhook_configs": {"url": PAGER}}), "", "webhook_configs is no list", ""),
        (
            {**alertmanager(), "stringData": {"alertmanager.yaml": "route: {receiver: ops}\nroute: {receiver: ops}"}},
            "",
            "route is there twice",
            "",
        ),
        (
            {**alertmanager(), "stringData": {"alertmanager.yaml": "route: {receiver: [}"}},
            "",
            "",
            "alertmanager-main cannot be read",
        ),
        (
            alertmanager(
                inhibit_rules=[{"target_matchers": ["alertname=GPUIdle"], "source_matchers": ["severity=info"]}]
            ),
            "",
            "",
            "inhibits it while an alert of severity=info fires",
        ),
        (
            alertmanager(inhibit_rules=[{"target_matchers": ["severity=info"], "source_matchers": ["severity=info"]}]),
            "ops",
            "",
            "",
        ),
        (
            alertmanager(inhibit_rules=[{"target_matchers": ["severity=info"], "source_matchers": ["alertname=X"]}]),
            "",
            "",
            "inhibits it while an alert of alertname=X fires",
        ),
        (alertmanager(inhibit_rules=[{"target_match": {"severity": "warning"}}]), "ops", "", ""),
        # What Alertmanager's own loading refuses, or may.
        (alertmanager(**{"global": {}}), "", "slack_configs of receiver ops has no api_url", ""),
        (alertmanager(ops={"email_configs": [{"to": "", **MAIL}]}), "", "receiver ops has no to", ""),
        (alertmanager(ops={"email_configs": [{"to": "a@b.example", "from": "c"}]}), "", "has no smarthost", ""),
        (
            alertmanager(ops={"email_configs": [{"to": "a@b.example", **MAIL, "smarthost": "x"}]}),
            "",
            "no host:port",
            "",
        ),
        (alertmanager(ops={"email_configs": [{"to": "a@b.example", **MAIL}]}), "ops", "", ""),
        (alertmanager(**{"global": {"slack_api_url": "hooks.slack.example"}}), "", "global has a slack_api_url", ""),
        (alertmanager(ops={"pagerduty_configs": [{"severity": "critical"}]}), "", "has no routing_key", ""),
        (alertmanager(ops={"pagerduty_configs": [{"routing_key_file": "/k", "routing_key": "k"}]}), "", "both", ""),
        (alertmanager(ops={"webex_configs": [{"room_id": "r", "http_config": {}}]}), "", "http_config.author", ""),
        (alertmanager(ops={"telegram_configs": [{"bot_token": "t", "chat_id": 0}]}), "", "has no chat_id", ""),
        (alertmanager(ops={"sns_configs": [{"topic_arn": "t", "phone_number": "1"}]}), "", "more than one of", ""),
        (alertmanager(ops={"webhook_configs": [{"url": "pager.example/x"}]}), "", "no http or https URL", ""),
        (alertmanager(ops={"webhook_configs": [{"url": "http://[x"}]}), "", "no http or https URL", ""),
        (alertmanager(ops={"webhook_configs": [{"url": "{{ .Values.pager }}"}]}), "ops", "", ""),
        (alertmanager(ops={"webhook_configs": [None]}), "", "webhook_configs of receiver ops is empty", ""),
        (alertmanager(ops={"webhook_configs": [{"url": PAGER, "urls": []}]}), "", "", "is not known (urls)"),
        (alertmanager(ops={"carrier_configs": [{}]}), "", "", "is not known (carrier_configs)"),
        (alertmanager(**{"global": {"slack_url": "x"}}), "", "has no api_url", ""),
        (alertmanager(sent("a=b", group_interval="0s")), "", "group_interval is zero", ""),
        (alertmanager(sent("a=b", group_by=["...", "x"])), "", "group_by is ..., x", ""),
        (alertmanager(sent("severity=info", "ops"), sent("a b")), "", "", "is not known (a b)"),
        (alertmanager(route={"receiver": "ops", "matchers": ["a=b"]}), "", "its first route has matchers", ""),
        # What goes nowhere; what else runs beside this Alertmanager is not seen.
        (alertmanager(ops={"webhook_configs": [{"url": "http://localhost:9/"}]}), "", "", "own pod (localhost)"),
        (alertmanager(ops={"webhook_configs": [{"url": "http://127.0.0.2"}, {"url": PAGER}]}), "ops", "", ""),
        (alertmanager(ops={"webhook_configs": [{"url": "http://[::ffff:127.0.0.1]/"}]}), "", "", "outside its own pod"),
        (alertmanager(ops={"webhook_configs": [{"url": "http://0.0.0.0:80/"}]}), "", "", "outside its own pod"),
        (alertmanager(ops={"webhook_configs": [{"url": "<secret>"}]}), "", "", "own pod (<secret>)"),
        (alertmanager(ops={"email_configs": [{"to": "a", **MAIL, "smarthost": ":25"}]}), "", "", "own pod (no host)"),
        (alertmanager(**{"global": {"slack_api_url": "http://x.invalid/"}}), "", "", "outside its own pod"),
        (
            alertmanager(ops={"webhook_configs": [{"url": PAGER, "http_config": {"proxy_url": "http://[::1]:3128"}}]}),
            "",
            "",
            "own pod (::1)",
        ),
    ],
)
def test_an_alert_that_alertmanager_tells_nobody_of_is_none(config, receiver, silent, unproven):
    (made,) = rules.rules_of([grouped(IDLES, labels={"severity": "info", "team": "{{ $labels.team }}"})], Alarm())
    fired = rules.Evaluated(made, 0.0, labels=frozenset({("namespace", "inference")}))
    assert chain.Chain().delivered(fired, 3600.0) == fired
    told = chain.Chain(manifests=[config, POD]).delivered(fired, 3600.0)
    assert (told.receiver, told.fires_s is None) == (receiver, not receiver)
    assert (bool(told.silent), bool(told.unproven)) == (bool(silent), bool(unproven))
    assert (silent in told.silent, unproven in told.unproven) == (True, True)


OPERATOR = "monitoring.coreos.com/v1"
HOOK = {"name": "hook", "webhookConfigs": [{"url": "http://pager.example"}]}
SELECTS = {"alertmanagerConfigSelector": {}, "alertmanagerConfigNamespaceSelector": {}}
LOCAL = {"webhook_configs": [{"url": "http://127.0.0.1:8080/alerts"}]}
BAD = {"name": "hook", "emailConfigs": [{"to": ""}]}
BARE = {"name": "hook", "slackConfigs": [{"channel": "#ops"}]}
QUIET = alertmanager(receiver="null", ops={}, **{"global": {}})
WHOLE = {"name": "gpu", "global": {"slackApiUrl": {"name": "slack", "key": "url"}}}


def manager(name="main", **spec):
    metadata = {"namespace": "monitoring", "name": name}
    return {"apiVersion": OPERATOR, "kind": "Alertmanager", "metadata": metadata, "spec": spec}


def own_config(receiver="hook", namespace="inference", route=None, **spec):
    said = {"route": {"receiver": receiver, **(route or {})}, "receivers": [HOOK, {"name": "null"}], **spec}
    metadata = {"namespace": namespace, "name": "gpu"}
    return {"apiVersion": f"{OPERATOR}alpha1", "kind": "AlertmanagerConfig", "metadata": metadata, "spec": said}


def silence(value, **more):
    said = {"matchers": [{"name": "alertname", "value": value, "isRegex": True}], **more}
    return {"kind": "Silence", "metadata": {"name": "noise"}, "spec": said}


FREEZE = {
    "sourceMatch": [{"name": "alertname", "value": "Freeze"}],
    "targetMatch": [{"name": "severity", "value": "info"}],
}
NIGHT = {"muteTimeIntervals": [{"name": "night"}]}
SILENCER = {
    "kind": "CronJob",
    "metadata": {"namespace": "monitoring", "name": "quiet"},
    "spec": {"args": ["amtool", "silence", "add", "alertname=GPUIdle"]},
}


@pytest.mark.parametrize(
    ("spec", "managers", "objects", "said"),
    [
        ({}, [manager()], [alertmanager()], "ops"),
        (
            {},
            [manager(configSecret="v2")],
            [alertmanager()],
            "Secret v2 of Alertmanager/monitoring/main, which is not here",
        ),
        ({}, [manager(replicas=0)], [alertmanager()], "has no replicas"),
        ({}, [manager(paused=True)], [alertmanager()], "is paused"),
        ({}, [manager(alertmanagerConfigMatcher="x")], [alertmanager()], "spec.alertmanagerConfigMatcher of"),
        ({}, [manager(), manager("other")], [alertmanager()], "ops"),
        (
            {"alerting": {"alertmanagers": [{"namespace": "x", "name": "am"}]}},
            [manager()],
            [alertmanager()],
            "is not here",
        ),
        ({"externalLabels": {"severity": "none"}}, [manager()], [alertmanager(sent("severity=none"))], "ops"),
        ({"externalLabels": {"tier": "dev"}}, [manager()], [alertmanager(sent("tier=dev"))], "receiver null"),
        # AlertmanagerConfigs hear of their own namespace.
        ({}, [manager(**SELECTS)], [own_config()], "inference/gpu/hook"),
        ({}, [manager(**SELECTS)], [own_config(namespace="other")], "which is not here"),
        (
            {},
            [manager(**SELECTS, alertmanagerConfigMatcherStrategy={"type": "None"})],
            [own_config(namespace="o")],
            "o/gpu/hook",
        ),
        ({}, [manager()], [own_config()], "which is not here"),
        ({}, [manager()], [alertmanager(ops=LOCAL)], "tells nobody outside its own pod"),
        ({}, [manager(**SELECTS)], [own_config(receivers=[BAD]), alertmanager()], "ops"),
        ({}, [manager(**SELECTS)], [own_config(receivers=[BARE]), alertmanager()], "inference/gpu/hook"),
        ({}, [manager(**SELECTS)], [own_config(receivers=[BARE]), QUIET], "with what AlertmanagerConfigs add: slack"),
        ({}, [manager(**SELECTS)], [own_config(receivers=[BARE])], "Alertmanager refuses Secret alertmanager-main of"),
        (
            {},
            [manager(alertmanagerConfiguration=WHOLE)],
            [own_config(namespace="monitoring", receivers=[BARE])],
            "hook",
        ),
        ({}, [manager(**SELECTS)], [own_config("lost")], "which is not here"),
        ({}, [manager(**SELECTS)], [own_config(), alertmanager(receiver="null")], "inference/gpu/hook"),
        ({}, [manager(**SELECTS)], [own_config("null"), alertmanager()], "inference/gpu/null, which tells nobody"),
        (
            {},
            [manager(**SELECTS)],
            [own_config(route={"matchers": [{"name": "team", "value": "a", "matchType": "!="}]})],
            "its label team",
        ),
        (
            {},
            [manager(**SELECTS)],
            [own_config(inhibitRules=[FREEZE])],
            "inhibits it while an alert of namespace=inference",
        ),
        (
            {},
            [manager(**SELECTS)],
            [own_config(route={"muteTimeIntervals": ["night"]}, **NIGHT)],
            "inference/gpu/night",
        ),
        ({}, [manager(alertmanagerConfiguration={"name": "gpu"})], [own_config(namespace="monitoring")], "hook"),
        ({}, [manager(alertmanagerConfiguration={"name": "gpu"})], [own_config("null", "monitoring")], "receiver null"),
        ({}, [manager(alertmanagerConfiguration={"name": "x"})], [alertmanager()], "AlertmanagerConfig x of"),
        # Silences, and who sets some.
        ({}, [manager()], [alertmanager(), silence("GPU.*")], "Silence/noise silences it"),
        ({}, [manager()], [alertmanager(), silence("Pod.*")], "ops"),
        ({}, [manager()], [alertmanager(), silence("GPU.*", targetTags=[{}])], "may silence it"),
        ({}, [manager()], [alertmanager(), SILENCER], "CronJob/monitoring/quiet sets silences"),
    ],
)
def test_who_is_told_by_the_objects_of_the_operator(spec, managers, objects, said):
    server = prometheus(ruleSelector={}, **spec)
    (made,) = rules.rules_of([grouped(IDLES, labels={"severity": "info", "team": "{{ $labels.team }}"})], Alarm())
    made = replace(made, by="Prometheus/monitoring/k8s")
    fired = rules.Evaluated(made, 0.0, labels=frozenset({("namespace", "inference")}))
    told = chain.Chain([loading.Server(server)], objects, managers).delivered(fired, 3600.0)
    assert (told.fires_s is not None) is bool(told.receiver)
    assert said in (told.receiver or told.silent or told.unproven)


SERVICE = {
    "metadata": {"namespace": "monitoring", "name": "dcgm-exporter", "labels": {"app": "dcgm-exporter"}},
    "spec": {"ports": [{"name": "metrics"}]},
}
END = {"port": "metrics"}
ANY = {"serviceMonitorSelector": {}, "serviceMonitorNamespaceSelector": {}}
TO_NODE = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
NAMED = {"action": "drop", "sourceLabels": ["__name__"]}


@pytest.mark.parametrize(
    ("spec", "monitors", "said"),
    [
        (ANY, [], ""),
        (ANY, [monitor(END)], ""),
        (ANY, [monitor({**END, "relabelings": [TO_NODE]})], ""),
        (ANY, [monitor({**END, "metricRelabelings": [{**NAMED, "regex": "DCGM_FI_PROF.*"}]})], ""),
        (ANY, [monitor({**END, "metricRelabelings": [{**NAMED, "regex": "DCGM_FI_DEV_.*"}]})], "drops DCGM_FI_DEV_GPU"),
        (
            ANY,
            [monitor({**END, "metricRelabelings": [{"action": "labeldrop", "regex": "x"}]})],
            "relabels of its series",
        ),
        (ANY, [monitor({**END, "relabelings": [{**TO_NODE, "targetLabel": "pod"}]})], "relabels is not evaluated"),
        (ANY, [monitor({**END, "interval": "10m"})], "is scraped every 10m"),
        ({**ANY, "scrapeInterval": "10m"}, [monitor(END)], "is scraped every 10m"),
        (ANY, [monitor({"port": "http"})], "scrapes port http"),
        (ANY, [monitor(END, selector={"matchLabels": {"app": "dcgm"}})], "selects no Service"),
        (ANY, [monitor(END, sampleLimit=1)], "means by sampleLimit"),
        (ANY, [monitor(END), monitor(END, name="dcgm")], "is scraped twice"),
        (
            {**ANY, "serviceMonitorSelector": {"matchLabels": {"a": "b"}}},
            [monitor(END)],
            "does not select ServiceMonitor",
        ),
        ({"serviceMonitorSelector": {}}, [monitor(END)], ""),
    ],
)
def test_whether_the_series_of_an_alert_are_scraped(spec, monitors, said):
    found = loading.seen([prometheus(ruleSelector={}, **spec)], monitors, [SERVICE], {})
    made = grouped(f"{IDLES} < 5")
    by = loading.Loading(found, usual=found[0].scrapes)
    (told,) = loading.as_loaded(rules.rules_of([made], Alarm()), [made], by)
    assert bool(told.silent or told.problem) is bool(said)
    assert said in told.silent + told.problem


@pytest.mark.parametrize(("own", "there"), [({"a": "k8s"}, True), ({"a": "other"}, False), ({}, False)])
def test_what_another_prometheus_records_is_not_there(own, there):
    servers = [prometheus(ruleSelector={"matchLabels": {"a": "k8s"}})]
    servers.append({**servers[0], "metadata": {"namespace": "monitoring", "name": "o"}, "spec": {"ruleSelector": {}}})
    record = {"record": "gpu:idle", "expr": IDLES}
    obj = {
        "metadata": {"namespace": "monitoring", "name": "r", "labels": own},
        "spec": {"groups": [{"name": "g", "rules": [record]}]},
    }
    made = loading.recorded([obj], [loading.Server(one) for one in servers], {})
    assert [one.is_of("Prometheus/monitoring/k8s") for one in made] == [there]


def test_an_alert_of_the_job_that_turns_them_off_is_no_alarm():
    job = {"metadata": {"namespace": "x", "name": "gpu-off"}, "status": {"succeeded": 1}}
    made = History(START, stay_on=True)
    made.record(START, exported.samples([POD], [], [job], []))
    (told,) = alarms.evaluate(rule('kube_job_status_succeeded{job_name=~"gpu-.*"} > 0'), made, 3600.0)
    assert told.fires_s is None


@pytest.mark.parametrize(
    ("expr", "anyway"),
    [
        (f"{IDLES} < 5", False),
        (f"(sum({IDLES}) or vector(0)) < 5", True),
        (f"({IDLES} < 5) or (vector(1) and on() hour() > 4)", False),
        ("sum(kube_job_status_failed) >= 0", False),
    ],
)
def test_what_rings_where_everything_is_off_says_nothing_of_a_night(expr, anyway):
    (made,) = rules.rules_of([grouped(expr)], Alarm(alerts=("*",)))
    assert alarms.rings_anyway(made, history(gone_at=300.0), 900.0) is anyway


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
            [{**IDLE, "expr": "DCGM_FI_DEV_GPU_UTILISATION < 3"}],
            "exposed",
            "dcgm-exporter makes no DCGM_FI_DEV_GPU_UTILISATION (it makes DCGM_FI_DEV_GPU_UTIL)",
        ),
        (
            [{**IDLE, "expr": "rate(DCGM_FI_DEV_GPU_UTIL[5m]) == 0"}],
            "inconclusive",
            "P5 unproven: GPUIdle: it fires while the GPUs work too",
        ),
    ],
)
@pytest.mark.one_in(2)
def test_p5_without_an_alarm_is_exposed_and_one_that_nobody_can_evaluate_unproven(tmp_path, rules, verdict, why):
    drill = drilled(tmp_path, rules)
    assert str(drill.verdict) == verdict
    assert why in drill.why


def test_a_night_on_which_they_stay_on_says_when_the_alarm_rings(tmp_path):
    drill = drilled(tmp_path, [IDLE], "image-gone", proof=False)
    assert str(drill.verdict) == "exposed"
    assert any("alert GPUIdle fires 20 min after the trigger (evaluated" in note for note in drill.notes)
