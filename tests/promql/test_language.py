"""PromQL: what is understood means what Prometheus means by it, asked of its own engine where that is here."""

import json
import math
import re
import shutil
import subprocess

import pytest

from killcheck.promql import exporters
from killcheck.promql.language import Unsupported, parse

STEP_S = 30.0
#: Values a step from the first moment on; what is 600 s old at AT_S.
SERIES = {
    ("util", (("node", "n1"), ("pod", "a"))): [100.0] * 20 + [0.0] * 21,
    ("util", (("node", "n2"), ("pod", "b"))): [80.0] * 41,
    ("util", (("node", "n1"), ("pod", "c"))): [3.0] * 41,
    ("lab", (("node", "n1"), ("type", "on-demand"))): [1.0] * 41,
    ("lab", (("node", "n2"), ("type", "spot"))): [1.0] * 41,
    ("done", (("pod", "a"),)): [float(n) for n in range(30)] + [float(n) for n in range(11)],
    ("none", (("pod", "z"),)): [],
}
AT_S = 1185.0  # between two scrapes: ranges that are closed on the left, and those that are open, hold the same samples

EXPRESSIONS = """
util
(util < 5) * on(node) group_left() (lab{type="on-demand"})
(util < 5) * on(node) group_left(type) lab
lab * on(node) group_right(type) util
util * on(node) group_left lab > 50
count(lab{type="spot"}) / count(lab) < 0.6
count(lab{type="spot"}) / count(lab) < 0.4
rate(done[5m])
increase(done[10m])
irate(done[2m])
delta(util[15m])
idelta(done[5m])
changes(util[15m])
resets(done[15m])
rate(util[5m]) == 0
avg_over_time(util[5m]) < 5
quantile_over_time(0.5, util[15m])
stddev_over_time(util[15m])
max_over_time(util[15m:1m])
avg_over_time((util > 50)[10m:30s])
max_over_time(rate(done[2m])[10m:1m])
min_over_time(util[5m] offset 10m)
util offset 10m
sum by (node) (util)
avg without (pod) (util)
stddev(util)
topk(1, util)
bottomk(1, util)
quantile(0.5, util)
sum(util) / 0
0 / 0
-1 / 0
util % 7
2 ^ 3 ^ 2
-2 ^ 2
clamp(util, 1, 50)
clamp_min(util, 10)
clamp_max(util, 10)
round(util / 3)
round(util, 25)
floor(util / 3) + ceil(util / 3)
sqrt(util)
sgn(util)
ln(util)
abs(-util)
scalar(lab)
scalar(sum(util)) + 1
vector(1) > 0
absent(none)
absent(util)
absent_over_time(none[5m])
hour()
minute()
day_of_week()
hour(vector(86399))
time()
label_replace(util, "where", "$1-x", "node", "(n.)")
sort_desc(util)
util and on(node) lab{type="spot"}
util unless on(node) lab{type="spot"}
none or util
util > bool 50
util{pod=~"a|b"} != 80
util{pod!~"a.*", node!="n2"}
1 + 2 * 3 - 4 / 2 % 3
""".strip().splitlines()


class Sampled:
    """The series as a source."""

    def known(self, name):
        return any(name == one for one, _ in SERIES)

    def spend(self, moments):
        """As many as they like."""

    def epoch(self, at):
        return at

    def _samples(self, name):
        for (metric, labels), values in SERIES.items():
            if metric == name:
                yield frozenset(labels), [(n * STEP_S, value) for n, value in enumerate(values)]

    def instant(self, name, at):
        found = {labels: [v for t, v in samples if at - 300 < t <= at] for labels, samples in self._samples(name)}
        return {labels: values[-1] for labels, values in found.items() if values}

    def window(self, name, at, length):
        found = {labels: [s for s in samples if at - length < s[0] <= at] for labels, samples in self._samples(name)}
        return {labels: samples for labels, samples in found.items() if samples}


def ours(text):
    return dict(parse(text).evaluate(Sampled(), AT_S).items())


def asked_of_prometheus(folder):
    """What promtool says of every expression: it tells what it got where nothing was expected."""
    series = [
        {"series": name + "{" + ",".join(f'{k}="{v}"' for k, v in labels) + "}", "values": " ".join(map(str, values))}
        for (name, labels), values in SERIES.items()
        if values
    ]
    tests = [
        {"expr": one, "eval_time": f"{AT_S:.0f}s", "exp_samples": [{"labels": "no", "value": 1}]} for one in EXPRESSIONS
    ]
    whole = {
        "evaluation_interval": "15s",
        "tests": [{"interval": "30s", "input_series": series, "promql_expr_test": tests}],
    }
    (folder / "test.yaml").write_text(json.dumps(whole))
    ran = subprocess.run(
        ["promtool", "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True, check=False
    )
    found = {}
    for expr, got in re.findall(r'expr: "((?:[^"\\]|\\.)*)", time: \S+\s+exp:.*\s+got: ?(.*)', ran.stdout + ran.stderr):
        samples = re.findall(r"\{([^}]*)\} (\S+?)(?:,|$)", got)
        found[json.loads(f'"{expr}"')] = {
            frozenset(p for p in re.findall(r'(\w+)="([^"]*)"', labels) if p[0] != "__name__"): float(value)
            for labels, value in samples
        }
    return found


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool here")
def test_every_expression_means_what_prometheus_means_by_it(tmp_path):
    told = asked_of_prometheus(tmp_path)
    assert set(told) == set(EXPRESSIONS)
    wrong = {}
    for text, theirs in told.items():
        mine = ours(text)
        on_labels = set(mine) == set(theirs)
        if not on_labels or any(
            not math.isclose(mine[k], v, abs_tol=1e-9) and not (math.isnan(v) and math.isnan(mine[k]))
            for k, v in theirs.items()
        ):
            wrong[text] = (mine, theirs)
    assert not wrong


@pytest.mark.parametrize(
    "text",
    [
        "util[5m]",
        "rate(util)",
        "util * on(node) lab",
        "histogram_quantile(0.9, util)",
        "util @ 5",
        '{__name__="util"}',
        "(util + 1)[5m]",
        "topk(util, util)",
        "clamp(util, 1)",
        "quantile_over_time(util[5m])",
        'label_replace(util, "a", "b", "c", "(")',
        "util offset x",
        *(
            f"util{{pod!~'{word}'}}"  # Python reads each of them, otherwise than RE2 does
            for word in ("[[:alpha:]]+", "(?a)x", "(?x)a b", "(?#no)x", "a{,3}", "a{1001}", "a++", "[a&&b]")
        ),
        "sum(",
        "",
    ],
)
def test_what_is_outside_is_refused(text):
    with pytest.raises(Unsupported):
        parse(text).evaluate(Sampled(), AT_S)


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", None),
        (
            "DCGM_FI_DEV_GPU_UTILIZATION",
            "dcgm-exporter makes no DCGM_FI_DEV_GPU_UTILIZATION (it makes DCGM_FI_DEV_GPU_UTIL)",
        ),
        ("kube_node_label", "kube-state-metrics makes no kube_node_label (it makes kube_node_labels)"),
        ("kueue_admission_wait_time_seconds", "is a histogram of kueue: its series are"),
        ("kueue_admission_wait_time_seconds_bucket", None),
        ("kube_customresource_nodepool_limits", None),
        ("queue_items", None),
        ("kube_pod:gpus:sum", None),
    ],
)
def test_a_name_that_no_exporter_makes_is_told(metric, says):
    found = exporters.missing(metric)
    assert (found is None) if says is None else says in found


def test_what_dcgm_exporter_does_not_export_as_shipped():
    assert exporters.exported_as_shipped("DCGM_FI_DEV_GPU_UTIL")
    assert not exporters.exported_as_shipped("DCGM_FI_PROF_SM_ACTIVE")
    assert exporters.exported_as_shipped("anything_else")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000 + "util" + ")" * 3000,
        "-" * 5000 + "1",
        "1" + "^1" * 4000,
        "abs(" * 3000 + "util" + ")" * 3000,
        "max_over_time(util[1h:0s])",
        'util{pod=~"(a+)+b"}',
        'util{pod=~".*a.*b.*c.*d"}',
        'util{pod=~"' + "(" * 3000 + "a" + ")" * 3000 + '"}',
        "max_over_time(util[" + "9" * 5000 + "s])",
        "util offset " + "9" * 400 + "y",
    ],
    ids=lambda text: text[:12],
)
def test_what_would_never_be_done_is_refused(text):
    """An alert is whoever's who wrote the manifests."""
    with pytest.raises(Unsupported):
        parse(text)


def test_what_is_read_and_too_deep_to_evaluate_is_refused():
    with pytest.raises(Unsupported):
        parse("1" + "+1" * 5000).evaluate(Sampled(), AT_S)
