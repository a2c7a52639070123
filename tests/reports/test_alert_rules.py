"""The alert rules and the dashboard under ci/, against Prometheus' own tool and the metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from report_worlds import FENCE, FINDING, result, story

from killcheck.history.index import History
from killcheck.history.metrics import metrics
from killcheck.history.nights import Night
from killcheck.history.series import told as history
from killcheck.reports.prometheus import prometheus

CI = Path(__file__).resolve().parents[2] / "ci"
RULES = yaml.safe_load((CI / "prometheus/alerts.yaml").read_text())["spec"]


@pytest.mark.parametrize("name", ["alerts", "gpu-cost"])
def test_the_alerts_fire_on_what_they_are_for(tmp_path, name):
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not installed")
    rules = yaml.safe_load((CI / f"prometheus/{name}.yaml").read_text())["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    shutil.copy(CI / f"prometheus/{name}.test.yaml", tmp_path)
    done = subprocess.run(
        [promtool, "test", "rules", f"{name}.test.yaml"], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def over_time():
    """The metrics of a history."""
    nights = (
        Night("r1", 0.0, "p", "c", "off", ("x",), "", "survived", to_zero_s=3.0, to_drained_s=9.5),
        Night("r2", 9.0, "p", "c", "off", ("x",), "", "exposed", usd=12.5),
    )
    return metrics(history(History(nights), now=10.0, stale_after_s=1.0))


def test_alerts_and_dashboard_ask_for_metrics_that_there_are():
    told = story(
        [result(bill={"usd_per_item_seen": 0.01}), result(verdict="exposed", faults=["x"], seconds_to_drained=3.0)],
        findings=[FINDING],
        fences=[FENCE],
    )
    written = set(re.findall(r"^(killcheck_\w+)[{ ]", prometheus(told) + over_time(), re.MULTILINE))
    rules = RULES["groups"][0]["rules"]
    dashboard = json.loads((CI / "grafana/killcheck.json").read_text())
    queries = [rule["expr"] for rule in rules] + [
        target["expr"] for panel in dashboard["panels"] for target in panel["targets"]
    ]
    asked = {name for query in queries for name in re.findall(r"killcheck_\w+", query)}
    assert asked <= written
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_metrics_as_promtool_reads_them():
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not installed")
    told = story([result(), result(verdict="exposed", faults=["x"])], findings=[FINDING], fences=[FENCE])
    for text in (prometheus(told), over_time()):
        done = subprocess.run([promtool, "check", "metrics"], check=False, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
