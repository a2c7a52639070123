"""Consent: on a cluster that is somebody's, nothing is touched that nobody named.

A context is only ever named explicitly and must be allowed by the spec; protected ones are refused whatever the spec
says elsewhere; a namespace opts in by a label; pools by name; limits bound what a drill may put at stake.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from killcheck.capabilities.cluster import Cluster
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import labels_of, uid_of
from killcheck.kube.permissions import Permission, missing, rules
from killcheck.spec.killpath import Command, KillPath, Layer

__all__ = ["LABEL", "ConsentError", "Plan", "check", "check_context", "reading", "targets"]

#: A namespace consents by carrying this label with the value "true".
LABEL = "killcheck.dev/consent"
#: An entry of ``consent.protected`` that begins so names a cluster by the uid of its kube-system namespace.
UID = "uid:"


class ConsentError(Exception):
    """Something that the drill would touch has not consented. ``problems``: one sentence each, with what to do."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(self.problems))


class Plan(Struct, frozen=True):
    """What a run will touch: shown before anything happens.

    ``changes``: one sentence each. ``gpu_nodes`` and ``usd_per_hour`` (None: a price is unknown): what is on now;
    ``hours``: how long it may stay on at worst while the run waits for it to go off, over all its drills;
    ``new_gpu_nodes``: how many it makes itself. ``unpriced``: what on now has no price.
    ``longest_hours`` in the longest of them (None: there is one). ``impossible``: drills that cannot be done here, and
    why: a sentence each.
    """

    cluster: str
    changes: tuple[str, ...]
    namespaces: tuple[str, ...]
    permissions: tuple[Permission, ...]
    usd_per_hour: float | None = None
    gpu_nodes: int = 0
    hours: float = 0.0
    #: Programs that would be run where killcheck runs.
    commands: tuple[Command, ...] = ()
    longest_hours: float | None = None
    impossible: tuple[str, ...] = ()
    new_gpu_nodes: int = 0
    unpriced: tuple[str, ...] = ()


def check_context(context: str, kill_path: KillPath) -> None:
    """Raise ConsentError for a context that the spec does not allow: before anything at all is sent there."""
    problems = list(_context(context, kill_path))
    if problems:
        raise ConsentError(problems)


def check(cluster: Cluster, kill_path: KillPath, plan: Plan, *, any_command: bool = False) -> None:
    """Raise ConsentError with every problem at once; does nothing on a cluster that is killcheck's own.

    ``any_command``: programs need not be named by the spec.
    """
    if not cluster.real:
        return
    programs = () if any_command else _commands(kill_path, plan)
    problems = [
        *_context(cluster.name, kill_path),
        *_cluster(cluster, kill_path),
        *_own_or(cluster, kill_path, plan),
        *programs,
        *_limits(kill_path, plan),
        *_rights(cluster, plan.permissions),
    ]
    if problems:
        raise ConsentError(problems)


def _own_or(cluster: Cluster, kill_path: KillPath, plan: Plan) -> Iterable[str]:
    """What a place that has no namespaces and pools objects to; elsewhere, what those of the plan object to."""
    if cluster.own_consent is not None:
        return cluster.own_consent.objections(plan)
    return [*_namespaces(cluster, kill_path, plan.namespaces), *_pools(kill_path)]


def _context(context: str, kill_path: KillPath) -> Iterable[str]:
    consent = kill_path.consent
    if consent.allows_context(context):
        return
    if not consent.contexts:
        yield f"context {context} is not named in the spec: add it under consent.contexts"
    elif any(fnmatchcase(context, pattern) for pattern in consent.contexts):
        yield f"context {context} is protected (consent.protected: {', '.join(consent.protected)})"
    else:
        allowed = ", ".join(consent.contexts)
        yield f"context {context} is not among consent.contexts ({allowed}): add it there, or name one of these"


def _cluster(cluster: Cluster, kill_path: KillPath) -> Iterable[str]:
    """A cluster is the same under any context: its kube-system namespace's uid tells."""
    protected = {entry.removeprefix(UID) for entry in kill_path.consent.protected if entry.startswith(UID)}
    if not protected:
        return
    try:
        uid = uid_of(cluster.kube.get(r.NAMESPACES, "kube-system"))
    except KubeError as error:
        yield f"whether this cluster is protected cannot be told: {error}"
        return
    if uid in protected:
        yield f"this cluster is protected (consent.protected: {UID}{uid}), whatever the context is called"


def _namespaces(cluster: Cluster, kill_path: KillPath, wanted: Iterable[str]) -> Iterable[str]:
    for name in sorted(set(wanted)):
        if kill_path.consent.namespaces and name not in kill_path.consent.namespaces:
            yield f"namespace {name} is not named in the spec: add it under consent.namespaces"
            continue
        found = cluster.kube.find(r.NAMESPACES, name)
        if found is None:
            yield f"namespace {name} does not exist"
        elif labels_of(found).get(LABEL) != "true":
            yield f"namespace {name} has not opted in: kubectl label namespace {name} {LABEL}=true"


def _pools(kill_path: KillPath) -> Iterable[str]:
    if not kill_path.nodes and not kill_path.consent.any_node:
        yield "no node pool is named: list the GPU pools under nodes:"
    for pool in kill_path.nodes:
        if kill_path.consent.pools and pool.name not in kill_path.consent.pools:
            yield f"node pool {pool.name} is not named in the spec: add it under consent.pools"


def _commands(kill_path: KillPath, plan: Plan) -> Iterable[str]:
    for command in plan.commands:
        if not kill_path.consent.allows_command(command):
            yield (
                f"this would run {command} on this machine: name it under consent.commands (a shell pattern over "
                "the command line), or say --allow-commands"
            )


#: What gives a price.
_PRICE = "give one by machine type under prices: (a hollow node has the type that 'killcheck nodes up --type' says)"


def _limits(kill_path: KillPath, plan: Plan) -> Iterable[str]:
    consent = kill_path.consent
    if consent.max_gpu_nodes is not None and plan.gpu_nodes > consent.max_gpu_nodes:
        yield f"{plan.gpu_nodes} GPU nodes are on; the spec allows {consent.max_gpu_nodes} (consent.maxGpuNodes)"
    if consent.max_gpu_nodes is not None and plan.new_gpu_nodes > consent.max_gpu_nodes:
        yield (
            f"{plan.new_gpu_nodes} GPU nodes would be made; the spec allows {consent.max_gpu_nodes} "
            "(consent.maxGpuNodes): make fewer, or raise it there"
        )
    if consent.max_usd is None:
        return
    if plan.usd_per_hour is None:
        of_what = f" of {', '.join(plan.unpriced)}" if plan.unpriced else ""
        yield f"the spec limits the dollars at stake (consent.maxUsd), and the price{of_what} is unknown: {_PRICE}"
        return
    hours = plan.hours if plan.longest_hours is None else plan.longest_hours  # the limit is a drill's
    if plan.usd_per_hour * hours > consent.max_usd:
        yield (
            f"${plan.usd_per_hour * hours:.2f} are at stake (${plan.usd_per_hour:.2f} an hour for at most "
            f"{hours:.1f} h); the spec allows ${consent.max_usd:.2f} (consent.maxUsd)"
        )


def _rights(cluster: Cluster, permissions: Sequence[Permission]) -> Iterable[str]:
    lacking = missing(cluster.kube, permissions) if permissions else []
    if lacking:
        listed = "\n".join(f"    {permission}" for permission in lacking)
        yield f"missing permissions:\n{listed}\n  grant them with:\n{rules(lacking)}"


def refuse_without(cluster: Cluster, permissions: Iterable[Permission]) -> None:
    """Raise ConsentError that names all of these rights that are lacking; nothing where there is none."""
    problems = list(_rights(cluster, list(permissions)))
    if problems:
        raise ConsentError(problems)


def reading() -> list[Permission]:
    """What every drill needs to see, in all namespaces: a GPU pod anywhere on the pools' nodes counts."""
    wanted = [("", "pods"), ("", "nodes"), ("", "events"), ("batch", "jobs"), ("apps", "replicasets")]
    return [Permission(verb, group, resource) for group, resource in wanted for verb in ("list", "watch")]


def targets(cluster: Cluster, kill_path: KillPath, layer: Layer) -> list[Permission]:
    """What watching the targets, and putting them back on, needs. Raises KubeError."""
    found = []
    for target in kill_path.targets:
        if target.kind:
            resource = cluster.kube.resource_for(target.api_version, target.kind)
            found += [Permission(verb, resource.group, resource.plural) for verb in ("list", "watch")]
    for target in kill_path.covered_by(layer):
        if target.kind:
            resource = cluster.kube.resource_for(target.api_version, target.kind)
            found += [
                Permission(verb, resource.group, resource.plural, "", target.namespace, target.object)
                for verb in ("get", "patch")
            ]
    if kill_path.in_kubernetes and r.NODECLAIMS.group in _groups(cluster):
        found += [Permission(verb, r.NODECLAIMS.group, r.NODECLAIMS.plural) for verb in ("list", "watch")]
    return found


def _groups(cluster: Cluster) -> set[str]:
    """The API groups that are served here."""
    listed = cluster.kube.call("GET", "/apis").body.get("groups") or []
    return {str(group.get("name")) for group in listed}
