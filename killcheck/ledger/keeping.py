"""Keeping the ledger of a drill: every object of an inventory gets its entry, and what the cluster itself says too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time

from killcheck.capabilities.cluster import Cluster
from killcheck.capabilities.inventory import Inventory
from killcheck.capabilities.ran import Ran
from killcheck.clock import wall_now
from killcheck.embedded import keda_triggers
from killcheck.entries import Assumption, Becomes, Entry, Ledger, Status, leaves
from killcheck.instances.provided import is_provided
from killcheck.kube import blame, cron_workflows, downtimes
from killcheck.kube import program_images as images
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.custom_holders import REFERENCES
from killcheck.kube.furniture import is_gitops
from killcheck.kube.machineless import StoodIn
from killcheck.kube.manifests import STUMBLES
from killcheck.kube.objects import Obj, annotations_of, controller_of, dig, labels_of, name_of, ref_of
from killcheck.kube.workloads import devices_of, root_of
from killcheck.ledger import (
    admission,
    clocked_requests,
    doubted,
    engines,
    gitops,
    growing,
    injection,
    keda_credentials,
    kinds,
    kyverno,
    left_on,
    lint_errors,
    network_policies,
    other_clusters,
    outside,
    outsiders,
    placing,
    pulls,
    taken_away,
    unrendered,
    unseen,
    workloads,
)
from killcheck.ledger.assume import settled
from killcheck.ledger.references import bookkeeping, concern, gpus_in
from killcheck.ledger.stakes import Held, Stakes, home_of, scaled_by
from killcheck.safety.changes import LABEL
from killcheck.spec.killpath import KillPath, Layer
from killcheck.text import lazy_re
from killcheck.watch import starts

__all__ = ["keep", "of_drill", "told_by_cluster"]

_SETTLES = (
    "drill it on a cluster where its controller runs (--on CONTEXT), or say under assume: why it turns nothing on"
)
_MENDED = "render it or mend it, leave it out with --exclude, or say under assume: what it is"
#: Built-in kinds that hold pods up, and with them a switch: with one more a Job may not start, or reach nobody.
_BOUNDS = frozenset({"LimitRange", "ResourceQuota", "NetworkPolicy", "PodDisruptionBudget", "Namespace"})
#: How a host tells of a container whose image alone says what it starts.
_OF_AN_IMAGE = lazy_re.compile(r"what image (\S+) starts is not known")
#: Why a pod of a real cluster did not run its program.
_HOLLOW = "its node has no machine"
#: What programs make that goes on after them.
_RUNNING = (r.CRONJOBS, r.DEPLOYMENTS, r.STATEFULSETS, r.DAEMONSETS, r.JOBS, r.PODS)
#: Kinds whose programs come to an end.
_TO_AN_END = frozenset({"CronJob", "Job", "Pod"})


def of_drill(
    cluster: Cluster, kill_path: KillPath, layer: Layer, doubts: Sequence[Entry] = (), *, by: Layer | None = None
) -> Ledger:
    """The ledger of a drill in which the GPUs went off, as its cluster is now; ``doubts`` are the layer's own.

    ``by``: the layer that turned them off, where that is another one.

    Raises KubeError.
    """
    today = wall_now().date()
    kept = keep(
        cluster.inventory(),
        kill_path,
        layer,
        today=today,
        models=cluster.models(),
        by=by,
        kube=None if cluster.real else cluster.kube,
        not_run=() if cluster.real else cluster.not_run(),
        ran=cluster.ran(),
        stood_in=cluster.stood_in(),
        pulled=cluster.pulls(),
    )
    stakes = Stakes(cluster.inventory().objects, kill_path, layer, by)
    unknown = doubted.entries(cluster.doubts(), stakes)
    more = [*placing.entries(stakes, cluster.assumptions()), *doubts, *unknown]
    return kept.and_also(settled(more, kill_path.assume, today))


def keep(
    inventory: Inventory,
    kill_path: KillPath,
    layer: Layer,
    *,
    today: date,
    by: Layer | None = None,
    models: Collection[str] = (),
    kube: Kube | None = None,
    not_run: Sequence[tuple[Obj, str]] = (),
    ran: Sequence[Ran] = (),
    stood_in: Sequence[StoodIn] = (),
    pulled: bool = True,
) -> Ledger:
    """The ledger of a drill of ``layer`` in which the GPUs went off.

    ``models``: the controllers that run on the cluster; ``kube`` tells which CronJobs fired; ``not_run``: pods whose
    program could not be run, and why; ``ran``: those whose program was; ``stood_in``: pods of a real cluster that a
    model stood in for;
    ``pulled``: images came from registries there.
    """
    stakes = Stakes(inventory.objects, kill_path, layer, by)
    if not stakes.targets:
        return Ledger(tuple(settled(_unread(inventory), kill_path.assume, today)))
    book = _Book(inventory, stakes, models, kube, today=today, ran=ran, unrun=[one.root for one in stood_in])
    entries = [
        *book.entries(),
        *(book.refused(obj, why) for obj, why in inventory.refused),
        *_not_run(not_run, stakes, kube),
        *_not_run([(_as_root(one), one.not_run or _HOLLOW) for one in stood_in], stakes, None, but=book.refs),
        *(growing.entries(stakes, kube) if kube is not None else ()),
        *lint_errors.entries(inventory, stakes, pulled=pulled),
        *left_on.entries(inventory, stakes),
        *outside.entries(inventory, stakes, book.now),
        *unrendered.entries(inventory, stakes),
        *other_clusters.entries(inventory, stakes),
        *(() if inventory.live else _beyond(stakes, book.now)),
        *_unread(inventory),
    ]
    return Ledger(tuple(dict.fromkeys(settled(entries, kill_path.assume, today))))


def _beyond(stakes: Stakes, now: datetime) -> Iterator[Entry]:
    """What only a real cluster has."""
    yield from injection.entries(stakes)
    yield from unseen.entries(stakes)
    yield from pulls.entries(stakes)
    yield from outsiders.entries(stakes)
    yield from taken_away.entries(stakes, now)


def told_by_cluster(assumptions: Iterable[Assumption]) -> Iterator[Entry]:
    """What a cluster assumed of itself: images that nobody looked into, ground that it made."""
    return (Entry(said.about, Status.ASSUMED, str(said)) for said in assumptions)


def _stood_for(objects: Sequence[Obj]) -> Iterator[tuple[str, str, str]]:
    """Kind, namespace and name of what a CronJob stands for, and of the namespaced template that it is made of."""
    for obj in cron_workflows.stood_for(objects):
        yield str(obj["kind"]), home_of(obj), name_of(obj)
        template = cron_workflows.template_of(obj)
        if template is not None:
            yield template[0], template[1] or "default", template[2]


class _Book:
    """One pass over the objects."""

    def __init__(
        self,
        inventory: Inventory,
        stakes: Stakes,
        models: Collection[str],
        kube: Kube | None,
        *,
        today: date,
        ran: Sequence[Ran] = (),
        unrun: Iterable[Obj] = (),
    ) -> None:
        self.inventory = inventory
        #: What there is, and of what on a real cluster no program ran, by ref.
        self.refs = {ref_of(obj) for obj in inventory.objects}
        self._unrun = {ref_of(obj) for obj in unrun}
        self.now = datetime.combine(today, time(), UTC)
        self.stakes = stakes
        self.live = inventory.live
        self.models = models
        self.kube = kube
        #: CronWorkflows that a CronJob of the inventory stands for, and the templates that they are made of.
        self._stood_for = set(_stood_for(inventory.objects))
        #: By what made them: pods whose programs ran.
        self._began: dict[tuple[str, str, str], list[Ran]] = {}
        declared = {_key(obj) for obj in inventory.objects}
        self._made = [] if kube is None or self.live else [obj for obj in _made(kube) if _key(obj) not in declared]
        for one in ran:
            for maker in one.makers(declared | set(map(_key, self._made))):
                self._began.setdefault(maker, []).append(one)

    def entries(self) -> Iterator[Entry]:
        for held in self.stakes.targets:
            if held.obj is not None:
                yield from self._owner(held.obj, "may put its replicas back")
                yield from self._marks(held)
        for switch in self.stakes.switching():
            yield from self._owner(switch, "may make it another one, or delete it")
        for obj in (*self.inventory.objects, *self._made):
            if controller_of(obj) is None:
                yield self._entry_of(obj)

    def refused(self, obj: Obj, why: str) -> Entry:
        """The entry of a manifest that no API server takes: on a cluster it is as it was before, or not at all."""
        kind, ref = str(obj.get("kind")), ref_of(obj)
        homes = {*self.stakes.namespaces, *(one.namespace for one in self.stakes.switches)}
        bounds = kind in _BOUNDS and (name_of(obj) if kind == "Namespace" else home_of(obj)) in homes
        scales = scaled_by(obj) and any(self.stakes.scales(obj, held) for held in self.stakes.targets)
        if not (bounds or scales) and self._idle(obj):
            return Entry(ref, Status.HARMLESS, "no API server takes it, and it could turn nothing on")
        because = f"no API server takes it ({why}): what a cluster has in its place was not there"
        return Entry(ref, Status.NOT_MODELLED, because, _MENDED)

    def _idle(self, obj: Obj) -> bool:
        """Whether an object would turn nothing on, whatever became of it."""
        if str(obj.get("kind")) in kinds.INERT | _BOUNDS and kinds.is_builtin(obj):
            return True
        holds = devices_of(obj, wanted=True)
        if str(obj.get("kind")) in workloads.KINDS and kinds.is_builtin(obj):
            return not (holds or workloads.power_of(obj, self.stakes) or self.stakes.is_target(obj))
        return not (holds or gpus_in(obj) or concern(obj, self.stakes))

    def _entry_of(self, obj: Obj) -> Entry:
        """Its entry; an open one for what cannot be read."""
        try:
            return self._entry(obj)
        except STUMBLES:
            return Entry(ref_of(obj), Status.NOT_MODELLED, f"{blame.told(obj)}: it may hold anything", _SETTLES)

    def _entry(self, obj: Obj) -> Entry:
        kind, ref = str(obj.get("kind")), ref_of(obj)
        asked = None if self.live or self._seen(obj).ran else clocked_requests.asks(obj, self.stakes)
        if asked is not None:
            return Entry(ref, Status.NOT_MODELLED, f"{asked}: that it came was not seen", _SETTLES)
        if kind in workloads.KINDS and kinds.is_builtin(obj):
            own = self._own_gpus(obj) if kind == "CronJob" else None
            live = self.live and ref not in self._unrun
            return own or workloads.entry_of(obj, self.stakes, self._seen(obj), self.models, live=live)
        if kind in admission.KINDS:
            return admission.entry_of(obj, self.stakes, live=self.live)
        if kind in admission.POLICIES and not self.live and not kinds.is_served(obj):
            return admission.policy_entry(obj, self.stakes)
        unknown = (
            admission.unknown_parameters(obj, self.stakes) if kind in admission.POLICIES and not self.live else None
        )
        if unknown is not None:
            return unknown
        if is_gitops(obj):
            return gitops.entry_of(obj, self.stakes, self.models, live=self.live)
        model = kinds.model_of(obj, self.models)
        if model:
            return self._modelled(obj, model)
        if kinds.is_builtin(obj) and kind in kinds.INERT:
            return Entry(ref, Status.HARMLESS, f"a {kind} starts nothing by itself")
        why = kinds.furniture(obj)
        if not why:
            return self._unknown(obj)
        beyond = network_policies.around_a_switch(obj, self.stakes) or workloads.power_of_pods(obj, self.stakes)
        return self._open(obj, beyond) if beyond and not self.live else Entry(ref, Status.HARMLESS, why)

    def _open(self, obj: Obj, why: str) -> Entry:
        return Entry(ref_of(obj), Status.NOT_MODELLED, f"{why}, and no controller here acts on it", _SETTLES)

    def _own_gpus(self, obj: Obj) -> Entry | None:
        """The entry of a CronJob of the namespaces at stake that holds GPUs itself, unseen; None: of others."""
        path, start = self.stakes.kill_path, starts.of_cron_job(obj)
        watched = self.live or self.stakes.is_target(obj) or self._seen(obj).ran
        if watched or home_of(obj) not in path.namespaces or (start and starts.declared(path, start)):
            return None
        if dig(obj, "spec", "suspend") is True:
            waker = workloads.waker_of(obj, self.stakes) if devices_of(obj, wanted=True) else None
            because = f"it asks for GPUs and is suspended, and {ref_of(waker or {})} may let it go"
            return Entry(ref_of(obj), Status.NOT_MODELLED, because, _SETTLES) if waker else None
        return left_on.of_schedule(obj, self.now)

    def _modelled(self, obj: Obj, model: str) -> Entry:
        """By a controller here; what only a live source could tell it is assumed."""
        ref = ref_of(obj)
        if obj in self.stakes.scalers and not self.live:
            if obj.get("kind") == "HorizontalPodAutoscaler" and dig(obj, "spec", "minReplicas", default=1) == 0:
                return Entry(ref, Status.ASSUMED, "what its metrics say only a live source knows: taken to be nothing")
            formula = str(dig(obj, "spec", "advanced", "scalingModifiers", "formula", default=""))
            if formula and not keda_triggers.is_zero_of_nothing(formula):
                because = f"what its formula '{formula}' comes to while nothing is asked is not reckoned here"
                return Entry(ref, Status.NOT_MODELLED, because, _SETTLES)
            scaled = keda_triggers.target(obj)[:2]
            if obj.get("kind") == "ScaledObject" and scaled not in keda_triggers.SCALED:
                because = f"it scales a {scaled[1]}, and KEDA's model here scales none"
                return Entry(ref, Status.NOT_MODELLED, because, _SETTLES)
            types = set(keda_triggers.live(obj))
            if obj.get("kind") == "ScaledObject" and types and keda_triggers.VALUE not in annotations_of(obj):
                told = f"what its trigger {', '.join(sorted(types))} reads only a live source knows"
                if ref in self.stakes.scaling:
                    return self._taken_idle(obj, told)
                return Entry(ref, Status.MODELLED, f"{told}: taken to be active, and its target went off all the same")
        return Entry(ref, Status.MODELLED, f"{model} acts on it here")

    def _taken_idle(self, scaler: Obj, told: str) -> Entry:
        """A layer's own: whether its source lets KEDA read it at all is assumed too, where nothing says otherwise."""
        gone = keda_credentials.absent(scaler, self.stakes.objects)
        if gone is not None:
            because = f"TriggerAuthentication {gone} is not here: KEDA scales nothing in by what it cannot read"
            return Entry(ref_of(scaler), Status.NOT_MODELLED, because, _SETTLES)
        secrets = keda_credentials.absent_secrets(scaler, self.stakes.objects)
        by = f", and to be read with Secret {', '.join(secrets)}, which is not here" if secrets else ""
        return Entry(ref_of(scaler), Status.ASSUMED, f"{told}: taken to be idle{by}")

    @leaves("scale to zero", "InterceptorRoutes of KEDA's HTTP add-on", Becomes.OPEN)
    def _unknown(self, obj: Obj) -> Entry:
        """A kind that nobody here knows: by what it says."""
        ref = ref_of(obj)
        held = self.stakes.is_target(obj)
        if held is not None:
            return Entry(ref, Status.MODELLED, "a target: its pods are counted")
        if (str(obj.get("kind")), home_of(obj), name_of(obj)) in self._stood_for:
            return Entry(ref, Status.MODELLED, "a CronJob stands for it here: its clock, account and programs")
        if not self.live and is_provided(obj):
            return Entry(ref, Status.MODELLED, "its machines and its provider's autoscaler are modelled")
        decided = kyverno.is_policy(obj)
        why = kyverno.concern(obj, self.stakes) if decided else None
        if not decided or kyverno.acts_elsewhere(obj):
            why = why or self._misread(obj) or concern(obj, self.stakes)
            why = why or (None if self._waits(obj) else gpus_in(obj))
            why = why or workloads.power_of(obj, self.stakes) or engines.about_a_switch(obj, self.stakes)
            why = why or network_policies.around_a_switch(obj, self.stakes)
        if not why:
            return Entry(ref, Status.HARMLESS, "it names no target, selects none, and none of their node pools")
        if self.live:
            return Entry(ref, Status.EXECUTED, f"{why}; its controller runs on this cluster and was watched")
        return self._open(obj, why)

    def _waits(self, obj: Obj) -> bool:
        """Whether it is a pattern of servers, and nothing here is served by one: it holds none."""
        users = {row.kind for row in REFERENCES if obj.get("kind") in row.kinds}
        served = users and users <= {"InferenceService", "LLMInferenceService"}
        return bool(served) and not any(one.get("kind") in users for one in self.stakes.objects)

    def _misread(self, obj: Obj) -> str | None:
        """That its words are another version's, where it may speak of a target: in its namespace, or of all of them."""
        home = str((obj.get("metadata") or {}).get("namespace") or "")
        return kinds.misread(obj) if not home or home in self.stakes.namespaces else None

    def _owner(self, target: Obj, power: str) -> Iterator[Entry]:
        """Who owns a target may put back what a layer writes; who owns a switch has it in hand."""
        owner = controller_of(target)
        if owner is None or self.live:
            return
        stub: Obj = {"apiVersion": owner.get("apiVersion"), "kind": owner.get("kind"), "metadata": {}}
        known = kinds.is_builtin(stub) or kinds.model_of(stub, self.models)
        if not known:
            ref = "/".join((str(owner.get("kind")), home_of(target), str(owner.get("name"))))
            yield Entry(
                ref,
                Status.NOT_MODELLED,
                f"it owns {ref_of(target)} and {power}, and no controller here acts on it",
                _SETTLES,
            )

    def _marks(self, held: Held) -> Iterator[Entry]:
        """A target that says of itself that something outside the manifests keeps it."""
        sources = any(map(is_gitops, self.inventory.objects))
        clocked = any(map(downtimes.is_downscaler, self.inventory.objects))  # a model reads its marks
        for mark, who, of_git in bookkeeping(held, self.stakes.namespace(held.namespace)):
            known = clocked and mark.startswith("downscaler/")
            if not self.live and not known and not (sources and of_git):
                yield Entry(
                    str(held),
                    Status.NOT_MODELLED,
                    f"it, or its namespace, carries {mark}: {who} may turn it on again, and is in no manifest",
                    _SETTLES,
                )

    def _seen(self, obj: Obj) -> workloads.Seen:
        """What a drill here saw of a workload's program; a layer's own executor was judged by the drill."""
        if self.live or self.kube is None:
            return workloads.Seen(meant=self._meant(obj))
        home, name = home_of(obj), name_of(obj)
        pods = self._began.get((str(obj.get("kind")), home, name), [])
        layer = self.stakes.layer
        drilled = layer.ref is not None and (layer.ref.namespace, layer.ref.name) == (home, name)
        if drilled and obj.get("kind") in _TO_AN_END:
            return workloads.Seen(ran=True)
        began = not pods and obj.get("kind") in _TO_AN_END and self._was_made(obj)
        unanswered = next((said for one in pods for said in one.unanswered if not self._meant(obj)), "")
        waits = obj.get("kind") in _TO_AN_END and any(map(self._runs_on, pods))
        return workloads.Seen(bool(pods), began, unanswered, waits, meant=self._meant(obj))

    def _runs_on(self, one: Ran) -> bool:
        """Whether a pod's program runs still, as its cluster is now."""
        found = self.kube.find(r.PODS, name_of(one.pod), home_of(one.pod)) if self.kube is not None else None
        return str(dig(found or {}, "status", "phase", default="")) == "Running"

    def _meant(self, obj: Obj) -> bool:
        """Whether a CronJob is a start that the spec declares, or that is plainly the morning's."""
        start = starts.of_cron_job(obj) if obj.get("kind") == "CronJob" else None
        if start is None:
            return False
        stops = outside.stops_of(self.stakes)
        return starts.declared(self.stakes.kill_path, start) or starts.is_morning(start, stops, self.now)

    def _was_made(self, obj: Obj) -> bool:
        """Whether a Job, or a Pod, of a workload was made here at all."""
        if obj.get("kind") == "Pod":
            return True
        for job in self.kube.list(r.JOBS, home_of(obj)).items if self.kube is not None else ():
            owner = controller_of(job) or {}
            if name_of(obj) in (name_of(job), owner.get("name") if owner.get("kind") == obj.get("kind") else ""):
                return True
        return False


def _key(obj: Obj) -> tuple[str, str, str]:
    return str(obj.get("kind")), home_of(obj), name_of(obj)


def _made(kube: Kube) -> Iterator[Obj]:
    """What schedules or runs programs on a cluster now, apart from killcheck's own: programs may have made some."""
    for resource in _RUNNING:
        for obj in kube.list(resource).items:
            if controller_of(obj) is None and LABEL not in labels_of(obj):
                yield {"apiVersion": resource.api_version, "kind": resource.kind} | obj


def _as_root(one: StoodIn) -> Obj:
    """A pod that stands for what it belongs to: nobody need be asked for its owners."""
    root = {key: one.root.get(key) for key in ("apiVersion", "kind")}
    owner = root | {key: one.root["metadata"].get(key) for key in ("name", "uid")} | {"controller": True}
    owners = [] if one.root is one.pod else [owner]
    return one.pod | {"metadata": one.pod["metadata"] | {"ownerReferences": owners}}


def _not_run(
    not_run: Sequence[tuple[Obj, str]], stakes: Stakes, kube: Kube | None, *, but: Collection[str] = ()
) -> Iterator[Entry]:
    """Pods whose program was to run and could not be: what matters is what they may write. ``but``: told elsewhere."""
    seen = set(but)
    for pod, why in not_run:
        root = root_of(pod, lambda owner, namespace: _owner_of(kube, owner, namespace))
        if ref_of(root) in seen or stakes.is_target(root):
            continue
        beside = _OF_AN_IMAGE.search(why)
        if beside and images.is_bystander(beside[1]):
            because = (
                f"image {beside[1]} stands beside it and did not run: taken to act on nothing, and not to be waited for"
            )
            yield Entry(ref_of(root), Status.ASSUMED, because)
            continue
        seen.add(ref_of(root))
        template = {"apiVersion": "v1", **pod, "kind": "Pod"}
        power = workloads.power_of(template, stakes)
        if not power or workloads.harmless_by_reading(template, stakes):
            yield Entry(ref_of(root), Status.HARMLESS, f"its program was not run ({why}), and turns nothing on")
        else:
            yield Entry(ref_of(root), Status.NOT_MODELLED, f"{power}, and its program was not run: {why}", _SETTLES)


def _owner_of(kube: Kube | None, owner: Obj, namespace: str) -> Obj | None:
    resource = r.by_kind(str(owner.get("apiVersion")), str(owner.get("kind")))
    return kube.find(resource, str(owner.get("name")), namespace) if kube and resource else None


def _unread(inventory: Inventory) -> Iterator[Entry]:
    """Documents that were passed over, and kinds that could not be listed."""
    for where, why in inventory.not_read:
        yield Entry(
            where,
            Status.NOT_MODELLED,
            f"it was not read ({why}): it may hold anything",
            _MENDED,
        )
    if inventory.unread:
        why = next(iter(inventory.unread.values()))
        yield Entry(
            ", ".join(inventory.unread),
            Status.EXECUTED,
            f"not listed ({why}): whatever they did on this cluster ran while the drill watched",
            told=True,
        )
