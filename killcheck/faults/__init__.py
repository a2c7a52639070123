"""One small file a fault, or a family whose members differ in a line: a reversible sabotage of what a layer depends on.

What may *not* live here: healing that only the injecting process could do (an undo is data in the journal),
knowledge of one particular cluster, verdicts.

Other packages add faults by the entry point group ``killcheck.faults``: each names a :class:`Fault`, held to the same
contract.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from functools import cache
from importlib.metadata import entry_points

from killcheck.faults.admission import NoRoom, PodSecurity, QuotaExhausted, WebhookDown
from killcheck.faults.aws_credentials import SsoExpired, StaticKeyRevoked, StsExpired, WebIdentityExpired
from killcheck.faults.aws_spot import (
    SpotFis,
    SpotHealthMessage,
    SpotQueueMessage,
    SpotRebalanceMessage,
    SpotStateMessage,
    SpotTerminate,
)
from killcheck.faults.base import Fault, FaultError, Plan
from killcheck.faults.brownout import ApiBrownout
from killcheck.faults.cached_copy_evicted import CachedCopyEvicted
from killcheck.faults.clocks import ClocksBack, ClocksForward, MissedFirings, ZoneChanged
from killcheck.faults.combination import apart, in_order, refuse_clashes
from killcheck.faults.command_missing import CommandMissing
from killcheck.faults.docker_containers import ContainerDisconnected, ContainerPaused, ContainerStopped
from killcheck.faults.docker_images import TagDeleted
from killcheck.faults.docker_nodes import NodeDisconnected, NodePaused, NodeReclaimed, NodeStopped
from killcheck.faults.docker_registry import RegistryRefuses, RegistryStopped, RegistryThrottles
from killcheck.faults.drain import DoNotDisrupt, Finalizer, LongGrace, PdbBlocks
from killcheck.faults.image_gone import ImageGone
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
from killcheck.killpath import KillPath, Layer

__all__ = [
    "ALL", "CLOUD", "ENGINE", "GROUP", "Fault", "FaultError", "Plan", "apart", "every", "in_order", "means_something",
    "named", "refuse_clashes", "there",
]

#: Entry point group of faults from other packages.
GROUP = "killcheck.faults"

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
    SsoExpired, StsExpired, StaticKeyRevoked, WebIdentityExpired,
    SpotQueueMessage, SpotRebalanceMessage, SpotStateMessage, SpotHealthMessage, SpotFis, SpotTerminate,
)


@cache
def _foreign() -> tuple[type[Fault], ...]:
    found = []
    for entry in entry_points(group=GROUP):
        kind = entry.load()
        missing = [field for field in ("name", "simulates", "family") if not getattr(kind, field, "")]
        if not (isinstance(kind, type) and issubclass(kind, Fault)) or missing:
            raise FaultError(f"entry point {entry.name} of {GROUP} is no fault: {', '.join(missing) or 'not a Fault'}")
        found.append(kind)
    return tuple(found)


def every() -> tuple[type[Fault], ...]:
    """Those that come with killcheck, and other packages'. Raises FaultError for one that breaks the contract."""
    return (*ALL, *CLOUD, *ENGINE, *_foreign())


def there(kind: type[Fault], kill_path: KillPath, levers: Collection[str] | None) -> bool:
    """Whether the levers are there that a fault needs; ``levers`` None: the embedded cluster's, with all of its own.

    What acts on a cloud account only means something where the spec has a ``cloud:`` to act on.
    """
    if levers is not None:
        return set(kind.needs) <= set(levers)
    if kind in ENGINE:
        return False
    return kind not in CLOUD or (kill_path.cloud is not None and bool(kill_path.cloud.endpoint))


def means_something(kind: type[Fault], kill_path: KillPath, layer: Layer) -> bool:
    """Whether a fault applies to a layer at all, and to anything that the layer turns off."""
    fault = kind()
    return not (fault.misplaced(layer) or fault.applies(layer) or fault.pointless(kill_path, layer))


def named(name: str) -> Fault:
    """The fault that ``--under`` calls ``name``. Raises KeyError whose message names the nearest."""
    kinds = every()
    for kind in kinds:
        if kind.name == name:
            return kind()
    names = [kind.name for kind in kinds]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise KeyError(f"no fault is called {name}; {hint}there are: {', '.join(names)}")
