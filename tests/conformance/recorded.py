"""A recording of a real cluster, read: what was made and done, and what was then seen, as comparable transitions.

A transition is one field of one object taking one value. Names that a cluster generates are replaced by aliases that
count (``vllm-<1>``, ``vllm-<1>-<2>``: the second pod of the first ReplicaSet), uids and moments by ``*``.
"""

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "recordings"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))

_PART = re.compile(r"; (?=(?:condition |container |phase: |reason: |status\.|spec\.|metadata\.)\S*)")
_FIELD = re.compile(r"((?:condition|container) \S+(?: \w+)?|[\w.]+): (.*)", re.DOTALL)
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_RANDOM = re.compile(r"-[a-z0-9]{5}$")
_HASH = re.compile(r"-[a-z0-9]{6,10}$")


@dataclass(frozen=True)
class Transition:
    """``at``: seconds after the trigger; ``value`` None: the field was removed."""

    at: float
    object: str
    field: str
    value: str | None


@dataclass(frozen=True)
class Told:
    """Equal events of one object, counted; ``at``: the first, in seconds after the trigger."""

    at: float
    object: str
    type: str
    reason: str
    message: str
    count: int

    @property
    def key(self):
        return self.object, self.type, self.reason, self.message


@dataclass
class Aliases:
    """Stable names for generated ones, in the order in which their objects appeared."""

    fixed: frozenset[str]
    names: dict[str, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind, name):
        if name in self.fixed or name in self.names or kind not in ("Pod", "ReplicaSet", "ResourceClaim", "Job"):
            return
        if kind == "Job":  # the controller's own: minutes since the epoch, the same on both sides
            self.names[name] = name
            return
        stem = (_HASH if kind == "ReplicaSet" else _RANDOM).sub("", name)
        if stem == name:
            return
        stem = self.names.get(stem, stem)
        self._counts[stem] = self._counts.get(stem, 0) + 1
        self.names[name] = f"{stem}-<{self._counts[stem]}>"

    def real(self, alias):
        return next((name for name, known in self.names.items() if known == alias), alias)

    def of(self, text):
        for name in sorted(self.names, key=len, reverse=True):
            text = text.replace(name, self.names[name])
        for stem in (*self.names.values(), *self.fixed):
            if stem in text:
                text = re.sub(rf"(?<=\"){re.escape(stem)}-[a-z0-9]{{5}}(?=\")", f"{stem}-<new>", text)
        return _UID.sub("*", text)


def comparable(name, value):
    """A field's value with what differs from cluster to cluster taken out."""
    if name in (
        "metadata.deletionTimestamp",
        "status.completionTime",
        "status.lastSuccessfulTime",
        "status.lastScaleTime",
        "metadata.creationTimestamp",
    ):
        return "*"
    if name == "status.disruptedPods":
        return _TIME.sub("*", value)
    return value


def state_text(state):
    """A container's state as the recorder wrote it."""
    ((kind, details),) = state.items()
    kept = {key: details[key] for key in ("reason", "message", "exitCode", "signal") if key in details}
    return json.dumps({"state": kind} | kept)


class Recording:
    """One file of ``recordings/``."""

    def __init__(self, name):
        self.name = name
        self.raw = json.loads((FOLDER / f"{name}.json").read_text())
        self.trigger = _moment(self.raw["trigger_time"])
        self.setup = self.raw["setup"]
        self.aliases = Aliases(frozenset(o["metadata"]["name"] for o in self.setup))
        timeline = [entry for entry in self.raw["timeline"] if entry["object"] != "recorder"]
        for entry in sorted(timeline, key=lambda e: not e["object"].startswith("ReplicaSet/")):
            self.aliases.add(*entry["object"].split("/", 1))
        for told in self.raw["events"]:
            kind, _, name = told["object"].partition("/")
            self.aliases.add(kind, name.rpartition("/")[2].partition(":")[0])
        for obj in [*self.raw.get("objects", []), *self.raw.get("deleted_objects", [])]:
            self.aliases.add(obj["kind"], obj["metadata"]["name"])
        self.transitions = [t for entry in timeline for t in self._transitions(entry)]
        self.events = self._events()

    @property
    def begin(self):
        return min([0.0, *(t.at for t in self.transitions)])

    @property
    def end(self):
        seen = [entry["at_s"] for entry in self.raw["timeline"]]
        seen += [(_moment(e["last"] or e["first"]) - self.trigger).total_seconds() for e in self.raw["events"]]
        seen += [h["at_s"] for h in self.raw.get("http", []) if h.get("at_s") is not None]
        return max(seen, default=0.0)

    def _transitions(self, entry):
        alias = self.aliases.of(entry["object"])
        what = entry["what"]
        if what.startswith("event "):
            return
        for part in _PART.split(what):
            if part.startswith(("ADDED", "DELETED", "RE-ADDED")):
                yield Transition(entry["at_s"], alias, "object", part.split()[0])
                continue
            match = _FIELD.fullmatch(part)
            if match is None:
                raise ValueError(f"{self.name}: {part!r}")
            name, value = match.groups()
            if value.startswith("removed"):
                yield Transition(entry["at_s"], alias, name, None)
                continue
            value = value.rpartition(" -> ")[2].removeprefix("+ ")
            yield Transition(entry["at_s"], alias, name, self.aliases.of(comparable(name, value)))

    def _events(self):
        return merged(
            Told(
                (_moment(e["first"]) - self.trigger).total_seconds(),
                self._event_object(e["object"]),
                e["type"],
                e["reason"],
                self.aliases.of(e["message"]),
                e["count"] or 1,
            )
            for e in self.raw["events"]
        )

    def _event_object(self, text):
        kind, _, rest = text.partition("/")
        name = rest.partition(":")[0].partition(" ")[0]
        return self.aliases.of(f"{kind}/{name.rpartition('/')[2]}")


def merged(events):
    """Events of equal text made one, in order of their first."""
    found = {}
    for told in sorted(events, key=lambda e: e.at):
        before = found.get(told.key)
        found[told.key] = told if before is None else Told(before.at, *told.key, before.count + told.count)
    return list(found.values())


def _moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@cache
def recording(name):
    return Recording(name)
