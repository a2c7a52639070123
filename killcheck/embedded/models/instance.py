"""One machine of the modelled cloud: its states, who launched and ended it, and what it has cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from killcheck.instances.catalogue import InstanceType

__all__ = ["BILLED", "GONE", "Instance", "State"]

State = Literal["pending", "running", "shutting-down", "stopping", "stopped", "terminated"]

#: States in which an instance costs money, or is about to (EC2 user guide, "instance lifecycle").
BILLED: frozenset[str] = frozenset({"pending", "running"})
#: From these an instance does not come back.
GONE: frozenset[str] = frozenset({"shutting-down", "terminated"})

#: An Azure subscription of nobody.
_NOBODY = "00000000-0000-0000-0000-000000000000"


class Instance(Struct):
    """One machine. ``usd_per_hour`` is the on-demand price (an upper bound for spot; None: not known);
    ``launched_by`` and ``terminated_by`` name who did it; ``notice`` is the spot notice it got (FACTS: fixed at
    the notice)."""

    instance_id: str
    type: InstanceType
    zone: str
    capacity_type: str
    launched: datetime
    launched_by: str
    tags: dict[str, str] = field(default_factory=dict)
    state: State = "pending"
    running: datetime | None = None
    ended: datetime | None = None
    terminated: datetime | None = None
    terminated_by: str = ""
    node_name: str = ""
    #: Its state in its Auto Scaling group.
    lifecycle: str = "InService"
    notice: datetime | None = None
    rebalance: datetime | None = None
    #: Whether its metadata service tells of notice and rebalance.
    metadata_tells: bool = True
    #: What the machine's user data makes its kubelet register with: labels, taints, annotations.
    node: Mapping[str, Any] = field(default_factory=dict)

    @property
    def region(self) -> str:
        """Of its zone: ``us-east-1`` of us-east-1a, ``europe-west4`` of europe-west4-a, ``eastus`` of eastus-1."""
        region = self.zone[:-1] if self.type.provider == "aws" else self.zone.rpartition("-")[0]
        return region.rstrip("-_.")  # of a zone that somebody made up: a label still

    @property
    def provider_id(self) -> str:
        """``aws:///us-east-1a/i-0123...``, as Node.spec.providerID has it; another cloud's is in its own form."""
        if self.type.provider == "azure":
            return (
                f"azure:///subscriptions/{_NOBODY}/resourceGroups/mc_dev_dev_eastus/providers/Microsoft.Compute/"
                f"virtualMachines/{self.instance_id}"
            )
        if self.type.provider == "gcp":
            return f"gce://dev/{self.zone}/{self.instance_id}"
        return f"aws:///{self.zone}/{self.instance_id}"

    @property
    def usd_per_hour(self) -> float | None:
        """The type's on-demand price."""
        return self.type.usd_per_hour

    def hours(self, now: datetime) -> float:
        """Hours billed up to ``now``."""
        return max(0.0, ((self.ended or now) - self.running).total_seconds()) / 3600 if self.running else 0.0
