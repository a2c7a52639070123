"""What makes one firing of a switch unlike the next, and that no number of nights settles: chance, and what only grows.

Other nights are tried in a drill; a toss may still fall otherwise in one that was not, and a number that grows with
each of them passes any limit once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from killcheck.entries import Entry, Status
from killcheck.executor import guards as executor_guards
from killcheck.executor.chance import decides, tossed
from killcheck.executor.guards import Around, Guard, Read
from killcheck.executor.resting import Kind
from killcheck.kube.objects import Obj, dig, namespace_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re
from killcheck.text.redaction import redact

__all__ = ["Around", "entries"]

#: Numbers that are counted up: with every write of an object, with every end of a container. A roll-out is waited for
#: by comparing two of them.
_GROWS = lazy_re.compile(
    r"\bmetadata\.generation\b|(?<![\w.])\.?generation\b(?=[\"'\]}|)])|\brestartCount\b|\bresourceVersion\b"
    r"|\bleaseTransitions\b|\bkubernetes\\?\.io/revision\b|/proc/(?:uptime|loadavg|stat)\b|\buptime\b"
)
_WAITED_FOR = lazy_re.compile(r"observedGeneration|\bdel\(|sort-by")
#: What is otherwise on another night: pods, nodes and events there are, and whether a target is ready.
_LOOKED_AT = lazy_re.compile(
    r"\b(?:get|top)[ ,\"']+(?:pods?|po|nodes?|no|events?|ev|endpoints|ep|endpointslices?|nodeclaims?)\b[^\n;|&)]{0,80}"
    r"|\b(?:ready|available|updated|unavailable)Replicas\b|\bstatus\b[^\n]{0,40}\b(?:conditions|phase)\b"
    r"|\bconditions\b|\bkubectl wait [^\n;|&]{0,80}condition=\w+"
)
_WRITES = lazy_re.compile(
    r"\b(?:scale|patch|PATCH|delete|annotate|apply|drain|cordon|PUT|DELETE|taint)\b"
    r"|\b(?:kubectl|oc) (?:set|replace|edit)\b|\b(?:patch|delete|replace|scale)_\w+"
)
_WAITS = lazy_re.compile(r"^\s*(?:until|while)\b")
#: What a guard is made of.
_GUARDS = lazy_re.compile(r"\[\s|\btest\s|\bgrep\b|\bif\b|\bany\(|\ball\(|\bselect\(|\bkubectl wait\b|\bcase\b")
#: A loop, and what counts on in it: up or down, or in a list.
_ENDLESS, _LINES = lazy_re.compile(r"\b(?:while|until)\b"), lazy_re.compile(r"[\n;]")
_COUNTS = lazy_re.compile(
    r"(?<![\w.])(?:([\w.]{1,60})\s{0,9}=\s{0,9}[\"']?\$?(?:\(\(|\(\s?expr)?\s{0,9}\$?\{?\1\}?(?:\s{0,9}[-+]|[\s:,]\S)"
    r"|([\w.]{1,60})\s{0,9}[-+]=|([A-Za-z_]\w{0,60})(?:\+\+|--)(?=[\s)\]])|([\w.]{1,60})\.(?:append|add)\()"
)
#: ...and in a file.
_WRITTEN = lazy_re.compile(r"\$\(\(\s?\$?\w+\s?[-+]\s?\d+\s?\)\)[\"']?\s?>\s?([\w./-]{1,100})")
_KEPT = lazy_re.compile(r"(?:^|[;&|\s])(\w{1,60})\s{0,9}=(?!=)")
_ASSUMED = "say under assume: why it turns the GPUs off in each firing"
_ANYHOW = f"let it act whatever else is there, on what spec.replicas says of its targets, or {_ASSUMED}"
_ALIKE = f"let it go by replicas or by pods instead, or {_ASSUMED}"
_ALONE = Around()
#: Fields of the downward API that are others in each pod.
_OF_THE_POD = lazy_re.compile(r"^metadata\.(?:name|uid)$|^status\.podIPs?$|^spec\.nodeName$|controller-uid|job-name")


def _words(cron_job: Obj, config_map: Callable[[str], Obj | None]) -> Iterator[str]:
    """What the program of a CronJob is made of: its own words, and scripts that lie in ConfigMaps of its namespace."""
    for template in templates(cron_job):
        spec = template.spec
        for container in (*dig(spec, "initContainers", default=[]), *dig(spec, "containers", default=[])):
            yield "\n".join(map(str, (*(container.get("command") or ()), *(container.get("args") or ()))))
        for name in dict.fromkeys(_mounted(spec)):
            yield from map(str, dig(config_map(name), "data", default={}).values())


def _mounted(spec: Obj) -> Iterator[str]:
    """The ConfigMaps that the volumes of a pod are made of."""
    for volume in spec.get("volumes") or ():
        for source in (volume, *dig(volume, "projected", "sources", default=[])):
            name = dig(source, "configMap", "name")
            if name:
                yield str(name)


def _told(cron_job: Obj, config_map: Callable[[str], Obj | None]) -> dict[str, str]:
    """The variables of its containers, as far as manifests say them; what is another in each pod has ``$$`` in it."""

    def data(name: object) -> dict[str, Any]:
        return dig(config_map(str(name)), "data", default={}) if name else {}

    found: dict[str, str] = {}
    for template in templates(cron_job):
        spec = template.spec
        for container in (*dig(spec, "initContainers", default=[]), *dig(spec, "containers", default=[])):
            for source in container.get("envFrom") or ():
                held = data(dig(source, "configMapRef", "name"))
                found |= {f"{source.get('prefix') or ''}{key}": str(value) for key, value in held.items()}
            for one in container.get("env") or ():
                key = dig(one, "valueFrom", "configMapKeyRef", default={})
                said = data(key.get("name")).get(key.get("key"), one.get("value") or "")
                own = _OF_THE_POD.search(str(dig(one, "valueFrom", "fieldRef", "fieldPath", default="")))
                found[str(one.get("name"))] = "$$" if own else str(said)
    return found


def _grown(lines: Sequence[str]) -> str | None:
    """The line that compares a number that only grows; one that is waited for by what has seen it is none."""
    for line in lines:
        if not _GROWS.search(line) or _WAITED_FOR.search(line):
            continue
        kept = _KEPT.search(line)
        uses = [one for one in lines if kept and re.search(rf"\b{kept[1]}\b", one)]
        if any(decides(one) and not _WAITED_FOR.search(one) for one in (line, *uses)):
            return line
    return None


def _counted(text: str) -> str | None:
    """The line by which an endless loop counts on from round to round, and that it never sets back.

    Two days of it show what it does by the hour; a number that only grows, or a list, passes any limit once.
    """
    begun = _ENDLESS.search(text)
    within = text[begun.start() :] if begun else ""
    for found in _COUNTS.finditer(within):
        name = re.escape(next(filter(None, found.groups())))
        given = re.findall(rf"(?<![\w.]){name}\s{{0,9}}=(?!=)([^\n;]{{0,200}})", within)
        afresh = any(not re.search(rf"(?<![\w.]){name}\b", said) for said in given) or re.search(
            rf"(?<![\w.]){name}\.clear\(|\bfor {name} in\b|\bread (?:-r )?{name}\b", within
        )
        asked = (one for one in _LINES.split(text) if re.search(rf"(?<![\w.]){name}\b", one))
        if not afresh and any(map(decides, asked)):
            return found[0]
    written = _WRITTEN.search(within)
    back = written and re.search(rf"echo 0 > ?{re.escape(written[1])}(?=[\s;]|$)", within)
    return written[0] if written and not back else None


def _gate(text: str) -> str | None:
    """What a program compares before its first write, of that which is otherwise on another night; None: nothing.

    A round that only waits for it is none: it comes to an end, or the drill sees that it does not.
    """
    first = _WRITES.search(text)
    lines = _LINES.split(text[: first.start()] if first else "")
    lines.append(text[: first.start()].rpartition("\n")[2] if first else "")
    for line in lines:
        found = _LOOKED_AT.search(line)
        if found is None or _WAITS.search(line):
            continue
        kept = _KEPT.search(line)
        asked = [line, *(one for one in lines if kept and re.search(rf"\b{kept[1]}\b", one))]
        if any(_GUARDS.search(one) for one in asked):
            return found[0]
    return None


def _guarded(owner: Obj, config_map: Callable[[str], Obj | None], around: Around) -> Read:
    """The conditions before the writes of a program that may not hold each night."""
    home = namespace_of(owner)
    found: list[Guard] = []
    whole = True
    for template in templates(owner):
        names = {*_mounted(template.spec), *_named(template.spec)}
        maps = {(home, name): one for name in names if (one := config_map(name)) is not None}
        read = executor_guards.of(template.spec, home, maps, around)
        found += read.guards
        whole = whole and read.whole
    return Read(tuple(found), whole)


def _named(spec: Obj) -> Iterator[str]:
    """The ConfigMaps that variables of a pod are made of."""
    for container in (*dig(spec, "initContainers", default=[]), *dig(spec, "containers", default=[])):
        for one in (*(container.get("envFrom") or ()), *(container.get("env") or ())):
            for path in (("configMapRef", "name"), ("valueFrom", "configMapKeyRef", "name")):
                name = dig(one, *path)
                if name:
                    yield str(name)


def entries(
    owner: Obj, config_map: Callable[[str], Obj | None], late_s: float, around: Around = _ALONE
) -> Iterator[Entry]:
    """Open entries for a switch that may not do on another night what it did in this one.

    ``late_s``: when it has to be over. ``around``: what its cluster has.
    """
    config_map = cache(config_map)
    texts = list(_words(owner, config_map))
    read = _guarded(owner, config_map, around)
    toss = tossed(texts, _waits_s(owner, late_s), _told(owner, config_map), waits=read.whole)
    if toss is not None:
        said = f"what it does is left to chance ('{toss}'): a night on which it falls otherwise was not seen"
        settles = f"take that out of it (a wait of at most {_waits_s(owner, late_s):.0f} s may stay), or {_ASSUMED}"
        yield Entry(ref_of(owner), Status.NOT_MODELLED, said, settles)
    yield from (_entry(owner, guard) for guard in _first_of_each(read.guards))
    if read.whole or read.guards:
        return  # what is not read whole is looked through, too
    grown = _grown([line for text in texts for line in text.splitlines()])
    if grown is None and around.loops:
        grown = next(filter(None, map(_counted, texts)), None)
    if grown is not None:
        yield _entry(owner, Guard(grown, "", Kind.COUNTS))
    gate = next(filter(None, map(_gate, texts)), None) if Kind.LOOKS not in around.granted else None
    if gate is not None:
        yield _entry(owner, Guard(gate, "what there is", Kind.LOOKS))


def _waits_s(owner: Obj, late_s: float) -> float:
    """The longest that it may wait by chance: the rest is for what it does then."""
    limit = dig(owner, "spec", "jobTemplate", "spec", "activeDeadlineSeconds")
    return (min(late_s, float(limit)) if limit is not None else late_s) / 2


def _first_of_each(guards: Iterable[Guard]) -> list[Guard]:
    """One of each kind of source is told: to settle it, the program is read again anyway."""
    return list({guard.kind: guard for guard in reversed(list(guards))}.values())[::-1]


def _entry(owner: Obj, guard: Guard) -> Entry:
    shown = redact(" ".join(guard.line.split()))[:60]
    if guard.kind in (Kind.CHANCE, Kind.POD):
        said = f"what it does is left to chance ('{shown}'): a night on which it falls otherwise was not seen"
        return Entry(ref_of(owner), Status.NOT_MODELLED, said, f"take that out of it, or {_ASSUMED}")
    if guard.kind is Kind.COUNTS:
        said = f"it goes by what it counts, or what only grows ('{shown}'): from some night on it may not act"
        return Entry(ref_of(owner), Status.NOT_MODELLED, said, _ALIKE)
    said = (
        f"it looks at '{shown}' before it acts: {redact(guard.rests_on)} may be otherwise on another night, and that "
        "it acts then was not seen"
    )
    return Entry(ref_of(owner), Status.NOT_MODELLED, said, _ANYHOW)
