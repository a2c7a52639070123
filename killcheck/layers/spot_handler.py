"""The spot handler: what a cloud's notice sets off must be over before the cloud takes the machine.

Notice -> cordon or taint -> pods evicted -> node drained, all within the notice; then the node and its instance go. The
work goes on from its checkpoint, on spot again: an on-demand node in its place is what the notice must never cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, pairwise
from random import Random

from msgspec import Struct

from killcheck.capabilities.offered import present
from killcheck.capabilities.programs import Ran
from killcheck.entries import Becomes, Entry, Status, leaves
from killcheck.instances.catalogue import shipped
from killcheck.instances.reclaims import NAMES, NOTICE_S, cloud_of
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.node_shutdown import shutting_down
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    condition,
    controller_of,
    dig,
    labels_of,
    name_of,
    namespace_of,
    parse_time,
    ref_of,
)
from killcheck.kube.permissions import Permission
from killcheck.kube.pod_annotations import EXECUTE
from killcheck.kube.provider_pools import GKE_POOL
from killcheck.kube.spot_nodes import is_spot
from killcheck.layers import spot_words as words
from killcheck.layers.base import Explanation, LayerError, LayerRun, Stage
from killcheck.machine.counting import CountUnknown, counted
from killcheck.spec.killpath import SPOT_NOTICE_S, Command, Layer, LayerType
from killcheck.text.values import replace
from killcheck.watch.cost import instance_type

__all__ = ["SpotHandler"]

#: Between two looks at the checkpoint, in seconds.
LOOK_S = 10.0
#: Virtual seconds that are waited for a first checkpoint, before work is said to write none.
SELDOM_S = 3600.0
#: What makes the embedded cluster run a pod that holds a GPU.


def _started(pod: Obj) -> datetime | None:
    """When its first container began to run; None: none runs."""
    begun = [
        parse_time(at)
        for status in dig(pod, "status", "containerStatuses", default=[])
        if (at := dig(status, "state", "running", "startedAt"))
    ]
    return min(begun, default=None)


class _Progress(Struct, frozen=True):
    """How far the work was, as its checkpoint had it at a moment."""

    at: datetime
    items: int


def _changes(seen: Sequence[_Progress]) -> list[datetime]:
    """When the checkpoint was first seen with another count, :data:`LOOK_S` late at most."""
    return [now.at for old, now in pairwise(seen) if now.items != old.items]


class SpotHandler(LayerRun):
    """One drill of a spot interruption."""

    own_phases = ("triggered", "node_cordoned")
    remedy = "let the worker write its checkpoint when it is told to stop, and read it when it starts"

    @staticmethod
    def drills(layer: Layer) -> bool:
        """What answers an interruption."""
        return layer.type is LayerType.SPOT_HANDLER and layer.container is None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        super().__init__(layer, stage)
        self.node: Obj = {}
        self.notice_s: float = layer.notice_s or SPOT_NOTICE_S
        self._instance = ""
        self._noticed: datetime | None = None
        self._hand = ""
        self._ran: Ran | None = None
        self._flaw: str | None = None
        self._unproven: str | None = None
        self._seen: list[_Progress] = []
        self._wrong = ""
        #: Since when the pod on the node works, and whether it was seen to write nothing down.
        self._working: datetime | None = None
        self._never = False
        #: Pods of the node that ended well as they were evicted, by the Job that counts them.
        self._counted: dict[str, str] = {}

    # -- before --------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        """There must be a way to give notice, and what the spec names must be there."""
        if self.stage.cluster.real and self.layer.command is None:
            raise LayerError(
                f"layer {self.layer.name}: on {self.stage.cluster.name} a notice is given by a command (aws fis "
                "start-experiment, aws sqs send-message): give the layer one"
            )
        if self.layer.workload is not None:
            kube, ref = self.stage.cluster.kube, self.layer.workload
            try:
                kube.get(kube.resource_for(ref.api_version, ref.kind), ref.name, ref.namespace)
            except NotFound:
                raise LayerError(f"layer {self.layer.name}: there is no {ref}") from None

    def stand_by(self) -> None:
        """A notice turns nothing off that another layer's drill watches for."""

    def permissions(self) -> Sequence[Permission]:
        """Reading the checkpoint."""
        kept = self.layer.checkpoint
        if kept is None or kept.config_map is None:
            return ()
        ref = kept.config_map
        return [Permission("get", "", "configmaps", namespace=ref.namespace, name=ref.name)]

    def only_node(self) -> str | None:
        """The node that is given notice: the others may stay on."""
        return name_of(self.node) if self.node else None

    def unproven(self) -> str | None:
        """Nothing spot is there, its checkpoint could not be read, or who may have heard the notice is not modelled."""
        return self._unproven or self._unheard()

    @leaves("clouds", "AKS' node auto-drain at a notice (best effort)", Becomes.OPEN)
    def _unheard(self) -> str | None:
        """AKS has an ear of its own, best effort by its documentation (learn.microsoft.com, node auto-drain)."""
        if self._by_command() and not self.stage.cluster.real and not self._was_given():
            return f"{self.layer.command} ended, and no notice was given to {self._instance}"
        aks = any(key == words.AKS_POOL or key.startswith(words.AKS_KARPENTER) for key in labels_of(self.node))
        if self.stage.cluster.real or self._noticed is None or self._hand or not aks:
            return None
        return (
            f"nobody whom this cluster runs acted on the notice to node {self.only_node()}, and AKS' node auto-drain, "
            "which drains as best it can, is not modelled"
        )

    @leaves("clouds", "a GKE node pool's own time for graceful shutdown, where it is not the default", Becomes.SAID)
    def doubts(self) -> Sequence[Entry]:
        """How long GKE's kubelets give pods is a setting of the node pool; what others there do is not known."""
        if self.stage.cluster.real or cloud_of(self._provider_id()) != "gcp":
            return super().doubts()
        if self._hand == words.SHUTDOWN:
            said = "GKE's kubelet gives pods that are not critical 15 s: its default, which a node pool may change"
        elif GKE_POOL not in labels_of(self.node):
            said = f"with the notice GKE's kubelet begins to end pods itself; a node without {GKE_POOL} is none of its"
        else:
            return super().doubts()
        return [*super().doubts(), Entry(f"layer {self.layer.name}", Status.ASSUMED, said)]

    def before_trigger(self) -> str | None:
        """Choose the node, and see how far the work is."""
        held = {pod.node for pod in self.stage.scene.gpu_pods()}
        spot = [n for n in self.stage.scene.pool_nodes() if name_of(n) in held and is_spot(n)]
        if not spot:
            self._unproven = "no node that runs a target says that it is spot capacity: there is nothing to reclaim"
            return self._unproven
        self.node = min(spot, key=name_of)
        holders = {(pod.namespace, pod.name) for pod in self.stage.scene.gpu_pods() if pod.node == name_of(self.node)}
        pods = [pod for pod in self.stage.scene.pods.values() if (namespace_of(pod), name_of(pod)) in holders]
        self._working = min((at for pod in pods if (at := _started(pod))), default=None)
        self._instance = self._provider_id().rpartition("/")[2]
        self._unproven = self._too_long()
        if self._unproven:
            return self._unproven
        if self.layer.checkpoint is None:
            return f"node {name_of(self.node)} gets the notice; no checkpoint is named, so what is lost is not counted"
        # Work that begins anew writes its first checkpoint again: only a second, higher one tells it from the old.
        self.stage.cluster.loop.run_until(self._has_worked, self.stage.kill_path.deadlines_for(self.layer).held_s)
        if self._wrote_nothing(pods):  # it may be one of those that seldom do
            self.stage.cluster.loop.run_until(self._has_worked, SELDOM_S)
            self._never = self._wrote_nothing(pods)
        if not self._moved() and not self._never:
            self._unproven = self._wrong or (
                "the checkpoint was not written twice before the notice: what is lost could not be told"
            )
            return self._unproven
        return self._draw()

    def _draw(self) -> str:
        """Wait for the moment of the notice: any between two checkpoints, as a reclaim asks nobody."""
        loop, every_s, known = self.stage.cluster.loop, self._every_s(), self._seen[-1].items
        said = f"node {name_of(self.node)} gets the notice; {known} item(s) were safe before it"
        if every_s is None:
            return said
        # On a real cluster each run tries another moment; elsewhere a path has its own, and a drill is as it was.
        path = self.stage.kill_path.name
        drawn = Random(f"{self.stage.run if self.stage.cluster.real else path}/{self.layer.name}")  # noqa: S311
        wait_s = drawn.random() * every_s
        until = loop.now() + timedelta(seconds=wait_s)
        loop.run_until(lambda: self._looked_until(until), wait_s)
        self._look()
        return f"{said}; checkpoints come every {every_s:.0f} s, the notice at a drawn {wait_s:.0f} s after one"

    def _looked_until(self, until: datetime) -> bool:
        self._has_worked()
        return self.stage.cluster.loop.now() >= until

    def _wrote_nothing(self, pods: Sequence[Obj]) -> bool:
        """Whether programs that really run were seen to write no item down, for as long as was waited.

        Not on a real cluster: nobody waits there for as long as a checkpoint may take.
        """
        if self._wrong or not self._seen or not pods or any(seen.items for seen in self._seen):
            return False
        idle = {(namespace_of(pod), name_of(pod)) for pod, _ in self.stage.cluster.not_run()}
        return not self.stage.cluster.real and all(
            annotations_of(pod).get(EXECUTE) == "true" and (namespace_of(pod), name_of(pod)) not in idle for pod in pods
        )

    def _provider_id(self) -> str:
        return str(dig(self.node, "spec", "providerID", default=""))

    def _too_long(self) -> str | None:
        """Why being in time would prove nothing: the cloud whose machine it is leaves less than the spec counts on."""
        cloud = cloud_of(self._provider_id())
        leaves_s = NOTICE_S[cloud] if cloud else self.notice_s
        if not cloud or self.notice_s <= leaves_s:
            return None
        said = "says" if self.layer.notice_s else "says nothing, which means"
        return (
            f"layer {self.layer.name}: the spec {said} notice: {self.notice_s:.0f}s, and {NAMES[cloud]}, whose "
            f"machine node {name_of(self.node)} is, leaves {leaves_s:.0f} s: give it notice: {leaves_s:.0f}s"
        )

    def _has_worked(self) -> bool:
        now = self.stage.cluster.loop.now()
        if not self._seen or (now - self._seen[-1].at).total_seconds() >= LOOK_S:
            self._look()
            self.stage.cluster.loop.call_later(LOOK_S, self.stage.scene.wake)
        return self._moved() and self._every_s() is not None

    def _moved(self) -> bool:
        return len({s.items for s in self._seen if s.items}) > 1

    def _every_s(self) -> float | None:
        """Seconds between the last two checkpoints before the notice; None: two were not seen."""
        written = [at for at in _changes(self._seen) if self._noticed is None or at <= self._noticed]
        return (written[-1] - written[-2]).total_seconds() if len(written) > 1 else None

    # -- the trigger ---------------------------------------------------------------------------------------
    def trigger(self) -> str:
        """Give the notice."""
        loop = self.stage.cluster.loop
        self._noticed = loop.now()
        if self.layer.checkpoint is not None:
            loop.call_later(LOOK_S, self._again)
        if not self._by_command():
            cloud = present(self.stage.cluster.capabilities.cloud)
            found = cloud.by_provider_id(dig(self.node, "spec", "providerID", default=""))
            if found is None or found.state == "terminated":
                self._unproven = f"node {name_of(self.node)} lost its instance before the notice could be given"
                return self._unproven
            cloud.interrupt(self._instance, in_s=self.notice_s)
            return f"spot notice to {self._instance} (node {name_of(self.node)}): reclaim in {self.notice_s:.0f} s"
        assert self.layer.command is not None
        stand_in = self.stage.cluster.capabilities.stand_in
        env = {
            **self.layer.command.env,
            **(stand_in.environment() if stand_in is not None else {}),
            "INSTANCE_ID": self._instance,
            "NODE_NAME": name_of(self.node),
            "PROVIDER_ID": self._provider_id(),
        }
        self.stage.programs.start(replace(self.layer.command, env=env), self._told)
        return f"{self.layer.command} gives notice to {self._instance} (node {name_of(self.node)})"

    def _told(self, ran: Ran) -> None:
        self._ran = ran
        if not ran.ok:
            self._unproven = f"the notice was not given: {ran.told}"
        self.stage.scene.wake()

    def commands(self) -> Sequence[Command]:
        """The notice's program, on a real cluster or where a stand-in of its cloud answers it."""
        return super().commands() if self._by_command() else ()

    def _was_given(self) -> bool:
        cloud = present(self.stage.cluster.capabilities.cloud)
        found = cloud.by_provider_id(self._provider_id())
        return self._noticed is None or (found is not None and found.notice is not None)

    @leaves("spot", "the spec's own command that gives notice, where no stand-in answers it", Becomes.UNSEEN)
    def _by_command(self) -> bool:
        """Whether the spec's own command gives the notice."""
        stand_in = self.stage.cluster.capabilities.stand_in
        return self.stage.cluster.real or (self.layer.command is not None and stand_in is not None)

    # -- watching ------------------------------------------------------------------------------------------
    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """The node's taints, what comes in its place, and how its pods end."""
        if self._noticed is None:
            return
        if new.get("kind") == "Pod":
            self._count(new)
        if new.get("kind") != "Node":
            return
        if name_of(new) == self.only_node():
            if change != "deleted":
                self.node = new
            keys = {t.get("key") for t in dig(new, "spec", "taints", default=[])}
            self._hand = self._hand or next((hand for key, hand in words.HANDS.items() if key in keys), "")
            self._hand = self._hand or (words.SHUTDOWN if shutting_down(new) else "")
        elif change == "added" and self.stage.scene.in_pool(new) and not is_spot(new):
            self._flaw = self._flaw or (
                f"on-demand node {name_of(new)} ({self._machine(new)}) came in the place of spot node "
                f"{self.only_node()}"
            )
            self.remedy = words.TWO_POOLS

    def _count(self, pod: Obj) -> None:
        """Remember a pod that the reclaim ended, and that its Job counts as done: it ended with exit code 0."""
        owner = controller_of(pod) or {}
        if (
            owner.get("kind") == "Job"
            and dig(pod, "spec", "nodeName") == self.only_node()
            and dig(pod, "status", "phase") == "Succeeded"
            and (condition(pod, "DisruptionTarget") or {}).get("status") == "True"
        ):
            self._counted[f"Job/{namespace_of(pod)}/{owner['name']}"] = name_of(pod)

    def _usd_per_hour(self, node: Obj) -> float | None:
        """On demand: the spec's price, or the catalogue's; None: not known."""
        kind = instance_type(node)
        found = shipped().get(kind)
        return self.stage.kill_path.prices.get(kind, found.usd_per_hour if found else None)

    def _machine(self, node: Obj) -> str:
        """Its type, and what an hour of it is on demand."""
        usd = self._usd_per_hour(node)
        return (instance_type(node) or "of no type") + ("" if usd is None else f", ${usd:.2f} an hour")

    def _again(self) -> None:
        self._look()
        self.stage.cluster.loop.call_later(LOOK_S, self._again)

    def _look(self) -> None:
        """Read the checkpoint; an answer that is none is said when it is needed."""
        kept = self.layer.checkpoint
        assert kept is not None
        if kept.command is not None:
            self.stage.programs.start(kept.command, self._heard)
            return
        assert kept.config_map is not None
        try:
            found = self.stage.cluster.kube.get(r.CONFIGMAPS, kept.config_map.name, kept.config_map.namespace)
            self._note(int(dig(found, "data", kept.key, default="")))
        except (KubeError, ValueError) as error:
            self._wrong = f"checkpoint {kept.config_map} {kept.key} cannot be read: {error}"

    def _heard(self, ran: Ran) -> None:
        try:
            self._note(counted(ran))
        except CountUnknown as error:
            self._wrong = f"the checkpoint cannot be read: {error}"

    def _note(self, items: int) -> None:
        self._wrong = ""
        self._seen.append(_Progress(self.stage.cluster.loop.now(), items))

    # -- judging -------------------------------------------------------------------------------------------
    def acted(self, zero_at: datetime) -> str | None:
        """Somebody tainted or cordoned the node after the notice, and its pods were gone before the reclaim."""
        if not self._hand or self._noticed is None:
            return None
        took = (zero_at - self._noticed).total_seconds()
        return (
            f"{self._hand} drained {self.only_node()} in {took:.0f} s of the {self.notice_s:.0f} that the notice "
            f"leaves: {self.notice_s - took:.0f} s to spare"
        )

    def signs(self, writer: str | None) -> bool:
        """Nobody writes replicas."""
        return True

    def afterwards(self) -> Sequence[str]:
        """Whether the work goes on, from where, and what was lost."""
        if self.layer.checkpoint is None:
            return self._at_stake()
        self._look()
        self.stage.cluster.loop.sleep(LOOK_S)
        if self._wrong or not self._seen or self._noticed is None:
            self._unproven = self._wrong or "the checkpoint was never read"
            return ()
        before = max(s.items for s in self._seen if s.at <= self._noticed)
        after = [s for s in self._seen if s.at > self._noticed]
        lost = max((s.items - t.items for s, t in zip(self._seen, self._seen[1:], strict=False)), default=0)
        last = self._seen[-1].items
        if self._flaw is None:
            self._flaw = self._stalled(lost, last)
        return [
            f"checkpoint: {before} item(s) before the notice, {self._safe()} when the node was gone, {last} at the "
            f"end ({len(after)} looks); {max(0, lost)} lost",
            *self._lost_work(),
            *self._waiting(),
        ]

    def _stalled(self, lost: int, last: int) -> str | None:
        """What of the work is to be done again, or is not done; None: nothing."""
        if self._never and not last:
            self.remedy = words.CHECKPOINT
            return f"nothing was written down: all that {self.only_node()} did{self._worked()} is to be done again"
        if lost > 0:
            return f"the work did not go on from its checkpoint: {lost} item(s) that were safe are to be done again"
        if last > self._safe():
            return None
        if any(self._waiting()):
            self.remedy = words.MORE_TYPES
        return (
            f"the work does not go on: {last} item(s) were done {self._since():.0f} s after the notice, as when "
            "the node went"
        )

    def _at_stake(self) -> Sequence[str]:
        """What a reclaim costs at most, where nobody said how work is kept; a Job that it ended is seen."""
        ended = next(chain(self._failed(), self._done_unfinished()), None)
        if ended is not None:
            self._flaw = self._flaw or ended[0]
            self.remedy = ended[1]
        worked = self._worked()
        return (
            [f"no checkpoint is named: where none is written, all work{worked} is to be done again"] if worked else ()
        )

    def _failed(self) -> Iterator[tuple[str, str]]:
        """Jobs among the targets that have failed since the notice: a sentence and a remedy each."""
        for job, ended in self._ended("Failed"):
            yield (
                f"{ref_of(job)} failed with the reclaim ({ended.get('reason')}: {ended.get('message')}): "
                "nobody takes up the work again",
                words.RETRIED,
            )

    def _done_unfinished(self) -> Iterator[tuple[str, str]]:
        """Jobs that are complete because a pod which the reclaim ended said so; the owner of one may make another."""
        for job, _ in self._ended("Complete"):
            pod = self._counted.get(ref_of(job))
            if pod and controller_of(job) is None:
                yield (
                    f"{ref_of(job)} is complete by pod {pod}, which the reclaim ended and which left with exit code 0: "
                    "nobody takes up the work again",
                    words.HONEST,
                )

    def _ended(self, how: str) -> Iterator[tuple[Obj, Obj]]:
        """Jobs among the targets that came to a condition since the notice, with the condition."""
        for target in self.stage.kill_path.covered_by(self.layer):
            for obj in self.stage.scene.objects_of(target) if target.kind else ():
                ended = condition(obj, how) or {}
                at = ended.get("lastTransitionTime")
                if (
                    ended.get("status") == "True"
                    and at
                    and self._noticed
                    and parse_time(at) >= self._noticed.replace(microsecond=0)
                ):
                    yield obj, ended

    def _worked(self) -> str:
        """For how long the node's pods had worked when the notice came, and what that cost; empty: not known."""
        if self._working is None or self._noticed is None:
            return ""
        return f" in the {self._cost((self._noticed - self._working).total_seconds())} before the notice"

    def _cost(self, lasted_s: float) -> str:
        """A time on the node, with its dollars at most."""
        usd = self._usd_per_hour(self.node)
        return f"{lasted_s:.0f} s" + ("" if usd is None else f" (${usd * lasted_s / 3600:.2f} on demand)")

    def _lost_work(self) -> Iterator[str]:
        """What was done since the last checkpoint when the pods went, and what is to be expected of any reclaim."""
        gone = self.stage.timeline.reached.get("pods_gone") if self.stage.timeline else None
        every_s = self._every_s()
        if gone is None or every_s is None or self._noticed is None:
            return
        last = _changes(self._until_gone())[-1]
        if last > self._noticed:
            yield f"work lost: none; a checkpoint was written after the notice, as one is every {every_s:.0f} s"
            return
        since = self._cost((gone.at - last).total_seconds())
        yield (
            f"work lost: {since} since the last checkpoint; of one every {every_s:.0f} s half is to be expected: "
            f"{self._cost(every_s / 2)} a reclaim"
        )

    def _safe(self) -> int:
        """What was written down when the pods were gone."""
        return max((seen.items for seen in self._until_gone()), default=0)

    def _until_gone(self) -> list[_Progress]:
        """What the pods that went wrote down: their last words are seen one look later, or in that look's answer."""
        gone = self.stage.timeline.reached.get("pods_gone") if self.stage.timeline else None
        until = gone.at if gone else self._noticed
        if until is None:
            return self._seen
        before = sum(seen.at <= until for seen in self._seen)
        return self._seen[: before + 2]

    def _since(self) -> float:
        return (self.stage.cluster.loop.now() - self._noticed).total_seconds() if self._noticed else 0.0

    def flaw(self) -> str | None:
        """On demand in its place, or work that is not resumed."""
        return self._flaw

    def _waiting(self) -> Iterator[str]:
        """Pods of the targets that have no node, in the scheduler's words."""
        for pod in self.stage.scene.pods.values():
            why = condition(pod, "PodScheduled") or {}
            if not dig(pod, "spec", "nodeName") and why.get("status") == "False":
                yield f"pod {namespace_of(pod)}/{name_of(pod)} has no node: {why.get('reason')}: {why.get('message')}"

    def explain(self, stuck_at: str) -> Explanation | None:
        """Nobody heard the notice, or pods that take longer to stop than it leaves."""
        if self._flaw:
            return Explanation(self._flaw, remedy=self.remedy, failures=(52,))
        if not self._hand:
            return Explanation(
                f"nobody acted on the notice: node {self.only_node()} was neither tainted nor cordoned",
                (f"notice at {self._noticed:%H:%M:%S}, reclaim {self.notice_s:.0f} s later" if self._noticed else "",),
                words.EARS[cloud_of(self._provider_id()) or "aws"],
                (52,),
            )
        slow = [
            pod
            for pod in self.stage.scene.pods.values()
            if dig(pod, "spec", "nodeName") == self.only_node()
            and "deletionTimestamp" in pod["metadata"]
            and float(dig(pod, "metadata", "deletionGracePeriodSeconds", default=0)) >= self.notice_s
        ]
        if slow:
            pod = slow[0]
            grace = dig(pod, "metadata", "deletionGracePeriodSeconds")
            return Explanation(
                f"pod {namespace_of(pod)}/{name_of(pod)} may take {grace} s to stop; the notice leaves "
                f"{self.notice_s:.0f}",
                (f"spec.terminationGracePeriodSeconds: {dig(pod, 'spec', 'terminationGracePeriodSeconds')}",),
                "let it write its checkpoint and stop well within the notice",
                (36, 52),
            )
        return None
