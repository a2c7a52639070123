"""Prometheus' own engine asked when an alert fires: ``promtool test rules`` on the series of a drill.

Its tests begin at Unix time 0: a rule that looks at the clock is not asked of it.

Source: prometheus.io/docs "Unit testing for rules"; prometheus/prometheus cmd/promtool/unittest.go (its output).
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from killcheck.alerting.promtool import last_line, ran
from killcheck.alerting.rules import Evaluated, Record, Rule
from killcheck.promql import exporters
from killcheck.text import lazy_re
from killcheck.witnesses.series import STEP_S, History

__all__ = ["ask"]

#: How far back series go before the trigger, in seconds: longer than the ranges in use.
_LEAD_S = 6 * 3600.0
#: How finely the moment of firing is told, in seconds.
_LOOK_S = 60.0
_OF_THE_CLOCK = lazy_re.compile(
    r"\b(?:time|timestamp|minute|hour|day_of_\w+|month|year|days_in_month)\s*\(|_(?:time|created)\b"
)
_WORDS = lazy_re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(?!\w*\s*\()")
_APART = lazy_re.compile(
    r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`|\{[^}]*\}|\[[^\]]*\]"
    r"|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|#.*"
)
_KEYWORDS = frozenset(
    "and or unless by without on ignoring group_left group_right bool offset inf nan start end".split()
)
_FIRED = lazy_re.compile(r"alertname: Asked, time: ([\dhms.]+),")
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0}


def ask(rule: Rule, history: History, records: Sequence[Record], within_s: float) -> Evaluated | None:
    """When a rule fires, by Prometheus' engine. None where it cannot be asked: no promtool, series nobody knows."""
    program = shutil.which("promtool")
    names = _metrics(rule.expr)
    if program is None or records or _OF_THE_CLOCK.search(rule.expr):
        return None
    if not all(history.known(name) or exporters.missing(name) for name in names):
        return None
    with tempfile.TemporaryDirectory(prefix="killcheck-promtool-") as folder:
        done = _tested(program, Path(folder), rule, list(_series(history, sorted(names), within_s)), within_s)
    if done is None:
        return None
    code, told = done
    moments = sorted(_seconds(found) - _LEAD_S for found in _FIRED.findall(told))
    if code and not moments:
        return Evaluated(rule, silent=f"Prometheus refuses it: {last_line(told)}")
    if moments and moments[0] < 0:
        return Evaluated(rule, unproven="it fires before the trigger already: of this night it says nothing")
    silent = next(filter(None, map(exporters.missing, sorted(names))), "") if not moments else ""
    return Evaluated(rule, moments[0] if moments else None, silent=silent, taken=("promtool was asked",))


def _metrics(expr: str) -> set[str]:
    return {word for word in _WORDS.findall(_APART.sub(" ", expr)) if word.lower() not in _KEYWORDS}


def _tested(
    program: str, folder: Path, rule: Rule, series: Sequence[Mapping[str, str]], within_s: float
) -> tuple[int, str] | None:
    """The exit code and output of a test whose every look expects nothing to fire; None where it did not end."""
    asked = {"alert": "Asked", "expr": rule.expr, "for": f"{rule.for_s:.0f}s"}
    rules = {"groups": [{"name": "asked", "interval": f"{STEP_S:.0f}s", "rules": [asked]}]}
    looks = [_LEAD_S - _LOOK_S, *(_LEAD_S + n * _LOOK_S for n in range(int(within_s // _LOOK_S) + 1))]
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{STEP_S:.0f}s",
        "tests": [
            {
                "interval": f"{STEP_S:.0f}s",
                "input_series": series,
                "alert_rule_test": [
                    {"eval_time": f"{look:.0f}s", "alertname": "Asked", "exp_alerts": []} for look in looks
                ],
            }
        ],
    }
    (folder / "rules.yaml").write_text(json.dumps(rules), encoding="utf-8")
    (folder / "test.yaml").write_text(json.dumps(test), encoding="utf-8")
    return ran([program, "test", "rules", "test.yaml"], folder)


def _series(history: History, names: Sequence[str], within_s: float) -> Iterator[dict[str, str]]:
    moments = [-_LEAD_S + n * STEP_S for n in range(int((_LEAD_S + within_s) // STEP_S) + 1)]
    for name in names:
        for labels, values in history.texts(name, moments):
            told = ", ".join(f"{label}={json.dumps(value)}" for label, value in sorted(labels))
            yield {"series": f"{name}{{{told}}}", "values": " ".join(_runs(values))}


def _runs(values: Sequence[float | None]) -> Iterator[str]:
    for value, same in groupby(values):
        count = len(list(same))
        yield f"_x{count}" if value is None else f"{value:g}+0x{count - 1}"


def _seconds(text: str) -> float:
    return sum(float(number) * _UNIT_S[unit] for number, unit in re.findall(r"([\d.]+)([hms])", text))
