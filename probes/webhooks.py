"""What a webhook is asked about, of all that a kill path does."""

from __future__ import annotations

from killcheck.kube.objects import Obj

__all__ = ["on_the_way"]

#: Groups and resources that are made, scaled or evicted when a layer turns its targets off.
_WAY = (("", "pods"), ("", "pods/eviction"), ("apps", "deployments/scale"), ("apps", "deployments"), ("batch", "jobs"))


def on_the_way(hook: Obj) -> list[str]:
    """The resources of the kill path that a webhook is asked about."""
    return [
        resource
        for rule in hook.get("rules") or ()
        for group, resource in _WAY
        if {group, "*"} & set(rule.get("apiGroups") or ())
        and {resource, resource.partition("/")[0] + "/*", "*/*" if "/" in resource else "*", "*/*"}
        & set(rule.get("resources") or ())
    ]
