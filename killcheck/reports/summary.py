"""A run in a few lines: as Markdown for a GitHub step summary, and as a message for a Slack-compatible webhook.

Sources: docs.github.com, workflow commands (GITHUB_STEP_SUMMARY: GitHub-flavoured Markdown, 1 MiB a step);
docs.slack.dev, incoming webhooks and Block Kit (``text`` as the fallback, a header of plain text of at most 150
characters, a section's text of at most 3,000, at most 50 blocks; ``&``, ``<`` and ``>`` are written as entities).
"""

from __future__ import annotations

import json
import re
from typing import Any

from killcheck.reports import mend, rests
from killcheck.reports.base import Delivery, Place, Written
from killcheck.reports.compare import Comparison
from killcheck.reports.figures import money, span
from killcheck.reports.outcome import headline, sentence
from killcheck.reports.post import post
from killcheck.reports.story import DrillStory, RunStory

__all__ = ["MARKDOWN", "MESSAGE", "POSTED", "markdown", "slack"]

_MARKS = {
    "survived": "✅",
    "covered": "🟡",
    "accepted": "🟠",
    "exposed": "🔴",
    "inconclusive": "❔",
    "unfinished": "❔",
}
#: More than this and a message is not read; the whole is in the report.
MOST_ROWS = 40
HEADER_LIMIT, SECTION_LIMIT = 150, 3000


def markdown(story: RunStory, comparison: Comparison | None = None) -> str:
    """The step summary: verdict, a row for every drill, what to mend first, what changed."""
    lines = [
        f"## killcheck: {_md(story.started.kill_path)} on {_md(story.started.cluster)}: **{_md(headline(story))}**",
        "",
        _md(sentence(story)),
        "",
    ]
    if story.drills:
        lines += ["| | drill | verdict | GPUs off | drained | cost | because |", "|---|---|---|---|---|---|---|"]
        lines += [_row(drill) for drill in story.drills[:MOST_ROWS]]
        if len(story.drills) > MOST_ROWS:
            lines += ["", f"... and {len(story.drills) - MOST_ROWS} more: see the report."]
    notes = rests.of_run(story)
    if notes:
        lines += ["", "### Rests on", ""]
        lines += [f"- {_md(note)}" for note in notes[:MOST_ROWS]]
    causes = mend.first(drill.result for drill in story.drills if drill.result)
    if causes:
        lines += ["", "### Mend first", ""]
        lines += [
            f"{number}. **{_md(one.cause)}** ({money(one.usd)}; {_md(', '.join(one.drills))})  \n   {_md(one.remedy)}"
            for number, one in enumerate(causes[: mend.HANDFUL], 1)
        ]
        lines += [f"\n{left}"] if (left := mend.rest(causes)) else []
    errors = [f for f in story.findings if f["severity"] == "error"]
    if errors:
        lines += ["", "### Found by reading", ""]
        lines += [f"- `{_code(f['object'])}`: {_md(f['message'])}. {_md(f['remedy'])}" for f in errors[:MOST_ROWS]]
    if comparison is not None and comparison.changes:
        lines += ["", f"### Since run {comparison.earlier.started.run}", ""]
        lines += [
            f"- {change.kind}: {_md(change.drill)} ({_was(change.before)} -> {_was(change.after)})"
            for change in comparison.changes
        ]
    return "\n".join(lines) + "\n"


def slack(story: RunStory) -> dict[str, Any]:
    """The body to post to a Slack-compatible incoming webhook: what to mend first, then what proves nothing."""
    title = f"killcheck: {story.started.kill_path} on {story.started.cluster}: {headline(story)}"
    causes = mend.first(drill.result for drill in story.drills if drill.result)
    unsure = [drill for drill in story.drills if drill.standing not in ("survived", "covered", "accepted", "exposed")]
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": title[:HEADER_LIMIT]}},
        _section(_escape(sentence(story))),
        *(_section(_mend(one)) for one in causes[: mend.HANDFUL]),
    ]
    if left := mend.rest(causes):
        blocks.append(_section(_escape(left)))
    blocks += [_section(f"*{_escape(drill.name)}*: {drill.verdict}\n{_escape(_why(drill))}") for drill in unsure[:10]]
    if len(unsure) > 10:
        blocks.append(_section(f"... and {len(unsure) - 10} more"))
    if notes := rests.of_run(story):
        more = [f"... and {len(notes) - 10} more: see the report"] if len(notes) > 10 else []
        blocks.append(_section("\n".join(["Rests on:", *(f"- {_escape(note)}" for note in notes[:10]), *more])))
    return {"text": _escape(f"{title}. {sentence(story)}"), "blocks": blocks}  # it is read for mentions, too


def _mend(one: mend.Mend) -> str:
    """What one change would mend: a drill's name, or how many there are."""
    whose = one.drills[0] if len(one.drills) == 1 else f"{len(one.drills)} drills"
    remedy = f"\n_{_escape(one.remedy)}_" if one.remedy else ""
    return f"*{_escape(whose)}*: exposed, {money(one.usd)}\n{_escape(one.cause)}{remedy}"


def _row(drill: DrillStory) -> str:
    result = drill.result
    until = result.get("usd_until_next_chance")
    cells = [
        _MARKS.get(drill.standing, "❔"),
        _md(drill.name),
        f"{drill.verdict} by {_md(result['off_by'])}" if drill.verdict == "covered" else drill.standing,
        span(result.get("seconds_to_zero")),
        span(result.get("seconds_to_drained")),
        money(until if until is not None else result.get("usd")) if result else "-",
        _md("; ".join(filter(None, [drill.acceptance, _why(drill)]))),
    ]
    return "| " + " | ".join(cells) + " |"


def _why(drill: DrillStory) -> str:
    return str(drill.result.get("cause") or drill.result.get("why") or "the record ends before the drill did")


def _was(value: str | float | None) -> str:
    return span(value) if isinstance(value, float | int) else str(value or "-")


def _md(text: str) -> str:
    """Text that a cluster said, as text: no markup, no mention, no new line."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", flat).replace("@", "@\N{ZERO WIDTH SPACE}")


def _code(text: str) -> str:
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _section(text: str) -> dict[str, Any]:
    short = text if len(text) <= SECTION_LIMIT else text[: SECTION_LIMIT - 1] + "…"
    return {"type": "section", "text": {"type": "mrkdwn", "text": short}}


MARKDOWN = Written(
    "github-summary",
    "Append Markdown: the file that $GITHUB_STEP_SUMMARY names.",
    lambda told: markdown(told.story, told.comparison),
    appended=True,  # a step may have written to its summary already
)
MESSAGE = Written(
    "slack",
    "The body of a Slack-compatible webhook message.",
    lambda told: json.dumps(slack(told.story), indent=2) + "\n",
)
POSTED = Delivery(
    "webhook",
    "Post that message to the URL in $KILLCHECK_WEBHOOK, a secret.",
    to=lambda told, url: post(url, slack(told.story)),
    variable="KILLCHECK_WEBHOOK",
    place=Place.ASKED,
)
