"""What could not be read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import Executor, World

from killcheck.text import lazy_re

__all__ = ["NotUnderstood"]

#: By convention of nearly every program that has such an option.
_DRY = lazy_re.compile(r"--?(?:dry[-_]?run|noop|no-op)(?:=(?:true|client|server|yes|1))?", re.IGNORECASE)


class NotUnderstood(Probe):
    """An executor that acts by means which cannot be read may do anything, also nothing."""

    id = "not-understood"
    claim = "What every layer's executor does could be read, and stays within Kubernetes."
    remedy = "Keep the script in the manifest or in a ConfigMap; a drill tells what it really does."
    severity = "note"
    failures = (2, 14)
    sources = ("killcheck.executor: what is read and what is not",)

    def ask(self, world: World) -> Iterable[Finding]:
        """What of the layers' executors is not understood."""
        for one in world.layer_executors:
            if one.seen is not None and one.seen.ran:
                continue
            yield from self._dry(world, one) if one.reading.not_understood else ()
            for what in one.reading.not_understood:
                yield self.unproven(world, one.owner, f"what it does could not be read: {what}")
            for what in one.reading.outside:
                yield self.unproven(world, one.owner, f"it acts outside Kubernetes: {what}")
            why = world.why_not_rehearsed(one.owner)
            if why is not None:
                yield self.unproven(world, one.owner, f"it could not be rehearsed: {why}")

    def _dry(self, world: World, one: Executor) -> Iterable[Finding]:
        """An argument by which a program whose code is in its image is told to change nothing."""
        for path, container in one.containers:
            for number, word in enumerate(container.get("args") or ()):
                if _DRY.fullmatch(str(word)):
                    what = f"it is started with {word}, and what its image does with that changes nothing"
                    remedy = f"Take {word} out, or set it to false."
                    yield self.finding(
                        world, one.owner, (*path, "args", number), what, remedy=remedy, severity="warning"
                    )
