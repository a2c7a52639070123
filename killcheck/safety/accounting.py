"""What is not as it was, whoever changed it: the kill path does more than turn its targets off, and undoes none of it.

The journal knows what killcheck changed, and on a cluster that is somebody's also what the executor was read to change
(:mod:`killcheck.safety.foreseen`). What else it did - a pod deleted, a Job suspended, a pool deleted, a scaler paused -
is seen by looking at everything of the namespaces at stake before anything is changed and again when all is put back.
It is told as left changed; nobody is told that it was put back. What the executor cannot have done is somebody else's.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from msgspec import Struct, field

from killcheck.capabilities.cluster import Cluster
from killcheck.clock import Loop
from killcheck.executor import Reading
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Forbidden, KubeError, NotFound
from killcheck.kube.objects import Obj, controller_of, dig, labels_of, name_of, namespace_of, parse_time, ref_of, uid_of
from killcheck.safety import foreseen
from killcheck.safety.changes import LABEL, Entry
from killcheck.safety.consent import LABEL as CONSENT
from killcheck.safety.guard import writable
from killcheck.safety.journal import Journal
from killcheck.safety.sealing import holds_secrets
from killcheck.safety.undo import recreatable, retry
from killcheck.safety.vocabulary import place_of
from killcheck.spec.killpath import KillPath, Layer
from killcheck.text import lazy_re

__all__ = ["KINDS", "Account", "Difference", "Inventory", "differences", "taken"]

#: What a kill path may have its hands on, besides its targets.
KINDS = (
    r.PODS,
    r.DEPLOYMENTS,
    r.STATEFULSETS,
    r.DAEMONSETS,
    r.JOBS,
    r.CRONJOBS,
    r.HPAS,
    r.PDBS,
    r.SCALEDOBJECTS,
    r.NODEPOOLS,
)
#: What nobody looks at for a kill path's sake: it comes and goes by itself, is nothing that is kept, or is secret.
UNWATCHED = frozenset(
    "secrets events leases nodes nodeclaims machines tokenreviews authorization.k8s.io authentication.k8s.io".split()
)
#: Who changes replicas as a matter of course.
_CONTROLLERS = lazy_re.compile(r"(?i)kube-controller-manager|keda|karpenter|kueue|autoscaler|cluster-autoscaler")
#: Annotations and labels that say nothing of what somebody wants.
_NOISE = lazy_re.compile(
    r"deployment\.kubernetes\.io/|kubectl\.kubernetes\.io/(?!restartedAt)|karpenter\.sh/nodepool-hash"
    r"|killcheck\.dev/|control-plane\.alpha|cronjob\.kubernetes\.io/|autoscaling\.alpha"
)
#: How long an API server that does not answer is asked again, in seconds.
PATIENCE_S = 10.0
#: The API server writes whole seconds.
SECOND = timedelta(seconds=1)
#: Of one object so many fields are named.
SHOWN = 4


class Inventory(Struct, frozen=True):
    """Objects by (kind, namespace, name). ``unseen``: what may not be listed here, in words. ``kinds``: by name."""

    objects: dict[tuple[str, str, str], Obj]
    unseen: tuple[str, ...] = ()
    kinds: Mapping[str, r.Resource] = field(default_factory=lambda: {kind.kind: kind for kind in KINDS})


class Difference(Struct, frozen=True):
    """What is not as it was, as a sentence; ``obj``: as it is, or was where it is gone. ``paths``: the fields.

    ``manual``: what a person can run to put it back; empty: nothing puts it back.
    """

    key: tuple[str, str, str]
    said: str
    obj: Obj
    gone: bool = False
    paths: tuple[tuple[str, ...], ...] = ()
    manual: str = ""

    @property
    def told(self) -> str:
        """The sentence, with what a person can run."""
        return f"{self.said}; by hand: {self.manual}" if self.manual else self.said


class Account:
    """What there was before a drill changed anything, and what of it is not as it was when all is put back."""

    def __init__(self, cluster: Cluster, kill_path: KillPath, layer: Layer) -> None:
        self.cluster = cluster
        self.kill_path = kill_path
        self.ref = layer.ref
        self.places = {target.namespace for target in kill_path.targets} | {self.ref.namespace if self.ref else ""}
        #: Where there is no Kubernetes there is nothing to look at.
        self.kept = kill_path.in_kubernetes and cluster.own_consent is None
        self._before: Inventory | None = None
        self._kinds: tuple[r.Resource, ...] = KINDS
        self._seen: set[str] = set()
        self._reading: Reading | None = None
        #: When the trigger was pulled: what was written before was not the executor's doing.
        self._since: datetime | None = None

    def open(self) -> None:
        """Look at what there is: of what the executor may write to, whatever its kind. Raises KubeError."""
        self._before = self._look() if self.kept else None
        self._read()
        if self._before is None or not self.cluster.real:
            return
        if self._reading is not None:
            self.places |= {call.namespace for call in self._reading.writes if call.resource not in UNWATCHED}
        self._kinds = tuple(self._of_interest())
        if self._kinds != KINDS or self.places != self._seen:
            self._before = self._look()

    def remember(self, journal: Journal, note: Callable[[str], None]) -> None:
        """Write down how what the executor is about to change is put back. Raises KubeError, JournalError."""
        self._since = self.cluster.loop.now()
        self._read()
        if self._before is None or self._reading is None:
            return
        wanted = (
            (self._before.kinds[key[0]], obj)
            for key, obj in self._before.objects.items()
            if _somebodys(obj) and not _over(obj)
        )
        for said in foreseen.remember(journal, self._reading, wanted):
            note(said)
        for said in self._not_looked_at(journal, self._reading):
            note(said)

    def unnamed(self, queues: Collection[tuple[r.Resource, Obj]]) -> Iterator[str]:
        """What is in no namespace, nobody named and the executor is about to change, a sentence each.

        It could not be put back. ``queues``: what a program that cannot be read may change too.
        """
        if self._before is None or not self.cluster.real:
            return
        reading = self._reading or Reading()
        unclear = self._reading is None or bool(reading.not_understood or reading.outside)
        found = [(self._before.kinds[key[0]], obj) for key, obj in self._before.objects.items() if not key[1]]
        known = {uid_of(obj) for _, obj in found}
        found += [(kind, obj) for kind, obj in queues if uid_of(obj) not in known]
        may_be = {uid_of(obj) for _, obj in queues} if unclear else set()
        for kind, obj in found:
            if kind.namespaced or writable(self.cluster.kube, kind, obj):
                continue
            if uid_of(obj) in may_be or foreseen.may_write(reading, kind, obj):
                yield _opt_in(kind, obj)

    def _read(self) -> None:
        if self._before is not None and self.cluster.real and self._reading is None:
            self._reading = foreseen.reading_of(self.cluster.kube, self.cluster.loop, self._starter())

    def may_be_deleted(self, resource: r.Resource, obj: Obj) -> bool:
        """Whether the executor may delete a target, and it may be created again. Raises KubeError."""
        self._read()
        kube, loop = self.cluster.kube, self.cluster.loop
        return self._reading is not None and foreseen.may_delete(kube, loop, self._reading, resource, obj)

    def _starter(self) -> Obj | None:
        """The object that the executor's pods are made from; None: the layer has none here."""
        if self._before is None or self.ref is None:
            return None
        return self._before.objects.get((self.ref.kind, self.ref.namespace, self.ref.name))

    def _of_interest(self) -> Iterator[r.Resource]:
        """The kinds that are looked at: the usual ones, the targets', and those that the executor's text names."""
        yield from KINDS
        seen = {(kind.group, kind.plural) for kind in KINDS}
        kube, loop = self.cluster.kube, self.cluster.loop
        for target in self.kill_path.targets:
            with suppress(NotFound):
                found = retry(loop, partial(kube.resource_for, target.api_version, target.kind), patience_s=PATIENCE_S)
                if (found.group, found.plural) not in seen:
                    seen.add((found.group, found.plural))
                    yield found
        reading = self._reading or Reading()
        unclear = reading.not_understood or reading.outside
        for call in reading.calls if unclear else reading.writes:
            if (call.group, call.resource) in seen or call.resource in UNWATCHED or call.group in UNWATCHED:
                continue
            seen.add((call.group, call.resource))
            with suppress(NotFound):
                yield retry(loop, partial(_served, kube, call.group, call.resource), patience_s=PATIENCE_S)

    def _targets(self) -> set[tuple[str, str, str]]:
        return {(t.kind, t.namespace, t.object) for t in self.kill_path.targets}

    def _not_looked_at(self, journal: Journal, reading: Reading) -> Iterator[str]:
        """What the executor is read to write to and nobody looks at, a sentence each."""
        places = [place_of(entry.undo.path) for entry in journal.entries if not entry.lever]
        known = {(kind.group, kind.plural) for kind in self._kinds} | {
            (p.group, p.plural) for p in places if p is not None
        }
        known |= {("", "events"), ("coordination.k8s.io", "leases")}
        for call in dict.fromkeys(reading.writes):
            about_targets = any(call.resource.startswith(t.kind.lower()) for t in self.kill_path.targets if t.kind)
            unseen = (call.group, call.resource) not in known and not about_targets
            if unseen or call.subresource == "status":
                yield f"the executor is read to {call}: that is not looked at, and not put back"

    def close(self, run: str, entries: Sequence[Entry], note: Callable[[str], None]) -> list[str]:
        """What is left changed on a cluster of somebody's, a sentence each; on killcheck's own it is only noted.

        ``entries``: what the journal has taken back. What somebody else did meanwhile is only noted.
        """
        if self._before is None:
            return []
        try:
            now = self._look()
        except KubeError as error:
            note(f"whether the kill path has left anything else changed could not be seen: {error}")
            return []
        unseen = sorted({*self._before.unseen, *now.unseen})
        if unseen:
            kinds = ", ".join(unseen)
            note(f"these may not be listed here, so whether the kill path leaves any changed is not known: {kinds}")
        told = []
        for one in differences(self._before, now, run, _made_again(entries)):
            if self.somebody_elses(one):
                note(f"changed meanwhile, and not by the executor{_signed(one)}: {one.said}; it is left as it is")
            else:
                told.append(f"left changed, by the kill path or by somebody else meanwhile: {one.told}")
        if self.cluster.real:
            return told
        for text in told:
            note(text)
        return []

    def somebody_elses(self, one: Difference) -> bool:
        """Whether the executor cannot have done it: its text does no such thing, or it was not started yet."""
        if one.key in self._targets():  # what another layer of the path turns off is the kill path's doing too
            return False
        reading = self._reading
        if reading is not None and not (reading.not_understood or reading.outside):
            assert self._before is not None
            resource = self._before.kinds[one.key[0]]
            if not foreseen.may_write(reading, resource, one.obj):
                return True
        written = [at for _, at in _writers(one)]
        return bool(written) and self._since is not None and all(at + SECOND < self._since for at in written)

    def _look(self) -> Inventory:
        self._seen = set(self.places)
        return taken(self.cluster.kube, self.cluster.loop, self.places - {""}, self._kinds)


def _opt_in(kind: r.Resource, obj: Obj) -> str:
    """How what is in no namespace is named."""
    label = f"kubectl label {kind.qualified} {name_of(obj)} {CONSENT}=true"
    how = f"name it under consent.pools, or {label}" if kind == r.NODEPOOLS else label
    return f"the executor may change {ref_of(obj)}, which is in no namespace and nobody named: {how}"


def _made_again(entries: Iterable[Entry]) -> set[tuple[str, str, str]]:
    """Whose objects we have created again: they are others, and as they were."""
    made = [entry.undo.body for entry in entries if entry.undo.action == "create" and isinstance(entry.undo.body, dict)]
    return {(str(body.get("kind")), namespace_of(body), name_of(body)) for body in made}


def _writers(one: Difference) -> list[tuple[str, datetime]]:
    """Who wrote the fields that differ, and when, as far as the object says."""
    return [
        (str(entry.get("manager")), parse_time(entry["time"]))
        for entry in dig(one.obj, "metadata", "managedFields", default=[]) or []
        if entry.get("time") and any(_owns(entry.get("fieldsV1"), path) for path in one.paths)
    ]


def _owns(fields: Any, path: Sequence[str]) -> bool:
    """Whether a managedFields entry holds a field, or one that it is in or has in it."""
    for key in path:
        if not isinstance(fields, dict) or f"f:{key}" not in fields:
            return False
        fields = fields[f"f:{key}"]
        if not fields:
            break
    return True


def _signed(one: Difference) -> str:
    names = sorted({name for name, _ in _writers(one)})
    return f" (field manager {', '.join(names)})" if names else ""


def _served(kube: Kube, group: str, plural: str) -> r.Resource:
    """A resource, in the first version that has it: the server lists what it prefers first. Raises NotFound."""
    listed = dig(kube.call("GET", f"/apis/{group}").body, "versions", default=[]) if group else [{"groupVersion": "v1"}]
    for version in listed:
        for one in kube.resources(version["groupVersion"]):
            if one.plural == plural:
                return one
    raise NotFound(404, {"reason": "NotFound", "message": f"no {plural} are served in {group or 'the core group'}"})


def taken(kube: Kube, loop: Loop, namespaces: Iterable[str], kinds: Sequence[r.Resource] = KINDS) -> Inventory:
    """What there is now. Raises KubeError; a kind that is not served has no objects."""
    objects: dict[tuple[str, str, str], Obj] = {}
    named = {kind.kind: kind for kind in KINDS}
    unseen = []
    for resource in kinds:
        called = resource.kind if named.setdefault(resource.kind, resource) == resource else resource.qualified
        named[called] = resource
        for namespace in sorted(set(namespaces)) if resource.namespaced else [None]:
            may = partial(kube.may, "list", resource.plural, group=resource.group, namespace=namespace or "")
            if not retry(loop, may, patience_s=PATIENCE_S):
                unseen.append(f"{resource.qualified} of {namespace}" if namespace else resource.qualified)
                continue
            try:
                items = retry(loop, partial(kube.list, resource, namespace), patience_s=PATIENCE_S).items
            except NotFound:
                break
            except Forbidden:
                unseen.append(f"{resource.qualified} of {namespace}" if namespace else resource.qualified)
                continue
            for obj in items:
                objects[(called, namespace_of(obj), name_of(obj))] = obj
    return Inventory(objects, tuple(unseen), named)


def differences(
    before: Inventory,
    after: Inventory,
    run: str,
    again: Collection[tuple[str, str, str]] = (),
) -> Iterator[Difference]:
    """What is not as it was; ``again``: what has been made again, and may be another one."""
    for key, was in before.objects.items():
        if _somebodys(was) and not _over(was):
            yield from _difference(key, was, after.objects.get(key), before.kinds[key[0]], again=key in again)
    for key, now in after.objects.items():
        if key not in before.objects and _somebodys(now) and labels_of(now).get(LABEL) != run:
            where = f" -n {key[1]}" if key[1] else ""
            manual = f"kubectl delete {after.kinds[key[0]].qualified} {key[2]}{where}"
            yield Difference(key, f"{_called(key)} was not there before, and is", now, manual=manual)


def _somebodys(obj: Obj) -> bool:
    """Whether a person or a program wants it, and no controller's own object does."""
    return controller_of(obj) is None and LABEL not in labels_of(obj) and "deletionTimestamp" not in obj["metadata"]


def _over(obj: Obj) -> bool:
    """Whether it has come to its end: what goes then, goes by itself."""
    ended = dig(obj, "status", "phase") in ("Succeeded", "Failed") or any(
        one.get("type") in ("Complete", "Failed") and one.get("status") == "True"
        for one in dig(obj, "status", "conditions", default=[]) or []
    )
    return obj.get("kind") in ("Pod", "Job") and ended


def _called(key: tuple[str, str, str]) -> str:
    return f"{key[0]} {'/'.join(part for part in key[1:] if part)}"


def _difference(
    key: tuple[str, str, str], was: Obj, now: Obj | None, resource: r.Resource, *, again: bool
) -> Iterator[Difference]:
    name = _called(key)
    if now is None:
        yield Difference(key, f"{name} is gone", was, gone=True, manual=_made_anew(was))
        return
    if key[0] in ("Pod", "Job") and uid_of(now) != uid_of(was) and not again:
        yield Difference(key, f"{name} is another one now", now)
        return
    if key[0] == "Pod":
        return  # it is what it is until it goes
    fields = [
        (f"{'.'.join(path)} was {_short(old)} and is {_short(new)}", path)
        for path, old, new in _fields(_wanted(was), _wanted(now))
        if not _by_controller(now, path)
    ]
    if fields:
        more = f" and {len(fields) - SHOWN} more" if len(fields) > SHOWN else ""
        said = f"{name}: {', '.join(text for text, _ in fields[:SHOWN])}{more}"
        paths = tuple(_written_at(path) for _, path in fields)
        yield Difference(key, said, now, paths=paths, manual=foreseen.by_hand(resource, now, _back(was, paths), now))


def _made_anew(was: Obj) -> str:
    """The command that creates an object again, where it can be shown."""
    text = json.dumps(recreatable(was))
    if holds_secrets(was) or len(text) > foreseen.LONGEST:
        return "create it from its manifest"
    return f"echo {shlex.quote(text)} | kubectl create -f -"


def _back(was: Obj, paths: Iterable[tuple[str, ...]]) -> Obj:
    """The merge patch that sets fields to what they were."""
    back: Obj = {}
    for path in paths:
        inner = back
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = dig(was, *path)
    return back


def _written_at(path: tuple[str, ...]) -> tuple[str, ...]:
    """A field's path as the object has it."""
    return ("metadata", *path) if path[0] in ("labels", "annotations") else path


def _wanted(obj: Obj) -> Obj:
    """What somebody asks of an object: its spec or data, labels and annotations."""
    asked = recreatable(obj)
    found = {key: value for key, value in asked.items() if key not in ("apiVersion", "kind", "metadata")}
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in (asked["metadata"].get(part) or {}).items() if not _NOISE.match(key)}
        found[part] = kept
    return found


def _fields(was: Any, now: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Each field that differs: its path, and both values; the API leaves out what is empty, zero or false."""
    if isinstance(was or {}, dict) and isinstance(now or {}, dict) and (was or now):
        for key in sorted({*(was or {}), *(now or {})}):
            yield from _fields((was or {}).get(key), (now or {}).get(key), (*path, str(key)))
    elif (was or None) != (now or None):
        yield path, was, now


def _by_controller(now: Obj, path: Sequence[str]) -> bool:
    """Whether how many replicas there are to be is a controller's to say."""
    if tuple(path) != ("spec", "replicas"):
        return False
    return any(
        _CONTROLLERS.search(str(one.get("manager"))) and "f:replicas" in (dig(one, "fieldsV1", "f:spec") or {})
        for one in dig(now, "metadata", "managedFields", default=[]) or []
    )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
