"""How well lint knows the zoo: every broken kill path found, no mended one accused. ``make zoo`` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from killcheck.fixtures.zoo import Case, Part, cases
from killcheck.probes import Finding

from killcheck.kube import manifests
from killcheck.lint import asking

#: The morning on which the zoo is looked at: what is stale or stuck in it is so by then.
NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Seen:
    """``missing``: probes that should have found the broken one; ``false_alarms``: findings about the mended one."""

    case: Case
    missing: tuple[str, ...]
    false_alarms: tuple[Finding, ...]


def findings(case: Case, part: Part) -> tuple[Finding, ...]:
    """What lint says of one half of a case."""
    world, notes = asking.world_of(manifests.load(case.files(part)), NOW)
    return asking.lint(world, notes=notes).findings


def look(case: Case) -> Seen:
    """Both halves. An alarm is an error or a warning, or the very probe that the broken twin is about."""
    found = {f.probe for f in findings(case, "broken") if not f.unproven}
    alarms = [
        f
        for f in findings(case, "mended")
        if not f.unproven and (f.severity in ("error", "warning") or f.probe in case.findings)
    ]
    return Seen(case, tuple(p for p in case.findings if p not in found), tuple(alarms))


def lines(seen: Iterable[Seen]) -> list[str]:
    """The score, and whatever is not as it should be."""
    every = list(seen)
    found = sum(not one.missing for one in every)
    alarmed = sum(bool(one.false_alarms) for one in every)
    out = [f"zoo: {found} found of {len(every)} broken, {alarmed} false alarms on {len(every)} mended"]
    out += [f"  not found: {one.case.name}: {', '.join(one.missing)}" for one in every if one.missing]
    out += [
        f"  false alarm: {one.case.name}: {f.severity} {f.probe}: {f.object}: {f.message}"
        for one in every
        for f in one.false_alarms
    ]
    return out


def main() -> int:
    """Print it; 1 where anything is missed or accused."""
    seen = [look(case) for case in cases()]
    sys.stdout.write("\n".join(lines(seen)) + "\n")
    return int(any(one.missing or one.false_alarms for one in seen))


if __name__ == "__main__":
    sys.exit(main())
