"""DaemonSets with GPUs that a program is meant to turn off: targets, where others live and die with their nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from killcheck import executor
from killcheck.executor import ApiCall
from killcheck.kube.gpus import spec_devices, unaccounted
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.workloads import templates

__all__ = ["how_it_holds", "turned_off"]


def turned_off(objects: Sequence[Obj]) -> Iterator[Obj]:
    """The DaemonSets that ask for GPUs and that a CronJob's program names to be changed or deleted, or their pods."""
    found = [o for o in objects if o.get("kind") == "DaemonSet" and any(spec_devices(t.spec) for t in templates(o))]
    if not found:
        return
    maps = {(namespace_of(o) or "default", name_of(o)): o for o in objects if o.get("kind") == "ConfigMap"}
    calls = [
        call
        for obj in objects
        if obj.get("kind") == "CronJob"
        for template in templates(obj)
        if not spec_devices(template.spec)
        for call in executor.read(template.spec, namespace_of(obj) or "default", maps).writes
    ]
    yield from (obj for obj in found if any(_is_about(call, obj) for call in calls))


def _is_about(call: ApiCall, obj: Obj) -> bool:
    home = namespace_of(obj) or "default"
    if call.resource == "daemonsets":
        return not call.marks and call.about(home, name_of(obj), labels_of(obj))
    pods = dict(dig(obj, "spec", "template", "metadata", "labels", default={}))
    return call.resource == "pods" and bool(call.selector) and call.about(home, "", pods)


def how_it_holds(obj: Obj) -> str:
    """What a DaemonSet that holds GPUs does: most ask for them, an exporter or a feature finder reaches them so."""
    how = next((said for one in templates(obj) if (said := unaccounted(one.spec))), None)
    return f"may use the GPUs of each node and asks for none ({how})" if how else "asks for GPUs on each node"
