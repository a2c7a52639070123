"""Calls that the API server refused when a program was fired."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe, Severity
from killcheck.probes.bindings import mended_binding
from killcheck.probes.rehearsed import is_gone, is_not_served, mistaken
from killcheck.probes.script_lines import of_call
from killcheck.probes.where import command_path, complaints
from killcheck.probes.world import SCALED, Executor, World

from killcheck.kube.objects import name_of
from killcheck.text import lazy_re
from killcheck.text.suggestions import did_you_mean
from killcheck.text.yamlfile import Path

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Call, Firing

__all__ = ["CallRefused", "is_own_limit"]

#: What programs say of a file that is not there, and shells of a variable.
_UNREAD = lazy_re.compile(r"no such file|can't open|cannot open|not found|permission denied|unbound variable", re.I)
#: Groups of Kubernetes' own that it has no more: nobody serves them.
_FORMER = frozenset({"extensions"})
#: How alike names are of which one is the other misspelt (0 to 1).
_MISSPELT = 0.8


class CallRefused(Probe):
    """Fired once in a rehearsal: who may not (403), what is not there or not served (404), what is not taken (415)."""

    id = "call-refused"
    rehearsed = True
    claim = "Every call that an executor makes when it is fired is taken."
    remedy = "Mend that call."
    failures = (16, 39)
    sources = ("SREGym/SREGym#633", "kubernetes.io/docs: deprecation guide", "k8s.io/apiserver pkg/endpoints/handlers")

    def ask(self, world: World) -> Iterable[Finding]:
        """Each refused call that was not made good, once, with the answer."""
        for one in world.watched:
            first = one.seen.first if one.seen else None
            told: set[object] = set()
            for call in first.refused if first else ():
                same = (call.status, call.asked, call.namespace, call.name if call.status == 404 else "")
                if first is None or same in told or _is_by_the_way(call, first):
                    continue
                told.add(same)
                yield self._about(world, one, call, first)

    def _about(self, world: World, one: Executor, call: Call, first: Firing) -> Finding:
        if is_own_limit(call):
            why = "a limit of the rehearsal" if call.status == 501 else f"a rehearsal serves no {call.group}"
            return self.unproven(world, one.owner, f"{call}: {why}")
        elsewhere = _elsewhere(world, call)
        granted = call.status == 403 and not elsewhere
        path: Path = (*one.path, "serviceAccountName") if granted else command_path(one)
        at = of_call(world, one, call)
        return self.finding(
            world,
            one.owner,
            path,
            f"{call}{_near(world, call)}{_nameless(call, first)}{_unreached(world, one, first)}",
            remedy=_remedy(world, one, call),
            severity=_severity(call, first),
            at=at and at._replace(points=not granted),
        )


def _nameless(call: Call, first: Firing) -> str:
    """Of a request that named nobody: what the program said of a file or a variable that it could not read."""
    if call.status != 401 and "system:anonymous" not in call.answer:
        return ""
    said = next((words for ending in first.endings for words in complaints(ending.log, _UNREAD)), None)
    return f'; it says "{said}"' if said else ""


def _unreached(world: World, one: Executor, first: Firing) -> str:
    """What stays on in other namespaces, of which a program that broke off never asked anything."""
    if first.exit_code in (0, None) or one.layer is None:
        return ""
    asked = {call.namespace for call in first.calls}
    left = [str(target) for target, _ in world.targets if target.name in one.layer.covers]
    left = [who for who in left if who.split("/")[1] not in asked]
    return f"; it ends there, and never reaches {', '.join(left)}" if left and "" not in asked else ""


def is_own_limit(call: Call) -> bool:
    """Whether an answer says more of the rehearsal than of the call: resources of what is not installed in it."""
    from killcheck.embedded import builtin

    ours = call.group in {kind.resource.group for kind in builtin()} | _FORMER
    return call.status == 501 or (not ours and is_not_served(call))


def _home(call: Call) -> str | None:
    """The group that has what was asked for in another one of Kubernetes' own; None: it was looked for at its place."""
    from killcheck.embedded import builtin

    homes = [kind.resource.group for kind in builtin() if kind.resource.plural == call.resource]
    ours = call.group in {kind.resource.group for kind in builtin()} | _FORMER
    return homes[0] if ours and homes and call.group not in homes else None


def _severity(call: Call, first: Firing) -> Severity:
    if is_gone(call, first):
        return "note"
    return "error" if call.writes or not first.off or mistaken(call, first) else "warning"


def _is_by_the_way(call: Call, first: Firing) -> bool:
    """What says nothing against a program: kubectl's own look at a namespace; what was to be deleted and is not there;
    what it only looked for, where it then turned something off and ended well; what it found to exist already."""
    if (call.resource == "namespaces" and not call.writes) or _only_waits(call, first):
        return True
    well = first.exit_code == 0
    if (call.status == 409 and call.verb == "create") or (call.status == 404 and call.verb == "delete"):
        return well
    stays = any(not change.off and change.namespace == call.namespace for change in first.changes)
    missed = stays and call.resource in SCALED
    return call.status == 404 and not call.writes and well and bool(first.off) and not missed


def _only_waits(call: Call, first: Firing) -> bool:
    """Whether it is kubectl's wait for what it has deleted: a 403 ends that wait, and well (its pkg/cmd/delete)."""
    if call.status != 403 or call.verb not in ("get", "list", "watch"):
        return False
    what = (call.group, call.resource, call.namespace)
    deleted = [c for c in first.calls if c.verb == "delete" and not c.refused and c.at_s <= call.at_s]
    return any((c.group, c.resource, c.namespace) == what and call.name in ("", c.name) for c in deleted)


def _elsewhere(world: World, call: Call) -> str:
    """The namespace of the only holders of GPUs that have the name that was asked for in another one; empty: none."""
    if call.status not in (403, 404) or not call.name or is_not_served(call) or call.resource not in SCALED:
        return ""
    same = [h.namespace for h in world.holders if name_of(h.obj) == call.name]
    return same[0] if same and call.namespace not in ("", *same) else ""


def _near(world: World, call: Call) -> str:
    if call.status not in (403, 404) or not call.name or is_not_served(call) or call.resource not in SCALED:
        return ""
    there = [name_of(h.obj) for h in world.holders if h.namespace == call.namespace]
    same = [h for h in world.holders if name_of(h.obj) == call.name]
    if any(h.namespace == call.namespace for h in same):
        kind = same[0].obj.get("kind")
        return "" if call.status == 403 else f" (it is a {kind})"
    if elsewhere := _elsewhere(world, call):
        return f" (it is in namespace {elsewhere})"
    return did_you_mean(call.name, there) if call.status == 404 else ""


def _remedy(world: World, one: Executor, call: Call) -> str:
    group, resource, verb = call.asked
    where = f" in namespace {call.namespace}." if call.namespace else " in a ClusterRole, by a ClusterRoleBinding."
    if "system:anonymous" in call.answer:
        return "Let it send its token: the file is /var/run/secrets/kubernetes.io/serviceaccount/token."
    if call.status == 401:
        return "Let it read its token anew for each call, for the audience that the API server takes."
    if elsewhere := _elsewhere(world, call):
        return f"Let it ask in namespace {elsewhere} (kubectl -n {elsewhere})."
    if call.status == 403 and (home := _home(call)):
        return f"Ask for {resource} in group {home}: there are none in group {group or 'core'}, whatever is granted."
    if call.status == 403:
        return mended_binding(world, one, call.asked, call.namespace) or (
            f'Grant {{apiGroups: ["{group}"], resources: [{resource}], verbs: [{verb}]}} to ServiceAccount '
            f"{one.namespace}/{one.account}" + where
        )
    if is_not_served(call):
        return f"Ask for a version of {call.resource} that is served ({group or 'core'}/{call.version} is not)."
    if call.status == 404:
        return "Name the object that is there, in its namespace."
    if call.status == 415:
        return "Send Content-Type: application/merge-patch+json with a PATCH."
    if call.status == 429 and call.subresource == "eviction":
        return "Let the disruption budget allow one (maxUnavailable: 1), or scale to zero, which asks no budget."
    if "failed calling webhook" in call.answer:
        return "Bring the webhook's Service back, or let it not stand in the way of a kill (failurePolicy: Ignore)."
    if "cannot unmarshal" in call.answer:
        return 'Send a body of the types that it has: a number is no text ({"spec": {"replicas": 0}}).'
    return "Mend the call until the API server takes it."
