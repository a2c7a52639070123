"""Groups of machines with accelerators that a document always keeps, and how many: read by form, whoever manages them.

eksctl's ClusterConfig, Cluster API's and OpenShift's machines, kOps' instance groups, Gardener's shoots, Crossplane's,
ACK's, Config Connector's and Azure's pools, CloudFormation's and Pulumi's groups: all of them name a type of machine,
and beside it how many there are at the least, or how many there are. A number that something fills in is not known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from killcheck.kube.custom_holders import BY_MACHINE, is_capacity, is_gpu_machine, mention
from killcheck.kube.objects import Obj
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path, format_path

__all__ = ["Named", "floors", "is_pattern"]

#: The kind and the name of objects that name a machine and no number: templates of machines, launch templates.
Named = Collection[tuple[str, str]]

#: Fields that say how many there are at the least; without any of them, how many there are. Without ``-`` and ``_``.
_LEAST = lazy_re.compile(
    r"(?i)(total)?min(imum)?(node|machine|instance|server)?s?(size|counts?|replicas|capacity|number)?"
)
_FIXED = lazy_re.compile(
    r"(?i)replicas|desired(size|capacity|count|nodes)|(initial|desired)?(node|machine|instance|server)count|numnodes"
)
#: ...and where they stand beside the machine's type itself.
_BESIDE = lazy_re.compile(r"(?i)count|capacity|size|quantity")
#: Fields that name a type of machine, and those below which one is only chosen.
_TYPED = lazy_re.compile(r"(?i).*(type|types|size|sku|flavor|shape|machine|instance|profile)")
_CHOOSING = lazy_re.compile(
    r"(?i)(node)?selector|.*affinity|requirements|labels|annotations|match\w+|tolerations|priorities|env"
)
_MOST_DEPTH = 24


def floors(obj: Obj, named: Named = ()) -> Iterator[tuple[str, int]]:
    """(which of its groups, how many) machines with accelerators a document always keeps.

    ``named``: objects of which one that it refers to has such machines.
    """
    if str(obj.get("kind")) in BY_MACHINE or templates(obj):
        return  # pods are counted by themselves
    told: set[Path] = set()
    for path, chain in _machines(obj, named):
        at, least = _least_around(path, chain)
        if least > 0 and at not in told:
            told.add(at)
            yield format_path(at) if at else "spec", least


def is_pattern(obj: Obj, named: Named = ()) -> bool:
    """Whether a document names machines with accelerators."""
    return next(_machines(obj, named), None) is not None


def _machines(obj: Obj, named: Named) -> Iterator[tuple[Path, list[Any]]]:
    """Where such a machine is named: the path to the map that does, and all that is around it, the innermost last."""
    body = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    found = list(_walk(body, (), [], named))
    spec = body.get("spec")
    if not found and is_capacity(str(obj.get("kind"))) and isinstance(spec, Mapping) and mention(obj):
        found = [(("spec",), [body, spec])]  # by words for accelerators: such a kind is about machines
    yield from found


def _walk(node: Any, path: Path, chain: list[Any], named: Named) -> Iterator[tuple[Path, list[Any]]]:
    if len(path) > _MOST_DEPTH:
        return
    if isinstance(node, Mapping):
        inside = [*chain, node]
        if any(map(_is_machine, node.items())) or _refers(node, named):
            yield path, inside
        elif chain and isinstance(chain[-1], list) and _is_machine((node.get("name"), node.get("value"))):
            yield path[:-2], inside[:-2]  # a variable of what is around its list
        for key, value in node.items():
            if not _CHOOSING.fullmatch(str(key)):
                yield from _walk(value, (*path, key), inside, named)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from _walk(value, (*path, i), [*chain, node], named)


def _refers(node: Mapping[Any, Any], named: Named) -> bool:
    """Whether a map is a reference to one of these; a schema has fields of such names that are no texts."""
    kind, name = node.get("kind"), node.get("name")
    return isinstance(kind, str) and isinstance(name, str) and (kind, name) in named


def _is_machine(field: tuple[Any, Any]) -> bool:
    key, value = field
    values = value if isinstance(value, list) else [value]
    return _TYPED.fullmatch(str(key)) is not None and any(
        isinstance(one, str) and is_gpu_machine(one) for one in values
    )


def _least_around(path: Path, chain: list[Any]) -> tuple[Path, int]:
    """The innermost map around a machine that says how many there are, and how many; zero where none does.

    One in a list, and one that says its own type, is whole by itself: what is beside it are other groups.
    """
    own = chain[-1]
    for depth in range(len(chain) - 1, -1, -1):
        node = chain[depth]
        if isinstance(node, list):
            break
        said = list(_numbers(node, _LEAST)) or list(_numbers(node, _FIXED))
        if not said and node is own:
            said = [
                n for key, value in node.items() if _BESIDE.fullmatch(str(key)) and (n := _number(value)) is not None
            ]
        if said:
            return path[:depth], max(said)
        if {"type", "Type"} & set(node) and {"properties", "Properties"} & set(node):
            break
    return (), 0


def _numbers(node: Any, keys: re.Pattern[str]) -> Iterator[int]:
    """What the fields of these names say, in a map and below."""
    for key, value in node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ():
        number = _number(value) if keys.fullmatch(re.sub("[-_]", "", str(key))) else None
        if number is not None:
            yield number
        else:
            yield from _numbers(value, keys)


def _number(value: Any) -> int | None:
    return int(value) if re.fullmatch(r"\d{1,6}", str(value)) else None
