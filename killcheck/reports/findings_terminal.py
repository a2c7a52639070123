"""Findings for a person: grouped by object, the worst first, the fix beside each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.text import Text

from killcheck.reports.screen import Screen, screen

if TYPE_CHECKING:
    from killcheck.lint.asking import LintResult
    from killcheck.probes import Finding

__all__ = ["show"]

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}
#: More findings of a probe that are mended the same way than these are told together; notes in one line.
_MANY = 3
#: So many of them have a line of their own before the rest is a number.
_SHOWN = 10
#: Columns before the words of a finding: where a line that is too long goes on.
HANG = 14
_MARKS = {"error": "✗", "warning": "!", "note": "·"}


def show(
    result: LintResult,
    *,
    color: bool | None = None,
    file: Any = None,
    width: int | None = None,
    notes: bool = True,
    verbose: bool = True,
) -> None:
    """Print what was found and not asked; ``notes``: those too. Not ``verbose``: many of a kind together."""
    console = screen(color=color, width=width, file=file)
    answered = [f for f in result.findings if not f.unproven and (notes or f.severity != "note")]
    many = {} if verbose else _classes(answered)
    together = {id(finding) for members in many.values() for finding in members}
    errors = [members for members in many.values() if members[0].severity == "error"]
    for members in errors:
        console.say(_class_lines(members), HANG)
    for obj, findings in _by_object(f for f in answered if id(f) not in together):
        console.print()
        console.say(_heading(obj, findings[0]), 4)
        for finding in findings:
            console.say(_lines(finding), HANG)
    for members in (members for members in many.values() if members not in errors):
        console.say(_class_line(members) if members[0].severity == "note" else _class_lines(members), HANG)
    _open_questions(console, [f for f in result.findings if f.unproven], verbose=verbose)
    for note in result.notes:
        console.say(Text(f"· {note}", style="dim"), 2)
    console.print()
    if any(finding.gpus for finding in result.findings):
        console.say(_left_on(result.findings), 4)
    console.say(_count(result), 4)


def _classes(findings: Iterable[Finding]) -> dict[tuple[str, ...], list[Finding]]:
    """The findings of a probe that are mended the same way, where there are many."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        fix = () if finding.severity == "note" else (finding.remedy, finding.patch or "")
        groups.setdefault((finding.severity, finding.probe, *fix), []).append(finding)
    return {key: members for key, members in groups.items() if len(members) > _MANY}


def _class_line(members: list[Finding]) -> Text:
    """One line for all notes of a probe, with the first."""
    first = members[0]
    text = Text(f"\n· note    {first.message}: {first.object} and {len(members) - 1} more", style="dim")
    text.append(f"  [{first.probe}] (--verbose for each)", style="dim")
    text.append(f"\n      fix     {first.remedy}", style="green")
    return text


def _class_lines(members: list[Finding]) -> Text:
    """Errors or warnings that are mended the same way: a line each, the fix once."""
    first = members[0]
    text = Text(f"\n{_MARKS[first.severity]} {len(members)} {first.severity}s", style=_STYLES[first.severity])
    text.append(f"  [{first.probe}]", style="dim")
    for finding in members[:_SHOWN]:
        place = f"{finding.file}:{finding.line}" if finding.file and finding.line else finding.file or ""
        text.append(f"\n      {finding.object}: {finding.message}")
        if place and not finding.object.startswith(place):
            text.append(f"  {place}", style="dim")
    if len(members) > _SHOWN:
        text.append(f"\n      and {len(members) - _SHOWN} more (--verbose for each)", style="dim")
    text.append(f"\n      fix     {first.remedy}", style="green")
    return text


def _by_object(findings: Iterable[Finding]) -> Iterable[tuple[str, list[Finding]]]:
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.object, []).append(finding)
    return groups.items()


def _heading(obj: str, finding: Finding) -> Text:
    text = Text(obj, style="bold")
    if finding.file and not obj.startswith(finding.file):
        text.append(f"  {finding.file}", style="dim")
    return text


def _lines(finding: Finding) -> Text:
    style = _STYLES[finding.severity]
    text = Text("  ")
    text.append(f"{_MARKS[finding.severity]} {finding.severity:<8}", style=style)
    text.append(f"{finding.message}")
    where = f":{finding.line}" if finding.line else ""
    text.append(f"  [{finding.probe}{where}]", style="dim")
    text.append(f"\n      fix     {finding.remedy}", style="green")
    if finding.patch:
        text.append(f"\n      {finding.patch}", style="cyan")
    return text


def _open_questions(console: Screen, unproven: list[Finding], *, verbose: bool) -> None:
    if not unproven:
        return
    reasons: dict[tuple[str, str], list[str]] = {}
    for finding in sorted(unproven, key=lambda one: -one.gpus):  # those with the most first, as among the errors
        reason = finding.question
        gpus, who = _gpus(finding.gpus), finding.object
        reason, who = (re.sub(rf"\b{gpus}\b", "GPUs", reason), f"{who} ({gpus})") if finding.gpus else (reason, who)
        reasons.setdefault((finding.probe, reason), []).append(who)
    console.print()
    console.print(Text("Not proven:", style="bold magenta"))
    for (probe, reason), objects in reasons.items():
        about = list(dict.fromkeys(one for one in objects if one))
        most = len(about) if verbose else _SHOWN
        more = f", and {len(about) - most} more" if len(about) > most else ""
        named = f"\n      {', '.join(about[:most])}{more}" if about else ""
        console.say(Text(f"  ? {probe}: {reason}{named}", style="magenta"), 6 if about else 4)


def _gpus(number: int) -> str:
    return f"{number} GPU{'s' if number != 1 else ''}"


def _left_on(findings: Iterable[Finding]) -> Text:
    """How many GPUs nothing turns off, and of how many nobody knows."""
    held = {unproven: sum(f.gpus for f in findings if f.unproven is unproven) for unproven in (False, True)}
    said = [f"nothing turns off {_gpus(held[False])}"] if held[False] else []
    said += (
        [f"whether anything turns off {_gpus(held[True])}{' more' if said else ''} is not proven"] if held[True] else []
    )
    return Text("; ".join(said), style="bold red" if held[False] else "bold magenta")


def _count(result: LintResult) -> Text:
    counts = {severity: sum(f.severity == severity and not f.unproven for f in result.findings) for severity in _STYLES}
    parts = [f"{number} {name}{'s' if number != 1 else ''}" for name, number in counts.items()]
    unproven = sum(f.unproven for f in result.findings)
    parts += [f"{unproven} not proven"] if unproven else []
    parts += [f"{len(result.suppressed)} suppressed"] if result.suppressed else []
    parts += [f"{len(result.known)} in the baseline"] if result.known else []
    path = result.kill_path
    what = f"{len(path.targets)} target(s), {len(path.layers)} layer(s), {len(result.asked)} probes"
    return Text(f"{path.name}: {what}: {', '.join(parts)}", style="bold red" if counts["error"] else "bold")
