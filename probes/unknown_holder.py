"""Objects that name GPUs in ways that are not understood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from killcheck.probes.base import NOT_PROVEN, Finding, Probe, Severity
from killcheck.probes.world import World

from killcheck.discover import unknown_holders
from killcheck.kube.objects import name_of
from killcheck.kube.passed_over import Cause, Skipped

__all__ = ["UnknownHolder"]

_HAVE_IT_READ = (
    "Have it read: what was not, and the command that renders it, is below; give --manifests what that writes, "
    "or the folder with your GPU workloads."
)


class UnknownHolder(Probe):
    """A custom resource names accelerators where nobody here can count them: its operator may run them for ever."""

    id = "unknown-holder"
    claim = "Everything that names GPUs is understood: it holds them, and is counted, or it holds none."
    remedy = "Name it as a target if it holds GPUs, or the object that its operator makes of it."
    severity = "warning"
    failures = (39,)
    sources = ("killcheck.kube.custom_holders: what is understood of custom resources",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Custom resources that are no target; where no target is known at all, this is all that can be said."""
        severity: Severity = "warning" if world.kill_path.targets else "error"
        unknown = unknown_holders(world.objects)
        for one in unknown:
            named = any((t.kind, t.object) == (one.obj.get("kind"), name_of(one.obj)) for t in world.kill_path.targets)
            if not named:
                yield self.finding(world, one.obj, (), one.why, severity=severity)
        if not world.kill_path.targets and world.loaded is not None:
            unseen = world.loaded.unseen
            if unknown and not any(one.names_gpus for one in unseen):
                return  # what holds GPUs was read
            yield from self._nothing_known(unseen, alone=not world.objects)

    def _nothing_known(self, unseen: Sequence[Skipped], *, alone: bool) -> Iterable[Finding]:
        """Where nothing that was read is a target, what was not read may be all of them. ``alone``: there is no object:
        of machines whose schedules name none of them, nothing is wrong that was seen."""
        first = next((one for one in unseen if one.names_gpus), unseen[0] if unseen else None)
        if first is not None:
            named = sum(one.names_gpus for one in unseen) or "none"
            message = (
                f"nothing that was read asks for a GPU; {len(unseen)} file(s) or documents were not read, "
                f"{named} of them naming GPUs"
            )
            open_ = alone and all(one.cause is Cause.OUTSIDE for one in unseen)
            yield Finding(
                self.id,
                "note" if open_ else "error",
                first.place,
                f"{NOT_PROVEN}{message}" if open_ else message,
                _HAVE_IT_READ,
                (),
                "",
                first.file,
                first.line,
                unproven=open_,
                failures=self.failures,
            )
