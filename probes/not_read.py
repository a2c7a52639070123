"""What of the manifests was not read, or was read otherwise than it seems."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.passed_over import Cause, Skipped, summed_up

__all__ = ["NotRead"]


class NotRead(Probe):
    """A document that was passed over: what turns GPUs off, or what holds them, may be in there.

    What no API server takes is at fault; what a renderer would have filled in is only not proven.
    """

    id = "not-read"
    claim = "Every manifest could be read, and says what it seems to say."
    remedy = "Mend it, render it and give what was rendered, or leave it out (--exclude, .killcheckignore)."
    failures = (11, 39)
    sources = ("killcheck.kube.passed_over: why something is not read", "sigs.k8s.io/yaml: of a key's values the last")

    def ask(self, world: World) -> Iterable[Finding]:
        """What was passed over and may hold something, and keys that are given twice."""
        if world.loaded is None:
            return
        unseen = world.loaded.unseen
        for one in unseen:
            if _is_wrong(one):
                yield Finding(
                    self.id,
                    self.severity,
                    one.place,
                    f"was not read: {one.why}",
                    self.remedy,
                    (),
                    "",
                    one.file,
                    one.line,
                    failures=self.failures,
                )
        fired = {seen.beside.by for seen in world.rehearsed.values() if seen.beside}
        left = [one for one in unseen if one.file not in fired]
        for line in summed_up(one for one in left if not _is_wrong(one)):
            yield self.unproven(world, None, line)
        for surprise in world.loaded.surprises:
            yield Finding(
                self.id,
                "warning",
                f"{surprise.file}:{surprise.line}",
                f"{surprise.path}: {surprise.message}",
                "Give the key once.",
                (),
                "",
                surprise.file,
                surprise.line,
                failures=self.failures,
            )


def _is_wrong(one: Skipped) -> bool:
    return one.cause.is_fault and one.cause is not Cause.TEMPLATE
