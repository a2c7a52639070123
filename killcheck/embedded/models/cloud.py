"""A model of the cloud beneath the embedded cluster: instances that launch, bill and terminate, and a message queue.

Who launches is remembered on each instance, and so is what nobody else would tell: an instance bills from the moment
it runs until its termination begins, whether or not a Node stands for it. An instance that no Node and no NodeClaim
stands for is a *ghost* (:meth:`Cloud.ghosts`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any, Protocol

from msgspec import Struct

from killcheck.clock import Loop, Timer
from killcheck.embedded.models.cloud_errors import CloudError, NoSuchInstance
from killcheck.embedded.models.instance import BILLED, GONE, Instance, State
from killcheck.embedded.models.lifecyclehooks import LifecycleHooks
from killcheck.embedded.models.queue import Queue
from killcheck.instances.catalogue import Catalogue, shipped
from killcheck.instances.errors import MachineRefused
from killcheck.instances.reclaims import NOTICE_S

__all__ = ["Cloud", "Timing"]

#: Where machines of other clouds are launched of which nobody says it, and how those clouds name them.
_ELSEWHERE: Mapping[str, str] = {"azure": "eastus-1", "gcp": "us-central1-a"}
_NAMED: Mapping[str, str] = {"azure": "aks-gpu", "gcp": "gke-dev-gpu"}


class Timing(Struct, frozen=True):
    """How long things take, in seconds: to a running instance, from there to its kubelet's first word, to the end of a
    termination, and between a spot notice and the reclaim."""

    run_s: float = 12.0
    boot_s: float = 28.0
    terminate_s: float = 30.0
    notice_s: float = 120.0


class Refused(Struct, frozen=True):
    """A machine that was asked for and not to be had: its type and how many GPUs that has, who asked and when."""

    type: str
    devices: int
    by: str
    at: datetime


class Machines(Protocol):
    """Where machines are real besides: launched and ended as the model's are. Either raises MachineRefused."""

    def launch(self, kind: str, zone: str, *, spot: bool, tags: Mapping[str, str]) -> str:
        """Launch one; returns its id."""

    def terminate(self, instance_id: str) -> None:
        """End one."""


class Cloud:
    """Instances and the queue. Not part of the API: models and faults call it, nothing else does.

    ``listeners`` are called with (instance, the state it was in) at every change of state, in the order of listing;
    ``joins`` with an instance whose kubelet is up and would register.
    """

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        *,
        catalogue: Catalogue | None = None,
        region: str = "us-east-1",
        account: str = "111122223333",
        timing: Timing | None = None,
    ) -> None:
        self.loop = loop
        self.rng = rng
        self._catalogue = catalogue
        self.move(region)
        self.account = account
        self.timing = timing or Timing()
        self.queue = Queue(loop)
        self.instances: dict[str, Instance] = {}
        self.listeners: list[Callable[[Instance, State], None]] = []
        self.joins: list[Callable[[Instance], None]] = []
        #: Auto Scaling groups by name (killcheck.embedded.models.nodegroups), and who is told of a new desired size.
        self.groups: dict[str, Any] = {}
        self.group_listeners: list[Callable[[str], None]] = []
        self.hooks = LifecycleHooks(self)
        #: API actions that are refused with UnauthorizedOperation, as when a role lost them.
        self.denied: set[str] = set()
        #: Whether instance metadata is out of pods' reach: the hop limit of their machines is 1 now.
        self.metadata_blocked = False
        #: Who asked metadata all the same, and got no answer.
        self.metadata_unheard: list[str] = []
        #: Types that cannot be had (InsufficientInstanceCapacity).
        self.exhausted: set[str] = set()
        #: Whether no spot machine of any type can be had, and what was asked for all the same.
        self.no_spot = False
        self.spot_refused: list[Refused] = []
        #: What command lines in pods are told (exit code, words) where their identity in the cloud is gone, by program;
        #: and who was.
        self.identities_gone: Mapping[str, tuple[int, str]] = {}
        self.identities_refused: list[str] = []
        self._timers: dict[str, list[Timer]] = {}
        #: Who makes machines real where there is more than this model: a stand-in of the cloud's API.
        self.machines: Machines | None = None

    def move(self, region: str) -> None:
        """Launch in that region from now on."""
        self.region = region
        self.zones = tuple(f"{region}{letter}" for letter in "abc")

    def zone_of(self, provider: str) -> str:
        """Where a machine is launched of which nobody says it."""
        return _ELSEWHERE.get(provider, self.zones[0])

    @property
    def catalogue(self) -> Catalogue:
        """What can be launched; read when first asked for."""
        if self._catalogue is None:
            self._catalogue = shipped()
        return self._catalogue

    # -- what its API would do -----------------------------------------------------------------------------
    def launch(
        self,
        name: str,
        *,
        by: str,
        capacity_type: str = "on-demand",
        zone: str = "",
        tags: Mapping[str, str] | None = None,
        node: Mapping[str, Any] | None = None,
    ) -> Instance:
        """Launch an instance of type ``name``. Raises CloudError where it is denied, exhausted or unknown."""
        self._allow("ec2:RunInstances")
        kind = self.catalogue.get(name)
        if kind is None:
            raise CloudError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
        if self.no_spot and capacity_type == "spot":
            self.spot_refused.append(Refused(name, kind.devices, by, self.loop.now()))
        if name in self.exhausted or (self.no_spot and capacity_type == "spot"):
            raise CloudError(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {name} capacity in the Availability Zone you requested ({zone}).",
            )
        where, spot = zone or self.zone_of(kind.provider), capacity_type == "spot"
        if kind.provider != "aws":
            instance_id = f"{_NAMED[kind.provider]}-{self.rng.getrandbits(32):08x}"
        elif self.machines:
            try:
                instance_id = self.machines.launch(name, where, spot=spot, tags=tags or {})
            except MachineRefused as error:
                raise CloudError(error.code or "Unavailable", str(error)) from error
        else:
            instance_id = f"i-{self.rng.getrandbits(68):017x}"
        instance = Instance(
            instance_id, kind, where, capacity_type, self.loop.now(), by, dict(tags or {}), node=dict(node or {})
        )
        self.instances[instance.instance_id] = instance
        self._later(instance, self.timing.run_s, self._run, instance)
        return instance

    def terminate(self, instance_id: str, *, by: str) -> None:
        """Begin to terminate an instance; again is no error. Raises NoSuchInstance, and CloudError where denied."""
        self._allow("ec2:TerminateInstances")
        instance = self.describe(instance_id)
        if instance.state in GONE:
            return
        self._end(instance, by)

    def describe(self, instance_id: str) -> Instance:
        """One instance that is not terminated. Raises NoSuchInstance."""
        instance = self.instances.get(instance_id)
        if instance is None or instance.state == "terminated":
            raise NoSuchInstance(instance_id)
        return instance

    # -- what happens to machines --------------------------------------------------------------------------
    def interrupt(
        self,
        instance_id: str,
        *,
        in_s: float | None = None,
        via: Collection[str] = ("queue", "metadata"),
    ) -> Instance:
        """A spot interruption: notice now, reclaim in ``in_s`` seconds (None: what its cloud leaves); ``via`` says
        where it is told of; only AWS has a queue. Raises NoSuchInstance."""
        instance = self.describe(instance_id)
        wait_s = self.leaves_s(instance) if in_s is None else in_s
        instance.notice = self.loop.now() + timedelta(seconds=wait_s)
        instance.metadata_tells = "metadata" in via
        if "queue" in via and instance.type.provider == "aws":
            self.queue.send(
                self.event("EC2 Spot Instance Interruption Warning", instance, {"instance-action": "terminate"})
            )
        self._later(instance, wait_s, self._reclaimed, instance)
        self._tell(instance, instance.state)
        return instance

    def leaves_s(self, instance: Instance) -> float:
        """How long a notice of its cloud leaves, in seconds."""
        return self.timing.notice_s if instance.type.provider == "aws" else NOTICE_S[instance.type.provider]

    def approve(self, instance_id: str) -> None:
        """Whoever had notice needs no more of it (Azure's StartRequests): the machine goes now."""
        instance = self.instances.get(instance_id)
        if instance is not None and instance.notice is not None:
            self._reclaimed(instance)

    def reclaim(self, instance_id: str) -> Instance:
        """A reclaim without notice: the machine stops at once, its Node stays. Raises NoSuchInstance."""
        instance = self.describe(instance_id)
        self._reclaimed(instance)
        return instance

    def announce(self, instance_id: str, in_s: float) -> None:
        """What an experiment of FIS does: a rebalance recommendation now, notice and reclaim as AWS times them."""
        instance = self.instances.get(instance_id)
        if instance is None or instance.state in GONE:
            return
        self.recommend_rebalance(instance_id)
        self._later(instance, max(0.0, in_s - self.timing.notice_s), self._noticed, instance)

    def _noticed(self, instance: Instance) -> None:
        if instance.state not in GONE:
            self.interrupt(instance.instance_id)

    def lost(self, instance_id: str) -> None:
        """Somebody ended it through the cloud's API; nothing happens where it is not known or gone already."""
        instance = self.instances.get(instance_id)
        if instance is not None and instance.state not in GONE:
            self._end(instance, "api")

    def recommend_rebalance(self, instance_id: str) -> Instance:
        """A rebalance recommendation: a message and metadata, nothing more. Raises NoSuchInstance."""
        instance = self.describe(instance_id)
        if instance.type.provider != "aws":  # nobody else has such a thing
            return instance
        instance.rebalance = self.loop.now()
        self.queue.send(self.event("EC2 Instance Rebalance Recommendation", instance, {}))
        self._tell(instance, instance.state)
        return instance

    def ghost(self, name: str, *, by: str = "unknown", capacity_type: str = "on-demand") -> Instance:
        """An instance that is running and never joins: what a leaked handle leaves behind."""
        instance = self.launch(name, by=by, capacity_type=capacity_type)
        instance.node = {"joins": False}
        return instance

    # -- what can be asked of it ---------------------------------------------------------------------------
    def billed(self) -> list[Instance]:
        """Every instance that costs money now or is about to, oldest first."""
        return [one for one in self.instances.values() if one.state in BILLED]

    def of(self, node_name: str) -> Instance | None:
        """The newest instance behind a Node's name."""
        return next((one for one in reversed(self.instances.values()) if one.node_name == node_name), None)

    def by_provider_id(self, provider_id: str) -> Instance | None:
        """The instance of a ``spec.providerID``, terminated ones included."""
        return self.instances.get(provider_id.rpartition("/")[2])

    def ghosts(self, provider_ids: Iterable[str]) -> list[Instance]:
        """Billed instances that none of ``provider_ids`` (of Nodes and NodeClaims) stands for."""
        known = set(provider_ids)
        return [one for one in self.billed() if one.provider_id not in known]

    def event(self, detail_type: str, instance: Instance, detail: Mapping[str, Any]) -> dict[str, Any]:
        """An EventBridge event about an instance, as it arrives in a queue."""
        return {
            "version": "0",
            "id": f"{self.rng.getrandbits(128):032x}",
            "detail-type": detail_type,
            "source": "aws.ec2",
            "account": self.account,
            "time": self.loop.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self.region,
            "resources": [f"arn:aws:ec2:{self.region}:instance/{instance.instance_id}"],
            "detail": {"instance-id": instance.instance_id, **detail},
        }

    @property
    def sizes(self) -> dict[str, tuple[int, int, int, bool]]:
        """Least, most and wanted machines of each group, and whether nothing scales it; may be set."""
        return {name: (one.minimum, one.maximum, one.desired, one.fixed) for name, one in self.groups.items()}

    @sizes.setter
    def sizes(self, sizes: Mapping[str, tuple[int, int, int, bool]]) -> None:
        for name, (least, most, wanted, fixed) in sizes.items():
            self.size(name, least, most, wanted, fixed=fixed)

    def size(self, name: str, least: int, most: int, wanted: int, *, fixed: bool, by: str = "") -> None:
        """Give a group other sizes; ``by``: who is told of to have ended what is too many."""
        group = self.groups[name]
        group.minimum, group.maximum, group.desired, group.fixed, group.sized_by = least, most, wanted, fixed, by
        for listener in self.group_listeners:
            listener(name)

    def stop(self) -> None:
        """Drop every timer: nothing changes any more."""
        self.hooks.stop()
        for timers in self._timers.values():
            for timer in timers:
                timer.cancel()
        self._timers.clear()

    # -- inside --------------------------------------------------------------------------------------------
    def _allow(self, action: str) -> None:
        if action in self.denied:
            raise CloudError("UnauthorizedOperation", f"You are not authorized to perform this operation: {action}")

    def _later(self, instance: Instance, delay_s: float, fn: Callable[..., object], *args: Any) -> None:
        self._timers.setdefault(instance.instance_id, []).append(self.loop.call_later(delay_s, fn, *args))

    def _run(self, instance: Instance) -> None:
        if instance.state == "pending":
            instance.running = self.loop.now()
            self._become(instance, "running")
            self._later(instance, self.timing.boot_s, self._join, instance)

    def _join(self, instance: Instance) -> None:
        if instance.state == "running" and instance.node.get("joins", True):
            for join in list(self.joins):
                join(instance)

    def _reclaimed(self, instance: Instance) -> None:
        if instance.state not in GONE:
            self._end(instance, "spot-reclaim" if instance.capacity_type == "spot" else "aws")

    def _end(self, instance: Instance, by: str) -> None:
        instance.terminated_by, instance.ended = by, self.loop.now()
        for timer in self._timers.pop(instance.instance_id, ()):
            timer.cancel()
        self._become(instance, "shutting-down")
        self._later(instance, self.timing.terminate_s, self._terminated, instance)

    def _terminated(self, instance: Instance) -> None:
        instance.terminated = self.loop.now()
        if self.machines is not None and instance.type.provider == "aws":
            with suppress(MachineRefused):  # then it goes on, and the stand-in, which is asked, says so
                self.machines.terminate(instance.instance_id)
        self._timers.pop(instance.instance_id, None)
        self._become(instance, "terminated")

    def _become(self, instance: Instance, state: State) -> None:
        before, instance.state = instance.state, state
        self._announce(instance)
        self._tell(instance, before)

    def _announce(self, instance: Instance) -> None:
        """The state-change notification that EventBridge sends where a rule forwards it (Karpenter's does)."""
        if instance.type.provider == "aws" and instance.state in ("stopping", "stopped", "shutting-down", "terminated"):
            self.queue.send(self.event("EC2 Instance State-change Notification", instance, {"state": instance.state}))

    def _tell(self, instance: Instance, before: State) -> None:
        for listener in list(self.listeners):
            listener(instance, before)
