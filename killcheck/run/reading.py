"""What can be said of a session's kill path by reading alone: lint's findings and the fences, of manifests or live.

What may *not* live here: anything that changes a cluster.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from killcheck import fence
from killcheck.clock import wall_now
from killcheck.fence import AccountError, FenceReport
from killcheck.fence.gathered import Gathered, gather
from killcheck.instances.catalogue import Catalogue, CatalogueError, load
from killcheck.kube import listing
from killcheck.kube.objects import Obj
from killcheck.lint import asking
from killcheck.lint.asking import LintResult
from killcheck.probes import live
from killcheck.run.rehearsing import known, rehearsed, stood_in
from killcheck.run.session import Session
from killcheck.spec.killpath import KillPath

if TYPE_CHECKING:
    from killcheck.engine.connection import Engine
    from killcheck.kube.client import Kube
    from killcheck.probes.world import World

__all__ = ["catalogue_for", "executors", "fences", "findings", "preflight", "world_of_cluster"]


def findings(session: Session) -> LintResult:
    """Every probe's. Raises KubeError, ManifestError, DiscoveryError."""
    kill_path = session.kill_path
    if session.real and kill_path.in_kubernetes:
        with session.cluster() as (cluster, _):
            fire = session.exec_mode == "host"
            world, notes = world_of_cluster(cluster.kube, kill_path, version=cluster.kubernetes, fire=fire)
            world.answers = live.ask(cluster.kube, world)
    elif kill_path.in_kubernetes or session.manifests:
        loaded = session.load()
        seen = (
            session.rehearsal(loaded, kill_path.kubernetes_version)
            if session.exec_mode == "host"
            else known(loaded, wall_now(), session.folders, fire=False)
        )
        given = session.spec or session.fixture  # else it is found as lint finds it: a switch that misses is none
        world, notes = asking.world_of(loaded, wall_now(), kill_path=kill_path if given else None, rehearsed=seen)
    else:
        world, notes = asking.world_of([], wall_now(), kill_path=kill_path)
    return asking.lint(world, notes=notes)


def world_of_cluster(
    kube: Kube, kill_path: KillPath | None, *, version: str, fire: bool
) -> tuple[World, tuple[str, ...]]:
    """The probes' world of a cluster that is listed, and what is to be told of it.

    ``kill_path``: None, it is still to be found. ``version``: the Kubernetes that answers; ``fire``: copies of what
    could turn something off are fired here. Raises KubeError.
    """
    named = [] if kill_path is None else [(x.ref for x in kill_path.targets), (x.ref for x in kill_path.layers)]
    refs = [ref for several in named for ref in several if ref]
    listed = listing.read(kube, [(ref.api_version, ref.kind) for ref in refs])
    seen = rehearsed(listed.objects, wall_now(), live=True, kubernetes_version=version) if fire else {}
    world, notes = asking.world_of(
        listed.objects,
        wall_now(),
        kill_path=kill_path,
        live=True,
        unread=listed.unread,
        listed=listed.kinds,
        rehearsed=seen,
        kubernetes_version=version,
    )
    return world, (*notes, *(stood_in(version) if fire and version else ()))


def fences(session: Session) -> FenceReport:
    """Against the spec's ceiling. Raises KubeError, ManifestError, AccountError for a catalogue that cannot be read."""
    kill_path, live = session.kill_path, Gathered()
    if session.real and kill_path.in_kubernetes:
        with session.cluster() as (cluster, _):
            live = gather(cluster.kube)
    objects = live.objects if session.real else [*session.objects, *session.configured]
    with session.reading():
        named = kill_path.nodes if kill_path.in_kubernetes else ()
        return fence.evaluate(
            objects,
            fence.Ceiling.of(kill_path.fences),
            catalogue_for(kill_path),
            named=named,
            unread=session.unevaluated(known_catalogues(kill_path)),
            costing=session.costing,
            doubts=live.unread,
            nodes=live.nodes,
        )


def catalogue_for(kill_path: KillPath | None, files: tuple[Path, ...] = ()) -> Catalogue:
    """The shipped catalogue, a spec's own files and prices, and further files. Raises AccountError."""
    try:
        found = load(*known_catalogues(kill_path, files))
    except CatalogueError as error:
        raise AccountError(str(error)) from error
    return found.priced(kill_path.prices, f"prices: of {kill_path.name}") if kill_path else found


def known_catalogues(kill_path: KillPath | None, files: tuple[Path, ...] = ()) -> list[Path]:
    """The files that :func:`catalogue_for` reads besides the shipped one."""
    folder = Path(kill_path.folder) if kill_path and kill_path.folder else Path()
    return [*(folder / name for name in kill_path.fences.catalogues), *files] if kill_path else list(files)


def executors(session: Session) -> list[Obj]:
    """The objects that layers are made of: of the manifests, or as a real cluster has them. Raises KubeError."""
    if not session.real:
        return session.objects
    if not session.kill_path.in_kubernetes:
        return []
    with session.cluster() as (cluster, kill_path):
        refs = [layer.ref for layer in kill_path.layers if layer.ref is not None]
        found = [
            cluster.kube.find(cluster.kube.resource_for(ref.api_version, ref.kind), ref.name, ref.namespace or None)
            for ref in refs
        ]
    return [obj for obj in found if obj is not None]


def preflight(session: Session, layers: Collection[str], engine: Engine) -> tuple[LintResult, list[str]]:
    """Run these layers' images on ``engine``; with the names of the layers that have none to run.

    A command that is run inside a container that is on has no image of its own: what is there was put there since.
    Raises KubeError where the engine does not answer; ManifestError.
    """
    from killcheck.probes.image_unusable import ImageUnusable

    kill_path = session.kill_path
    objects = executors(session) if session.real or not kill_path.in_kubernetes else session.load()
    world, _ = asking.world_of(objects, wall_now(), kill_path=kill_path, live=session.real)
    inside = {layer.name for layer in kill_path.layers if layer.container and layer.container.argv}
    able = {one.layer.name for one in world.layer_executors if one.layer} & set(layers) - inside
    result = asking.lint(world, probes=[ImageUnusable(engine, able)])
    return result, [name for name in dict.fromkeys(layers) if name not in able]
