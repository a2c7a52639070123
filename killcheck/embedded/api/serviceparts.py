"""What of a Service's ports its type has, and what of them stays when it is written.

Sources: pkg/registry/core/service: storage/storage.go (``patchAllocatedValues``), strategy.go
(``dropTypeDependentFields``) of Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.kube.objects import Obj

__all__ = ["HEALTH", "allocates", "checks_health", "exposed", "keep", "numbers", "port_of"]

HEALTH = "healthCheckNodePort"


def keep(new: Obj, old: Obj) -> None:
    """What was allocated stays where the writer leaves it out, and goes where the type no longer has it; in place."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if exposed(before) and exposed(spec):
        used = numbers(old) & numbers(new)
        by_name = {one.get("name", ""): port_of(one) for one in before.get("ports") or []}
        for one in spec.get("ports") or []:
            known = by_name.get(one.get("name", ""), 0)
            if not port_of(one) and known and known not in used:
                one["nodePort"] = known
    elif exposed(before) and numbers(new) <= numbers(old):
        for one in spec.get("ports") or []:
            one.pop("nodePort", None)
    if checks_health(before):
        if checks_health(spec):
            spec[HEALTH] = spec.get(HEALTH) or before.get(HEALTH)
        elif spec.get(HEALTH) == before.get(HEALTH):
            spec.pop(HEALTH, None)


def exposed(spec: Obj) -> bool:
    """Whether nodes have a port for it."""
    return spec.get("type") in ("NodePort", "LoadBalancer")


def allocates(spec: Obj) -> bool:
    """Whether it gets node ports that it does not name."""
    return spec.get("type") == "NodePort" or bool(spec.get("allocateLoadBalancerNodePorts", True))


def checks_health(spec: Obj) -> bool:
    """Whether load balancers ask a port of their own for its health."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def port_of(one: Obj) -> int:
    """The node port that a port of a Service has; 0: none."""
    return int(one.get("nodePort") or 0)


def numbers(service: Obj) -> set[int]:
    """All node ports that a Service has."""
    spec = service.get("spec") or {}
    numbers = {port_of(one) for one in spec.get("ports") or []} | {int(spec.get(HEALTH) or 0)}
    return numbers - {0}
