"""Probes: one small file a question about a kill path, answered by reading alone.

What may *not* live here: anything that changes a cluster, that runs what a manifest contains, or that goes to the
network unasked (:mod:`killcheck.probes.image_missing` asks registries, where the user said so).
"""

from __future__ import annotations

from killcheck.probes.argo_self_heal import ArgoSelfHeal
from killcheck.probes.base import SEVERITIES, Evidence, Finding, Probe, Severity
from killcheck.probes.coverage_gap import CoverageGap
from killcheck.probes.false_green import FalseGreen
from killcheck.probes.forbid_hung_job import ForbidHungJob
from killcheck.probes.image_gone import ImageGone
from killcheck.probes.image_quota import ImageQuota
from killcheck.probes.image_unpinned import ImageUnpinned
from killcheck.probes.keda_floor import KedaFloor
from killcheck.probes.keda_relight import KedaRelight
from killcheck.probes.operator_owned import OperatorOwned
from killcheck.probes.unasked_gpu import UnaskedGpu
from killcheck.probes.world import Executor, World

__all__ = ["ALL", "SEVERITIES", "Evidence", "Executor", "Finding", "Probe", "Severity", "World", "named"]

#: Every probe, in the order of how often what it asks about has gone wrong.
ALL: tuple[Probe, ...] = (
    FalseGreen(), ImageGone(), ForbidHungJob(), CoverageGap(), UnaskedGpu(), KedaFloor(), KedaRelight(),
    ArgoSelfHeal(), OperatorOwned(), ImageUnpinned(), ImageQuota(),
)


def named(probe: str) -> Probe:
    """The probe of that id. Raises KeyError, with the nearest."""
    for one in ALL:
        if one.id == probe:
            return one
    from killcheck.near import did_you_mean

    raise KeyError(f"no probe is called {probe!r}{did_you_mean(probe, [one.id for one in ALL])}")
