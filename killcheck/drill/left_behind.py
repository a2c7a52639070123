"""What the firings of a switch leave in the cluster and later ones may meet: Jobs that are kept, marks, a counter.

A few firings in a row show what comes of Jobs that are kept and of quotas that count them. What the program writes
itself and looks at has settled where two firings leave the same; where it differs still, no number of nights is enough.
What may *not* live here: playing nights, verdicts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from killcheck import executor
from killcheck.entries import Entry, Status
from killcheck.executor import ApiCall
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re

__all__ = ["is_met", "left", "unsettled"]

#: Kinds in which programs keep what they want to know again, and of which there are more after each firing.
_KEPT = {
    (one.group, one.plural): one
    for one in (
        r.CONFIGMAPS,
        r.CRONJOBS,
        r.JOBS,
        r.LEASES,
        r.NAMESPACES,
        r.PERSISTENTVOLUMECLAIMS,
        r.RESOURCEQUOTAS,
        r.SECRETS,
        r.SERVICEACCOUNTS,
    )
}
#: How commands call them for short.
_SHORT = {
    "configmaps": "cm",
    "cronjobs": "cj",
    "namespaces": "ns",
    "serviceaccounts": "sa",
    "persistentvolumeclaims": "pvc",
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

#: (what it is of, which) -> what is kept there.
Left = Mapping[tuple[str, str], str]


def is_met(cron_job: Obj, texts: Sequence[str], kube: Kube) -> bool:
    """Whether a later firing of a CronJob may meet what earlier ones left. Raises KubeError."""
    quotas = kube.list(r.RESOURCEQUOTAS, namespace_of(cron_job)).items
    counts = any(str(key).startswith("count/") for one in quotas for key in dig(one, "spec", "hard", default={}))
    return counts or bool(_read_back(texts)) or next(_looks(cron_job, kube), None) is not None


def left(cron_job: Obj, targets: Iterable[Obj], kube: Kube) -> Left:
    """What is kept now where a CronJob's program may keep something. Raises KubeError."""
    found = {_about(call): _kept_of(call, kube) for call in _looks(cron_job, kube)}
    for quota in kube.list(r.RESOURCEQUOTAS, namespace_of(cron_job)).items:
        for key, used in dig(quota, "status", "used", default={}).items():
            if key.startswith("count/"):
                found[ref_of(quota), key] = str(used)
    for obj in targets:
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


def _about(call: ApiCall) -> tuple[str, str]:
    return call.resource, "/".join(part for part in (call.namespace, call.name) if part)


def _kept_of(call: ApiCall, kube: Kube) -> str:
    """What lies in what a program asks for; of Jobs alone how many there are."""
    resource = _KEPT[call.group, call.resource]
    if not call.name:
        items = kube.list(resource, call.namespace or None).items
        return str(len(items)) if resource is r.JOBS else json.dumps([_said(obj) for obj in items], sort_keys=True)
    home = call.namespace if resource.namespaced else ""
    return json.dumps(_said(kube.find(resource, call.name, home) or {}), sort_keys=True)


def _said(obj: Obj) -> list[Any]:
    """What somebody wrote into an object."""
    marks = [dig(obj, "metadata", key, default={}) for key in ("name", "annotations", "labels")]
    return [*marks, *(obj.get(key) for key in ("data", "binaryData", "spec"))]


def _looks(cron_job: Obj, kube: Kube) -> Iterator[ApiCall]:
    """What its program asks of the API where something may be kept, its scripts in ConfigMaps included.

    What ``kubectl patch`` reads before it writes is none of it.
    """
    home = namespace_of(cron_job)
    maps = {(home, name_of(one)): one for one in kube.list(r.CONFIGMAPS, home).items}
    for template in templates(cron_job):
        reading = executor.read(template.spec, home, maps)
        written = {(call.group, call.resource, call.name) for call in reading.writes}
        asked = {word for words in reading.commands if "get" in words for word in words}
        for call in reading.calls:
            alone = (call.group, call.resource, call.name) not in written or not reading.commands
            of_kind = (call.group, call.resource) in _KEPT and not call.writes
            if of_kind and (alone or any(_is_of(word, call.resource) for word in asked)):
                yield call


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
