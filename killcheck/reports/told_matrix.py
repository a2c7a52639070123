"""The matrix of a run that is told again: faults down, layers across, from the record alone."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from killcheck.reports.figures import money, span
from killcheck.reports.screen import STYLES, fitting
from killcheck.reports.story import DrillStory, RunStory

__all__ = ["grid"]


def grid(story: RunStory, width: int) -> Table:
    """A row a fault and a column a layer where ``width`` columns hold them; else a row a drill."""
    layers = list(dict.fromkeys(drill.started.layer for drill in story.drills))
    faults = list(dict.fromkeys(_under(drill) for drill in story.drills))
    cells = {(drill.started.layer, _under(drill)): _cell(drill) for drill in story.drills}
    needed = max(map(len, faults)) + sum(
        3 + max(len(layer), *(len(cells[at].plain) for at in cells if at[0] == layer)) for layer in layers
    )
    if needed > width:
        return fitting(["drill", "outcome"], [[Text(drill.name), _cell(drill)] for drill in story.drills], width)
    made = Table(box=None, pad_edge=False, show_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for name in ("under", *layers):
        made.add_column(name, no_wrap=True)
    for fault in faults:
        made.add_row(fault, *(cells.get((layer, fault), Text("·", style="dim")) for layer in layers))
    return made


def _under(drill: DrillStory) -> str:
    return drill.started.title or "+".join(drill.started.faults) or "(undisturbed)"


def _cell(drill: DrillStory) -> Text:
    result = drill.result
    text = Text(drill.standing, style=STYLES.get(drill.standing, "bold magenta"))
    if drill.verdict == "covered":
        text.append(f" by {result['off_by']}")
    if drill.verdict in ("survived", "covered"):
        text.append(f"  zero {span(result['seconds_to_zero'])}, {money(result['usd'])}", style="dim")
    elif drill.verdict == "exposed":
        until = result.get("usd_until_next_chance")
        text.append(f"  {money(until if until is not None else result.get('usd'))}", style="dim")
    return text
