"""What a spec must mean, beyond its shape: names that exist, parts that a type needs, deadlines in order.

Works on what the file says, also where other parts of it are wrong, so that all problems come at once.
What may *not* live here: files and lines (:mod:`killcheck.spec.specfile` adds them).
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

from killcheck.kube import releases
from killcheck.spec import killpath
from killcheck.spec.deadlines import MOMENT_KEYS
from killcheck.text.durations import format_duration, parse_duration
from killcheck.text.suggestions import did_you_mean
from killcheck.text.yamlfile import Path

__all__ = ["check"]

#: The parts a layer may have, by its type; of the required ones it must have exactly one.
_PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "dead-man": (("cronJob", "container", "workload"), ("schedule", "timeZone")),
    "idle-monitor": (("cronJob", "workload", "command"), ("idle", "busy", "schedule", "timeZone")),
    "self-terminating": ((), ("workload", "command", "idle", "busy")),
    "scale-to-zero": (("scaler",), ("idle", "busy", "coldStart")),
    "spot-handler": ((), ("workload", "command", "notice", "checkpoint")),
    "sentinel": (("sentinel",), ()),
    "command": (("command",), ("schedule", "timeZone")),
}
_EVERY_PART = (
    "cronJob",
    "container",
    "workload",
    "scaler",
    "command",
    "sentinel",
    "idle",
    "busy",
    "coldStart",
    "notice",
    "checkpoint",
    "schedule",
    "timeZone",
)

Problem = tuple[Path, str]


def check(spec: dict[str, Any]) -> Iterator[Problem]:
    """Every (path, message) that is wrong in ``spec``, as the file has it."""
    targets = _entries(spec, "targets")
    for section in ("targets", "layers", "nodes"):
        yield from _repeated(spec, section)
    yield from _commands((), spec)
    for i, target in targets:
        yield from _target(("targets", i), target)
    names = [str(target.get("name")) for _, target in targets]
    for i, layer in _entries(spec, "layers"):
        yield from _layer(("layers", i), layer, names)
        yield from _order(("layers", i, "deadlines"), layer.get("deadlines"))
    yield from _order(("deadlines",), spec.get("deadlines"))
    yield from _orchestrator(targets)
    yield from _nodes(spec)
    yield from _held(spec)
    yield from _rules(spec)
    yield from _assumptions(spec)
    yield from _accelerators(spec)
    yield from _kubernetes(spec)
    yield from _cloud(spec)


def _entries(spec: dict[str, Any], section: str) -> list[tuple[int, dict[str, Any]]]:
    found = spec.get(section)
    return [(i, x) for i, x in enumerate(found) if isinstance(x, dict)] if isinstance(found, list) else []


def _repeated(spec: dict[str, Any], section: str) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for i, entry in _entries(spec, section):
        name = entry.get("name")
        if isinstance(name, str) and seen.setdefault(name, i) != i:
            yield (section, i, "name"), f"{name!r} is already the name of {section}[{seen[name]}]"


def _target(path: Path, target: dict[str, Any]) -> Iterator[Problem]:
    ways = [way for way in ("object", "selector", "count") if way in target]
    if len(ways) != 1:
        found = " and ".join(ways) or "none of them"
        yield path, f"expected exactly one of object, selector and count (a target outside Kubernetes), found {found}"
    inside = "count" not in target
    container = target.get("kind") == "Container"
    for key in ("kind", "namespace"):
        if inside and key not in target and not (container and key == "namespace"):
            yield (*path, key), "missing: a target in Kubernetes has a kind and a namespace"
        if not inside and key in target:
            yield (*path, key), "a target that a command counts is outside Kubernetes and has no " + key
    if container and target.get("namespace", killpath.DOCKER) != killpath.DOCKER:
        yield (*path, "namespace"), f"a container's namespace is {killpath.DOCKER}, whatever the engine: leave it out"
    if inside and "start" in target:
        yield (*path, "start"), "a target in Kubernetes is put back by the API; start is for one that a command counts"
    if inside and "machines" in target:
        yield (*path, "machines"), "machines are what the list of a count names: a target in Kubernetes has none"
    kind = target.get("kind")
    if inside and isinstance(kind, str) and "apiVersion" not in target and kind not in killpath.KINDS:
        yield (
            (*path, "kind"),
            (
                f"{kind!r} is a kind that killcheck does not know: give its apiVersion beside it"
                + did_you_mean(kind, killpath.KINDS)
            ),
        )


def _orchestrator(targets: list[tuple[int, dict[str, Any]]]) -> Iterator[Problem]:
    """One machine starts and stops all fleets of a path, and has one price: the bill counts it once."""
    key, first = "orchestratorUsdPerHour", None
    for i, target in targets:
        said = machines.get(key) if isinstance(machines := target.get("machines"), dict) else None
        first = said if first is None else first
        if said != first and said is not None:
            yield (
                ("targets", i, "machines", key),
                f"{said} here and {first} before: the orchestrator of a path is counted once. Give one figure, of all"
                " its machines together",
            )


def _layer(path: Path, layer: dict[str, Any], targets: list[str]) -> Iterator[Problem]:
    covers = layer.get("covers")
    for i, name in enumerate(covers if isinstance(covers, list) else []):
        if isinstance(name, str) and name not in targets:
            yield (*path, "covers", i), f"no target is named {name!r}{did_you_mean(name, targets)}"
    kind = layer.get("type")
    if not isinstance(kind, str) or kind not in _PARTS:
        return
    needed, allowed = _PARTS[kind]
    given = [part for part in needed if part in layer]
    if needed and len(given) != 1:
        expected = needed[0] if len(needed) == 1 else "exactly one of " + ", ".join(needed)
        yield path, f"a {kind} layer needs {expected}, found {' and '.join(given) or 'none'}"
    for part in _EVERY_PART:
        if part in layer and part not in (*needed, *allowed):
            yield (*path, part), f"a {kind} layer has no {part}; it has {', '.join((*needed, *allowed))}"
    yield from _sentinel((*path, "sentinel"), layer.get("sentinel"))
    yield from _checkpoint((*path, "checkpoint"), layer.get("checkpoint"))
    if "timeZone" in layer and "schedule" not in layer and kind in ("command", "idle-monitor", "dead-man"):
        yield (*path, "timeZone"), "a timeZone without a schedule says nothing"
    if kind in ("idle-monitor", "dead-man") and "cronJob" in layer and "schedule" in layer:
        yield (*path, "schedule"), "the schedule of a CronJob is read from the CronJob"
    if kind == "dead-man" and "container" in layer and "schedule" not in layer:
        yield path, "no container tells when it is fired: give the schedule that its cron goes by ('0 20 * * *')"
    if kind == "idle-monitor" and "cronJob" not in layer and "idle" not in layer:
        yield path, "an idle-monitor that is no CronJob needs idle: how long a target must be idle before it acts"
    yield from _schedule((*path, "schedule"), layer.get("schedule"), layer.get("timeZone"))


def _sentinel(path: Path, sentinel: Any) -> Iterator[Problem]:
    if not isinstance(sentinel, dict):
        return
    ways = [way for way in ("path", "configMap", "annotation") if way in sentinel]
    if len(ways) != 1:
        found = " and ".join(ways) or "none of them"
        yield path, f"expected exactly one of path (a file), configMap and annotation, found {found}"
    where = sentinel.get("path")
    if isinstance(where, str) and not where.startswith("/"):
        yield (*path, "path"), f"expected an absolute path, found {where!r}"
    if "path" in sentinel and "value" in sentinel:
        yield (*path, "value"), "a file is a sentinel by being there; a value is for a ConfigMap's key or an annotation"
    if not any(sentinel.get(key) for key in ("starters", "startJobs", "units")):
        yield path, "nobody is named who must refuse: give starters, startJobs, or units to read them from"


def _checkpoint(path: Path, checkpoint: Any) -> Iterator[Problem]:
    if isinstance(checkpoint, dict) and ("command" in checkpoint) == ("configMap" in checkpoint):
        yield path, "expected exactly one of command and configMap"


#: Where the spec has programs.
_COMMAND_KEYS = frozenset({"count", "start", "command", "busy"})


def _commands(path: Path, node: Any) -> Iterator[Problem]:
    """A program is given by argv or by shell, wherever it is."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        here = (*path, key)
        command = key in _COMMAND_KEYS or (path[-1:] == ("starters",) and isinstance(key, int))
        if command and isinstance(value, dict):
            given = [way for way in ("argv", "shell", "http") if way in value]
            if len(given) != 1:
                found = {0: "neither", 2: "both"}.get(len(given), "all of them")
                yield (
                    here,
                    f"expected argv (a list, no shell) or shell (a line for /bin/sh), found {found}; "
                    "or http (a request) alone",
                )
        elif not isinstance(value, str):
            yield from _commands(here, value)


def _schedule(path: Path, schedule: Any, zone: Any) -> Iterator[Problem]:
    if isinstance(schedule, str):
        from killcheck.kube.schedule import ScheduleError, parse

        try:
            parse(schedule)
        except ScheduleError as error:
            yield path, f"expected a cron schedule such as '0 3 * * *', found {schedule!r} ({error})"
    if isinstance(zone, str):
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            yield (*path[:-1], "timeZone"), f"expected a time zone such as Europe/Berlin or Etc/UTC, found {zone!r}"


def _order(path: Path, deadlines: Any) -> Iterator[Problem]:
    """A phase's deadline is never before an earlier phase's: both count from the trigger."""
    said: list[tuple[str, float]] = []
    for key in MOMENT_KEYS:
        value = deadlines.get(key) if isinstance(deadlines, dict) else None
        if isinstance(value, str):
            try:
                said.append((key, parse_duration(value)))
            except ValueError:
                continue
    yield from (
        (
            (*path, key),
            f"0s: nothing can be reached at the moment of the trigger; leave {key} out, or give it time",
        )
        for key, seconds in said
        if not seconds
    )
    for (before, first), (after, second) in pairwise(said):
        if second < first:
            yield (
                (*path, after),
                (
                    f"{after} ({format_duration(second)}) is before {before} ({format_duration(first)}); "
                    "each deadline counts from the trigger"
                ),
            )


def _held(spec: dict[str, Any]) -> Iterator[Problem]:
    """That GPUs stayed off for no time says nothing: it is P4 that nobody wants then."""
    places = [((), spec), *((("layers", i), layer) for i, layer in _entries(spec, "layers"))]
    for where, part in places:
        said = part.get("deadlines")
        held = said.get("held") if isinstance(said, dict) else None
        if isinstance(held, str) and held and not held.strip("0.dhms"):
            yield (
                (*where, "deadlines", "held"),
                (
                    "expected how long everything must stay off, such as 15m; 0 proves nothing (without P4 in proof "
                    "nobody waits for it)"
                ),
            )


def _nodes(spec: dict[str, Any]) -> Iterator[Problem]:
    names = [str(pool.get("name")) for _, pool in _entries(spec, "nodes")]
    for i, pool in _entries(spec, "nodes"):
        if not {"nodePool", "selector", "removedBy"} & set(pool):
            yield ("nodes", i), "expected nodePool (Karpenter), selector (labels of the nodes), or both; found neither"
        if ("removedBy" in pool) != ("removedAfter" in pool):
            yield ("nodes", i), "expected removedBy and removedAfter together: who takes an empty node away, by when"
    consent = spec.get("consent")
    pools = consent.get("pools") if isinstance(consent, dict) else None
    for i, name in enumerate(pools if isinstance(pools, list) else []):
        if isinstance(name, str) and name not in names:
            yield ("consent", "pools", i), f"no entry of nodes is named {name!r}{did_you_mean(name, names)}"


def _cloud(spec: dict[str, Any]) -> Iterator[Problem]:
    cloud = spec.get("cloud")
    if not isinstance(cloud, dict):
        return
    if "states" in cloud and "command" in cloud:
        yield ("cloud",), "expected states (a file) or command (a program), found both"
    if "experiment" in cloud and "account" not in cloud:
        yield ("cloud", "experiment"), "an experiment needs account: beside it, the only one it may act in"


#: What is known is known by its cause, so that no other is taken for it.
_ANY = " ({fault: '*', cause: '*'} knows them all)"
_OF_A_CAUSE = ", a part of what 'killcheck drill' says after exposed, so that no other is taken for it ('*': any)"


def _rules(spec: dict[str, Any]) -> Iterator[Problem]:
    layers = [str(layer.get("name")) for _, layer in _entries(spec, "layers")]
    policy = spec.get("policy")
    if isinstance(policy, dict) and policy.get("faulted") == "known":
        yield ("policy", "faulted"), "expected survived or covered; what is known is a rule's, with its cause" + _ANY
    for i, rule in _entries(policy, "rules") if isinstance(policy, dict) else []:
        name = rule.get("layer")
        if isinstance(name, str) and not set(name) & set("*?[") and name not in layers:
            yield ("policy", "rules", i, "layer"), f"no layer is named {name!r}{did_you_mean(name, layers)}"
        require = rule.get("require")
        if require is None and not rule.get("cause"):
            yield ("policy", "rules", i), "expected require (survived, covered, known), or cause: of a known exposure"
        elif require == "known" and not rule.get("cause"):
            yield ("policy", "rules", i), f"expected cause: with require: known{_OF_A_CAUSE}"
        elif require not in (None, "known") and "cause" in rule:
            yield ("policy", "rules", i, "cause"), f"only a known exposure has a cause; require is {require}"


#: What nobody can say is none.
_ACCELERATORS = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "aws.amazon.com/neuron", "habana.ai/gaudi")


def _accelerators(spec: dict[str, Any]) -> Iterator[Problem]:
    """Extended resources by name; that a GPU is none would make every drill of it pass."""
    given = spec.get("accelerators")
    for name, is_one in given.items() if isinstance(given, dict) else ():
        if "/" not in str(name):
            yield ("accelerators", name), "expected an extended resource with its domain, such as example.com/dongle"
        known = next((one for one in _ACCELERATORS if fnmatchcase(one, str(name))), "")
        if is_one is False and known:
            yield ("accelerators", name), f"it speaks of {known} too, which is an accelerator whatever is said"


def _kubernetes(spec: dict[str, Any]) -> Iterator[Problem]:
    """A release that is modelled."""
    given = spec.get("kubernetesVersion")
    if isinstance(given, str):
        try:
            releases.parse(given)
        except releases.ReleaseError as error:
            yield ("kubernetesVersion",), str(error)


def _assumptions(spec: dict[str, Any]) -> Iterator[Problem]:
    """One that is about everything would settle what nobody has looked at."""
    for i, assumed in _entries(spec, "assume"):
        if all(str(assumed.get(key, "*")).strip("*?") == "" for key in ("kind", "name")):
            yield ("assume", i), "which objects it is about is missing: give their kind or name, or a part of it"
