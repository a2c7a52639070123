"""The faults that come with killcheck, in the order in which they are listed.

Importing this imports all of them; :mod:`killcheck.faults` does it when the first one is asked for.
"""

from __future__ import annotations

from killcheck.faults.admission import NoRoom, PodSecurity, QuotaExhausted, WebhookDown
from killcheck.faults.aws_credentials import SsoExpired, StaticKeyRevoked, StsExpired, WebIdentityExpired
from killcheck.faults.aws_metadata_blocked import MetadataBlocked, MetadataDenied
from killcheck.faults.aws_spot import (
    SpotFis,
    SpotHealthMessage,
    SpotQueueMessage,
    SpotRebalanceMessage,
    SpotStateMessage,
    SpotTerminate,
)
from killcheck.faults.base import Fault
from killcheck.faults.brownout import ApiBrownout
from killcheck.faults.cached_copy_evicted import CachedCopyEvicted
from killcheck.faults.clocks import ClocksBack, ClocksForward, MissedFirings, ZoneChanged
from killcheck.faults.command_missing import CommandMissing
from killcheck.faults.docker_containers import ContainerDisconnected, ContainerPaused, ContainerStopped
from killcheck.faults.docker_images import TagDeleted
from killcheck.faults.docker_nodes import NodeDisconnected, NodePaused, NodeReclaimed, NodeStopped
from killcheck.faults.docker_registry import RegistryRefuses, RegistryStopped, RegistryThrottles
from killcheck.faults.drain import DoNotDisrupt, Finalizer, LongGrace, PdbBlocks
from killcheck.faults.ecr_token_expired import EcrTokenExpired
from killcheck.faults.image_gone import ImageGone
from killcheck.faults.machine_cli import (
    CliDenied,
    CliGone,
    CliHangs,
    CliNoEffect,
    CliSignedOut,
    CliThrottled,
    CliUnreachable,
    CredentialsExpired,
)
from killcheck.faults.machine_disk import DiskFull
from killcheck.faults.machine_parts import (
    DiskReadOnly,
    LockHeld,
    LockStale,
    ScriptGone,
    ScriptNotExecutable,
    SentinelLost,
)
from killcheck.faults.machine_reclaim import ReclaimedWhileStopping
from killcheck.faults.machine_time import ClockBehind, MachineAsleep, MachineOff, SecondController, TimerStopped
from killcheck.faults.machines import (
    AutoscalerDown,
    ControllerManagerDown,
    NodePartitioned,
    SpotNotice,
    SpotNoticeMetadata,
    SpotNoticeQueue,
    SpotRebalance,
    SpotReclaim,
)
from killcheck.faults.network import ApiUnreachable, DnsDenied, EgressDenied
from killcheck.faults.pull_secret_expired import PullSecretExpired
from killcheck.faults.registry_down import RegistryQuota, RegistryUnreachable
from killcheck.faults.relighting import RivalOperator, SecondStarter
from killcheck.faults.rivals import ArgoSelfHeal, KedaMinimum, PoolFloor
from killcheck.faults.rolebinding_gone import RoleBindingGone
from killcheck.faults.runs import LaptopKilled, RunNeverFinishes
from killcheck.faults.schedule import JobHungUnderForbid, Suspended
from killcheck.faults.token import TokenAudience, TokenDead, TokenNotMounted
from killcheck.faults.volume_stuck import VolumeStuck

__all__ = ["ALL", "CLOUD", "ENGINE", "MACHINE"]

#: Every fault that comes with killcheck, in the order in which they are listed.
ALL: tuple[type[Fault], ...] = (
    ImageGone, RegistryUnreachable, RegistryQuota, PullSecretExpired, CachedCopyEvicted, CommandMissing,
    TokenDead, TokenAudience, TokenNotMounted, RoleBindingGone,
    EgressDenied, DnsDenied, ApiUnreachable, NodePartitioned, ApiBrownout,
    Suspended, JobHungUnderForbid, ZoneChanged, ClocksForward, ClocksBack, MissedFirings,
    QuotaExhausted, WebhookDown, PodSecurity, NoRoom,
    KedaMinimum, ArgoSelfHeal, RivalOperator, SecondStarter, PoolFloor,
    PdbBlocks, DoNotDisrupt, LongGrace, Finalizer, VolumeStuck,
    SpotNotice, SpotNoticeQueue, SpotNoticeMetadata, SpotRebalance, SpotReclaim,
    AutoscalerDown, ControllerManagerDown, LaptopKilled, RunNeverFinishes,
)

#: Those of what a Docker Engine runs: with ``--on docker``, and on kind, whose nodes are containers.
ENGINE: tuple[type[Fault], ...] = (
    TagDeleted, RegistryStopped, RegistryThrottles, RegistryRefuses,
    ContainerStopped, ContainerPaused, ContainerDisconnected,
    NodePaused, NodeStopped, NodeDisconnected, NodeReclaimed,
)

#: Those that act on a cloud account, or on a stand-in of one: only where the spec has a ``cloud:`` section.
CLOUD: tuple[type[Fault], ...] = (
    SsoExpired, StsExpired, StaticKeyRevoked, WebIdentityExpired, EcrTokenExpired,
    SpotQueueMessage, SpotRebalanceMessage, SpotStateMessage, SpotHealthMessage, SpotFis, SpotTerminate,
    MetadataBlocked, MetadataDenied,
)

#: Those of what is outside Kubernetes: programs of a machine, what they call, what starts them.
MACHINE: tuple[type[Fault], ...] = (
    ScriptGone, ScriptNotExecutable, CliGone, CliDenied, CredentialsExpired, CliSignedOut, CliThrottled, CliUnreachable,
    CliHangs, CliNoEffect, TimerStopped, MachineOff, MachineAsleep, ClockBehind, LockStale, LockHeld, DiskReadOnly,
    DiskFull, SecondController, ReclaimedWhileStopping, SentinelLost,
)
