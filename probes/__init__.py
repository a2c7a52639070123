"""Probes: one small file a question about a kill path, answered by reading alone.

What may *not* live here: anything that changes a cluster, that runs what a manifest contains, or that goes to the
network unasked (:mod:`killcheck.probes.image_missing` asks registries, where the user said so).
"""

from __future__ import annotations

from killcheck.probes.argo_self_heal import ArgoSelfHeal
from killcheck.probes.autoscaler_dead import AutoscalerDead
from killcheck.probes.autoscaler_holds import AutoscalerHolds
from killcheck.probes.base import SEVERITIES, Evidence, Finding, Probe, Severity
from killcheck.probes.call_refused import CallRefused
from killcheck.probes.certificate_expiry import CertificateExpiry
from killcheck.probes.cloud_stop import CloudStop
from killcheck.probes.command_missing import CommandMissing
from killcheck.probes.config_missing import ConfigMissing
from killcheck.probes.coverage_gap import CoverageGap
from killcheck.probes.create_leaks import CreateLeaks
from killcheck.probes.dead_token import DeadToken
from killcheck.probes.do_not_disrupt import DoNotDisrupt
from killcheck.probes.drain_flags import DrainFlags
from killcheck.probes.egress_blocked import EgressBlocked
from killcheck.probes.exit_restarts import ExitRestarts
from killcheck.probes.fails_when_fired import FailsWhenFired
from killcheck.probes.false_green import FalseGreen
from killcheck.probes.forbid_hung_job import ForbidHungJob
from killcheck.probes.force_delete import ForceDelete
from killcheck.probes.ghost_gpu import GhostGpu
from killcheck.probes.gpu_after_off import GpuAfterOff
from killcheck.probes.gpu_node_guest import GpuNodeGuest
from killcheck.probes.hpa_relight import HpaRelight
from killcheck.probes.human_credentials import HumanCredentials
from killcheck.probes.image_gone import ImageGone
from killcheck.probes.image_quota import ImageQuota
from killcheck.probes.image_unpinned import ImageUnpinned
from killcheck.probes.keda_floor import KedaFloor
from killcheck.probes.keda_relight import KedaRelight
from killcheck.probes.keda_trigger import KedaTrigger
from killcheck.probes.kept_awake import KeptAwake
from killcheck.probes.manifest_refused import ManifestRefused
from killcheck.probes.never_ends import NeverEnds
from killcheck.probes.no_alarm import NoAlarm
from killcheck.probes.no_consolidation import NoConsolidation
from killcheck.probes.no_effect import NoEffect
from killcheck.probes.no_owner import NoOwner
from killcheck.probes.no_retry import NoRetry
from killcheck.probes.no_such_object import NoSuchObject
from killcheck.probes.node_object_deleted import NodeObjectDeleted
from killcheck.probes.not_understood import NotUnderstood
from killcheck.probes.open_fence import OpenFence
from killcheck.probes.operator_owned import OperatorOwned
from killcheck.probes.outside_host import OutsideHost
from killcheck.probes.own_node import OwnNode
from killcheck.probes.pdb_blocks_drain import PdbBlocksDrain
from killcheck.probes.pod_refused import PodRefused
from killcheck.probes.pods_come_back import PodsComeBack
from killcheck.probes.pool_floor import PoolFloor
from killcheck.probes.pull_trap import PullTrap
from killcheck.probes.queue_not_drained import QueueNotDrained
from killcheck.probes.rbac_excess import RbacExcess
from killcheck.probes.rbac_missing import RbacMissing
from killcheck.probes.schedule_trap import ScheduleTrap
from killcheck.probes.second_night import SecondNight
from killcheck.probes.second_starter import SecondStarter
from killcheck.probes.sentinel_trap import SentinelTrap
from killcheck.probes.shared_fate import SharedFate
from killcheck.probes.slow_stop import SlowStop
from killcheck.probes.spec_mismatch import SpecMismatch
from killcheck.probes.spot_queue import SpotQueue
from killcheck.probes.stale_success import StaleSuccess
from killcheck.probes.suspended import Suspended
from killcheck.probes.tight_deadline import TightDeadline
from killcheck.probes.unasked_gpu import UnaskedGpu
from killcheck.probes.unbounded_drain import UnboundedDrain
from killcheck.probes.unschedulable import Unschedulable
from killcheck.probes.volume_holds_node import VolumeHoldsNode
from killcheck.probes.webhook_down import WebhookDown
from killcheck.probes.world import Executor, World

__all__ = ["ALL", "REHEARSED", "SEVERITIES", "Evidence", "Executor", "Finding", "Probe", "Severity", "World", "named"]

#: Every probe, in the order of how often what it asks about has gone wrong.
ALL: tuple[Probe, ...] = (
    FalseGreen(),
    ImageGone(),
    ForbidHungJob(),
    CoverageGap(),
    UnaskedGpu(),
    KedaFloor(),
    KedaRelight(),
    ArgoSelfHeal(),
    OperatorOwned(),
    ImageUnpinned(),
    ImageQuota(),
    SpecMismatch(),
    PoolFloor(),
    GhostGpu(),
    NodeObjectDeleted(),
    EgressBlocked(),
    RbacMissing(),
    RbacExcess(),
    PodRefused(),
    CommandMissing(),
    SlowStop(),
    PdbBlocksDrain(),
    DoNotDisrupt(),
    Suspended(),
    StaleSuccess(),
    OpenFence(),
    AutoscalerDead(),
    NoSuchObject(),
    PodsComeBack(),
    QueueNotDrained(),
    ExitRestarts(),
    NoConsolidation(),
    UnboundedDrain(),
    AutoscalerHolds(),
    GpuNodeGuest(),
    SpotQueue(),
    KedaTrigger(),
    OwnNode(),
    Unschedulable(),
    ScheduleTrap(),
    DeadToken(),
    HumanCredentials(),
    ManifestRefused(),
    PullTrap(),
    SentinelTrap(),
    SecondStarter(),
    ForceDelete(),
    DrainFlags(),
    CloudStop(),
    NoRetry(),
    WebhookDown(),
    TightDeadline(),
    ConfigMissing(),
    CertificateExpiry(),
    HpaRelight(),
    GpuAfterOff(),
    KeptAwake(),
    VolumeHoldsNode(),
    CreateLeaks(),
    SharedFate(),
    NoAlarm(),
    NoOwner(),
    NotUnderstood(),
)

#: Those that only a rehearsal answers: asked where there was one.
REHEARSED: tuple[Probe, ...] = (CallRefused(), NoEffect(), FailsWhenFired(), NeverEnds(), SecondNight(), OutsideHost())


def named(probe: str) -> Probe:
    """The probe of that id. Raises KeyError, with the nearest."""
    for one in (*ALL, *REHEARSED):
        if one.id == probe:
            return one
    from killcheck.text.suggestions import did_you_mean

    raise KeyError(f"no probe is called {probe!r}{did_you_mean(probe, [one.id for one in (*ALL, *REHEARSED)])}")
