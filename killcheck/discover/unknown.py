"""Objects that may hold accelerators in ways that are not understood: told, so that nothing is said to ask for none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from killcheck.kube.custom_holders import REFERENCES, may_hold, mention
from killcheck.kube.gpus import Claims, claims_of, spec_devices
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, ref_of
from killcheck.kube.workloads import devices_of
from killcheck.kube.workloads import templates as templates_of

__all__ = ["Unknown", "referenced_devices", "unknown_holders"]

#: What says where pods may run.
_PLACEMENT = ("affinity", "tolerations", "nodeSelector")
#: Fields of an entry of a pod's ``resourceClaims``: charts take them among their values.
_CLAIMS = ("resourceClaimTemplateName", "resourceClaimName")
#: Templates by kind and name: what holders refer to is in their namespace or in none.
Templates = dict[tuple[str, str], Obj]


class Unknown(Struct, frozen=True):
    """An object of which it is not known whether it holds accelerators; ``why`` in one phrase."""

    obj: Obj
    why: str

    def __str__(self) -> str:
        return f"{ref_of(self.obj)} {self.why}"


def templates_among(objects: Iterable[Obj]) -> Templates:
    """The objects that others refer to for what their pods ask for."""
    kinds = {kind for row in REFERENCES for kind in row.kinds}
    return {(str(obj["kind"]), name_of(obj)): obj for obj in objects if obj.get("kind") in kinds}


def referenced_devices(obj: Obj, templates: Templates, claims: Claims | None = None) -> int:
    """How many accelerators an object asks for by the template that it names; 0 where that asks for none, or is away.

    A TrainJob has as many of them as nodes.
    """
    found = _referenced(obj, templates)
    nodes = dig(obj, "spec", "trainer", "numNodes")
    times = nodes if isinstance(nodes, int) and not isinstance(nodes, bool) else 1
    return max(1, times) * devices_of(found, claims, wanted=True) if found else 0


def _referenced(obj: Obj, templates: Templates) -> Obj | None:
    for row in REFERENCES:
        name = dig(obj, *row.name) if obj.get("kind") == row.kind else None
        for kind in row.kinds:
            if name and (kind, str(name)) in templates:
                return templates[kind, str(name)]
    return None


def unknown_holders(objects: Iterable[Obj]) -> list[Unknown]:
    """Every custom resource that names accelerators, or a template that is not here, and asks for none that we see."""
    everything = list(objects)
    return list(_unknown(everything, templates_among(everything), claims_of(everything)))


def _unknown(objects: list[Obj], templates: Templates, claims: Claims) -> Iterator[Unknown]:
    for obj in objects:
        if not may_hold(obj) or devices_of(obj, wanted=True):
            continue
        # Of pods that are written out it is known what they ask for, wherever they may run.
        named = mention(obj, _PLACEMENT if templates_of(obj) else ())
        missing = _missing(obj, templates)
        claimed = "" if named or missing else next(_claimed(obj.get("spec"), namespace_of(obj), claims), "")
        if named:
            yield Unknown(obj, f"names GPUs, not understood: {named}")
        elif claimed:
            yield Unknown(obj, f"claims devices, not understood: {claimed}")
        elif missing:
            yield Unknown(obj, f"asks for what {missing} says, which is not here")


def _claimed(node: object, namespace: str, claims: Claims) -> Iterator[str]:
    """The names of claims of accelerators (DRA), wherever below a node a field of a pod's ``resourceClaims`` is."""
    if isinstance(node, list):
        for item in node:
            yield from _claimed(item, namespace, claims)
    elif isinstance(node, dict):
        named = [node[key] for key in _CLAIMS if isinstance(node.get(key), str)]
        entry = {"name": "claim", **{key: node[key] for key in _CLAIMS if key in node}}
        container = {"name": "any", "resources": {"claims": [{"name": "claim"}]}}
        if named and spec_devices({"containers": [container], "resourceClaims": [entry]}, namespace, claims):
            yield f"resource claim {named[0]}"
        for value in node.values():
            yield from _claimed(value, namespace, claims)


#: Runtimes that KServe is installed with: none asks for accelerators (kserve/kserve config/runtimes).
_RELEASED = "kserve-"


def _missing(obj: Obj, templates: Templates) -> str | None:
    for row in REFERENCES:
        name = dig(obj, *row.name) if obj.get("kind") == row.kind else None
        if (
            name
            and not str(name).startswith(_RELEASED)
            and not any((kind, str(name)) in templates for kind in row.kinds)
        ):
            return f"{row.kinds[0]} {name}"
    return None
