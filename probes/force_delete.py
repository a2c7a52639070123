"""Executors that delete pods by force."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path, kubectl
from killcheck.probes.world import World

from killcheck.text import lazy_re

__all__ = ["ForceDelete"]


class ForceDelete(Probe):
    """--force removes the object at once; the process goes on, on the same GPU, and no pod list shows it."""

    id = "force-delete"
    claim = "No executor deletes pods by force."
    remedy = "Delete without --force, with a grace period that the pod can keep; end the node where it does not go."
    failures = (38,)
    sources = ("KK#121828", "KK#141471", "seen on a v1.36 cluster: the process ran for forty minutes more")

    def ask(self, world: World) -> Iterable[Finding]:
        """What executors run."""
        for one in world.executors:
            forced = any(found.switch("force") for found in kubectl(one, "delete"))
            if forced or _FORCE.search(one.text):
                message = "deletes by force: the API shows no pod, and its process keeps the GPU"
                yield self.finding(world, one.owner, command_path(one), message)


_FORCE = lazy_re.compile(
    r"grace_period_seconds\s*=\s*0\b"
    r"|gracePeriodSeconds[\"'\\]*\s*[:=]\s*0\b"
)
