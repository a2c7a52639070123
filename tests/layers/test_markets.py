"""Fleets that are rented machine by machine: a stand-in of their market, their workers' programs, their bounds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from killcheck import fixtures
from killcheck.run.public import run_drill

COUNTS_RUNNING = ("fleet.py", "len(there) < MAX", 'len([m for m in there if m["actual_status"] == "running"]) < MAX')
#: What is edited, the layer and its fault, the verdict, and what is said.
NIGHTS = {
    "the-sweep-ends-all": ([], "nightly-sweep", None, "survived", "fleet.py sweep ran"),
    "machines-that-load-are-not-counted": (
        [COUNTS_RUNNING],
        "autoscaler",
        "work-piles-up",
        "exposed",
        "5 of embed-fleet were on",
    ),
    "any-price-will-do": (
        [("fleet.py", '"0.40"', '"9"')],
        "autoscaler",
        "offers-gone",
        "exposed",
        "took a machine at $2.69 an hour (H100 SXM), and the spec allows $0.40",
    ),
    "one-is-kept-warm": (
        [("fleet.py", "for machine in there:\n            end", "for machine in there[1:]:\n            end")],
        "autoscaler",
        None,
        "exposed",
        "it went from 2 to 1 and no further",
    ),
    "a-worker-ends-its-machine": ([], "worker-idle-exit", None, "survived", "ended by their own workers"),
    "the-workers-do-without": ([], "worker-idle-exit", "orchestrator-dead", "survived", "ended by their own workers"),
    "a-worker-that-only-exits": (
        [("worker.py", "        end_own_machine()\n", "")],
        "worker-idle-exit",
        "orchestrator-dead",
        "exposed",
        "exit 0 is no end",
    ),
    "a-worker-without-patience": (
        [("worker.py", '"10"', '"4"')],
        "worker-idle-exit",
        "orchestrator-dead",
        "exposed",
        "every short gap between two batches ends it",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(fixtures.path("worker-fleet"), tmp_path / "path")
    return tmp_path / "path"


@pytest.mark.parametrize("night", NIGHTS)
@pytest.mark.one_in(8)
def test_nights_of_a_fleet(folder: Path, night: str) -> None:
    edit, layer, fault, verdict, words = NIGHTS[night]
    for name, before, after in edit:
        file = folder / name
        assert before in file.read_text()
        file.write_text(file.read_text().replace(before, after))
    result = run_drill(
        folder / "killcheck.yaml", layer=layer, under=[fault] if fault else [], exec_mode="host", horizon_s=2000.0
    )
    assert str(result.verdict) == verdict, (result.why, result.cause)
    assert words in (result.cause or result.why)
    assert not result.problems
    assert result.usd is not None
    assert result.bill["orchestrator_usd_per_month"] == pytest.approx(5.11)


POD_SPEC = """
apiVersion: killcheck/v1
kind: KillPath
name: transcode
targets:
  - name: cards
    count: {http: {url: "$MARKET_URL/v1/pods", bearer: KEY}, env: {KEY: k}}
    start: {http: {url: "$MARKET_URL/v1/pods", method: POST, bearer: KEY, body: '{"gpuTypeIds": ["L4", "RTX 4090"]}'}, env: {KEY: k}}
    machines: {type: gpu.id, usdPerHour: costPerHr, ended: {desiredStatus: [EXITED]}, most: 3, standIn: pods.yaml}
layers:
  - {name: night, type: command, covers: [cards], command: {argv: [./off.sh]}, schedule: "5 1 * * *", timeZone: Asia/Tokyo}
deadlines: {instanceGone: 5m, held: 15m}
proof: [P3, P4]
"""
PODS = """
apiVersion: killcheck/v1
kind: Market
shape: runpod
offers: [{id: 1, gpu_name: RTX 4090, dph_total: 0.34}, {id: 2, gpu_name: RTX 4090, dph_total: 0.34}]
"""
OFF = """#!/bin/sh
set -eu
ask() { curl -sSf -H "Authorization: Bearer k" "$@"; }
for id in $(ask $MARKET_URL/v1/pods | grep -o '"id": "[0-9]*"' | grep -o '[0-9]*'); do
  ask -X POST $MARKET_URL/v1/pods/$id/HOW
done
"""


@pytest.mark.parametrize(("how", "verdict"), [("stop", "survived"), ("start", "exposed")])
@pytest.mark.one_in(2)
def test_a_market_of_another_shape_by_requests_alone(tmp_path: Path, how: str, verdict: str) -> None:
    (tmp_path / "killcheck.yaml").write_text(POD_SPEC)
    (tmp_path / "pods.yaml").write_text(PODS)
    (tmp_path / "off.sh").write_text(OFF.replace("HOW", how))
    (tmp_path / "off.sh").chmod(0o755)
    result = run_drill(tmp_path / "killcheck.yaml", layer="night", exec_mode="host", horizon_s=1000.0)
    assert str(result.verdict) == verdict, (result.why, result.cause)
    assert result.usd_per_hour == (0.0 if how == "stop" else 0.34)
    assert not result.problems


def test_who_ended_a_machine_is_not_told_by_its_list(folder: Path) -> None:
    spec = folder / "killcheck.yaml"
    spec.write_text(spec.read_text().replace("      standIn: market.yaml\n", ""))
    (folder / "list.sh").write_text("""echo '{"instances": [{"id": 1}]}'""")
    count = "shell: sh list.sh"
    lines = spec.read_text().replace('http: {url: "$MARKET_URL/api/v0/instances/", bearer: MARKET_KEY}', count)
    spec.write_text(lines)
    result = run_drill(spec, layer="worker-idle-exit", exec_mode="host", horizon_s=600.0)
    assert str(result.verdict) == "inconclusive"
    assert "does not say who ended a machine" in result.why
