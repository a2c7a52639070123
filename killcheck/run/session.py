"""What a run works on: a kill path, and clusters to drill it on, from what the user named.

Manifests go into the embedded cluster and, without a spec, the kill path is found in them. A shipped example is only
ever one that was named, and so is a real cluster: what was not named is an error (:mod:`killcheck.run.chosen` looks for
a spec in the working directory and above).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from killcheck.capabilities.cluster import Cluster
from killcheck.capabilities.inventory import Inventory
from killcheck.capabilities.offered import Capability
from killcheck.clock import wall_now
from killcheck.cluster.naming import ENVTEST, KIND_FOLDER, is_kind
from killcheck.engine.connection import is_docker
from killcheck.entries import Assumption
from killcheck.kube import downtimes, gitops_sources, gpus, manifests, program_files, workloads
from killcheck.kube import resources as r
from killcheck.kube.manifest_folders import Folders
from killcheck.kube.manifests import Loaded, Renderings, Skipped
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.kube.passed_over import Cause, kind_of, names_accelerators
from killcheck.run.hanging import as_drilled, marked
from killcheck.run.rehearsing import known, rehearsed
from killcheck.run.which_night import night
from killcheck.spec import specfile
from killcheck.spec.killpath import KillPath, LayerType, Proof, Ref
from killcheck.text import accelerators
from killcheck.text.problems import Problem
from killcheck.text.values import replace

if TYPE_CHECKING:
    from killcheck.discover import Discovery
    from killcheck.embedded import LoadError
    from killcheck.rehearsal.record import Rehearsed
    from killcheck.run.planned import PlannedDrill

__all__ = ["ExecMode", "NothingToDrill", "Session", "SessionError"]

#: The reference kill path whose image is kubectl alone.
KIND_PATH = Path(__file__).parents[1] / "cluster" / "kind_path.yaml"

ExecMode = Literal["auto", "host", "docker", "none", "unisolated", "model"]

#: How long the embedded cluster watches GPUs that nobody turns off: from the night's slot until somebody comes in.
NIGHT_S = 7 * 3600.0
#: What to do where nothing names a kill path.
NO_SPEC = (
    "there is no killcheck.yaml here or above: write one with killcheck init --manifests PATH (or --on CONTEXT), "
    "drill YAML without one with --manifests PATH, or see how it works with killcheck demo"
)


class NothingToDrill(Exception):
    """The kill path has no layer: nothing turns its targets off, so nothing is proven. The message says what to do."""


class SessionError(Exception):
    """What the user named does not fit together; one sentence with what to do (exit 2)."""


@dataclass
class Session:
    """A kill path and where to drill it.

    ``on``: ``embedded``, ``kind`` or a kubeconfig context. ``exec_mode``: how executors' commands run on the embedded
    cluster: ``auto`` (the strongest sandbox that there is), ``host`` (in a sandbox of this host or not at all),
    ``docker``, ``none``, ``unisolated``; None: the shipped fixtures run, where there is no sandbox without one (their
    text is killcheck's own), a user's own manifests do not run.
    """

    spec: Path | None = None
    on: str = "embedded"
    manifests: Sequence[Path] = ()
    exec_mode: ExecMode | None = None
    kubeconfig: Path | None = None
    #: The name of a shipped example; empty: none.
    fixture: str = ""
    night_s: float = NIGHT_S
    #: The person allowed every program of the spec, also those that its consent does not name.
    allow_commands: bool = False
    #: Of the manifests: patterns of what to leave out; whether anything that cannot be read is an error.
    exclude: Sequence[str] = ()
    values: Sequence[Path] = ()
    sets: Sequence[str] = ()
    strict: bool = True
    verbose: bool = False
    #: The Kubernetes that the embedded cluster is, where it was named; empty: as the spec says, or the default.
    kubernetes_version: str = ""
    notes: list[str] = field(default_factory=list)
    _kill_path: KillPath | None = None
    _objects: list[Obj] | None = None
    _loaded: Loaded | None = None
    _renderings: Renderings = field(default_factory=dict)
    _capabilities: frozenset[Capability] | None = None
    #: What watches targets by itself and is no layer to drill: nobody said after how long it acts.
    _watching: tuple[Ref, ...] = ()
    _inventory: Inventory | None = None
    _rehearsed: dict[str, Rehearsed] | None = None
    #: What was found beside the targets and may turn them off, a sentence each.
    _not_understood: Sequence[str] = ()
    #: Objects of the manifests that the API server of a drill refused, which drills then go on without.
    refused: list[tuple[Skipped, Obj]] = field(default_factory=list)

    @property
    def real(self) -> bool:
        """Whether it runs on a cluster that is somebody's."""
        return self.on != "embedded"

    @property
    def shipped(self) -> bool:
        """Whether what is drilled came with killcheck."""
        return self.shipped_spec and not self.manifests and not self.real

    @property
    def kill_path(self) -> KillPath:
        """The spec, or what is found in the manifests or the cluster.

        Raises SpecError, ManifestError, SessionError, KubeError.
        """
        if self._kill_path is None:
            found = self._find_kill_path()
            version = self.kubernetes_version or found.kubernetes_version
            policy = found.policy.on(wall_now().date())
            if self.on == ENVTEST:
                found = _thrown_away(found)
            self._kill_path = replace(found, policy=policy, kubernetes_version=version)
        return self._kill_path

    @property
    def layer_names(self) -> list[str]:
        """The names of the layers to drill. Raises NothingToDrill where there is none, and what ``kill_path`` does."""
        path = self.kill_path
        if not path.layers:
            from killcheck.run.no_layer import nothing_is_drilled, write_one

            who, objects = self.spec_file or "what was found", self._objects or ()
            lines = [nothing_is_drilled(str(who), path.targets, objects, self.unseen, self._not_understood)]
            lines += [_TIMELESS.format(ref) for ref in self._watching]
            lines += [write_one(self.manifests, self.unseen)] if self.manifests and not self.spec_file else []
            raise NothingToDrill("\n".join(lines))
        return [layer.name for layer in path.layers]

    def _find_kill_path(self) -> KillPath:
        if self.spec is not None:
            return specfile.load(self.spec)
        if is_kind(self.on):
            from killcheck.cluster.kind import SPEC

            return specfile.load(SPEC)
        if self.on == ENVTEST and not (self.manifests or self.fixture):
            from killcheck.cluster.kind import SPEC

            return replace(
                specfile.load(SPEC), name=ENVTEST, proof=frozenset({Proof.P1})
            )  # nothing takes nodes away there
        if self.real and self.on != ENVTEST:
            raise SessionError(
                f"there is no killcheck.yaml here or above, and {self.on} takes a spec that names what may be touched: "
                f"killcheck init --on {self.on} writes one"
            )
        if self.manifests:
            with self.reading():
                loaded = self._loaded = self._loaded or self.load(schemas=False)
                # Fences and findings need no layer; what misses is drilled, for that is what would run at night.
                found = self._discovered(loaded)
            if self._objects is None:
                schemas = bool(found.kill_path.layers) and any(o.get("kind") == r.CRDS.kind for o in loaded.objects)
                self._take(self.load() if schemas else loaded)  # megabytes of them are for a cluster alone
            self.notes += found.notes
            self._not_understood = found.not_understood
            self._watching = found.timeless  # they run; a drill of their own wants to know after how long they act
            self.notes += [_TIMELESS.format(ref) for ref in found.timeless]
            return replace(found.kill_path, layers=found.written)
        if not self.fixture:
            raise SessionError(NO_SPEC)
        import killcheck.fixtures as fixtures  # noqa: PLR0402 - mypy cannot follow the mapped package

        return specfile.load(fixtures.path(self.fixture) / "killcheck.yaml")

    def _discovered(self, loaded: Loaded) -> Discovery:
        """By reading; where that does not tell what turns everything off, by what its programs were seen to do.

        Raises DiscoveryError.
        """
        from killcheck.discover import DiscoveryError, from_objects

        by = partial(from_objects, loaded, complete=False, strays=True)
        try:
            found = by(rehearsed=known(loaded, wall_now(), self.folders, fire=False))
        except DiscoveryError:
            if self.exec_mode != "host":
                raise
        else:
            if self.exec_mode != "host" or not found.uncovered:
                return found
        return by(rehearsed=self.rehearsal(loaded, self.kubernetes_version))

    def rehearsal(self, loaded: Loaded, kubernetes_version: str) -> dict[str, Rehearsed]:
        """What the programs of the manifests were seen to do, fired once for a session.

        Raises LoadError, ClusterError.
        """
        if self._rehearsed is None:
            on = kubernetes_version
            self._rehearsed = rehearsed(loaded, wall_now(), beside=self.folders, kubernetes_version=on)
        return self._rehearsed

    @property
    def objects(self) -> list[Obj]:
        """The manifests for the embedded cluster. Raises ManifestError."""
        if self._objects is None:
            if not self.manifests and not self.kill_path.in_kubernetes:
                self._objects = []
                return self._objects
            self._take(self.load())
        assert self._objects is not None
        return self._objects

    def _take(self, loaded: Loaded) -> None:
        """These are the manifests."""
        self._loaded = loaded
        self.notes += loaded.notes
        if self.manifests or loaded.unseen:
            self.notes += loaded.passed_over(spec=self.spec is not None, verbose=self.verbose)
        self._objects = [obj for obj in loaded.objects if obj.get("apiVersion") != "killcheck/v1"]
        self._objects += self._made_runs()
        accelerators.name_after(workloads.resources_of(self._objects))

    def _made_runs(self) -> list[Obj]:
        """What the manifests' own GPU CronJobs would have running."""
        from killcheck.discover import made_runs

        return made_runs.of(self._loaded.objects) if self._loaded is not None and self.manifests else []

    @property
    def loaded(self) -> Loaded | None:
        """The manifests with their files and lines, as far as they were read."""
        return self._loaded

    @property
    def spec_file(self) -> Path | None:
        """The file that declares the kill path; None where it was found in manifests or on a cluster."""
        if self.spec is not None or not self.fixture:
            return self.spec
        import killcheck.fixtures as fixtures  # noqa: PLR0402 - mypy cannot follow the mapped package

        return fixtures.spec(self.fixture)

    @property
    def inventory(self) -> Inventory:
        """The manifests as the ledgers of its drills take them; what is found out about them is found out once."""
        objects = self.objects
        if self._inventory is None:
            told = {one for one, _ in self.refused}
            not_read = [(one.place, one.why) for one in self.unseen if one.undermines and one not in told]
            refused = [(obj, one.why) for one, obj in self.refused]
            drilled = self._with_monitors(objects)  # a ledger knows by the mark whose program was to run
            self._inventory = Inventory(drilled, loaded=self._loaded, not_read=not_read, refused=refused)
        return self._inventory

    def load(self, *, schemas: bool = True) -> Loaded:
        """The manifests, with what of them was passed over. Raises ManifestError.

        ``schemas``: those of CustomResourceDefinitions too, for a cluster.
        """
        from killcheck.discover.shapes import sound

        loaded = manifests.load(
            self.folders,
            strict=self.strict,
            exclude=self.exclude,
            schemas=schemas,
            values=self.values,
            sets=self.sets,
            renderings=self._renderings,
        )
        return loaded if self.strict else sound(loaded)

    @property
    def unseen(self) -> tuple[Skipped, ...]:
        """What of the manifests was passed over and may hold GPUs, or a switch. Raises ManifestError."""
        return self._loaded.unseen if not self.real and self.objects is not None and self._loaded else ()

    @property
    def configured(self) -> list[Obj]:
        """Documents of the manifests that no API server keeps, and that say which machines a cluster has (eksctl's)."""
        return [one.document for one in self._passed_over if one.document is not None]

    def unevaluated(self, known: Collection[Path] = ()) -> list[str]:
        """Where, in what was passed over, there may be something that launches machines; ``known``: files that are read
        by themselves (catalogues)."""
        files = {file.resolve() for file in known}
        unread = [one.place for one in self.unseen if one.may_launch]
        unread += [
            f"{made} ({one.place})"
            for one in self._passed_over
            for made in one.launching
            if not files or Path(one.file).resolve() not in files
        ]
        if self.real or self._loaded is None:
            return unread
        programs = program_files.making(self.folders, self.exclude)
        return [*unread, *programs, *gitops_sources.elsewhere(self.objects, self.folders)]

    @property
    def costing(self) -> list[str]:
        """Where, in what was passed over, there is something that launches machines without GPUs."""
        costs = [f"{made} ({one.place})" for one in self._passed_over for made in one.costing]
        programs = () if self.real or self._loaded is None else program_files.costing(self.folders, self.exclude)
        return [*costs, *programs]

    @property
    def _passed_over(self) -> Sequence[Skipped]:
        return self._loaded.skipped if not self.real and self.objects is not None and self._loaded else ()

    def reading(self) -> AbstractContextManager[None]:
        """While what was loaded is read: raises ManifestError where it stumbles over a manifest of a wrong shape."""
        from killcheck.discover.shapes import read_as_typed

        return read_as_typed(lambda: self._loaded)

    @property
    def folders(self) -> list[Path]:
        """The files and folders that the manifests are in. Raises SessionError where a spec of one's own has none."""
        import killcheck.fixtures as fixtures  # noqa: PLR0402 - mypy cannot follow the mapped package

        if self.spec is None and not (self.manifests or self.fixture or self.real):
            raise SessionError(NO_SPEC)
        if not self.shipped_spec and not self.manifests and not self._beside():
            raise SessionError(
                f"{self.spec}: there are no manifests beside it that the embedded cluster could be made of: "
                "give them with --manifests, or name a cluster with --on"
            )
        return list(self.manifests) or self._beside() or [fixtures.path(self._fixture_of_spec() or self.fixture)]

    def _beside(self) -> list[Path]:
        """The folder of a spec of the user's own, where manifests lie beside it."""
        if self.spec is None or self._fixture_of_spec():
            return []
        from killcheck.spec.specfile import accepted

        folder = self.spec.parent
        others = (
            file
            for file in Folders(self.exclude).files(folder)
            if os.path.realpath(file) != os.path.realpath(self.spec)  # of links in a circle too
            and file.name != accepted.beside(self.spec).name
        )
        return [folder] if next(others, None) else []

    @property
    def example(self) -> bool:
        """Whether what is drilled is a shipped example, by its name: nobody's own, whatever it is called."""
        return bool(self.fixture) and not (self.spec or self.manifests or self.real)

    @property
    def shipped_spec(self) -> bool:
        """Whether the kill path that was named came with killcheck."""
        return bool(self._fixture_of_spec() if self.spec else self.fixture)

    def _fixture_of_spec(self) -> str | None:
        """The shipped kill path whose spec was named; None for a spec of the user's own."""
        import killcheck.fixtures as fixtures  # noqa: PLR0402 - mypy cannot follow the mapped package

        return fixtures.copied(self.spec) if self.spec else None

    @property
    def may_run(self) -> bool:
        """Whether the spec's programs run on this host for the embedded cluster: shipped ones do, others if asked."""
        return self.exec_mode in ("auto", "host", "unisolated") or (
            self.exec_mode is None and self.shipped and self.shipped_spec
        )

    @contextmanager
    def cluster(self, planned: PlannedDrill | None = None) -> Iterator[tuple[Cluster, KillPath]]:
        """A cluster for one drill: a fresh embedded one, or the real one. Raises ClusterError, KubeError."""
        example = planned.fixture if planned else ""
        session = Session(fixture=example, kubernetes_version=self.kubernetes_version) if example else self
        with gpus.as_said(session.kill_path.accelerators), session._cluster(planned, self) as cluster:
            yield cluster, session.kill_path

    @contextmanager
    def _cluster(self, planned: PlannedDrill | None, named: Session) -> Iterator[Cluster]:
        """One that is equipped; ``named``: the session that the user named, which may be another's example."""
        from killcheck.cluster.equipment import equip

        cluster = self._connect() if named.real else self._embedded(planned)
        try:
            equip(cluster, self.kill_path, allowed=self.may_run, layer=planned.layer if planned else "")
            if self.kill_path.cloud is not None:
                from killcheck.cluster.cloudword import equip_with_cloud

                equip_with_cloud(cluster, self.kill_path, any_command=named.allow_commands)
            yield cluster
        finally:
            cluster.close()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the cluster has to act on besides its API; asked once. Raises ClusterError, KubeError."""
        if self._capabilities is None:
            with self.cluster() as (cluster, _):
                self._capabilities = cluster.capabilities.names
        return self._capabilities

    def modelled(self, planned: PlannedDrill) -> Cluster:
        """A fresh embedded cluster on which the API calls that reading finds in executors are made, and none runs.

        Whoever asks closes it. Raises what :attr:`kill_path` and :attr:`objects` do, and ClusterError.
        """
        self.kill_path, self.inventory  # noqa: B018 - read once here, and handed on
        return replace(self, exec_mode="model")._embedded(planned)

    def _connect(self) -> Cluster:
        if is_docker(self.on):
            from killcheck.cluster.docker import DockerCluster

            return DockerCluster(self.on, self.kill_path)
        if is_kind(self.on):
            from killcheck.cluster.kind import KindCluster

            return KindCluster(self.on, KIND_FOLDER)
        if self.on == ENVTEST:
            return self._envtest()
        from killcheck.cluster.host import NAME, HostCluster
        from killcheck.cluster.kubeconfig import KubeconfigCluster

        if self.on == NAME:
            if self.kill_path.in_kubernetes:
                raise SessionError(
                    f"--on {NAME} is this machine, and {self.kill_path.name} is in Kubernetes: name a context"
                )
            return HostCluster()
        return KubeconfigCluster(self.on, kubeconfig=self.kubeconfig)

    def _envtest(self) -> Cluster:
        from killcheck.cluster.envtest import EnvtestCluster
        from killcheck.cluster.hollow_nodes import pool_labels

        path, own = self.kill_path, self.spec is None and not (self.manifests or self.fixture)
        objects = manifests.load([KIND_PATH]).objects if own else self.objects
        mode = "host" if self.exec_mode in ("auto", "host") or (self.exec_mode is None and own) else "none"
        pools = [pool_labels(pool, {}) for pool in path.nodes]
        return EnvtestCluster(objects, pools=pools, home=path.consent.namespaces[0], exec_mode=mode)

    def _embedded(self, planned: PlannedDrill | None) -> Cluster:
        from killcheck.cluster.embedded import EmbeddedDrillCluster
        from killcheck.cluster.rental_market import HUNG
        from killcheck.embedded import LoadError

        mode = self.exec_mode or ("shipped" if self.shipped else "none")
        self.kill_path  # noqa: B018 - found in all that could be read, before anything is passed over
        objects = as_drilled(self.kill_path, self.objects, self.kill_path.layer(planned.layer) if planned else None)
        hung = objects is not self.objects
        objects = self._with_monitors(objects)
        try:
            with self.reading():
                cluster = EmbeddedDrillCluster(
                    objects,
                    exec_mode=mode,
                    start=night(self.kill_path, self.objects, planned),
                    inventory=self.inventory,
                    kubernetes_version=self.kill_path.kubernetes_version,
                )
        except LoadError as error:
            for one in error.refused:
                self._pass_over(one)
            return self._embedded(planned)
        cluster.embedded.notes += [
            Assumption(f"{one.place}: not read: {one.why}", str(one.place)) for one, _ in self.refused
        ]
        if hung:
            cluster.embedded.notes.append(HUNG)
        return cluster

    def _pass_over(self, error: LoadError) -> None:
        """Go on without an object that the API server refuses. Raises ManifestError for what the kill path names."""
        loaded = self._loaded
        found = loaded.find(error.obj) if loaded else None
        if loaded is None or found is None:
            raise error
        if self.strict or self._names(found.obj):
            raise manifests.ManifestError([Problem(found.file, found.line, "", str(error))]) from error
        named = names_accelerators(str(found.obj))
        refused = Skipped(found.file, found.line, str(error), Cause.REFUSED, named, of=kind_of(found.obj))
        kept = tuple(manifest for manifest in loaded.manifests if manifest is not found)
        self._loaded = replace(loaded, manifests=kept, skipped=(*loaded.skipped, refused))
        self._objects = [obj for obj in self.objects if obj is not found.obj]
        self.refused.append((refused, found.obj))
        self._inventory = None  # what is rested on is what was taken

    def _names(self, obj: Obj) -> bool:
        """Whether the kill path names an object."""
        refs = [target.ref for target in self.kill_path.targets] + [layer.ref for layer in self.kill_path.layers]
        own = (obj.get("kind"), namespace_of(obj) or "default", dig(obj, "metadata", "name"))
        return any((ref.kind, ref.namespace, ref.name) == own for ref in refs if ref is not None)

    def _with_monitors(self, objects: list[Obj]) -> list[Obj]:
        """The same with idle monitors that are workloads as what they are: executors, whose programs run; and with
        loops beside them that are read to write to a target."""
        from killcheck.rehearsal.loops import watchers

        long_running = (LayerType.IDLE_MONITOR, LayerType.DEAD_MAN)
        watching = [layer.workload for layer in self.kill_path.layers if layer.type in long_running]
        modelled = {(namespace_of(o), name_of(o)) for o in objects if downtimes.is_downscaler(o)}
        modelled |= {(ref.namespace, ref.name) for ref in watching if ref and ref.kind == "SleepInfo"}
        watching = [ref for ref in watching if ref and (ref.namespace, ref.name) not in modelled]
        named = {(ref.kind, ref.namespace, ref.name) for ref in (*watching, *self._watching) if ref is not None}
        named |= {(o["kind"], namespace_of(o), name_of(o)) for o in watchers(objects, self.kill_path.targets)}
        return (
            [
                marked(o, "true") if (o.get("kind"), namespace_of(o), dig(o, "metadata", "name")) in named else o
                for o in objects
            ]
            if named
            else objects
        )


_TIMELESS = (
    "{} turns targets off by a watch of its own, and is not drilled: after how long is not said. Name it under layers "
    "as an idle-monitor, with its workload and idle; if it goes by the time of day, as a dead-man, with its workload"
)


def _thrown_away(path: KillPath) -> KillPath:
    """The same with consent to all that it names, on a cluster that is made for it and gone after the run."""
    named = {t.namespace for t in path.targets} | {one.ref.namespace for one in path.layers if one.ref}
    spaces = (*path.consent.namespaces, *sorted(filter(None, named - set(path.consent.namespaces))))
    pools = tuple(pool.name for pool in path.nodes)
    consent = replace(path.consent, namespaces=spaces or ("default",), pools=pools, contexts=(ENVTEST,), any_node=True)
    return replace(path, consent=consent)
