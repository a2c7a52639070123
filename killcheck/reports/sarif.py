"""Findings as SARIF 2.1.0, for code scanning: true files and lines, the remedy as help.

Source: OASIS Static Analysis Results Interchange Format 2.1.0, sections 3.27 (result) and 3.49 (reportingDescriptor).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from killcheck.reports.places import uri
from killcheck.version import __version__

if TYPE_CHECKING:
    from killcheck.lint.asking import LintResult
    from killcheck.probes import Finding, Probe

__all__ = ["document"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def document(result: LintResult) -> dict[str, Any]:
    """The SARIF log of a lint run; what was suppressed is in it, marked as such."""
    from killcheck.probes import ALL

    probes = tuple({probe.id: probe for probe in (*ALL, *result.probes)}.values())
    rules = {probe.id: index for index, probe in enumerate(probes)}
    new = {"baselineState": "new"} if result.baselined else {}
    results = [_result(f, rules) | new for f in result.findings]
    results += [_result(f, rules) | {"baselineState": "unchanged"} for f in result.known]
    suppressed = {"suppressions": [{"kind": "external", "status": "accepted"}]}
    results += [_result(f, rules) | new | suppressed for f in result.suppressed]
    driver = {
        "name": "killcheck",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(probe) for probe in probes],
    }
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(probe: Probe) -> dict[str, Any]:
    return {
        "id": probe.id,
        "name": type(probe).__name__,
        "shortDescription": {"text": probe.claim},
        "fullDescription": {"text": (type(probe).__doc__ or "").strip()},
        "help": {"text": probe.remedy},
        "defaultConfiguration": {"level": probe.severity},
        "properties": {"tags": ["gpu", "kill-path"], "failures": list(probe.failures), "sources": list(probe.sources)},
    }


def _result(finding: Finding, rules: dict[str, int]) -> dict[str, Any]:
    key = f"{finding.probe}|{finding.object}|{finding.message}"
    result: dict[str, Any] = {
        "ruleId": finding.probe,
        "ruleIndex": rules[finding.probe],
        "level": finding.severity,
        "message": {"text": f"{finding.object}: {finding.message}. {finding.remedy}".removeprefix(": ")},
        "kind": "open" if finding.unproven else "fail",
        "partialFingerprints": {"killcheck/v1": hashlib.sha256(key.encode()).hexdigest()[:32]},
        "locations": [_location(finding)],
    }
    if finding.unproven:
        result["level"] = "none"  # as the standard wants it where kind is not 'fail'
    return result


def _location(finding: Finding) -> dict[str, Any]:
    logical = {"logicalLocations": [{"fullyQualifiedName": finding.object or "kill path", "kind": "object"}]}
    if not finding.file:
        return logical
    region = {"region": {"startLine": finding.line}} if finding.line else {}
    return {"physicalLocation": {"artifactLocation": {"uri": uri(finding.file)}, **region}, **logical}
