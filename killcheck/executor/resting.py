"""What a value in a program rests on: the one vocabulary of what is the same each night, or tried on others.

A value is known (the manifests say it, the target's own replicas do, it is the success of the program's own calls, or
a part of the calendar that a drill tries), or it carries the sources that make it unknown. Nothing is recognised as
bad: what is not listed here as known is a source. What may *not* live here: how programs are walked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import reduce
from math import inf
from typing import Protocol

from msgspec import Struct, field

from killcheck.executor.api_calls import ApiCall
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = [
    "KNOWN",
    "WRITTEN_THERE",
    "Act",
    "Ground",
    "Kind",
    "Languages",
    "Shellish",
    "Source",
    "Unreadable",
    "Value",
    "World",
    "clocked",
    "counted_off",
    "fields_read",
    "joined",
    "known",
    "lasts_long",
    "read_of",
    "sided",
    "slept_s",
    "unknown",
]


class Unreadable(Exception):
    """A program, or a part of it, that cannot be followed; the message says which."""


class Kind(StrEnum):
    """What sort of thing a source is."""

    CHANCE = "chance"
    POD = "its pod's own name"
    LOOKS = "what is there"
    PROGRAM = "another program"
    COUNTS = "what it counts"
    STATE = "what was kept"


class Source(Struct, frozen=True):
    """Something that may be otherwise on another night. ``word``: by what its line is found in the program."""

    kind: Kind
    what: str
    word: str = ""


_Sources = frozenset[Source]
_NONE: _Sources = frozenset()


class Value(Struct, frozen=True):
    """What a text, a number or an exit code rests on. ``text``: what it is, where that is known.

    ``unknown``: in any use; ``listed``: where it decides whether anything is done, rather than to what; ``raw``: until
    fields of it are chosen that are known; ``clock``: the letters of date(1)'s formats that it is made of; ``own``: how
    many replicas or pods a target has; ``table``: what of kubectl's columns are names; ``carried``: what a round of a
    loop left of these variables.
    """

    unknown: _Sources = _NONE
    listed: _Sources = _NONE
    raw: _Sources = _NONE
    clock: frozenset[str] = frozenset()
    own: bool = False
    text: str | None = None
    table: tuple[str, ...] = ()
    carried: frozenset[str] = frozenset()

    def __or__(self, other: Value) -> Value:
        """What rests on both."""
        return Value(
            self.unknown | other.unknown,
            self.listed | other.listed,
            self.raw | other.raw,
            self.clock | other.clock,
            self.own or other.own,
            None,
            self.table or other.table,
            self.carried | other.carried,
        )

    @property
    def rests(self) -> Value:
        """The same, of which the text is not known any more."""
        return replace(self, text=None)

    @property
    def exists(self) -> Value:
        """That there is any of it: its fields are not looked at."""
        return replace(self, raw=_NONE, text=None, table=())

    @property
    def settled(self) -> Value:
        """The same as a condition: what was not narrowed to known fields is unknown."""
        return replace(self, unknown=self.unknown | self.raw, raw=_NONE, text=None)

    def doubted(self, source: Source) -> Value:
        """The same with one more source."""
        return replace(self, unknown=self.unknown | {source})


KNOWN = Value(text="")


def known(text: str | None = None) -> Value:
    """A value that is the same each night."""
    return Value(text=text)


def unknown(kind: Kind, what: str, word: str = "") -> Value:
    """A value that may be otherwise."""
    return Value(frozenset({Source(kind, what, word or what)}))


def joined(values: Iterable[Value]) -> Value:
    """What rests on all of them."""
    return reduce(lambda one, other: one | other, values, Value())


# -- the calendar ----------------------------------------------------------------------------------------------
#: Letters of date(1)'s formats that are tried on other nights; a second and its parts are no part of a calendar.
_TRIED = frozenset("HIklMpPRruwaAGgUVWjdemFDxXcbBhyYCsZzTnt%:-_^#0")
_WEEKS = frozenset("uwaAGgUVWj")
_FEW = 7
#: Numbers with a zero before them, which a shell takes for octal ones: 08 and 09 are none.
_PADDED = lazy_re.compile(r"%([dmjVUWHMI])")
_LETTER = lazy_re.compile(r"%[-_0^#:]*(\d?[A-Za-z%])")


def clocked(form: str) -> Value:
    """What ``date +FORM`` prints."""
    letters = {letter[-1] for letter in _LETTER.findall(form)}
    if letters & {"T", "X", "c"} or {"H", "M", "S"} <= letters:  # a whole moment, of which the end is as good as tossed
        letters = letters - {"S"} | {"s"}
    strange = letters - _TRIED
    if strange:
        return unknown(Kind.CHANCE, f"parts of a second (%{sorted(strange)[0]})", f"%{sorted(strange)[0]}")
    padded = {f"0{letter}" for letter in _PADDED.findall(form)}
    return Value(clock=frozenset(letters | padded))


def counted_off(value: Value, by: str, word: str) -> Value:
    """What is left of a division of a moment: of weeks and weekdays by a small number each is tried."""
    tried = (
        {letter for letter in value.clock if len(letter) == 1} <= _WEEKS and by.strip().isdigit() and int(by) <= _FEW
    )
    if not value.clock or tried:
        return value
    return value.doubted(Source(Kind.CHANCE, "a moment that is counted off", word))


def slept_s(texts: Sequence[str]) -> float:
    """How many seconds sleep(1) is told to wait."""
    found = [_SLEPT.fullmatch(text) for text in texts]
    return inf if "infinity" in texts else sum(float(one[1]) * _UNITS[one[2]] for one in found if one)


def lasts_long(texts: Sequence[str]) -> bool:
    """Whether it is told to wait for more than a day."""
    return slept_s(texts) > _A_DAY


_SLEPT = lazy_re.compile(r"(\d{1,12}(?:\.\d{1,9})?)([smhd]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_A_DAY = 86_400.0
_A_MINUTE = 60.0


# -- objects of the API ----------------------------------------------------------------------------------------
#: Fields that people write, and how many pods an object has: they are what the manifests say, or what is off already.
_WRITTEN = frozenset(
    """
    apiVersion api_version kind items continue _continue metadata name namespace labels annotations spec status
    replicas active selector matchLabels match_labels template containers initContainers init_containers resources
    limits requests nodeSelector node_selector tolerations suspend parallelism completions paused ownerReferences
    owner_references image ports env value key command args scaleTargetRef minReplicaCount maxReplicaCount minReplicas
    maxReplicas min_replicas max_replicas workerGroupSpecs headGroupSpec groupName rayClusterSpec leaderWorkerTemplate
    size predictor replicatedJobs schedule timeZone data stringData volumes volumeMounts serviceAccountName
    priorityClassName schedulerName runtimeClassName effect operator predictors mpiReplicaSpecs pytorchReplicaSpecs
    workload
    """.split()
)
#: Below these any key is one that somebody wrote.
_FREE = frozenset(
    {"labels", "annotations", "limits", "requests", "data", "stringData", "matchLabels", "match_labels", "nodeSelector"}
)
#: Labels and annotations that controllers write themselves.
WRITTEN_THERE = ("deployment.kubernetes.io/", "batch.kubernetes.io/", "control-plane.alpha.kubernetes.io/")
#: What tells how many pods a target has.
_COUNTS = frozenset({"replicas", "active"})
#: A number that says whether anything is on.
_ANY = frozenset({"0", "", "null", "None", "<none>", "<no value>", "0.0", "false", "False"})
#: Kinds whose objects are those of the manifests. Of all others it may be another night what there is of them.
_OF_MANIFESTS = frozenset(
    """
    deployments statefulsets daemonsets replicationcontrollers cronjobs scaledobjects horizontalpodautoscalers
    namespaces configmaps secrets serviceaccounts services poddisruptionbudgets rollouts leaderworkersets rayclusters
    rayservices inferenceservices notebooks llminferenceservices nimservices models workspaces sparkapplications
    dynamographdeployments machinesets machinedeployments nodepools clusterqueues localqueues applications
    kustomizations helmreleases resourcequotas scaledjobs replicasets customresourcedefinitions roles rolebindings
    persistentvolumeclaims clusterpolicies networkpolicies limitranges
    """.split()
)
#: ...and kinds of which each may be a target: what is done to all of them is done to what there is.
_COME_AND_GO = frozenset(
    """
    jobs pods nodes nodeclaims rayjobs jobsets pytorchjobs mpijobs trainjobs workflows workloads machines
    """.split()
)


class World(Struct):
    """What the manifests say around a program, and what its cluster has.

    ``text``: the program's; ``environment``: its variables, None where the manifests do not say their value;
    ``passing``: those that are others in each pod; ``lasting``: folders that outlive pods; ``loops``: it runs on from
    night to night; ``has``: whether there is an object (group, plural, name, namespace); ``own_pods``: whether a
    selector is that of a target's pods.
    """

    namespace: str = ""
    text: str = ""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    mounted: Sequence[str] = ()
    passing: Sequence[str] = ()
    lasting: Sequence[str] = ()
    loops: bool = False
    working_dir: str = ""
    has: Callable[[str, str, str, str], bool] = lambda _group, _plural, _name, _namespace: True
    own_pods: Callable[[str, str], bool] = lambda _selector, _namespace: False


def read_of(world: World, call: ApiCall, word: str) -> Value:
    """What one reading of the API rests on: that there is such a thing, or a list of them."""
    plural, name, namespace, selector = call.resource, call.name, call.namespace, call.selector
    about = plural + (f" {name}" if name else "")
    if plural == "pods" and selector and world.own_pods(selector, namespace):
        return Value(own=True)
    if plural in _OF_MANIFESTS:
        if name and not world.has(call.group, plural, name, namespace):
            return unknown(Kind.LOOKS, f"whether there is {about}", word)
        return known()
    if plural in _COME_AND_GO:
        if name and world.has(call.group, plural, name, namespace) and plural not in ("pods", "nodes", "nodeclaims"):
            return known()
        return Value(listed=frozenset({Source(Kind.LOOKS, f"which {about} there are", word)}))
    return unknown(Kind.LOOKS, f"what {about} says" if plural else "what it is answered", word)


def fields_read(value: Value, fields: Sequence[str], word: str, numbers: Iterable[str] = ()) -> Value:
    """What is left of objects where ``fields`` of them are chosen, and compared with ``numbers``."""
    if not value.raw:
        return value.rests
    strange: list[str] = []
    for at, name in enumerate(fields):
        free = any(before in _FREE for before in fields[:at]) or "/" in name or "." in name
        if (name not in _WRITTEN and not free) or name.startswith(WRITTEN_THERE):
            strange.append(name)
    if "status" in fields and not _COUNTS & set(fields) and not strange:
        strange.append("status")
    found = replace(value.exists, own=value.own or bool(_COUNTS & set(fields)))
    for name in strange[:1]:
        found = found.doubted(Source(Kind.LOOKS, f"the field {name}", word or name))
    return compared_with(found, numbers, word)


def sided(how: str, text: str) -> str:
    """What something is compared with: at least one is more than none."""
    return "0" if text == "1" and how in (">=", "<", "-ge", "-lt") else text


def compared_with(value: Value, texts: Iterable[str], word: str) -> Value:
    """How many replicas there are may be asked against none; how many more than that is another night's."""
    other = [text for text in texts if text.strip().strip("\"'") not in _ANY]
    if not value.own or not other:
        return value
    return value.doubted(Source(Kind.LOOKS, f"how many there are ({other[0][:20]})", word))


# -- where a program is ----------------------------------------------------------------------------------------
class Act(Struct, frozen=True):
    """A call that changes something. ``aside``: one that turns nothing off, where another one does."""

    what: str
    guards: _Sources
    aside: bool = False


class Shellish(Protocol):
    """A shell in which a program starts commands."""

    variables: dict[str, Value]

    def command(self, words: Sequence[Value], stdin: Value, shown: str) -> tuple[Value, Value]:
        """(exit code, output) of one command."""

    def script(self, text: str) -> Value:
        """What the exit code of a script rests on."""

    def file(self, value: Value) -> Value:
        """What a file says, by its path."""


class Languages(Struct, frozen=True):
    """How programs of each language are walked, which start each other."""

    shell: Callable[[Ground], Shellish]
    python: Callable[[Ground, str, Sequence[Value], Mapping[str, Value], Value], tuple[Value, Value]]


class Ground:
    """Where a walk through a program is: under which conditions, and which may have ended it before.

    ``ended``: the program; ``returned``: its function; ``raised``: up to what catches it; ``skipped``: what is left of
    a round of its loop; ``stalled``: it waits for longer than a night.
    """

    def __init__(self, world: World, languages: Languages) -> None:
        self.world = world
        self.languages = languages
        self.acts: list[Act] = []
        self.control: list[Value] = []
        self.ended = Value()
        self.returned = Value()
        self.raised = Value()
        self.skipped = Value()
        self.stalled = Value()
        #: What the program itself wrote into objects of the API, by ``plural/name``.
        self.kept: dict[str, Value] = {}
        #: Of each name that is set, what each of its values is made of, and what decides that it is set.
        self.made: dict[str, list[_Made]] = {}
        #: Names that are counted on from round to round.
        self.counted: dict[str, Source] = {}
        self.steps = 0
        self.depth = 0
        #: A program was started that is not read, and may turn something off too.
        self.strange = False
        #: How long a round of an endless loop waits, in seconds.
        self.round_s = 0.0

    def step(self) -> None:
        """One more command or statement. Raises Unreadable where they are too many."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise Unreadable("too many commands")

    def act(self, what: str, data: Value, *, aside: bool = False) -> None:
        """A call that changes something is made here, made of ``data``."""
        guards = joined([*self.control, self.ended, self.returned, self.raised, self.skipped, self.stalled])
        rests = guards.unknown | guards.raw | (guards.listed - data.listed) | data.unknown | data.raw
        rests |= data.listed if data.own else _NONE  # how many there are is what is written
        self.acts.append(Act(what, rests, aside))

    def at_a_minute(self, value: Value, how: str) -> Value:
        """What one minute of the day is asked for: a round that is longer passes it by."""
        if how not in ("=", "==", "-eq") or not value.clock & set("MRT") or self.round_s < _A_MINUTE:
            return value
        said = f"one minute of the day, in rounds of {self.round_s:g} s"
        return value.doubted(Source(Kind.CHANCE, said, "date"))

    def note(self, name: str, value: Value) -> None:
        """A name is set: of what its value is made, and what decides that it is set."""
        self.made.setdefault(name, []).append((value.carried, self.here().carried))

    def keep(self, about: str, value: Value) -> None:
        """The program writes into an object of the API."""
        self.note(f"api {about}", value)
        counts = about.partition("/")[0] in _OF_MANIFESTS - _PLAIN  # of what holds pods its own fields are judged
        self.kept[f"api {about}"] = Value(carried=value.carried) if counts else value.rests

    def rounds(self, play: Callable[[Mapping[str, Value] | None], None]) -> None:
        """What a round of an endless loop leaves to the next.

        ``play`` walks one, after it set the names that it is given. What is made of itself, and never afresh, is
        counted on.
        """
        before = len(self.acts), self.ended, self.returned, self.raised, self.skipped, dict(self.made)
        self.made = {}
        play(None)
        names = set(self.made)
        self.made = {}
        play({name: Value(carried=frozenset({name})) for name in names})
        counted = _counted_on(self.made)
        del self.acts[before[0] :]
        _, self.ended, self.returned, self.raised, self.skipped, self.made = before
        self.kept = {name: replace(value, carried=frozenset()) for name, value in self.kept.items()}
        self.counted = {
            name: Source(Kind.COUNTS, f"{name}, which is counted on from round to round", name.rpartition("/")[2])
            for name in counted
        }

    def here(self, since: int = 0) -> Value:
        """Under which conditions the program is here, of those after the first ``since``."""
        return joined(self.control[since:]).settled

    def end(self, why: Value) -> None:
        """It may end here: what comes after rests on that."""
        self.ended |= why.rests


_Made = tuple[frozenset[str], frozenset[str]]
#: Kinds that hold what somebody wrote, and no pods.
_PLAIN = frozenset({"configmaps", "secrets"})


def _counted_on(made: Mapping[str, Sequence[_Made]]) -> set[str]:
    """The names that are made of themselves from round to round, and of nothing else."""
    reached: dict[str, set[str]] = {}
    for name in made:
        found: set[str] = set()
        waiting = {other for one, _ in made[name] for other in one}
        while waiting:
            found |= waiting
            waiting = {other for one in waiting for values, _ in made.get(one, ()) for other in values} - found
        reached[name] = found
    return {
        name
        for name, values in made.items()
        if name in reached[name]
        and all(any(name in reached.get(other, ()) for other in (one | why) & reached[name]) for one, why in values)
    }


_MOST_STEPS = 20_000
