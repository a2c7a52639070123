"""Targets that are deleted, and stay."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import Executor, World

from killcheck.kube.objects import Obj, dig, labels_of, name_of
from killcheck.kube.plurals import plural_of
from killcheck.spec.killpath import Target

__all__ = ["FinalizerHolds"]


class FinalizerHolds(Probe):
    """A deleted object with a finalizer is only marked; its pods stay until somebody takes that away."""

    id = "finalizer-holds"
    claim = "Nothing that an executor deletes is held back by a finalizer."
    remedy = "Scale to zero before deleting; see that whoever set the finalizer runs, and takes it away."
    severity = "warning"
    failures = (36,)
    sources = ("kubernetes.io/docs: finalizers", "k8s.io/apiserver pkg/registry/generic/registry/store.go")

    def ask(self, world: World) -> Iterable[Finding]:
        """Targets with finalizers of others' that a layer deletes; an error where a rehearsal saw them stay."""
        for target, obj in world.targets:
            held = [str(f) for f in dig(obj, "metadata", "finalizers", default=[]) if f not in _OWN]
            for one in world.layer_executors if held else ():
                if not _deletes(one, target, obj):
                    continue
                stays = one.seen is not None and not _went(one, target)
                if one.seen is not None and not stays:
                    continue
                message = (
                    f"has finalizer {held[0]}: {name_of(one.owner)} deletes it, and it stays until that is taken away"
                )
                yield self.finding(
                    world, obj, ("metadata", "finalizers"), message, severity="error" if stays else None, seen=stays
                )


#: What the garbage collector sets, and takes away by itself.
_OWN = ("foregroundDeletion", "orphan")


def _deletes(one: Executor, target: Target, obj: Obj) -> bool:
    plural = plural_of(target.kind)
    if one.seen is not None:
        return any(
            call.verb.startswith("delete")
            and not call.refused
            and (call.resource, call.namespace) == (plural, target.namespace)
            and call.name in ("", target.object)
            for call in one.seen.first.writes
        )
    return any(
        call.verb.startswith("delete")
        and call.resource == plural
        and call.about(target.namespace, target.object, labels_of(obj))
        for call in one.reading.writes
    )


def _went(one: Executor, target: Target) -> bool:
    key = (target.kind, target.namespace, target.object)
    return one.seen is not None and any((c.kind, c.namespace, c.name) == key for c in one.seen.first.off)
