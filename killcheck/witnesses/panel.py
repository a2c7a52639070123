"""Who else is asked whether the GPUs are off: the cloud (P3), the alarm (P5), the bucket in which results must be.

What may *not* live here: verdicts (:mod:`killcheck.drill` judges), how a cloud is asked (:mod:`killcheck.cloud`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec import Struct

from killcheck.alerting.chain import Chain
from killcheck.alerting.loading import Loading, as_loaded, recorded, scrapes, seen
from killcheck.alerting.rules import Evaluated, Record, Rule, rules_of
from killcheck.alerting.servers import agents
from killcheck.capabilities.cluster import Cluster
from killcheck.cloud.billed import ghosts, names_instances
from killcheck.cloud.instances import Ec2, OwnClouds
from killcheck.cloud.results import Results
from killcheck.cloud.returning import members, returning
from killcheck.cloud.session import AskError
from killcheck.entries import Becomes, leaves
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.resources import Resource
from killcheck.spec.cloud_access import Alarm
from killcheck.spec.killpath import KillPath, Layer, LayerType, Proof
from killcheck.text.values import replace
from killcheck.watch.scene import Scene
from killcheck.watch.timeline import Timeline
from killcheck.witnesses.alarms import evaluate, rings_anyway
from killcheck.witnesses.exported import Exporters, allowed_labels, samples
from killcheck.witnesses.series import History

__all__ = ["Lack", "Unproven", "Witnesses"]


#: The Prometheus operator's API.
_OPERATOR = "monitoring.coreos.com/v1"
#: How long a machine may take from its launch until a Node stands for it, in seconds.
JOIN_S = 120.0


class Unproven(Exception):
    """A witness that the proof needs could not be asked, or said nothing; the message names it."""


class Lack(Struct, frozen=True):
    """Something of the proof that is definitely not so. ``stuck_at`` names it in a word."""

    stuck_at: str
    cause: str
    remedy: str
    evidence: tuple[str, ...] = ()
    failures: tuple[int, ...] = ()


class Witnesses:
    """The witnesses of one drill."""

    def __init__(self, cluster: Cluster, kill_path: KillPath, layer: Layer, scene: Scene) -> None:
        self.cluster = cluster
        self.kill_path = kill_path
        self.scene = scene
        self._wants_cloud = Proof.P3 in kill_path.proof and any(t.kind for t in kill_path.covered_by(layer))
        self.instances = cluster.capabilities.instances
        #: A reclaimed machine's place is to be taken by the next.
        self._replaced = layer.type is LayerType.SPOT_HANDLER
        aws = cluster.capabilities.aws
        urls = kill_path.cloud.results if kill_path.cloud else ()
        self._wants_alarm = Proof.P5 in kill_path.proof
        self._wanted = kill_path.alarm or Alarm()
        self._rules: list[Rule] | None = None
        self._records: list[Record] = []
        #: Who is told of what fires.
        self._chain = Chain()
        self._exporters = Exporters(discovered=cluster.real)
        self._histories: list[History] = []
        self.results = Results(aws, urls) if aws is not None and urls else None
        self._aws = aws
        #: Machines that a Node or NodeClaim stood for before the trigger: on without one now, they may be on their way
        #: out, which proves nothing either way.
        self._stood: set[str] = set()
        #: Who was in the machines' Auto Scaling groups before the trigger, by (region, group).
        self._groups: dict[tuple[str, str], Collection[str]] = {}

    # -- before --------------------------------------------------------------------------------------------
    def preflight(self) -> None:
        """Every witness can be asked, and says what it must before a drill. Raises Unproven."""
        if self._wants_cloud:
            for node in self.scene.pool_nodes():
                state = self.cluster.instance_state(node)
                if state == "unknown":
                    raise Unproven(self._why_unknown(name_of(node)))
                if state != "running":
                    raise Unproven(
                        f"P3 unproven: the cloud says {state} of {dig(node, 'spec', 'providerID')}, on which node "
                        f"{name_of(node)} runs"
                    )
            self._remember_groups()
            self._asked_for_ghosts(self.cluster.loop.now())  # what cannot be asked is found out before the trigger
            self._stood = set(self._provider_ids())
        if self.results is not None:
            try:
                self.results.remember()
            except AskError as error:
                raise Unproven(f"whether results are in S3 cannot be seen: {error}") from error

        if self._wants_alarm or self.kill_path.alarm:
            self._rules = self._alerts()

    def _remember_groups(self) -> None:
        """Who is in the machines' groups before anything is turned off. Raises Unproven."""
        word = self._ec2()
        if word is None:
            return
        try:
            for region, there in self._by_region(word, word.described):
                self._groups |= {(region, name): ids for name, ids in members(word.at(region), there).items()}
        except AskError as error:
            raise Unproven(f"P3 unproven: whether an instance comes back cannot be seen: {error}") from error

    def _ec2(self) -> Ec2 | None:
        """Who is asked what brings machines back; None where nobody is, or where the next one is to come."""
        word = self.instances.word if self.instances is not None else None
        return word.ec2 if isinstance(word, OwnClouds) and not self._replaced else None

    def _alerts(self) -> list[Rule]:
        kube = self.cluster.kube
        try:
            resource = kube.resource_for(_OPERATOR, "PrometheusRule")
            objects = kube.list(resource).items
        except NotFound:
            return []
        except KubeError as error:
            if self._wants_alarm:
                raise Unproven(f"P5 unproven: the alert rules cannot be read: {error}") from error
            return []
        manifests = () if self.cluster.real else self.cluster.inventory().objects
        return self._read(rules_of(objects, self._wanted), objects, manifests) if objects else []

    def _read(self, rules: list[Rule], objects: Sequence[Obj], manifests: Sequence[Obj]) -> list[Rule]:
        """The rules, each with who loads, evaluates and sends it, as far as that was seen."""
        spaces = {name_of(one): labels_of(one) for one in self._listed(r.NAMESPACES)}
        services, monitors = self._listed(r.SERVICES), self._custom("ServiceMonitor", "PodMonitor")
        found = seen(self._custom("Prometheus", "ThanosRuler"), monitors, services, spaces)
        scraped = found[0].scrapes if found else scrapes(None, monitors, services, spaces)
        managers = [] if self.cluster.real else self._custom("Alertmanager")  # whose Secrets no drill there reads
        self._chain = Chain(found, manifests, managers, services, spaces)
        self._records = recorded(objects, found, spaces)
        self._exporters = Exporters(self._labels(), discovered=self.cluster.real, scrapes=scraped)
        none = agents([*self._custom("PrometheusAgent"), *manifests]) if not found else []
        return as_loaded(rules, objects, Loading(found, spaces, self._records, scraped, none))

    def _custom(self, *kinds: str) -> list[Obj]:
        """Objects of the operator's: those of the manifests that it was made of, or of the cluster."""
        manifests = () if self.cluster.real else self.cluster.inventory().objects
        found = [
            obj
            for obj in manifests
            if obj.get("kind") in kinds and str(obj.get("apiVersion", "")).startswith(_OPERATOR)
        ]
        for kind in kinds if not found else ():
            with suppress(KubeError):  # none are served, or none may be seen
                version = f"{_OPERATOR}alpha1" if kind == "PrometheusAgent" else _OPERATOR
                found += self.cluster.kube.list(self.cluster.kube.resource_for(version, kind)).items
        return found

    def _listed(self, resource: Resource) -> list[Obj]:
        try:
            return list(self.cluster.kube.list(resource).items)
        except KubeError:
            return []

    def _labels(self) -> dict[str, frozenset[str]] | None:
        """Which labels kube-state-metrics exports; None where it is not seen."""
        try:
            return allowed_labels(self.cluster.kube.list(r.DEPLOYMENTS).items)
        except KubeError:
            return None

    @leaves("clouds", "what bills of GCP and Azure without a Node, or brings a machine back there", Becomes.UNSEEN)
    def _why_unknown(self, node: str) -> str:
        if self.instances is None:
            return (
                f"P3 is wanted, and nobody says whether the instance behind node {node} bills: give the spec a "
                "cloud: section"
            )
        return self.instances.problem or f"P3 unproven: the cloud says nothing of the instance behind node {node}"

    # -- meanwhile -----------------------------------------------------------------------------------------
    def begin(self, now: datetime) -> None:
        """The trigger is pulled: what is on is taken to be idle from now on."""
        if self._rules is not None:
            taken = self._exporters.labels is None
            kept = "dcgm-exporter" not in self._exporters.scrapes
            self._histories = [
                History(now, stay_on=stay, labels_taken=taken, honours_taken=kept) for stay in (False, True)
            ]
            self.sample(now)

    def sample(self, now: datetime) -> None:
        """Something has changed."""
        if not self._histories:
            return
        held = {(pod.namespace, pod.name) for pod in self.scene.gpu_pods()}
        pods = [pod for pod in self.scene.pods.values() if (namespace_of(pod), name_of(pod)) in held]
        targets = [obj for t in self.kill_path.targets if t.kind for obj in self.scene.objects_of(t)]
        told = list(samples(pods, self.scene.pool_nodes(), self.scene.jobs.values(), targets, self._exporters))
        for history in self._histories:
            history.record(now, told)

    # -- after ---------------------------------------------------------------------------------------------
    def unknown(self, missing: str) -> Iterable[str]:
        """Why it is not known whether phase ``missing`` was reached."""
        if missing == "instance_gone" and self.instances is not None and self.instances.problem:
            yield self.instances.problem

    def lack(self, timeline: Timeline, now: datetime) -> Lack | None:
        """What of the proof is not so although everything is off. Raises Unproven."""
        return (
            self._ghosts(now)
            or self._back()
            or self._lost_results()
            or (self._silent(now) if self._wants_alarm else None)
        )

    def _back(self) -> Lack | None:
        """What was off is on again, or something brings it back, or bills in its place."""
        asked = self.instances
        if not self._wants_cloud or asked is None:
            return None
        again = asked.on_again()
        if asked.problem:
            raise Unproven(asked.problem)
        if again:
            return Lack(
                "instance_gone",
                f"{again[0]} was off, and is on again ({len(again)} instance(s) are)",
                "Terminate it, and whatever started it: stopped machines can be started by anybody.",
                tuple(again),
                (50,),
            )
        word = self._ec2()
        if word is None:
            return None
        try:
            found = list(self._returning(word, asked.gone & word.described.keys()))
        except AskError as error:
            raise Unproven(f"P3 unproven: whether an instance comes back cannot be seen: {error}") from error
        if not found:
            return None
        return Lack(
            "instance_gone",
            f"the bill goes on: {found[0][0]}",
            found[0][1],
            tuple(what for what, _ in found),
            (45, 50, 51),
        )

    def _returning(self, word: Ec2, gone: Collection[str]) -> Iterable[tuple[str, str]]:
        for region, there in self._by_region(word, gone):
            before = {name: ids for (where, name), ids in self._groups.items() if where == region}
            yield from returning(word.at(region), there, before)

    @staticmethod
    def _by_region(word: Ec2, provider_ids: Collection[str]) -> Iterable[tuple[str, list[Mapping[str, Any]]]]:
        for region in sorted({word.region(one) for one in provider_ids}):
            yield region, [word.described[one] for one in sorted(provider_ids) if word.region(one) == region]

    def _ghosts(self, now: datetime) -> Lack | None:
        """Machines of the cluster that are on although nothing in it stands for them: no Node, no NodeClaim."""
        found = self._asked_for_ghosts(now) if self._wants_cloud else []
        if not found:
            return None
        unproven = [message for message, known in found if not known]
        if len(unproven) == len(found):
            raise Unproven(f"P3 unproven: {'; '.join(unproven)}")
        told = [message for message, known in found if known]
        return Lack(
            "instance_gone",
            f"a ghost bills: {'; '.join(told)}",
            "End it once you know what left it (aws ec2 terminate-instances), and find out why its Node went without "
            "it: a stripped finalizer, a Node deleted by hand, a machine that never joined.",
            (*told, *unproven),
            (49,),
        )

    def _asked_for_ghosts(self, now: datetime) -> list[tuple[str, bool]]:
        try:
            return self._without_node(now)
        except (AskError, KubeError) as error:
            raise Unproven(f"P3 unproven: whether an instance without a Node is on cannot be seen: {error}") from error

    def _without_node(self, now: datetime) -> list[tuple[str, bool]]:
        """What is said of each such machine, and whether it is known to have GPUs. Raises AskError, KubeError."""
        access, cloud = self.kill_path.cloud, self.cluster.capabilities.cloud
        if self._aws is not None and access is not None and names_instances(access):
            asked = ghosts(
                access, self._provider_ids(), aws=self._aws, prices=dict(self.kill_path.prices), stood=self._stood
            )
            leaving = {one.rpartition("/")[2] for one in self._stood}
            return [
                (
                    f"{one.object}: {one.message}{_dollars(one.usd_per_hour, one.since, now)}",
                    not one.unproven and not _young(one.since, now) and one.object not in leaving,
                )
                for one in asked
            ]
        if self.cluster.real or cloud is None:
            return []
        return [
            (
                f"{one.instance_id}: {one.type.name} is on, and no Node or NodeClaim stands for it"
                f"{_dollars(one.usd_per_hour, one.running, now)}",
                not _young(one.launched, now) and one.provider_id not in self._stood,
            )
            for one in cloud.ghosts(self._provider_ids())
            if one.type.devices
        ]

    def _provider_ids(self) -> list[str]:
        """Those of every Node and NodeClaim there is. Raises KubeError."""
        kube = self.cluster.kube
        found = [dig(node, "spec", "providerID", default="") for node in kube.list(r.NODES).items]
        try:
            found += [dig(claim, "status", "providerID", default="") for claim in kube.list(r.NODECLAIMS).items]
        except NotFound:  # no Karpenter here
            return found
        return found

    def heard(self, *, stayed_on: bool) -> Iterable[str]:
        """What the alarm would have said: of what was seen (``stayed_on``), or had the GPUs stayed on; and whether the
        run's results are where they must be.
        """
        if not stayed_on and self.results is not None:
            with suppress(AskError):  # said where it is judged
                if not self.results.missing():
                    yield f"the run's results are in S3, new since the trigger: {', '.join(self.results.urls)}"
        for one in self._evaluated(stayed_on=stayed_on):
            if one.unproven:
                yield f"alert {one.rule.alert}: {one.unproven}"
            elif one.fires_s is not None:
                night = "" if stayed_on else ", had the GPUs stayed on and idle"
                whom = f"receiver {one.receiver} gets through" if one.receiver else "anybody would be told"
                unseen = f"whether {'' if one.rule.by else 'a Prometheus loads it, and '}{whom}"
                taken = "".join(f"; taken: {what}" for what in one.taken)
                yield (
                    f"alert {one.rule.alert} fires {one.fires_s / 60:.0f} min after the trigger{night} (evaluated; "
                    f"{unseen} was not seen{taken})"
                )
            elif one.silent:
                yield f"alert {one.rule.alert} never fires: {one.silent}"

    def alert_s(self) -> float | None:
        """How long after the trigger the first alert fires on what was seen; None: none does, or none is known."""
        fires = [one.fires_s for one in self._evaluated(stayed_on=True) if one.fires_s is not None]
        return min(fires, default=None)

    def _evaluated(self, *, stayed_on: bool) -> list[Evaluated]:
        if not self._histories:
            return []
        history = self._histories[0 if stayed_on else 1]
        found = evaluate(self._rules or (), history, self._wanted.within_s, self._records)
        return [self._chain.delivered(one, self._wanted.within_s) for one in found]

    def _silent(self, now: datetime) -> Lack | None:
        told = [self._of_this_night(one, now) for one in self._evaluated(stayed_on=False)]
        if any(one.fires_s is not None for one in told):
            return None
        unproven = [f"{one.rule.alert}: {one.unproven}" for one in told if one.unproven]
        if unproven:
            raise Unproven(f"P5 unproven: {'; '.join(unproven)}")
        within = f"within {self._wanted.within_s / 60:.0f} min"
        if told:
            names = (f"{one.rule.alert} ({one.silent})" if one.silent else one.rule.alert for one in told)
            cause = f"no alarm would be raised {within}: {', '.join(names)} would not fire"
        else:
            cause = f"no alarm would be raised {within}: no alert is about " + (
                f"{', '.join(self._wanted.alerts)}" if self._wanted.alerts else "idle GPUs"
            )
        return Lack(
            "alarm",
            cause,
            "Alert on DCGM_FI_DEV_GPU_UTIL of GPUs that idle, and let it fire well within an hour.",
            tuple(f"{one.rule.object}: {one.rule.alert}: {one.rule.expr} for {one.rule.for_s:.0f} s" for one in told),
            (15, 48),
        )

    def _of_this_night(self, one: Evaluated, now: datetime) -> Evaluated:
        """Unproven where it rings on although everything is off."""
        history = self._histories[0]
        if one.fires_s is None or not rings_anyway(
            one.rule, history, now.timestamp() - history.epoch(0), self._records
        ):
            return one
        return replace(one, fires_s=None, unproven="it fires where the GPUs are off too: of this night it says nothing")

    def _lost_results(self) -> Lack | None:
        if self.results is None:
            return None
        try:
            missing = self.results.missing()
        except AskError as error:
            raise Unproven(f"whether results are in S3 cannot be seen: {error}") from error
        if not missing:
            return None
        return Lack(
            "results",
            f"the run's results are lost: nothing was left at {', '.join(missing)}",
            "Let the run write its results and logs to S3 by an identity of its own, as it goes and when it is cut.",
            tuple(f"{url}: nothing new" for url in missing),
            (20,),
        )


def _young(launched: datetime | None, now: datetime) -> bool:
    """Whether a machine may still be about to join: whether it is a ghost cannot be told yet."""
    return launched is not None and 0 <= (now - launched).total_seconds() < JOIN_S


def _dollars(rate: float | None, since: datetime | None, now: datetime) -> str:
    """What a machine costs, as the end of a sentence."""
    if rate is None:
        return ", and its price is not known"
    hours = (now - since).total_seconds() / 3600 if since else 0.0
    so_far = f", {rate * hours:.2f} dollars so far" if hours > 0 else ""
    return f": {rate:.2f} dollars an hour{so_far}"
