"""The spot handler: what a cloud's notice sets off must be over before the cloud takes the machine.

Notice -> cordon or taint -> pods evicted -> node drained, all within the notice; then the node and its instance go. The
work goes on from its checkpoint, on spot again: an on-demand node in its place is what the notice must never cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from killcheck.capabilities.offered import present
from killcheck.capabilities.programs import Ran
from killcheck.entries import Entry, Status
from killcheck.instances.reclaims import NAMES, NOTICE_S, cloud_of
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import Explanation, LayerError, LayerRun, Stage
from killcheck.machine.programs import CountUnknown, counted
from killcheck.spec.killpath import SPOT_NOTICE_S, Command, Layer, LayerType
from killcheck.text.values import replace

__all__ = ["SpotHandler", "is_spot"]

#: Between two looks at the checkpoint, in seconds.
LOOK_S = 10.0
#: Labels by which node provisioners say that a node is spot, and the value that says so.
_SPOT = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-provisioning": "spot",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
#: Taints that handlers of notices set, and whose hand each is.
_HANDS = {
    "karpenter.sh/disrupted": "Karpenter",
    "aws-node-termination-handler/spot-itn": "aws-node-termination-handler",
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler",
    "node.kubernetes.io/unschedulable": "a cordon",
    "cloud.google.com/impending-node-termination": "GKE",
    "remediator.kubernetes.azure.com/unschedulable": "AKS' node auto-drain",
    "remediator.aks.microsoft.com/unschedulable": "AKS' node auto-drain",
}
#: What would have heard it, by cloud.
_EARS = {
    "aws": "give Karpenter its interruption queue (settings.interruptionQueue) or run a node termination handler on "
    "every spot node",
    "gcp": "let the kubelet shut the node down gracefully (GKE does, 15 s for pods that are not critical), or poll "
    "instance/preempted on every spot node, and drain it",
    "azure": "poll Scheduled Events for Preempt every second on every spot node, drain it, and approve the event; AKS' "
    "node auto-drain does so as best it can",
}


def is_spot(node: Obj) -> bool:
    """Whether a node says that it is spot capacity."""
    labels = labels_of(node)
    return any(labels.get(key) == value for key, value in _SPOT.items())


class _Progress(Struct, frozen=True):
    """How far the work was, as its checkpoint had it at a moment."""

    at: datetime
    items: int


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
        """Nothing spot is there, or its checkpoint could not be read."""
        return self._unproven

    def doubts(self) -> Sequence[Entry]:
        """What the node's own kubelet does at a notice is not modelled where its cloud has it do something.

        Source: GKE "Preemptible VMs": graceful node shutdown is on; pods that are not the system's get 25 of the 30 s.
        """
        if self.node is None or cloud_of(self._provider_id()) != "gcp":
            return super().doubts()
        said = "with the notice GKE's kubelet begins to end pods itself, within 25 s as far as it can: not modelled"
        return [*super().doubts(), Entry(f"layer {self.layer.name}", Status.ASSUMED, said)]

    def before_trigger(self) -> str | None:
        """Choose the node, and see how far the work is."""
        held = {pod.node for pod in self.stage.scene.gpu_pods()}
        spot = [n for n in self.stage.scene.pool_nodes() if name_of(n) in held and is_spot(n)]
        if not spot:
            self._unproven = "no node that runs a target says that it is spot capacity: there is nothing to reclaim"
            return self._unproven
        self.node = min(spot, key=name_of)
        self._instance = self._provider_id().rpartition("/")[2]
        self._unproven = self._too_long()
        if self._unproven:
            return self._unproven
        if self.layer.checkpoint is None:
            return f"node {name_of(self.node)} gets the notice; no checkpoint is named, so what is lost is not counted"
        # Work that begins anew writes its first checkpoint again: only a second, higher one tells it from the old.
        self.stage.cluster.loop.run_until(self._has_worked, self.stage.kill_path.deadlines_for(self.layer).held_s)
        if not self._moved():
            self._unproven = self._wrong or (
                "the checkpoint was not written twice before the notice: what is lost could not be told"
            )
            return self._unproven
        return f"node {name_of(self.node)} gets the notice; {self._seen[-1].items} item(s) were safe before it"

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
        return self._moved()

    def _moved(self) -> bool:
        return len({s.items for s in self._seen if s.items}) > 1

    # -- the trigger ---------------------------------------------------------------------------------------
    def trigger(self) -> str:
        """Give the notice."""
        loop = self.stage.cluster.loop
        self._noticed = loop.now()
        if self.layer.checkpoint is not None:
            loop.call_later(LOOK_S, self._again)
        if not self.stage.cluster.real:
            cloud = present(self.stage.cluster.capabilities.cloud)
            found = cloud.by_provider_id(dig(self.node, "spec", "providerID", default=""))
            if found is None or found.state == "terminated":
                self._unproven = f"node {name_of(self.node)} lost its instance before the notice could be given"
                return self._unproven
            cloud.interrupt(self._instance, in_s=self.notice_s)
            return f"spot notice to {self._instance} (node {name_of(self.node)}): reclaim in {self.notice_s:.0f} s"
        assert self.layer.command is not None
        env = {
            **self.layer.command.env,
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
        """The notice's program only on a real cluster."""
        return super().commands() if self.stage.cluster.real else ()

    # -- watching ------------------------------------------------------------------------------------------
    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """The node's taints, and what comes in its place."""
        if new.get("kind") != "Node" or self._noticed is None:
            return
        if name_of(new) == self.only_node():
            if change != "deleted":
                self.node = new
            keys = {t.get("key") for t in dig(new, "spec", "taints", default=[])}
            self._hand = self._hand or next((hand for key, hand in _HANDS.items() if key in keys), "")
        elif change == "added" and self.stage.scene.in_pool(new) and not is_spot(new):
            self._flaw = self._flaw or (
                f"on-demand node {name_of(new)} came in the place of spot node {self.only_node()}"
            )

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
            return ()
        self._look()
        self.stage.cluster.loop.sleep(LOOK_S)
        if self._wrong or not self._seen or self._noticed is None:
            self._unproven = self._wrong or "the checkpoint was never read"
            return ()
        before = max(s.items for s in self._seen if s.at <= self._noticed)
        after = [s for s in self._seen if s.at > self._noticed]
        lost = max((s.items - t.items for s, t in zip(self._seen, self._seen[1:], strict=False)), default=0)
        last = self._seen[-1].items
        if lost > 0:
            self._flaw = self._flaw or (
                f"the work did not go on from its checkpoint: {lost} item(s) that were safe are to be done again"
            )
        elif last <= self._safe():
            self._flaw = self._flaw or (
                f"the work does not go on: {last} item(s) were done {self._since():.0f} s after the notice, as when "
                "the node went"
            )
        return [
            f"checkpoint: {before} item(s) before the notice, {self._safe()} when the node was gone, {last} at the "
            f"end ({len(after)} looks); {max(0, lost)} lost"
        ]

    def _safe(self) -> int:
        """What was written down when the pods were gone."""
        gone = self.stage.timeline.reached.get("pods_gone") if self.stage.timeline else None
        until = gone.at if gone else self._noticed
        return max((s.items for s in self._seen if until is None or s.at <= until), default=0)

    def _since(self) -> float:
        return (self.stage.cluster.loop.now() - self._noticed).total_seconds() if self._noticed else 0.0

    def flaw(self) -> str | None:
        """On demand in its place, or work that is not resumed."""
        return self._flaw

    def explain(self, stuck_at: str) -> Explanation | None:
        """Nobody heard the notice, or pods that take longer to stop than it leaves."""
        if self._flaw:
            return Explanation(self._flaw, remedy=self.remedy, failures=(52,))
        if not self._hand:
            return Explanation(
                f"nobody acted on the notice: node {self.only_node()} was neither tainted nor cordoned",
                (f"notice at {self._noticed:%H:%M:%S}, reclaim {self.notice_s:.0f} s later" if self._noticed else "",),
                _EARS[cloud_of(self._provider_id()) or "aws"],
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
