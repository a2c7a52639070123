"""Executors with a single chance."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import World

from killcheck.kube.objects import dig

__all__ = ["NoRetry"]


class NoRetry(Probe):
    """The first seconds of a pod's network are refused now and then; backoffLimit 0 and no retry is one try a night."""

    id = "no-retry"
    claim = "An executor that fails once is tried again the same night."
    remedy = "Set backoffLimit: 5, or let the call retry (curl --retry 5 --retry-connrefused)."
    severity = "warning"
    failures = (24,)
    sources = ("cloudnativelabs/kube-router#1652", "recording 28")

    def ask(self, world: World) -> Iterable[Finding]:
        """backoffLimit 0 on daily schedules, and no retry in the command."""
        for one in world.layer_executors:
            path = ("spec", "jobTemplate", "spec", "backoffLimit")
            if dig(one.owner, *path) == 0 and "retry" not in one.text.lower() and "for i in" not in one.text:
                patch = {"spec": {"jobTemplate": {"spec": {"backoffLimit": 5}}}}
                yield self.finding(
                    world,
                    one.owner,
                    path,
                    "one try a night: backoffLimit 0, and nothing retries",
                    patch=merge_patch(one.owner, patch),
                )
