"""What an account can reach at all: what is elsewhere need not stand on a stage for what it is told.

Without any right in a namespace every request about it is answered 403, whether its object is there or not. What is
left of such a namespace are its Services: their names can be looked up by anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from killcheck.kube import gpus
from killcheck.kube.objects import Obj, name_of, namespace_of
from killcheck.kube.permissions import Permissions
from killcheck.kube.workloads import templates
from killcheck.rehearsal.programs import Program
from killcheck.rehearsal.record import Change

__all__ = ["parted", "together", "untouched"]

#: A bare cluster costs as much as so many objects, and a pod that has to start as so many.
BARE, POD = 60, 20
#: What shares a stage pays for all that stands on it, with each firing: so much of what setting it up costs.
SHARED = 1 / 16
#: What anybody may look up; and network policies go by the addresses behind it.
_ADDRESSED = ("Service", "Endpoints", "EndpointSlice")


def parted(objects: Iterable[Obj], program: Program) -> tuple[list[Obj], list[Obj]]:
    """(what must stand on the program's stage, what may be left out)."""
    everything = list(objects)
    spaces = Permissions(everything).namespaces(program.account, program.namespace)
    if spaces is None:
        return everything, []
    spaces |= {program.namespace}
    served = spaces | {namespace_of(obj) or "default" for obj in everything if obj.get("kind") in _ADDRESSED}
    within: list[Obj] = []
    beyond: list[Obj] = []
    for obj in everything:
        (within if _is_within(obj, spaces, served) else beyond).append(obj)
    return within, beyond


def together(objects: Sequence[Obj], programs: Sequence[Program]) -> list[Sequence[Program]]:
    """All programs together, where they are best fired on one stage with everything on it; or each by itself.

    It is set up once for all of them: worth it where the stages of their own would cost more in all.
    """
    own = sum(_cost(parted(objects, program)[0]) for program in programs)
    alone = len(programs) < 2 or _cost(objects) * (1 + len(programs) * SHARED) > own
    return [[program] for program in programs] if alone else [programs]


def _cost(objects: Iterable[Obj]) -> int:
    """What a stage with these costs, in objects."""
    return BARE + sum(
        1 + POD * (0 if obj.get("kind") == "CronJob" else sum(template.count for template in templates(obj)))
        for obj in objects
    )


def _is_within(obj: Obj, spaces: set[str], served: set[str]) -> bool:
    kind = obj.get("kind")
    if kind == "Namespace":
        return name_of(obj) in served
    if kind in _ADDRESSED:
        return True
    namespace = namespace_of(obj) or ("default" if templates(obj) else "")
    return not namespace or namespace in spaces


def untouched(left_out: Iterable[Obj]) -> tuple[Change, ...]:
    """The holders of GPUs among what was left out: as they were."""
    found = []
    for obj in left_out:
        count = sum(t.count for t in templates(obj) if gpus.spec_devices(t.spec))
        if count and obj.get("kind") not in ("CronJob", "DaemonSet") and not obj["metadata"].get("ownerReferences"):
            found.append(
                Change(str(obj.get("kind")), namespace_of(obj) or "default", name_of(obj), count, count, count, count)
            )
    return tuple(found)
