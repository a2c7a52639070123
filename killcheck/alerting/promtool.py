"""Prometheus' own tool, where it is on the PATH: whether Prometheus takes a file of rules.

Source: prometheus/prometheus cmd/promtool (check rules).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from killcheck.kube.objects import mappings
from killcheck.text.shown import brief

__all__ = ["last_line", "ran", "refusal"]

_LIMIT_S = 30.0
#: What groups have of the operator's own, and no file of Prometheus has.
_OPERATORS_OWN = frozenset({"partial_response_strategy"})


def refusal(groups: Sequence[Mapping[str, Any]]) -> str:
    """What Prometheus refuses of a file of rules, and so the whole of it; empty: nothing, or nobody was asked."""
    program = shutil.which("promtool")
    if program is None:
        return ""
    plain = [{key: value for key, value in group.items() if key not in _OPERATORS_OWN} for group in mappings(groups)]
    return _refusal(program, json.dumps({"groups": plain}, sort_keys=True, default=str))


@cache
def _refusal(program: str, text: str) -> str:
    with tempfile.TemporaryDirectory(prefix="killcheck-promtool-") as folder:
        file = Path(folder, "rules.yaml")
        file.write_text(text, encoding="utf-8")
        done = ran([program, "check", "rules", file.name], Path(folder))
    code, told = done or (0, "")
    if not code or "not found in type" in told:  # a field that this promtool is too old for
        return ""
    lines = [line.partition("rules.yaml:")[2].strip() for line in told.splitlines() if "rules.yaml:" in line]
    return brief(next(filter(None, lines), last_line(told)))


def ran(command: Sequence[str], folder: Path) -> tuple[int, str] | None:
    """The exit code and output of a program; None where it did not end."""
    try:
        done = subprocess.run(
            command, cwd=folder, env={}, check=False, capture_output=True, text=True, timeout=_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode, done.stdout + done.stderr


def last_line(told: str) -> str:
    """What it says of an error."""
    lines = [line.strip() for line in told.splitlines() if line.strip() and not line.startswith(("Unit Testing", " "))]
    says = [line for line in told.splitlines() if "pars" in line.lower() or "err" in line.lower()]
    return next(iter(says), lines[-1] if lines else "it does not say why").strip()
