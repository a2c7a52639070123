"""What a single request of a program does to a kill path, as it was read: it may turn a target on, or stop its switch.

A target goes on by its own scale, and by what is written to whatever scales it, lets it go or applies it: a scaler, a
queue of Kueue's, an Argo CD Application, a Flux Kustomization. A switch stops with its own object, with what it hangs
on, and with what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.executor import ApiCall, Reading
from killcheck.kube.furniture import is_gitops
from killcheck.kube.objects import Obj, labels_of, name_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.ledger import gitops
from killcheck.ledger.rights import CUTS_OFF, LEANT_ON, MAKERS, STARTS
from killcheck.ledger.stakes import Stakes, group_of, home_of, plural_of
from killcheck.text import lazy_re
from killcheck.watch.starts import undoes

__all__ = ["making", "raising", "stopping"]

#: Bodies that hold something off: a scaler's pause at none, a source that is suspended, a queue that is stopped.
_HOLDS = lazy_re.compile(
    r"""paused-replicas["']?\s*[:=]\s*["']?0\b|["']?suspend["']?\s*:\s*true|HoldAndDrain|["']?active["']?\s*:\s*false"""
    r"""|reconcile["']?\s*[:=]\s*["']?disabled"""
)


def raising(reading: Reading, stakes: Stakes) -> str | None:
    """The first call that may turn a target on, or stop its switch, as far as it was read."""
    return next((str(call) for call in reading.writes if _stops(call, stakes) or _starts(call, stakes)), None)


def stopping(reading: Reading, stakes: Stakes) -> bool:
    """Whether a call may keep a switch from turning anything off."""
    return any(_stops(call, stakes) for call in reading.writes)


def making(reading: Reading) -> str | None:
    """The first call that makes something whose pods run a program of their own."""
    makers = {*STARTS, *MAKERS}
    made = (call for call in reading.writes if call.verb == "create" and (call.group, call.resource) in makers)
    return next(map(str, made), None)


def _stops(call: ApiCall, stakes: Stakes) -> bool:
    """Whether it may keep a switch from turning anything off: itself, what it hangs on, or what it reads."""
    made, gone = call.verb == "create", _deletes(call)
    read = stakes.read_by_switches if not made else ()
    if any(call.resource == plural and call.about(home, name, {}) for plural, home, name in read):
        return True
    if not (gone or _holds(call)) and any(_same(call, one) for one in stakes.leaned_on if not one.writes):
        return True
    if call.resource == "nodes" and not (made or call.marks) and _is_where(call.name, stakes):
        return True
    for ref in stakes.switches:
        if gone and call.resource == "namespaces" and call.name in ("", ref.namespace):
            return True
        own = (gone or _holds(call)) and any(str(held) == str(ref) for held in stakes.targets)  # it ends itself
        if (
            call.resource == plural_of(ref.api_version, ref.kind)
            and call.about(ref.namespace, ref.name, {})
            and not own
        ):
            return True
        if call.namespace == ref.namespace and call.resource in CUTS_OFF and not gone:
            return True
        leant_on = LEANT_ON if gone else LEANT_ON - {"serviceaccounts"}  # others give accounts pull secrets
        if call.namespace in {ref.namespace, *stakes.namespaces} and call.resource in leant_on and not made:
            return True
    return gone and any(_about(call, one) for one in stakes.scalers if ref_of(one) in stakes.scaling)


def _is_where(node: str, stakes: Stakes) -> bool:
    """Whether a switch can run on few nodes only, and that is one of them, or any: who cordons it holds it up."""
    for switch in stakes.switching():
        for template in templates(switch):
            wanted = {k: str(v) for k, v in (template.spec.get("nodeSelector") or {}).items() if k not in _ANYWHERE}
            alone = str(template.spec.get("nodeName") or wanted.get("kubernetes.io/hostname") or "")
            if (alone or wanted) and node in ("", alone or node):
                return True
    return False


#: Labels by which a pod can go to most nodes still.
_ANYWHERE = frozenset({"kubernetes.io/arch", "kubernetes.io/os"})


def _holds(call: ApiCall) -> bool:
    """Whether it writes that something is off."""
    return call.replicas == 0 or _HOLDS.search(call.body) is not None


def _same(call: ApiCall, asked: ApiCall) -> bool:
    """Whether two calls may be about one object."""
    alike = (call.group, call.resource, call.namespace) == (asked.group, asked.resource, asked.namespace)
    return alike and (not call.name or not asked.name or call.name == asked.name)


def _starts(call: ApiCall, stakes: Stakes) -> bool:
    """Whether it may turn a target on: also by taking back what a switch wrote."""
    if _deletes(call):
        return any(undoes(call, written) for written in stakes.written_by_switches)
    if _holds(call):
        return False
    for held in stakes.targets:
        labels = held.labels[0] if held.labels else {}
        if call.resource == held.plural and call.about(held.namespace, held.name, labels):
            return True
    if any(undoes(call, written) for written in stakes.written_by_switches):
        return True
    return any(_about(call, one) for one in _behind(stakes))


def _behind(stakes: Stakes) -> Iterator[Obj]:
    """What scales a target, lets it go, or applies it."""
    yield from stakes.scalers
    yield from stakes.queues
    yield from (one for one in stakes.objects if is_gitops(one) and gitops.may_apply(one, stakes))


def _about(call: ApiCall, obj: Obj) -> bool:
    home = home_of(obj) if (obj.get("metadata") or {}).get("namespace") else ""
    of_kind = (call.group, call.resource) == (
        group_of(obj),
        plural_of(str(obj.get("apiVersion")), str(obj.get("kind"))),
    )
    return of_kind and call.about(home or call.namespace, name_of(obj), labels_of(obj))


def _deletes(call: ApiCall) -> bool:
    return call.verb.startswith("delete")
