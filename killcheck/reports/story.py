"""A run as reports tell it: drills with their events, from the record alone - also from one that a kill cut short."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct, field

from killcheck.events import (
    DrillFinished,
    DrillStarted,
    Event,
    Fenced,
    Found,
    Noted,
    RunFinished,
    RunStarted,
    SteadyState,
    Triggered,
)

__all__ = ["DrillStory", "RunStory", "tell"]

_E = TypeVar("_E", bound=Event)


class DrillStory(Struct):
    """One drill. ``result`` is empty where the record ends before the drill did."""

    id: str
    started: DrillStarted
    events: list[Event] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)

    def of(self, kind: type[_E]) -> list[_E]:
        """Its events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def verdict(self) -> str:
        """The verdict; ``unfinished`` where there is none."""
        return str(self.result.get("verdict", "unfinished"))

    @property
    def standing(self) -> str:
        """The verdict as the policy takes it: an exposure that it knows is ``accepted``, which is not proven."""
        accepted = self.verdict == "exposed" and self.result.get("accepted") is not None
        return "accepted" if accepted and not self.result.get("problems") else self.verdict

    @property
    def acceptance(self) -> str | None:
        """Who accepted the exposure, why, until when; None where it is none that is accepted."""
        if self.standing != "accepted":
            return None
        said = self.result["accepted"]
        by, until = said.get("owner"), said.get("until")
        parts = ["accepted", f"by {by}" if by else "by the policy", f"until {until}" if until else ""]
        return " ".join(filter(None, parts)) + (f": {said['reason']}" if said.get("reason") else "")

    @property
    def name(self) -> str:
        """The layer and its faults, or the title it was given."""
        under = f" under {', '.join(self.started.faults)}" if self.started.faults else ""
        return self.started.title or f"{self.started.layer}{under}"

    @property
    def triggered(self) -> datetime | None:
        """When its trigger was pulled, on the cluster's clock."""
        found = self.of(Triggered)
        return found[0].at if found else None

    def since_trigger(self, event: Event) -> float:
        """Seconds between the trigger and an event; negative before it."""
        return (event.at - (self.triggered or self.started.at)).total_seconds()


class RunStory(Struct):
    """A run; ``finished`` is None where the record was cut short."""

    started: RunStarted
    drills: list[DrillStory] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    fences: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    finished: RunFinished | None = None

    @property
    def resources(self) -> list[str]:
        """The extended resources that were held in its drills."""
        steady = (one for drill in self.drills for one in drill.events if isinstance(one, SteadyState))
        return sorted({name for one in steady for name in one.resources})

    @property
    def verdict(self) -> str:
        """The run's verdict; ``unfinished`` where there is none."""
        return self.finished.verdict if self.finished else "unfinished"


def tell(record: Iterable[Event]) -> RunStory:
    """Sort a record's events into its drills; those that were planned and never begun are unfinished ones.

    Raises ValueError for a record that does not begin with RunStarted.
    """
    story: RunStory | None = None
    for event in record:
        if isinstance(event, RunStarted):
            story = RunStory(event)
        elif story is None:
            raise ValueError("a run record begins with RunStarted")
        elif isinstance(event, RunFinished):
            story.finished = event
        elif isinstance(event, Found):
            story.findings.append(event.finding)
        elif isinstance(event, Fenced):
            story.fences.append(event.fence)
        elif isinstance(event, Noted) and not event.drill:
            story.notes.append(event.text)
        elif isinstance(event, DrillStarted):
            story.drills.append(DrillStory(event.drill, event))
        elif story.drills:
            story.drills[-1].events.append(event)
            if isinstance(event, DrillFinished):
                story.drills[-1].result = event.result
    if story is None:
        raise ValueError("the record is empty")
    story.drills += [_never_begun(story, planned) for planned in story.started.drills[len(story.drills) :]]
    return story


def _never_begun(story: RunStory, planned: dict[str, Any]) -> DrillStory:
    faults = [str(fault) for fault in planned.get("faults") or ()]
    layer = str(planned.get("layer", ""))
    return DrillStory(
        "-".join([layer, *faults]),
        DrillStarted(
            at=story.started.at,
            drill="-".join([layer, *faults]),
            layer=layer,
            layer_type="",
            faults=faults,
            deadlines={},
            proof=[],
            title=str(planned.get("title") or ""),
        ),
    )
