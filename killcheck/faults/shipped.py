"""The faults that come with killcheck, in the order in which they are listed.

Importing this imports all of them; :mod:`killcheck.faults` does it when the first one is asked for.
"""

from __future__ import annotations

from killcheck.faults.aws.credentials import SsoExpired, StaticKeyRevoked, StsExpired, WebIdentityExpired
from killcheck.faults.aws.metadata_blocked import MetadataBlocked, MetadataDenied
from killcheck.faults.aws.spot import (
    SpotFis,
    SpotHealthMessage,
    SpotQueueMessage,
    SpotRebalanceMessage,
    SpotStateMessage,
    SpotTerminate,
)
from killcheck.faults.base import Fault
from killcheck.faults.docker.containers import ContainerDisconnected, ContainerPaused, ContainerStopped
from killcheck.faults.docker.images import TagDeleted
from killcheck.faults.docker.nodes import NodeDisconnected, NodePaused, NodeReclaimed, NodeStopped
from killcheck.faults.docker.registry import RegistryRefuses, RegistryStopped, RegistryThrottles
from killcheck.faults.kubernetes.admission import NoRoom, PodSecurity, QuotaExhausted, WebhookDown
from killcheck.faults.kubernetes.brownout import ApiBrownout
from killcheck.faults.kubernetes.cached_copy_evicted import CachedCopyEvicted
from killcheck.faults.kubernetes.clocks import ClocksBack, ClocksForward, MissedFirings, ZoneChanged
from killcheck.faults.kubernetes.command_missing import CommandMissing
from killcheck.faults.kubernetes.drain import DoNotDisrupt, Finalizer, LongGrace, PdbBlocks
from killcheck.faults.kubernetes.ecr_token_expired import EcrTokenExpired
from killcheck.faults.kubernetes.image_gone import ImageGone
from killcheck.faults.kubernetes.network import ApiUnreachable, DnsDenied, EgressDenied
from killcheck.faults.kubernetes.nodes import (
    AutoscalerDown,
    ControllerManagerDown,
    NodePartitioned,
    SpotNotice,
    SpotNoticeMetadata,
    SpotNoticeQueue,
    SpotRebalance,
    SpotReclaim,
)
from killcheck.faults.kubernetes.pull_secret_expired import PullSecretExpired
from killcheck.faults.kubernetes.registry_down import RegistryQuota, RegistryUnreachable
from killcheck.faults.kubernetes.relighting import RivalOperator, SecondStarter
from killcheck.faults.kubernetes.rivals import ArgoSelfHeal, KedaMinimum, PoolFloor
from killcheck.faults.kubernetes.rolebinding_gone import RoleBindingGone
from killcheck.faults.kubernetes.runs import LaptopKilled, RunNeverFinishes
from killcheck.faults.kubernetes.schedule import JobHungUnderForbid, Suspended
from killcheck.faults.kubernetes.token import TokenAudience, TokenDead, TokenNotMounted
from killcheck.faults.kubernetes.volume_stuck import VolumeStuck
from killcheck.faults.machine.cli import (
    CliDenied,
    CliGone,
    CliHangs,
    CliNoEffect,
    CliSignedOut,
    CliThrottled,
    CliUnreachable,
    CredentialsExpired,
)
from killcheck.faults.machine.disk import DiskFull
from killcheck.faults.machine.parts import (
    DiskReadOnly,
    LockHeld,
    LockStale,
    ScriptGone,
    ScriptNotExecutable,
    SentinelLost,
)
from killcheck.faults.machine.reclaim import ReclaimedWhileStopping
from killcheck.faults.machine.timers import ClockBehind, MachineAsleep, MachineOff, SecondController, TimerStopped

__all__ = ["ALL", "CLOUD", "ENGINE", "MACHINE"]

#: Every fault that comes with killcheck, in the order in which they are listed.
ALL: tuple[type[Fault], ...] = (
    ImageGone,
    RegistryUnreachable,
    RegistryQuota,
    PullSecretExpired,
    CachedCopyEvicted,
    CommandMissing,
    TokenDead,
    TokenAudience,
    TokenNotMounted,
    RoleBindingGone,
    EgressDenied,
    DnsDenied,
    ApiUnreachable,
    NodePartitioned,
    ApiBrownout,
    Suspended,
    JobHungUnderForbid,
    ZoneChanged,
    ClocksForward,
    ClocksBack,
    MissedFirings,
    QuotaExhausted,
    WebhookDown,
    PodSecurity,
    NoRoom,
    KedaMinimum,
    ArgoSelfHeal,
    RivalOperator,
    SecondStarter,
    PoolFloor,
    PdbBlocks,
    DoNotDisrupt,
    LongGrace,
    Finalizer,
    VolumeStuck,
    SpotNotice,
    SpotNoticeQueue,
    SpotNoticeMetadata,
    SpotRebalance,
    SpotReclaim,
    AutoscalerDown,
    ControllerManagerDown,
    LaptopKilled,
    RunNeverFinishes,
)

#: Those of what a Docker Engine runs: with ``--on docker``, and on kind, whose nodes are containers.
ENGINE: tuple[type[Fault], ...] = (
    TagDeleted,
    RegistryStopped,
    RegistryThrottles,
    RegistryRefuses,
    ContainerStopped,
    ContainerPaused,
    ContainerDisconnected,
    NodePaused,
    NodeStopped,
    NodeDisconnected,
    NodeReclaimed,
)

#: Those that act on a cloud account, or on a stand-in of one: only where the spec has a ``cloud:`` section.
CLOUD: tuple[type[Fault], ...] = (
    SsoExpired,
    StsExpired,
    StaticKeyRevoked,
    WebIdentityExpired,
    EcrTokenExpired,
    SpotQueueMessage,
    SpotRebalanceMessage,
    SpotStateMessage,
    SpotHealthMessage,
    SpotFis,
    SpotTerminate,
    MetadataBlocked,
    MetadataDenied,
)

#: Those of what is outside Kubernetes: programs of a machine, what they call, what starts them.
MACHINE: tuple[type[Fault], ...] = (
    ScriptGone,
    ScriptNotExecutable,
    CliGone,
    CliDenied,
    CredentialsExpired,
    CliSignedOut,
    CliThrottled,
    CliUnreachable,
    CliHangs,
    CliNoEffect,
    TimerStopped,
    MachineOff,
    MachineAsleep,
    ClockBehind,
    LockStale,
    LockHeld,
    DiskReadOnly,
    DiskFull,
    SecondController,
    ReclaimedWhileStopping,
    SentinelLost,
)
