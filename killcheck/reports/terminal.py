"""The terminal: a drill as it happens, line by line, and the closing table. Consumes events; knows no cluster."""

from __future__ import annotations

import os
import sys
from datetime import date
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from killcheck import events
from killcheck.kube.preflight import in_words
from killcheck.reports import mend, rests
from killcheck.reports.figures import money, short, span, still_on, who_notices
from killcheck.reports.screen import PLAIN_WIDTH, STYLES, fitting, screen
from killcheck.spec.phases import words_of
from killcheck.text import accelerators

if TYPE_CHECKING:
    from killcheck.reports.compare import Comparison
    from killcheck.reports.live import Live
    from killcheck.reports.story import RunStory
    from killcheck.results import RunResult
    from killcheck.safety.consent import Plan
    from killcheck.verdict import DrillResult

__all__ = ["Terminal", "clock"]

#: Columns before the words of a line: where a line that is too long goes on.
HANG = 12


def margin(seconds: float | None) -> str:
    """What is left of a spot notice, as the end of a line; empty where there is none."""
    if seconds is None:
        return ""
    return f", {span(seconds)} of the notice left" if seconds >= 0 else f", {span(-seconds)} after the reclaim"


def clock(event: events.Event) -> str:
    """The cluster's time of day, UTC."""
    return f"{event.at:%H:%M:%S}"


class Terminal:
    """A sink for events that prints; ``quiet`` prints nothing but :meth:`summary` (and not even that with --json)."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        color: bool | None = None,
        width: int | None = None,
        file: Any = None,
    ) -> None:
        plain = width is None and not sys.stdout.isatty()
        self.console = screen(color=color, width=PLAIN_WIDTH if plain else width, file=file)
        self.console.wraps = self.console.wraps and not plain
        #: The day of the line above: a night has two.
        self._day: date | None = None
        self.quiet = quiet
        #: What stands below the lines while a drill on a real cluster runs and somebody watches.
        self._live: Live | None = None
        self._real = False

    # -- live ----------------------------------------------------------------------------------------------
    def __call__(self, event: events.Event) -> None:
        """Show an event."""
        if self.quiet:
            return
        show = getattr(self, f"_on_{event.kind}", None)
        if show is not None:
            show(event)
        if self._live is not None:
            self._live.hear(event)

    def _on_RunStarted(self, event: events.RunStarted) -> None:
        # On an embedded cluster a night is over before a person has read a line.
        self._real = event.real and self.console.is_terminal and not os.environ.get("CI")

    def _line(self, event: events.Event, mark: str, text: str, style: str = "") -> None:
        if event.at.date() != self._day:
            self._day = event.at.date()
            self.console.say(Text(f"  {self._day:%a} {self._day} UTC", style="dim"))
        line = Text(f"  {clock(event)}  ", style="dim")
        line.append(f"{mark} ", style=style or "default")
        line.append(text, style=style if mark in "✗!" else "default")
        self.console.say(line, HANG)

    def _on_DrillStarted(self, event: events.DrillStarted) -> None:
        under = f" under {', '.join(event.faults)}" if event.faults else ""
        self._day = None
        self.console.print()
        title = Text(event.title + "  " if event.title else "", style="bold")
        title.append(f"{event.layer}{under}", style="bold cyan" if not event.title else "cyan")
        self.console.say(title, 2)
        if self._real:
            from killcheck.reports.live import Live

            self._live = Live(self.console, event)

    def _on_SteadyState(self, event: events.SteadyState) -> None:
        accelerators.name_after(event.resources)
        rate = f", {money(event.usd_per_hour)} an hour" if event.usd_per_hour is not None else ""
        told = f"{len(event.gpu_pods)} GPU pod(s), {event.devices} GPUs, {len(event.nodes)} node(s)"
        if not event.gpu_pods and not event.nodes:  # outside Kubernetes: what is counted
            told = ", ".join(f"{count} {name}" for name, count in event.replicas.items()) or told
        self._line(event, "●", f"on: {told}{rate}")

    def _on_FaultInjected(self, event: events.FaultInjected) -> None:
        self._line(event, "⚡", f"{event.fault}: {'; '.join(event.changes)}", "yellow")

    def _on_FaultBitten(self, event: events.FaultBitten) -> None:
        self._line(event, "⚡", f"{event.fault} bit: {short(event.evidence)}", "yellow")

    def _on_Triggered(self, event: events.Triggered) -> None:
        self._line(event, "▶", event.how)

    def _on_PhaseReached(self, event: events.PhaseReached) -> None:
        late = event.deadline_s is not None and event.phase != "held" and event.at_s > event.deadline_s
        against = f" of {span(event.deadline_s)}" if event.deadline_s is not None and event.phase != "held" else ""
        text = f"{words_of(event.phase):<24} {span(event.at_s)}{against}"
        self._line(
            event,
            "✗" if late else "✓",
            text + margin(event.margin_s) + (" - too late" if late else ""),
            "red" if late else "green",
        )

    def _on_PhaseLost(self, event: events.PhaseLost) -> None:
        self._line(event, "✗", f"{words_of(event.phase)} no more: {event.why}", "red")

    def _on_Said(self, event: events.Said) -> None:
        if event.type == "Warning" and event.count == 1:
            self._line(event, "!", f"{event.object}: {event.reason}: {short(event.message)}", "yellow")

    def _on_Noted(self, event: events.Noted) -> None:
        if event.drill:  # what is noted about a whole run was said before it
            self._line(event, "·", event.text, "dim")

    def _on_Healed(self, event: events.Healed) -> None:
        if event.problems:
            for problem in event.problems:
                self._line(event, "✗", f"NOT put back: {problem}", "red")
        elif event.undone:
            state = "; the GPUs are on again" if event.steady_again else ""
            self._line(event, "↺", f"put back: {len(event.undone)} change(s){state}")

    def _on_Judged(self, event: events.Judged) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _on_DrillFinished(self, event: events.DrillFinished) -> None:
        self.console.say(_verdict_lines(event.result), HANG)
        self._rests(rests.shown_apart(event.result))

    def _rests(self, lines: list[str]) -> None:
        """What a verdict rests on, under it."""
        if lines:
            text = Text("    rests   ", style="dim")
            text.append("on " + "\n            ".join(lines))
            self.console.say(text, HANG)

    # -- before and after ----------------------------------------------------------------------------------
    def plan(self, plan: Plan) -> None:
        """What a run will touch."""
        self.console.say(Text.assemble("\nOn ", (plan.cluster, "bold"), " this would:"))
        for change in plan.changes:
            self.console.say(f"  - {change}", 4)
        for command in plan.commands:
            self.console.say(f"  - run on this machine: {command}", 4)
        for why in plan.impossible:
            self.console.say(f"  - nothing, and prove nothing: {why}", 4)
        if not plan.permissions:
            return
        self.console.say(f"  in namespaces: {', '.join(plan.namespaces) or 'none'}", 4)
        if plan.gpu_nodes:
            rate = (
                "a price is unknown"
                if plan.usd_per_hour is None
                else (f"{money(plan.usd_per_hour * plan.hours)}, {money(plan.usd_per_hour)} an hour")
            )
            self.console.say(f"  at stake: {plan.gpu_nodes} GPU node(s) for at most {plan.hours:.1f} h ({rate})", 4)
        self.console.say("  with these rights:")
        for right in in_words(plan.permissions):
            self.console.say(f"    {right}", 6)

    def summary(self, result: RunResult) -> None:
        """The closing table, what to mend first, and where the record is."""
        if len(result.drills) > 1:
            self.console.print()
            self.console.grid(_table(result.drills, self.console.width))
            found = [drill.to_json() for drill in result.drills]
            self.mend_first(found)
            if self.quiet:
                every = [*result.notes, *(line for one in found for line in rests.of_drill(one))]
                self._rests(list(dict.fromkeys(every)))
        elif self.quiet:
            for drill in result.drills:
                self.console.say(_verdict_lines(drill.to_json()), HANG)
                self._rests([*result.notes, *rests.of_drill(drill.to_json())])
        self.summary_of_record(result)

    def closing(self, story: RunStory, comparison: Comparison | None = None) -> None:
        """The end of a run that is told again from its record; with another run, what changed since."""
        self.mend_first([drill.result for drill in story.drills if drill.result])
        if comparison is not None:
            self._changes(comparison)
        if story.finished is None:
            self.console.print("\nThe record ends here: the run was cut short; nothing is proven", style="bold magenta")

    def mend_first(self, results: list[dict[str, Any]]) -> None:
        """What one change would mend of what is exposed, the most expensive first."""
        causes = mend.first(results)
        if not causes:
            return
        self.console.print("\nMend first", style="bold")
        for number, one in enumerate(causes[: mend.HANDFUL], 1):
            text = Text(f"  {number}. ")
            text.append(short(one.cause, 200), style="bold")
            text.append(f"  {money(one.usd)}, {len(one.drills)} drill(s)", style="dim")
            if one.remedy:
                text.append(f"\n     {one.remedy}")
            self.console.say(text, 5)
        if left := mend.rest(causes):
            self.console.say(Text(f"  {left}", style="dim"), 5)

    def _changes(self, comparison: Comparison) -> None:
        self.console.print(f"\nSince run {comparison.earlier.started.run}", style="bold", markup=False)
        for change in comparison.changes:
            was, now = (span(v) if isinstance(v, float | int) else v or "-" for v in (change.before, change.after))
            self.console.say(
                Text(f"  {change.kind:<8} {change.drill}: {was} -> {now}", style="red" if change.bad else "green"), 11
            )
        for text in comparison.new_findings:
            self.console.say(Text(f"  found    {text}", style="red"), 11)
        for text in comparison.gone_findings:
            self.console.say(Text(f"  gone     {text}", style="green"), 11)
        self.console.print(Text(f"  {comparison.same} drill(s) as they were", style="dim"))

    def summary_of_record(self, result: RunResult) -> None:
        """Where the record is."""
        self.console.print()
        if result.record:
            self.console.print(f"run record: {result.record}", style="dim", markup=False)


def _verdict_lines(result: dict[str, Any]) -> Text:
    verdict = result["verdict"]
    text = Text("  ")
    word = "accepted" if result.get("accepted") is not None else verdict
    text.append(f" {word.upper()} ", style=f"reverse {STYLES[word]}")
    if verdict in ("survived", "covered"):
        text.append(f"  GPUs off after {span(result['seconds_to_zero'])}")
        if result["seconds_to_drained"] is not None:
            text.append(f", node drained after {span(result['seconds_to_drained'])}")
        text.append(f", {money(result['usd'])} spent\n            {result['why']}")
        return text
    if verdict == "inconclusive":
        text.append(f"  nothing is proven: {result['why']}")
        return text
    if not result["stuck_at"]:
        text.append(f"  {result['why']}\n    remedy  {result['remedy'] or ''}")
        return text
    text.append(f"  {still_on(result)}: {money(result['usd'])} so far")
    if result["usd_until_next_chance"] is not None:
        chance = result["next_chance"][:16].replace("T", " ")
        text.append(f", {money(result['usd_until_next_chance'])} by the next chance at {chance} UTC")
    for told in who_notices(result):
        text.append("\n            " + told)
    text.append("\n    stuck   ", style="dim")
    text.append(f"before '{words_of(result['stuck_at'])}'")
    text.append("\n    cause   ", style="dim")
    text.append(short(result["cause"] or "", 400))
    text.append("\n    remedy  ", style="dim")
    text.append(result["remedy"] or "")
    return text


def _table(drills: tuple[DrillResult, ...], width: int) -> Table:
    rows = []
    for drill in drills:
        row = drill.to_json()
        name = drill.title or " under ".join(filter(None, [drill.layer, ", ".join(drill.faults)]))
        cost = row["usd_until_next_chance"] if row["usd_until_next_chance"] is not None else row["usd"]
        off, drained = span(drill.seconds_to_zero), span(drill.seconds_to_drained)
        because = Text(short(drill.cause or drill.why, 75))
        rows.append([Text(name), _verdict(drill), Text(off), Text(drained), Text(money(cost)), because])
    return fitting(
        ["night", "verdict", "GPUs off", "drained", "cost", "because"], rows, width, right=frozenset({"cost"})
    )


def _verdict(drill: DrillResult) -> Text:
    word = "accepted" if drill.accepted is not None else str(drill.verdict)
    return Text(word, style=STYLES[word])
