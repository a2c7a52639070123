"""The cluster's own record, where somebody gives it: which switch was refused, who lit GPUs again, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe, Severity
from killcheck.probes.world import Executor, World

from killcheck.kube.audit_log import Asked, Broken, read
from killcheck.kube.objects import name_of, ref_of
from killcheck.kube.plurals import plural_of
from killcheck.text.durations import format_duration

if TYPE_CHECKING:
    from killcheck.spec.killpath import Target

__all__ = ["AuditLog"]

#: Seconds within which whoever lights a target again undoes the switch, rather than starting the next day.
_UNDONE_S = 3600.0
#: Lines that are no events, of which each is told; of a file that is no audit log the rest is counted.
_BROKEN = 5
#: Characters of an answer that are quoted.
_QUOTED = 240


class AuditLog(Probe):
    """Asked of by ``lint --audit-log FILE`` alone. What is not in a log did not happen only if the policy keeps it."""

    id = "audit-log"
    on_request = True
    claim = "In the audit log every change that a switch asked for was taken, and nobody lit its targets again at once."
    remedy = "Mend what was refused (its rule, its name, its token), or stop who lights the target again."
    failures = (14, 16, 27, 55)
    sources = ("kubernetes.io/docs: auditing", "k8s.io/apiserver pkg/apis/audit/v1/types.go")

    def __init__(self, files: Sequence[Path] = ()) -> None:
        self.files = files

    def ask(self, world: World) -> Iterable[Finding]:
        """Raises AuditLogError where a file cannot be read."""
        accounts, names = {_account(one) for one in world.layer_executors}, _names(world)
        asked: list[Asked] = []
        times: list[datetime] = []  # the first and the last: of a log that is long the rest is not kept
        broken = 0
        for one in (one for file in self.files for one in read(file)):
            if isinstance(one, Broken):
                broken += 1
                if broken <= _BROKEN:
                    yield self._at(one, "error", f"{one.file}:{one.line}", f"was passed over: {one.why}")
                continue
            times = [min([*times, one.at]), max([*times, one.at])]
            if one.user in accounts or any(_is_about(one, t, names[t.name]) for t in world.kill_path.targets):
                asked.append(one)
        if broken > _BROKEN:
            yield self.unproven(world, None, f"what {broken - _BROKEN} more line(s) hold that are no audit events")
        if not times:
            yield self.unproven(world, None, "what the cluster was asked: the audit log has no answered change in it")
            return
        asked.sort(key=lambda one: one.at)
        for executor in world.layer_executors:
            yield from self._refused(world, executor, asked)
        for target in (one for one in world.kill_path.targets if one.kind):
            own = [one for one in asked if _is_about(one, target, names[target.name])]
            yield from self._turns(world, target, own, times)

    def _refused(self, world: World, executor: Executor, asked: Sequence[Asked]) -> Iterator[Finding]:
        """What a switch's account was refused, each request once: an error as long as it was not taken since."""
        account, targets = _account(executor), [one for one in world.kill_path.targets if one.kind]
        own = [one for one in asked if one.user == account and any(_is_wide(one, target) for target in targets)]
        for same in dict.fromkeys((one.what, one.status) for one in own if one.status >= 400 and one.status != 409):
            times = [one for one in own if (one.what, one.status) == same]
            last = times[-1]
            since = next((o for o in own if o.what == last.what and o.status < 400 and o.at > last.at), None)
            often = f"refused {len(times)} times, the last" if len(times) > 1 else "refused"
            mended = f" (taken on {since.at:%Y-%m-%d %H:%M:%SZ})" if since else ""
            said = f": {last.said[:_QUOTED]}" if last.said else ""
            how = f"{last.what} was answered {last.status}{mended}{said}"
            message = f"was {often} on {last.at:%Y-%m-%d %H:%M:%SZ}: {how}"
            yield self._at(last, "note" if since else "error", ref_of(executor.owner), message)

    def _turns(
        self, world: World, target: Target, own: Sequence[Asked], times: Sequence[datetime]
    ) -> Iterator[Finding]:
        """When a target was last turned off and by whom, and who lit it again; ``times``: the log's first and last."""
        ref = f"{target.kind}/{target.namespace}/{target.object or '*'}"
        taken = [one for one in own if one.status < 400]
        stops = [one for one in taken if _stops(one)]
        if not stops:
            span = f"from {times[0]:%Y-%m-%d %H:%MZ} to {times[1]:%Y-%m-%d %H:%MZ}"
            yield self.unproven(world, None, f"{_unseen(ref, taken)}, {span}")
            return
        last = stops[-1]
        yield self._at(last, "note", ref, f"was last turned off on {last.at:%Y-%m-%d %H:%M:%SZ} by {last.user}")
        told: set[str] = set()
        for stop in reversed(stops):
            lit = next((one for one in taken if one.at > stop.at and _starts(one)), None)
            if lit is None or lit.user in told:
                continue
            told.add(lit.user)
            after = (lit.at - stop.at).total_seconds()
            undone = after < _UNDONE_S
            number = f" ({lit.replicas} replicas)" if lit.replicas else ""
            message = (
                f"was lit again by {lit.user} on {lit.at:%Y-%m-%d %H:%M:%SZ}{number}, {format_duration(after)} later"
            )
            yield self._at(lit, "error" if undone else "note", ref, message)

    def _at(self, one: Asked | Broken, severity: Severity, who: str, message: str) -> Finding:
        return Finding(self.id, severity, who, message, self.remedy, (), "", one.file, one.line, failures=self.failures)


def _unseen(ref: str, taken: Sequence[Asked]) -> str:
    """Why nobody is known to have turned a target off; ``taken``: the requests about it that were taken."""
    blind = [
        one for one in taken if one.verb in ("patch", "update") and one.subresource in ("", "scale") and not one.bodies
    ]
    if not blind:
        return f"no request in the audit log turned {ref} off"
    last = blind[-1]
    return (
        f"whether a request turned {ref} off is not known: the audit log's level keeps no bodies of requests; "
        f"{len(blind)} wrote it, the last on {last.at:%Y-%m-%d %H:%M:%SZ} by {last.user}"
    )


def _account(executor: Executor) -> str:
    return f"system:serviceaccount:{executor.namespace}:{executor.account}"


def _names(world: World) -> dict[str, frozenset[str]]:
    """The names of each target's objects: its own, or those that its labels tell among what is known."""
    found = {target.name: {target.object} - {""} for target in world.kill_path.targets}
    for target, obj in world.targets:
        found[target.name].add(name_of(obj))
    return {name: frozenset(every) for name, every in found.items()}


def _is_about(one: Asked, target: Target, names: Collection[str]) -> bool:
    if not target.kind or (one.resource, one.namespace) != (plural_of(target.kind), target.namespace):
        return False
    return one.name in names and one.group == target.api_version.rpartition("/")[0]


def _is_wide(one: Asked, target: Target) -> bool:
    """Whether it is about a target's pods, or about something of its kind or name elsewhere: a switch that misses."""
    pods = one.resource == "pods" and one.namespace == target.namespace
    return pods or one.resource == plural_of(target.kind) or bool(target.object and one.name == target.object)


def _stops(one: Asked) -> bool:
    return one.replicas == 0 or one.suspend is True or (one.verb.startswith("delete") and not one.subresource)


def _starts(one: Asked) -> bool:
    return bool(one.replicas) or one.suspend is False or (one.verb == "create" and not one.subresource)
