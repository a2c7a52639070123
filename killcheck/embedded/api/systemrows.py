"""How what a control plane says of itself is printed: its parts, and the groups that it serves.

Sources: pkg/printers/internalversion/printers.go and kube-aggregator/pkg/registry/apiservice/etcd/etcd.go of Kubernetes
v1.36.
"""

from __future__ import annotations

from typing import Any

from killcheck.embedded.api.tablecolumns import Ages
from killcheck.kube.objects import Obj, condition, dig, name_of

__all__ = ["api_service", "component"]


def component(obj: Obj, _ages: Ages) -> list[Any]:
    """A ComponentStatus."""
    found = next((c for c in obj.get("conditions") or () if c["type"] == "Healthy"), None)
    if found is None:
        return [name_of(obj), "Unknown", "", ""]
    word = {"True": "Healthy", "False": "Unhealthy"}.get(found.get("status", ""), "Unknown")
    return [name_of(obj), word, found.get("message", ""), found.get("error", "")]


def api_service(obj: Obj, ages: Ages) -> list[Any]:
    """An APIService."""
    service, found = dig(obj, "spec", "service"), condition(obj, "Available") or {}
    state = str(found.get("status", "Unknown"))
    if state != "True" and found.get("reason"):
        state += f" ({found['reason']})"
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service is not None else "Local"
    return [name_of(obj), where, state, ages.of(obj)]


def pod_template(obj: Obj, _: Ages) -> list[Any]:
    """Name, containers, images and labels of a template."""
    template = obj.get("template") or {}
    containers = dig(template, "spec", "containers", default=[])
    names, images = (",".join(one.get(field, "") for one in containers) for field in ("name", "image"))
    labels = dig(template, "metadata", "labels", default={})
    shown = ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"
    return [obj["metadata"]["name"], names, images, shown]
