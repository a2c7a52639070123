"""The outcome of a whole run, in a sentence."""

from __future__ import annotations

from killcheck.reports.figures import money, span
from killcheck.reports.story import RunStory

__all__ = ["sentence"]


def sentence(story: RunStory) -> str:
    """The verdict as a person would say it."""
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
        return f"{len(exposed)} of {len(story.drills)} drill(s) left GPUs on: {money(known)} while they were watched."
    unsure = [drill for drill in story.drills if drill.standing not in ("survived", "covered", "accepted")]
    if unsure:
        return f"{len(unsure)} of {len(story.drills)} drill(s) prove nothing."
    times = [drill.result.get("seconds_to_zero") or 0.0 for drill in story.drills if drill.standing != "accepted"]
    slowest, accepted = max(times, default=0.0), len(story.drills) - len(times)
    if accepted:
        others = f" Every other turned the GPUs off; the slowest took {span(slowest)}." if times else ""
        return f"{accepted} of {len(story.drills)} drill(s) left GPUs on, which the policy accepts.{others}"
    return f"Every drill turned the GPUs off; the slowest took {span(slowest)}."
