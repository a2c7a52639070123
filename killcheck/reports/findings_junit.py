"""Findings as JUnit XML: one test case a probe; what is at or above the failing severity is a failure.

What could not be proven is *skipped* with its reason, never passed; what is below the failing severity is output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.lint.asking import LintResult
    from killcheck.probes import Finding, Severity

__all__ = ["junit"]

#: Characters that XML 1.0 cannot hold.
_FORBIDDEN = lazy_re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: LintResult, fail_on: Severity) -> str:
    """The document: a suite of the probes that were asked, in their order."""
    failing = set(result.at_or_above(fail_on))
    suite = Element("testsuite", name=f"killcheck lint {result.kill_path.name}")
    for probe in result.asked:
        found = [finding for finding in result.findings if finding.probe == probe]
        suite.append(_case(probe, found, [finding for finding in found if finding in failing]))
    for name, tag in (("tests", "testcase"), ("failures", "testcase/failure"), ("skipped", "testcase/skipped")):
        suite.set(name, str(len(suite.findall(tag))))
    suite.set("errors", "0")
    root = Element("testsuites")
    root.append(suite)
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _case(probe: str, found: list[Finding], failing: list[Finding]) -> Element:
    case = Element("testcase", classname="killcheck.lint.asking", name=probe)
    unproven = [finding for finding in found if finding.unproven and finding not in failing]
    if failing:
        first = failing[0]
        place = f"{first.file}:{first.line}" if first.file else first.object
        case.set("file", _clean(first.file)) if first.file else None
        problem = SubElement(case, "failure", type=first.severity, message=_clean(f"{place}: {first.message}"))
        problem.text = _clean("\n".join(_line(finding) for finding in failing))
    elif unproven:
        SubElement(case, "skipped", message=_clean("; ".join(finding.message for finding in unproven)))
    rest = [finding for finding in found if finding not in failing]
    if rest:
        SubElement(case, "system-out").text = _clean("\n".join(_line(finding) for finding in rest))
    return case


def _line(finding: Finding) -> str:
    place = f"{finding.file}:{finding.line}: " if finding.file else ""
    return f"{finding.severity}: {place}{finding.object}: {finding.message}\n  remedy: {finding.remedy}"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
