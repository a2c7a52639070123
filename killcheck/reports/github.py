"""Findings as GitHub Actions annotations: they appear beside the lines of a pull request.

Source: docs.github.com, workflow commands (``::error file=,line=,title=::message``; %, CR, LF, ':' and ',' escaped).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from killcheck.reports.places import relative

if TYPE_CHECKING:
    from killcheck.lint.asking import LintResult
    from killcheck.probes import Finding

__all__ = ["lines"]

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def lines(result: LintResult) -> list[str]:
    """One workflow command for each finding."""
    return [_line(finding) for finding in result.findings]


def _line(finding: Finding) -> str:
    file = relative(finding.file) if finding.file else ""
    properties = {"file": file, "line": str(finding.line or ""), "title": f"killcheck {finding.probe}"}
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    text = f"{finding.object}: {finding.message}\n{finding.remedy}".removeprefix(": ")
    return f"::{_COMMANDS[finding.severity]} {given}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
