"""Spot reclaims through AWS itself: messages in the handler's queue, an experiment of FIS, or no notice at all.

Only in the account that the spec names, only on the GPU pools' own instances; on a cluster that is somebody's each of
them must carry the tag ``killcheck.dev/consent: "true"``. What is taken cannot be taken back: its Node goes, and the
autoscaler buys another when the targets are put back on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, ClassVar

from killcheck.capabilities.account import AccountChanges
from killcheck.capabilities.offered import Capability, present
from killcheck.cloud import account_undo, notices
from killcheck.cloud.instances import instance_id_of
from killcheck.cloud.session import AskError
from killcheck.faults.base import Fault, FaultError, Plan
from killcheck.faults.witnessed import heard, left, silent
from killcheck.kube.objects import dig, name_of
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.changes import Undo
from killcheck.spec.cloud_access import CloudAccess
from killcheck.spec.killpath import KillPath, Layer

__all__ = [
    "SpotFis",
    "SpotHealthMessage",
    "SpotQueueMessage",
    "SpotRebalanceMessage",
    "SpotStateMessage",
    "SpotTerminate",
]

CONSENT = "killcheck.dev/consent"
#: How long AWS leaves between a notice and the end, in seconds.
NOTICE_S = 120.0


class _AwsSpotFault(Fault):
    """Something done to the instances behind the GPU nodes, in the account that the spec names."""

    family = "spot"
    #: Whether it is a notice that AWS takes the machine, two minutes from then.
    reclaims: ClassVar[bool] = False
    failures: ClassVar[tuple[int, ...]] = (52,)
    needs = (Capability.HANDS,)
    #: What a handler would hear of: a key of :data:`killcheck.faults.witnessed.HEARD`.
    kind: ClassVar[str] = "interruption"
    costs = "the interrupted instances are gone; others are bought when the targets are put back on"

    def _hands(self, stage: Stage) -> AccountChanges:
        return present(stage.cluster.capabilities.hands)

    def _access(self, stage: Stage) -> CloudAccess:
        if stage.kill_path.cloud is None:
            raise FaultError(f"{self.name} needs the spec's cloud: section")
        return stage.kill_path.cloud

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """What will happen to which instances. Raises FaultError where it may not, or could not be asked."""
        if not stage.cluster.real and not _pool_nodes(stage):  # they come up first; looked at before it is done
            return Plan((self.simulates,), edits=("the GPU pools' instances",))
        try:
            found = self._consenting(stage)
            self.preflight(stage, found)
        except AskError as error:
            raise FaultError(f"{self.name}: {error}") from error
        named = ", ".join(str(one["InstanceId"]) for one in found)
        return Plan((f"{self.simulates}: {named}",), edits=("the GPU pools' instances",))

    def preflight(self, stage: Stage, instances: Sequence[Mapping[str, Any]]) -> None:
        """What else must be so. Raises FaultError, AskError."""

    def _consenting(self, stage: Stage) -> list[Mapping[str, Any]]:
        """EC2's word on the instances. Raises FaultError, AskError."""
        hands, access = self._hands(stage), self._access(stage)
        self._account = hands.account()
        if access.account != self._account and (stage.cluster.real or access.account):
            raise FaultError(
                f"{self.name}: these credentials are of account {self._account}; the spec names "
                f"{access.account or 'none'} (cloud.account), and nothing is changed in any other"
            )
        nodes = _pool_nodes(stage)
        ids = [instance for node in nodes if (instance := instance_id_of(dig(node, "spec", "providerID", default="")))]
        if not ids or len(ids) < len(nodes):
            raise FaultError(f"{self.name}: the GPU pools' nodes have no EC2 instances behind them")
        found = hands.instances(ids)
        missing = set(ids) - {str(one["InstanceId"]) for one in found}
        if missing:
            raise FaultError(f"{self.name}: EC2 does not list {', '.join(sorted(missing))}")
        for one in found if stage.cluster.real else ():
            tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags") or ()}
            if tags.get(CONSENT) != "true":
                raise FaultError(f"{self.name}: instance {one['InstanceId']} has not consented: tag it {CONSENT}=true")
        return found

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Look again, then do it."""
        try:
            found = self._consenting(stage)
            self.preflight(stage, found)
            self._at = stage.cluster.loop.now()
            if self.reclaims:
                self.noticed = (self._at, NOTICE_S)
            return self.strike(stage, found)
        except AskError as error:
            raise FaultError(f"{self.name}: {error}") from error

    @abstractmethod
    def strike(self, stage: Stage, instances: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Do it; what was done, in words. Raises AskError."""

    def heard(self, stage: Stage) -> str | None:
        """A handler's first word on a Node in scope, or its NodeClaim, since then; how much of the notice was left."""
        since: datetime | None = getattr(self, "_at", None)
        said = heard(stage, self.kind, since) if since is not None else None
        if said is None:
            return None
        what, after_s = said
        return f"{what}, {max(0.0, after_s):.0f} s after it; {NOTICE_S - after_s:.0f} s of {NOTICE_S:.0f} s are left"


def _pool_nodes(stage: Stage) -> list[Any]:
    """The nodes in scope; a plan is made before the scene is open, and then the API is asked."""
    from killcheck.kube import resources as r

    if getattr(stage.scene, "nodes", None) is not None:
        return stage.scene.pool_nodes()
    return [node for node in stage.cluster.kube.list(r.NODES).items if stage.scene.in_pool(node)]


class SpotQueueMessage(_AwsSpotFault):
    """Reproduces row 52: an interruption warning in the queue; it bites when whoever reads the queue says so.

    The instance itself is not taken: what is tried is the handler, against the 120 s that it would have.
    """

    name = "spot-queue-message"
    simulates = "a spot interruption warning in the handler's SQS queue"
    reclaims: ClassVar[bool] = True
    costs = ""
    _read: str | None = None

    def _queue(self, stage: Stage) -> str:
        stand_in = stage.cluster.capabilities.stand_in
        url = (stand_in.queue_url if stand_in is not None else "") or self._access(stage).queue
        if not url:
            raise FaultError(f"{self.name}: which queue the handler reads is not said (cloud.queue)")
        return url

    def preflight(self, stage: Stage, instances: Sequence[Mapping[str, Any]]) -> None:
        """The queue is there."""
        self._hands(stage).queue_is_there(self._queue(stage))

    def strike(self, stage: Stage, instances: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """One message for each instance."""
        hands, url, done = self._hands(stage), self._queue(stage), []
        for one in instances:
            region = str(one["Placement"]["AvailabilityZone"])[:-1]
            body = notices.event(
                self.kind, str(one["InstanceId"]), account=self._account, region=region, now=stage.cluster.loop.now()
            )
            done.append(f"sent {body['detail-type']} for {one['InstanceId']} (message {hands.send(url, body)})")
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Whoever reads the queue said what it means."""
        self._read = self.heard(stage)
        return self._read

    def leaves(self, stage: Stage) -> str | None:
        """A message that nobody has read: no sender can take it back."""
        if not hasattr(self, "_at") or self._read:
            return None
        return (
            f"{self.name}: nobody has said that they read what was sent to {self._queue(stage)}: it may be there "
            "still, and whoever reads it later takes the machine for one that goes (delete it, or let it expire)"
        )


class SpotRebalanceMessage(SpotQueueMessage):
    """Reproduces the prelude of row 52, by message: a handler may replace the node in the middle of a kill."""

    name = "spot-queue-rebalance"
    simulates = "a rebalance recommendation in the handler's SQS queue"
    reclaims = False
    kind = "rebalance"


class SpotStateMessage(SpotQueueMessage):
    """Reproduces row 52's end, by message: EC2 says that the instance is stopping."""

    name = "spot-queue-state-change"
    simulates = "a state-change notification (stopping) in the handler's SQS queue"
    reclaims = False
    kind = "state-change"


class SpotHealthMessage(SpotQueueMessage):
    """Reproduces a scheduled retirement, by message of AWS Health."""

    name = "spot-queue-health"
    simulates = "a scheduled change of AWS Health in the handler's SQS queue"
    reclaims = False
    kind = "health"


class SpotFis(_AwsSpotFault):
    """Reproduces row 52 for real: AWS itself interrupts the instances, with its own notices, by an experiment of FIS.

    The experiment's template is journalled before it is made, and deleted afterwards.
    """

    name = "spot-fis"
    simulates = "AWS FIS interrupts the GPU pools' spot instances"
    reclaims = True

    #: Minutes between the start and the interruption, as FIS takes them (2 to 15).
    before_interruption_minutes: ClassVar[int] = 2

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where the spec says as whom, and what stops it."""
        trial = kill_path.cloud.experiment if kill_path.cloud else None
        return (
            super().unsuited_targets(kill_path, layer)
            if trial
            else ("the spec names no role and stop condition (cloud.experiment)")
        )

    def preflight(self, stage: Stage, instances: Sequence[Mapping[str, Any]]) -> None:
        """Role, stop conditions, how many, and whether they are spot instances at all."""
        trial = self._access(stage).experiment
        if trial is None:
            raise FaultError(f"{self.name}: the spec names no role and stop condition (cloud.experiment)")
        if len(instances) > trial.max_targets:
            raise FaultError(
                f"{self.name}: {len(instances)} instances would be interrupted; the spec allows {trial.max_targets} "
                "(cloud.experiment.maxTargets)"
            )
        on_demand = [str(one["InstanceId"]) for one in instances if one.get("InstanceLifecycle") != "spot"]
        if on_demand:
            raise FaultError(f"{self.name}: {', '.join(on_demand)} is no spot instance")
        hands = self._hands(stage)
        if not hands.role_trusts_fis(trial.role):
            raise FaultError(f"{self.name}: {trial.role} does not trust fis.amazonaws.com")
        states = hands.alarms(trial.stop_alarms)
        for arn in trial.stop_alarms:
            if states.get(arn) != "OK":
                raise FaultError(
                    f"{self.name}: stop condition {arn} is {states.get(arn, 'not there')}: FIS would not start, or "
                    "nothing would stop it"
                )

    def strike(self, stage: Stage, instances: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """A template, and one experiment made from it."""
        hands, trial = self._hands(stage), self._access(stage).experiment
        assert trial is not None
        arns = [
            f"arn:aws:ec2:{one['Placement']['AvailabilityZone'][:-1]}:{self._account}:instance/{one['InstanceId']}"
            for one in instances
        ]
        place = account_undo.where(hands.aws, self._account)
        with self._journalled(stage, "an experiment template of FIS", "fis:DeleteExperimentTemplate", place):
            template = hands.create_template(
                stage.run,
                role=trial.role,
                alarms=trial.stop_alarms,
                instances=arns,
                minutes=self.before_interruption_minutes,
            )
        with self._journalled(stage, "an experiment of FIS", "fis:StopExperiment", place):
            self._experiment = hands.start(template, stage.run)
        return [f"FIS experiment {self._experiment} from template {template}"]

    @staticmethod
    def _journalled(
        stage: Stage,
        what: str,
        action: str,
        place: Mapping[str, str],
    ) -> AbstractContextManager[object]:
        undo = Undo("aws", action, dict(place), manual=account_undo.manual(action, place, stage.run))
        return stage.journal.change(what, undo, lever=Capability.HANDS)

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """FIS says that it interrupted them. What it refused is never taken for a bite."""
        name = getattr(self, "_experiment", "")
        if not name:
            return None
        try:
            status, reason = self._hands(stage).experiment(name)
        except AskError:
            return None
        if status != "completed":
            return None
        heard = self.heard(stage)
        return f"FIS experiment {name}: {status} ({reason})" + (f"; {heard}" if heard else "")


class SpotTerminate(_AwsSpotFault):
    """Reproduces rows 49 and 52: the machine is gone without a word, through EC2's own API."""

    name = "spot-terminate"
    simulates = "the GPU pools' instances are terminated without notice (EC2 TerminateInstances)"
    failures = (49, 52)

    def strike(self, stage: Stage, instances: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """TerminateInstances."""
        self._ids = [str(one["InstanceId"]) for one in instances]
        self._nodes = [name_of(node) for node in _pool_nodes(stage)]
        self._hands(stage).terminate(self._ids)
        return [f"terminated {one}" for one in self._ids]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """EC2 says so, and the cluster has felt it: a node of theirs fell silent, or left."""
        felt = silent(stage.scene, getattr(self, "_nodes", ())) or left(stage.scene, getattr(self, "_nodes", ()))
        if not felt:
            return None
        try:
            found = self._hands(stage).instances(self._ids)
        except AskError:
            return None
        states = {str(one["InstanceId"]): str(one["State"]["Name"]) for one in found}
        gone = [f"{name} is {state}" for name, state in states.items() if state in ("shutting-down", "terminated")]
        return f"{', '.join(gone)}; {felt}" if gone else None
