"""The matrix: every layer undisturbed and under every fault that applies, each cell judged by the spec's policy.

A cell is one drill like any other; this module says which drills, what each must end with, and how long they may take.
What may *not* live here: how a drill works, terminals, processes (:mod:`killcheck.run.parallel` has those).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from killcheck import faults, layers
from killcheck.capabilities.offered import Capability, lacking
from killcheck.discover.independence import Shared, drilled, shared
from killcheck.drill.progress import watched_s
from killcheck.drill.sequence import Options
from killcheck.faults.kubernetes.executor import admitted
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.results import Cell, Matrix
from killcheck.run.planned import PlannedDrill
from killcheck.spec.killpath import KillPath, Layer
from killcheck.verdict import DrillResult

__all__ = [
    "Estimate",
    "Standing",
    "estimate",
    "executors_of",
    "judged",
    "leaning",
    "left_out",
    "plan",
    "removals",
    "unneeded",
]


class Standing(Struct, frozen=True):
    """What is on a real cluster and says which faults mean something there.

    ``objects``: the layers' CronJobs with their ServiceAccounts. ``absent``: by a fault's name, that what it acts
    through is not installed, in a sentence.
    """

    objects: Sequence[Obj] = ()
    absent: Mapping[str, str] = {}


class Estimate(Struct, frozen=True):
    """How long a matrix is watched at most on a real cluster, where its drills run one after the other, in seconds."""

    drills: int
    seconds: float
    longest_s: float


def judged(
    kill_path: KillPath,
    planned: Sequence[PlannedDrill],
    results: Sequence[DrillResult],
    *,
    left_out: Iterable[str] = (),
) -> Matrix:
    """Drills and what they found, each held against the policy."""
    return Matrix(
        tuple(
            Cell(
                d.layer,
                "+".join(d.faults),
                kill_path.policy.required(d.layer, d.faults),
                result,
                kill_path.policy.causes(d.layer, d.faults),
                kill_path.policy.acceptance(d.layer, d.faults),
            )
            for d, result in zip(planned, results, strict=True)
        ),
        tuple(left_out),
    )


def plan(
    kill_path: KillPath,
    *,
    only_layers: Collection[str] = (),
    only_faults: Collection[str] = (),
    capabilities: Collection[Capability] | None = None,
    options: Options | None = None,
    together: Sequence[tuple[str, ...]] = (),
    objects: Iterable[Obj] = (),
    standing: Standing | None = None,
) -> list[PlannedDrill]:
    """The drills of the matrix: each layer undisturbed, then under each fault that means something to it.

    ``capabilities``: what the cluster has besides its API; faults that need another are left out (None: none is).
    ``together``: faults that are there at once, a column each; without ``only_faults`` they are the only ones.
    ``objects``: what is loaded into the cluster, where that is known: faults that find nothing to act on in a layer's
    executor are left out, but for those that are named; and what every layer leans on is taken away from all of them at
    once, where no fault does so by itself.
    ``standing``: what is on a real cluster, where nothing is loaded: the same for its executors, and for faults that
    act through what nobody has installed there.
    A column that was named is never empty: where no layer can have it, each does, and its drill says why not.
    Drills get the policy's requirement with them.
    """
    how = options or Options()
    loaded = list(objects)
    jobs = executors_of(kill_path, [*loaded, *(standing.objects if standing else ())])
    absent = standing.absent if standing and not only_faults else {}
    chosen = _chosen(kill_path, only_layers)
    columns: dict[str, list[tuple[str, ...]]] = {}
    for layer in chosen:
        meant = _meant(kill_path, layer, only_faults, None if only_faults else jobs.get(layer.name))
        meant = [kind for kind in meant if kind.name not in absent]
        single = [(kind.name,) for kind in meant if faults.there(kind, kill_path, capabilities)]
        groups = together or (() if only_faults else removals(kill_path, layer, loaded))
        both = [
            group
            for group in groups
            if all(_applies(faults.named(name), kill_path, layer, capabilities) for name in group)
        ]
        columns[layer.name] = both if together and not only_faults else [*single, *both]
    for named in [*((name,) for name in only_faults), *together]:
        if not any(named in under for under in columns.values()):
            for under in columns.values():
                under.append(named)
    return [
        PlannedDrill(
            layer.name,
            under,
            how,
            require=kill_path.policy.required(layer.name, under),
            causes=kill_path.policy.causes(layer.name, under),
            acceptance=kill_path.policy.acceptance(layer.name, under),
            second=bool(under) and not only_faults and under not in together,
        )
        for layer in chosen
        for under in ((), *columns[layer.name])
    ]


def left_out(
    kill_path: KillPath, capabilities: Collection[Capability], *, only_layers: Collection[str] = ()
) -> list[str]:
    """Faults that would mean something, but that cannot be injected without capabilities that are not there.

    What is done to a Docker Engine or to a cloud account means something only where the kill path has one.
    """
    beside = {*faults.ENGINE, *(faults.CLOUD if kill_path.cloud is None else ())}
    return sorted(
        {
            kind.name
            for layer in _chosen(kill_path, only_layers)
            for kind in _meant(kill_path, layer, ())
            if kind not in beside and lacking(kind.needs, capabilities)
        }
    )


def executors_of(kill_path: KillPath, objects: Iterable[Obj]) -> dict[str, Obj]:
    """The CronJobs of the layers that have one, by the layers' names, as far as they are among the objects.

    With what their ServiceAccounts bring to their pods, where those are among the objects too.
    """
    loaded = list(objects)
    jobs = {(namespace_of(o), name_of(o)): o for o in loaded if o.get("kind") == "CronJob"}
    accounts = {(namespace_of(o), name_of(o)): o for o in loaded if o.get("kind") == "ServiceAccount"}
    found = {}
    for layer in kill_path.layers:
        ref = layer.cron_job
        job = jobs.get((ref.namespace, ref.name)) if ref else None
        if ref and job is not None:
            pod = dig(job, "spec", "jobTemplate", "spec", "template", "spec", default={})
            name = pod.get("serviceAccountName") or "default"
            account = accounts.get((ref.namespace, name), {} if name == "default" else None)
            found[layer.name] = job if account is None else admitted(job, account)
    return found


def removals(kill_path: KillPath, layer: Layer, objects: Iterable[Obj]) -> list[tuple[str, ...]]:
    """Faults that have to be there at once to take away what a layer shares with all others of its target."""
    loaded = list(objects)
    return list(
        dict.fromkeys(
            group
            for one in shared(kill_path, loaded)
            if layer.name in one.layers
            for group in one.removals
            if len(group) > 1
        )
    )


def unneeded(
    kill_path: KillPath,
    capabilities: Collection[Capability],
    objects: Iterable[Obj],
    absent: Mapping[str, str] = {},
) -> list[str]:
    """Why faults were left out that mean nothing to a layer's very executor, or on such a cluster, a sentence each."""
    jobs = executors_of(kill_path, objects)
    meant = {
        kind.name
        for layer in _chosen(kill_path, ())
        for kind in _meant(kill_path, layer, ())
        if faults.there(kind, kill_path, capabilities)
    }
    return [f"{name}: {why}" for name, why in absent.items() if name in meant] + [
        f"{kind.name}: {why}"
        for layer in _chosen(kill_path, ())
        for kind in _meant(kill_path, layer, ())
        if layer.name in jobs
        and faults.there(kind, kill_path, capabilities)
        and (why := kind().unsuited_executor(layer.name, jobs[layer.name]))
    ]


def leaning(kill_path: KillPath, objects: Sequence[Obj], found: Matrix) -> list[Shared]:
    """What all layers of a target depend on, and what the matrix's cells say of taking it away."""
    outcomes = {(cell.layer, cell.fault): str(cell.result.verdict) for cell in found.cells}
    return drilled(shared(kill_path, objects), outcomes)


def estimate(kill_path: KillPath, planned: Iterable[PlannedDrill]) -> Estimate:
    """An upper bound: each drill is watched until its last deadline and for the time it has to hold.

    How long the GPUs take to be on again after each is nobody's to promise, and not in it.
    """
    times = [
        watched_s(kill_path, kill_path.layer(drill.layer))
        if drill.options.horizon_s is None
        else drill.options.horizon_s
        for drill in planned
    ]
    return Estimate(len(times), sum(times), max(times, default=0.0))


def _chosen(kill_path: KillPath, only: Collection[str]) -> list[Layer]:
    return [layer for layer in kill_path.layers if layers.drillable(layer) and (not only or layer.name in only)]


def _applies(
    fault: faults.Fault, kill_path: KillPath, layer: Layer, capabilities: Collection[Capability] | None
) -> bool:
    unsuited = fault.unsuited(kill_path, layer)
    missing = capabilities is not None and lacking(fault.needs, capabilities)
    return not (missing or (unsuited is not None and unsuited.whatever_is_there))


def _meant(
    kill_path: KillPath,
    layer: Layer,
    only: Collection[str],
    cron_job: Obj | None = None,
) -> list[type[faults.Fault]]:
    return [
        kind
        for kind in faults.every()
        if (not only or kind.name in only) and faults.means_something(kind, kill_path, layer, cron_job)
    ]
