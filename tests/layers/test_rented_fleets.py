"""A fleet that is rented elsewhere, by a market's own command line: listed, started and ended by the spec's commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from killcheck.run.public import run_drill

MARKET = """#!/bin/sh
rented=/var/lib/market/rented
case "$1 $2" in
  "show instances") cat $rented ;;
  "create instance") echo "$3" >> $rented ;;
  "destroy instance") grep -v "^$3\\$" $rented > $rented.new; mv $rented.new $rented ;;
esac
"""
REAPER = """#!/bin/sh
set -eu
rented=$(vastai show instances)
for id in $rented; do vastai destroy instance "$id"; done
"""
SPEC = """
apiVersion: killcheck/v1
kind: KillPath
name: whisper
targets:
  - name: whisper-fleet
    count: {shell: "vastai show instances | wc -l"}
    start: {shell: "vastai create instance 4411 && vastai create instance 4412"}
    instanceType: RTX_3090
layers:
  - name: reaper
    type: command
    covers: [whisper-fleet]
    command: {argv: [./reap.sh]}
    schedule: "17 23 * * *"
    timeZone: Asia/Tokyo
deadlines: {podsGone: 5m, held: 15m}
proof: [P1, P4]
prices: {RTX_3090: 0.22}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    for name, text in (("machine/bin/vastai", MARKET), ("reap.sh", REAPER)):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    rented = tmp_path / "machine/var/lib/market/rented"
    rented.parent.mkdir(parents=True)
    rented.write_text("")
    (tmp_path / "killcheck.yaml").write_text(SPEC)
    return tmp_path / "killcheck.yaml"


@pytest.mark.parametrize(
    ("under", "verdict", "words"),
    [
        ([], "survived", ""),
        (["cli-no-effect"], "exposed", "2 of whisper-fleet still on"),
        (["cli-denied"], "exposed", "403 Forbidden"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) and value else None,
)
@pytest.mark.one_in(3)
def test_it_is_drilled_and_sabotaged_as_a_cloud_is(spec: Path, under: list[str], verdict: str, words: str) -> None:
    result = run_drill(spec, layer="reaper", under=under, exec_mode="host", horizon_s=3600.0)
    assert str(result.verdict) == verdict, result.why
    assert words in (result.cause or "")
    assert result.usd is not None
