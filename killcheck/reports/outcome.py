"""The outcome of a whole run, in a sentence."""

from __future__ import annotations

from collections import Counter

from killcheck.reports.figures import Ending, ending, money, span
from killcheck.reports.story import DrillStory, RunStory

__all__ = ["headline", "sentence"]


def headline(story: RunStory) -> str:
    """The verdict of the drills, and what reading found beside it: a gate may fail although every drill passed."""
    passed = story.verdict in ("survived", "covered", "accepted")
    return ", ".join([story.verdict, *(_read(story) if passed else [])])


def sentence(story: RunStory) -> str:
    """The verdict as a person would say it."""
    read = _read(story)
    return _drilled(story) + (f" Beside the drills: {', '.join(read)}." if read else "")


def _read(story: RunStory) -> list[str]:
    errors = sum(finding["severity"] == "error" for finding in story.findings)
    open_ = sum(fence["verdict"] == "exposed" for fence in story.fences)
    return [
        *([f"{errors} error{'s' * (errors > 1)} found by reading"] if errors else []),
        *([f"{open_} pool{'s' * (open_ > 1)} above the ceiling"] if open_ else []),
    ]


def _drilled(story: RunStory) -> str:
    exposed = [drill for drill in story.drills if drill.standing == "exposed"]
    if not story.finished:
        return "The run was cut short: what is below is what it had seen by then, and it proves nothing."
    dirty = [drill for drill in story.drills if drill.result.get("problems")]
    if dirty:
        return f"{len(dirty)} of {len(story.drills)} drill(s) could not put back all that they had changed."
    if not story.drills:
        return "No drill was run: nothing is proven."
    if exposed:
        usd = [drill.result.get("usd") for drill in exposed]
        known = None if None in usd else sum(value or 0.0 for value in usd)
        return f"{_exposed(exposed, len(story.drills))}: {money(known)} while they were watched."
    unsure = [drill for drill in story.drills if drill.standing not in ("survived", "covered", "accepted")]
    if unsure:
        return f"{len(unsure)} of {len(story.drills)} drill(s) prove nothing."
    times = [drill.result.get("seconds_to_zero") or 0.0 for drill in story.drills if drill.standing != "accepted"]
    slowest, accepted = max(times, default=0.0), len(story.drills) - len(times)
    if accepted:
        others = f" Every other turned the GPUs off; the slowest took {span(slowest)}." if times else ""
        return f"{accepted} of {len(story.drills)} drill(s) are exposed, which the policy accepts.{others}"
    return f"Every drill turned the GPUs off; the slowest took {span(slowest)}."


def _exposed(exposed: list[DrillStory], many: int) -> str:
    """What the GPUs did in drills that left a path exposed, the worst first."""
    how = Counter(ending(drill.result) for drill in exposed)
    worst, *others = [one for one in Ending if how[one]]
    too = "".join(f", {how[one]} {one.replace('the GPUs', 'them')}" for one in others)
    return f"{how[worst]} of {many} drill(s) {worst}{too}"
