"""Manifests that the API server would not take as they are written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path as FilePath

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube import releases
from killcheck.kube.manifest_folders import kustomization_in
from killcheck.kube.manifest_text import placeholder
from killcheck.kube.objects import Obj, dig, namespace_of
from killcheck.kube.passed_over import Cause

__all__ = ["ManifestRefused"]


#: One sentence for all: they are as many as a repository has templates.
_UNFILLED = "the API server takes it once its placeholders are filled in (${NAME}, {{ name }}, <name>, NAME)"


class ManifestRefused(Probe):
    """A field in the wrong place or with a letter missing: refused by kubectl apply, dropped unread by whoever else.

    Asked of what is in the kill path's namespaces or in none.
    """

    id = "manifest-refused"
    claim = "The API server takes every manifest of the kill path as it is written."
    remedy = "Mend the field; kubectl apply --dry-run=server -f FILE asks your own API server."
    failures = (11,)
    sources = ("k8s.io/apimachinery strict decoding", "kubernetes v1.36 pkg/apis/*/validation", "KEP-2885")

    def ask(self, world: World) -> Iterable[Finding]:
        """Every built-in object that is written in a file."""
        if world.live or world.loaded is None:
            return  # what a cluster has, its API server took
        from killcheck.embedded import Registry, refusals

        kinds = Registry(releases.parse(world.kill_path.kubernetes_version))
        inside = {
            "",
            *(target.namespace for target in world.kill_path.targets),
            *(layer.ref.namespace for layer in world.kill_path.layers if layer.ref),
        }
        scheduled = [obj for _, obj in world.schedules]
        for obj in world.objects:
            if namespace_of(obj) in inside and obj.get("kind") != "CustomResourceDefinition":
                for one in refusals(kinds, obj, world.now):
                    message = f"the API server refuses it: {one.message}"
                    if placeholder(dig(obj, *one.path), one.path):
                        yield self.unproven(world, obj, _UNFILLED, remedy="Render it first, or fill them in.")
                    elif _is_unfinished(world, obj):
                        why = "its kustomization was not rendered, and may mend that"
                        yield self.unproven(world, obj, f"{message} ({why})")
                    elif not _told_elsewhere(obj, one.path, scheduled):
                        yield self.finding(world, obj, one.path, message)


def _is_unfinished(world: World, obj: Obj) -> bool:
    """Whether an object is a resource of a kustomization, among some that were not rendered: namespaces, names and
    patches come to it yet."""
    skipped = world.loaded.skipped if world.loaded else ()
    file = world.place(obj, ())[0]
    unrendered = any(one.cause is Cause.KUSTOMIZATION for one in skipped)
    return unrendered and bool(file) and kustomization_in(FilePath(file).parent) is not None


def _told_elsewhere(obj: Obj, path: tuple[str | int, ...], scheduled: list[Obj]) -> bool:
    """schedule-trap speaks of a layer's schedule and zone where nobody can read them at all."""
    from killcheck.kube.schedule import ScheduleError, parse

    if path not in (("spec", "schedule"), ("spec", "timeZone")) or not any(obj is one for one in scheduled):
        return False
    try:
        parse(str(dig(obj, "spec", "schedule", default="")), dig(obj, "spec", "timeZone"))
    except ScheduleError:
        return True
    return False
