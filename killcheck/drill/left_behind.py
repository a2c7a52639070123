"""What the firings of a switch leave in the cluster and later ones may meet: Jobs that are kept, marks, a counter.

A few firings in a row show what comes of Jobs that are kept and of quotas that count them. What the program writes
itself and looks at has settled where two firings leave the same; where it differs still, no number of nights is enough.
What may *not* live here: playing nights, verdicts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from posixpath import basename
from typing import Any

from killcheck import executor
from killcheck.entries import Entry, Status
from killcheck.executor import ApiCall, kubectl_calls
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of, ref_of
from killcheck.kube.resources import Resource
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re

__all__ = ["is_met", "left", "made", "unsettled"]

#: Kinds that are others at each firing whoever left anything, and those of which how many there are says enough.
_PASSING = frozenset(
    {
        "pods",
        "events",
        "nodes",
        "nodeclaims",
        "replicasets",
        "controllerrevisions",
        "endpointslices",
        "componentstatuses",
    }
)
_COUNTED = frozenset({"jobs"})
#: Groups whose objects controllers here write themselves: they are others each time.
_MODELLED = frozenset({"karpenter.sh", "keda.sh", "kueue.x-k8s.io", "argoproj.io"})
#: Kinds that hold pods: what is kept in their marks is looked for by its key, what in their spec where it is written.
_HOLDERS = frozenset({"deployments", "statefulsets", "daemonsets", "replicationcontrollers"})
#: How commands call kinds for short.
_SHORT = {
    "configmaps": "cm",
    "cronjobs": "cj",
    "daemonsets": "ds",
    "deployments": "deploy",
    "endpoints": "ep",
    "namespaces": "ns",
    "nodepools": "nodepool",
    "persistentvolumeclaims": "pvc",
    "poddisruptionbudgets": "pdb",
    "resourcequotas": "quota",
    "serviceaccounts": "sa",
    "services": "svc",
    "statefulsets": "sts",
}
#: Marks that Kubernetes' own controllers and kubectl write.
_OTHERS = lazy_re.compile(r"(?:^|[\w.-]+\.)(?:kubernetes|k8s)\.io/|^killcheck\.dev/")
_MARKED = lazy_re.compile(
    r"\b(?:annotate|label)\b[^\n;&|]{0,400}|\"(?:annotations|labels)\"\s{0,9}:\s{0,9}\{[^}]{0,400}\}"
)
_KEY = lazy_re.compile(r"(?<![\w./-])([A-Za-z][\w./-]{0,100})(?:=|\"\s{0,9}:)")
#: So many keys of a program are looked for elsewhere in it; more of them are taken to be there.
_MOST_KEYS = 50
_SETTLES = "let it go by what is on now, and not by what it kept, or say under assume: why it acts every night"

_NAMED = (
    "give it a name of its own in each firing (generateName), let each firing delete it, or say under assume: why the "
    "next one does its work beside it"
)

#: (what it is of, which) -> what is kept there.
Left = Mapping[tuple[str, str], str]


def is_met(cron_job: Obj, texts: Sequence[str], kube: Kube) -> bool:
    """Whether a later firing of a CronJob may meet what earlier ones left. Raises KubeError."""
    quotas = _quotas(cron_job, kube)
    counts = any(str(key).startswith("count/") for one in quotas for key in dig(one, "spec", "hard", default={}))
    return counts or bool(_read_back(texts)) or next(_looks(cron_job, kube), None) is not None


def _quotas(cron_job: Obj, kube: Kube) -> list[Obj]:
    try:
        return kube.list(r.RESOURCEQUOTAS, namespace_of(cron_job)).items
    except NotFound:  # no Kubernetes but a Docker Engine, which has no such thing
        return []


def left(cron_job: Obj, targets: Iterable[Obj], kube: Kube) -> Left:
    """What is kept now where a CronJob's program may keep something. Raises KubeError."""
    found = {_about(call): _kept_of(call, kube) for call in _looks(cron_job, kube)}
    for quota in _quotas(cron_job, kube):
        for key, used in dig(quota, "status", "used", default={}).items():
            if key.startswith("count/"):
                found[ref_of(quota), key] = str(used)
    for obj in (*targets, *_marked(cron_job, kube)):
        for key, value in (*annotations_of(obj).items(), *labels_of(obj).items()):
            if not _OTHERS.search(key):
                found[ref_of(obj), key] = value
    return found


def unsettled(cron_job: Obj, texts: Sequence[str], kube: Kube, before: Left, after: Left) -> Iterator[Entry]:
    """An open entry for each thing that two firings in a row left otherwise, and that the program looks at."""
    read, looked = _read_back(texts), {_about(call) for call in _looks(cron_job, kube)}
    for what, which in sorted({*before, *after}):
        if before.get((what, which)) == after.get((what, which)):
            continue
        if (what, which) in looked or which in read or what.startswith("ResourceQuota/"):
            said = f"it goes by {what} {which}, which each firing leaves otherwise: a later night was not seen"
            yield Entry(ref_of(cron_job), Status.NOT_MODELLED, said, _SETTLES)


def made(cron_job: Obj, kube: Kube) -> Iterator[Entry]:
    """An open entry for each thing that a program makes by a fixed name and that is there still: AlreadyExists.

    For where its next firing cannot be seen. What goes by itself in time is none. Raises KubeError.
    """
    for template in templates(cron_job):
        reading = executor.read(template.spec, namespace_of(cron_job), _maps(cron_job, kube))
        lines = [kubectl_calls.command_line(words[1:]).words for words in reading.commands if len(words) > 1]
        named = [(str(line[1]), str(line[2])) for line in lines if line[:1] == ["create"] and len(line) > 2]
        for call in (one for one in reading.writes if one.verb == "create"):
            resource = _resource(call, kube)
            if resource is None:
                continue
            for name in (name for kind, name in named if _is_of(kind, call.resource)):
                found = kube.find(resource, name, call.namespace if resource.namespaced else "")
                if found is not None and dig(found, "spec", "ttlSecondsAfterFinished") is None:
                    said = f"it makes {ref_of(found)} by that name, which is there still: its next firing was not seen"
                    yield Entry(ref_of(cron_job), Status.NOT_MODELLED, said, _NAMED)


def _marked(cron_job: Obj, kube: Kube) -> Iterator[Obj]:
    """What its program writes marks on, by name."""
    for template in templates(cron_job):
        for call in executor.read(template.spec, namespace_of(cron_job), _maps(cron_job, kube)).writes:
            resource = _resource(call, kube) if call.marks and call.name else None
            found = kube.find(resource, call.name, call.namespace if resource.namespaced else "") if resource else None
            if found is not None:
                yield found


def _maps(cron_job: Obj, kube: Kube) -> dict[tuple[str, str], Obj]:
    home = namespace_of(cron_job)
    return {(home, name_of(one)): one for one in kube.list(r.CONFIGMAPS, home).items}


def _about(call: ApiCall) -> tuple[str, str]:
    return call.resource, "/".join(part for part in (call.namespace, call.name) if part)


def _kept_of(call: ApiCall, kube: Kube) -> str:
    """What lies in what a program asks for; of Jobs alone how many there are, of what holds pods its spec."""
    resource = _resource(call, kube)
    if resource is None:
        return ""
    if not call.name:
        items = kube.list(resource, call.namespace or None).items
        counted = call.resource in _COUNTED
        return str(len(items)) if counted else json.dumps([_said(obj) for obj in items], sort_keys=True)
    found = kube.find(resource, call.name, call.namespace if resource.namespaced else "") or {}
    said = found.get("spec") if call.resource in _HOLDERS else _said(found)
    return json.dumps(said, sort_keys=True)


def _resource(call: ApiCall, kube: Kube) -> Resource | None:
    """What serves a kind that is asked for; a custom one by its definition. Raises KubeError."""
    known = r.by_plural(call.group, call.resource)
    if known is not None or not call.group:
        return known
    crd = kube.find(r.CRDS, f"{call.resource}.{call.group}")
    served = [str(one.get("name")) for one in dig(crd or {}, "spec", "versions", default=[]) if one.get("served")]
    kind, scope = (str(dig(crd or {}, "spec", *path, default="")) for path in (("names", "kind"), ("scope",)))
    return Resource(call.group, served[0], call.resource, kind, scope != "Cluster") if served else None


def _said(obj: Obj) -> list[Any]:
    """What somebody wrote into an object."""
    marks = [dig(obj, "metadata", key, default={}) for key in ("name", "annotations", "labels")]
    return [*marks, *(obj.get(key) for key in ("data", "binaryData", "spec"))]


def _looks(cron_job: Obj, kube: Kube) -> Iterator[ApiCall]:
    """What its program asks of the API where something may be kept, its scripts in ConfigMaps included.

    What ``kubectl patch`` reads before it writes is none of it.
    """
    for template in templates(cron_job):
        reading = executor.read(template.spec, namespace_of(cron_job), _maps(cron_job, kube))
        written = {(call.group, call.resource, call.name) for call in reading.writes}
        specs = {
            (one.group, one.resource, one.name) for one in reading.writes if not one.marks and one.replicas is None
        }
        asked = {word for words in reading.commands if "get" in words for word in words}
        for call in reading.calls:
            key = (call.group, call.resource, call.name)
            alone = key not in written or not reading.commands
            if call.resource in _HOLDERS:
                may_keep, alone = bool(call.name) and key in specs, not reading.commands
            else:
                may_keep = call.resource not in _PASSING and not call.subresource
            if may_keep and not call.writes and (alone or any(_is_of(word, call.resource) for word in asked)):
                yield call
        yield from _custom(reading.commands, namespace_of(cron_job), kube)


def _custom(commands: Iterable[Sequence[str]], home: str, kube: Kube) -> Iterator[ApiCall]:
    """What commands get of kinds that only a definition in the cluster knows: ``kubectl get ledger off``."""
    lines = [kubectl_calls.command_line(words[1:]) for words in commands if words and basename(words[0]) == "kubectl"]
    asked = [(line, kind, rest) for line in lines if line.words[:1] == ["get"] for kind, rest in _kinds(line.words[1:])]
    for crd in kube.list(r.CRDS).items if asked else ():
        spec = crd.get("spec") or {}
        names = spec.get("names") or {}
        called = {str(names.get("plural")), str(names.get("singular")), str(names.get("kind")).lower()}
        called |= set(map(str, names.get("shortNames") or ()))
        for line, kind, name in asked:
            if kind.partition(".")[0].lower() in called and str(spec.get("group")) not in _MODELLED:
                space = line.flag("namespace", "n") or home
                yield ApiCall("get", str(spec.get("group")), str(names.get("plural")), name=name, namespace=space)


def _kinds(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The kinds that ``get`` is asked for and the requests that are read of it do not hold, each with a name or none.

    ``ledger off``, ``ledger/off``, ``cm,ledger``.
    """
    for word in words:
        kinds, slash, name = word.partition("/")
        if not slash:
            name = next(iter(words[1:2]), "")
        yield from ((kind, name) for kind in kinds.split(",") if not kubectl_calls.knows(kind))
        if not slash:
            return  # what follows are names


def _is_of(word: str, plural: str) -> bool:
    """Whether a word of a command names a kind: ``cm``, ``configmap/off-state``."""
    kind = word.partition("/")[0].partition(".")[0].lower()
    return kind in (plural, plural.removesuffix("s"), _SHORT.get(plural))


def _read_back(texts: Sequence[str]) -> set[str]:
    """The keys of labels and annotations that a program sets, and names other than to set or take off."""
    plain = "\n".join(texts).replace("\\", "")
    keys = sorted({key for marked in _MARKED.findall(plain) for key in _KEY.findall(marked)})
    read = (key for key in keys[:_MOST_KEYS] if re.search(rf"(?<![\w/-]){re.escape(key)}(?![\w/=-]|\"\s*:)", plain))
    return {*read, *keys[_MOST_KEYS:]}
