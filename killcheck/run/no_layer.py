"""What a run without a layer says first: what holds GPUs and nothing turns off, and where the switch may be."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from killcheck.discover.finding import holders
from killcheck.kube.objects import Obj, name_of, namespace_of
from killcheck.kube.passed_over import Cause, Skipped, summed_up
from killcheck.spec.killpath import Target

__all__ = ["nothing_is_drilled", "write_one"]

#: So many of a list are named.
_NAMED = 5


def nothing_is_drilled(
    who: str,
    targets: Sequence[Target],
    objects: Sequence[Obj],
    unseen: Sequence[Skipped],
    not_understood: Sequence[str],
) -> str:
    """Lines that say so. ``who`` names no layer: a spec's file, or what was found in ``objects``.

    ``unseen`` and ``not_understood`` may turn the targets off: then it is not said that nothing does.
    """
    may = [*summed_up(unseen), *not_understood]
    named = list(_named(targets, objects))
    which = f" {named[0]}" if len(named) == 1 else f" {len(named)} targets:"
    lines = [
        f"nothing is drilled, and nothing is proven: {who} names no layer"
        f"{' for' if may else ', so nothing turns off'}{which}",
        *(_first(named) if len(named) > 1 else ()),
        *(["What turns off GPUs here may be in what was not read:", *_first(may)] if may else ()),
        "Name under layers: what does, and drill again; killcheck lint says what else is missing",
    ]
    return "\n".join(lines)


def write_one(manifests: Sequence[Path], unseen: Sequence[Skipped]) -> str:
    """What to do next where these name no layer: mend what no API server takes, or write the spec that can name one.

    What asks for GPUs itself is one more that nothing turns off.
    """
    words = " ".join(f"--manifests {shlex.quote(str(one))}" for one in manifests)
    faulty = [one for one in unseen if one.cause in (Cause.REFUSED, Cause.BROKEN) and _may_be_the_switch(one)]
    broken = next(iter(sorted(faulty, key=lambda one: not one.names_gpus)), None)
    if broken is not None:
        return f"next: mend {broken.place}, and drill again: killcheck drill {words} --exec host"
    if Path("killcheck.yaml").exists():
        return f"next: killcheck drill killcheck.yaml {words}   (once it names that layer)"
    return f"next: killcheck init {words} -o killcheck.yaml"


def _may_be_the_switch(one: Skipped) -> bool:
    """Whether a switch may be in what was not read, and not only one more that holds GPUs."""
    holds = one.names_gpus and one.of[1] not in ("", "CronJob")
    return one.may_switch and not holds


def _named(targets: Sequence[Target], objects: Sequence[Obj]) -> Iterator[str]:
    """The targets, each with its GPUs where ``objects`` say how many: those with the most first."""
    held = {
        (one.obj["kind"], namespace_of(one.obj) or "default", name_of(one.obj)): one.devices for one in holders(objects)
    }
    with_gpus = [(held.get((one.kind, one.namespace, one.object), 0), str(one)) for one in targets]
    for devices, name in sorted(with_gpus, key=lambda one: -one[0]):
        yield f"{name} ({devices} GPU{'s' if devices != 1 else ''})" if devices else name


def _first(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:_NAMED])
    if len(lines) > _NAMED:
        yield f"  and {len(lines) - _NAMED} more"
