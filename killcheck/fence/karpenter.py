"""What a Karpenter NodePool can launch at worst: the set of concrete types, and how many nodes of them.

Two filters count (Karpenter v1.14): the scheduler's, over the pool's requirements and labels, and the cloud provider's,
over what a NodeClaim keeps of them. A type that passes only the first gets NodeClaims that fail to launch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from killcheck.fence.overlays import Effect, Overlay, under_overlays
from killcheck.fence.pools import Pool
from killcheck.instances.amounts import amount
from killcheck.instances.launchable import (
    AUTO_MODE,
    FLAVOURS,
    KARPENTER_AWS,
    KARPENTER_AZURE,
    Launchable,
    well_known,
)
from killcheck.instances.requirements import Requirement, RequirementError, Requirements
from killcheck.kube.objects import Obj, dig, labels_of, name_of
from killcheck.text.suggestions import nearest

__all__ = ["Context", "read_node_claim", "read_node_pool"]

#: Every field of a NodePool v1, by the path of what holds it. Anything else is unknown: unproven.
_KNOWN: dict[tuple[str, ...], frozenset[str]] = {
    ("spec",): frozenset({"template", "disruption", "limits", "weight", "replicas"}),
    ("spec", "template"): frozenset({"metadata", "spec"}),
    ("spec", "template", "spec"): frozenset(
        {
            "taints",
            "startupTaints",
            "requirements",
            "nodeClassRef",
            "terminationGracePeriod",
            "expireAfter",
            # defaulted by older versions, without a say in what is launched
            "kubelet",
        }
    ),
}
_REQUIREMENT_FIELDS = frozenset({"key", "operator", "values", "minValues"})
#: Domains in which Karpenter refuses labels that it does not know.
_RESTRICTED = ("karpenter.sh", KARPENTER_AWS, KARPENTER_AZURE)
#: Resources that some type of the catalogue has, and that limits can therefore bound.
_BOUNDABLE = frozenset(
    {
        "cpu",
        "memory",
        "pods",
        "ephemeral-storage",
        "nvidia.com/gpu",
        "amd.com/gpu",
        "habana.ai/gaudi",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "vpc.amazonaws.com/efa",
        "nodes",
    }
)


class Context(Struct, frozen=True):
    """What a NodePool is read beside: the types, NodeClasses by name, NodeOverlays, feature gates where known."""

    types: Launchable
    classes: Mapping[tuple[str, str], Obj]
    overlays: Sequence[Overlay] = ()
    gates: Mapping[str, bool] | None = None

    def gate(self, name: str) -> bool:
        """Whether a feature gate may be on: yes, where it is not known."""
        return True if self.gates is None else self.gates.get(name, False)


class _Findings(Struct):
    """What is said of a pool while it is read."""

    unknown: list[str]
    notes: list[str]
    ordinary: list[str]


def read_node_pool(obj: Obj, context: Context) -> Pool:
    """The pool of a NodePool object: never raises, what it cannot read is in ``unknown``."""
    says = _Findings([], [], [])
    _check_fields(obj, says)
    spec, inner = obj.get("spec") or {}, dig(obj, "spec", "template", "spec", default={})
    prefix, windows = _flavour(inner, context, says)
    labels = dict(dig(obj, "spec", "template", "metadata", "labels", default={}))
    requirements = _requirements(inner.get("requirements") or [], labels, prefix, says)
    limits = _limits(spec.get("limits") or {}, says)
    _without_devices(requirements, prefix, says)
    static = spec.get("replicas") is not None
    _check_values(requirements, prefix, context.types, says)
    certain, possible, undecided = _launchable(requirements, prefix, context.types, static=static, windows=windows)
    if static:
        limits = {name: most for name, most in limits.items() if name == "nodes"}
    if _foreign(inner):
        certain = possible = 0
    laid = _overlaid(context, (certain, possible), limits, prefix, obj)
    undecided += laid.doubts
    undecided += _reservations(inner, context, requirements)
    replicas = _whole(spec.get("replicas"), says)
    if static and not context.gate("StaticCapacity"):
        says.notes.append("spec.replicas has no effect while Karpenter's StaticCapacity feature is off")
    return Pool(
        f"NodePool/{name_of(obj)}",
        context.types,
        laid.sure,
        laid.possible,
        limits,
        used=_used(obj),
        max_nodes=math.inf if replicas is None else float(replicas),
        floor=replicas or 0,
        requirement=_letting_through(requirements, says, inner),
        unknown=tuple(says.unknown),
        undecided=tuple(undecided),
        notes=tuple(says.notes),
        obj=obj,
        # Replacements start while what they replace still runs; limits do not count what is on its way out.
        overrun=2.0 if limits else 1.0,
        loose=laid.loose,
        raised=laid.raised,
    )


def _overlaid(
    context: Context,
    masks: tuple[int, int],
    limits: Mapping[str, float],
    prefix: str,
    obj: Obj,
) -> Effect:
    """What passes the limits, NodeOverlays laid over where that feature is on, or may be."""
    types = context.types
    plain = Effect(types.within(masks[0], limits), types.within(masks[1], limits))
    if not context.overlays or not context.gate("NodeOverlay"):
        return plain
    labels = {
        str(key): str(value) for key, value in dig(obj, "spec", "template", "metadata", "labels", default={}).items()
    }
    laid = under_overlays(context.overlays, types, masks, limits, prefix, pool=name_of(obj), labels=labels)
    if context.gates is not None or not laid.loose:
        return laid
    doubt = "a NodeOverlay changes what types count for limits, where that feature is on"
    return Effect(
        plain.sure & laid.sure, plain.possible | laid.possible, laid.loose, raised=True, doubts=[*laid.doubts, doubt]
    )


def read_node_claim(obj: Obj, context: Context) -> Pool:
    """A NodeClaim that somebody made by hand: one node, past every pool's limits."""
    says = _Findings([], [], [])
    inner = obj.get("spec") or {}
    prefix, windows = _flavour(inner, context, says)
    requirements = _requirements(inner.get("requirements") or [], {}, prefix, says)
    _without_devices(requirements, prefix, says)
    _check_values(requirements, prefix, context.types, says)
    certain, possible, undecided = _launchable(requirements, prefix, context.types, static=True, windows=windows)
    return Pool(
        f"NodeClaim/{name_of(obj)}",
        context.types,
        certain,
        possible,
        max_nodes=1,
        floor=1,
        requirement=_letting_through(requirements, says, inner),
        unknown=tuple(says.unknown),
        undecided=tuple(undecided),
        notes=(*says.notes, "no pool's limits count for a NodeClaim made by hand"),
        obj=obj,
        remedy="delete it, and take the right to create NodeClaims from whoever made it",
    )


# -- what it says ----------------------------------------------------------------------------------------------
def _check_fields(obj: Obj, says: _Findings) -> None:
    if obj.get("apiVersion") != "karpenter.sh/v1":
        says.unknown.append(f"apiVersion {obj.get('apiVersion')!r} is not karpenter.sh/v1")
    for path, known in _KNOWN.items():
        held = dig(obj, *path, default={})
        if not isinstance(held, dict):
            says.unknown.append(f"{'.'.join(path)} is not a mapping")
            continue
        for name in sorted(set(held) - known):
            near = nearest(name, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            says.unknown.append(f"field {'.'.join((*path, name))} is not known{hint}")


def _flavour(inner: Obj, context: Context, says: _Findings) -> tuple[str, bool]:
    """(label prefix, whether its nodes run Windows), by the NodeClass."""
    ref = inner.get("nodeClassRef") or {}
    group, name = str(ref.get("group", KARPENTER_AWS)), str(ref.get("name", ""))
    if _foreign(inner):
        says.unknown.append(
            f"nodeClassRef.group {group} is another provider's; only types of AWS and Azure are evaluated"
        )
    node_class = context.classes.get((group, name))
    family = str(dig(node_class, "spec", "amiFamily", default=""))
    aliases = [str(term.get("alias", "")) for term in dig(node_class, "spec", "amiSelectorTerms", default=())]
    windows = family.startswith("Windows") or any(alias.startswith("windows") for alias in aliases)
    windows = windows or str(dig(node_class, "spec", "imageFamily", default="")).startswith("Windows")
    return (group if group in FLAVOURS else KARPENTER_AWS), windows


def _foreign(inner: Obj) -> bool:
    """Whether its nodes are another cloud's."""
    return dig(inner, "nodeClassRef", "group", default=KARPENTER_AWS) not in FLAVOURS


def _requirements(
    entries: Iterable[Any],
    labels: Mapping[str, Any],
    prefix: str,
    says: _Findings,
) -> Requirements:
    """Those that can be read; the others restrict nothing, and are said."""
    found = Requirements()
    for index, entry in enumerate(entries):
        where = f"requirements[{index}]"
        if not isinstance(entry, dict):
            says.unknown.append(f"{where} is not a mapping")
            continue
        for name in sorted(set(entry) - _REQUIREMENT_FIELDS):
            says.unknown.append(f"field {where}.{name} is not known")
        try:
            one = Requirement.of(
                str(entry.get("key", "")),
                str(entry.get("operator", "")),
                [str(value) for value in entry.get("values") or ()],
                entry.get("minValues"),
            )
        except RequirementError as error:
            says.unknown.append(f"{where}: {error}")
            continue
        found.add(one)
        _judge_key(one.key, prefix, says)
    for key, value in labels.items():
        found.add(Requirement.of(str(key), "In", (str(value),)))
    return found


def _check_values(requirements: Requirements, prefix: str, types: Launchable, says: _Findings) -> None:
    """Types, families and devices that are named and not in the catalogue: what they hold is not known."""
    for key, one in requirements.items():
        missing = types.unknown_values(key, one, prefix)
        if missing:
            shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
            near = nearest(missing[0], one.values - set(missing) or types.bits, 1) if key.endswith("-type") else []
            hint = f" (did you mean {near[0]}?)" if near else ""
            says.unknown.append(f"{key.rpartition('/')[2]} {shown} is not in the catalogue{hint}")


def _without_devices(requirements: Requirements, prefix: str, says: _Findings) -> None:
    """Of Azure the catalogue has sizes with GPUs alone: what a pool of any others costs is not known."""
    if prefix != KARPENTER_AZURE:
        return
    count = requirements.get(f"{prefix}/sku-gpu-count")
    keys = ("sku-name", "sku-family", "sku-series", "sku-gpu-name", "sku-gpu-manufacturer")
    listed = [one for key in keys if (one := requirements.get(f"{prefix}/{key}")) and not one.complement]
    typed = requirements.get("node.kubernetes.io/instance-type")
    if (count is None or count.has("0")) and not listed and (typed is None or typed.complement):
        says.unknown.append(
            "sizes without GPUs are not in the catalogue: let sku-gpu-count (Gt 0), sku-family (N) or sku-name say "
            "what it may launch"
        )


def _judge_key(key: str, prefix: str, says: _Findings) -> None:
    """Say it where a key restricts nothing, or is one that only another Karpenter knows."""
    if key in well_known(prefix):
        return
    domain = key.partition("/")[0] if "/" in key else ""
    if any(domain == one or domain.endswith(f".{one}") for one in _RESTRICTED) and domain != AUTO_MODE:
        if prefix == AUTO_MODE and domain == KARPENTER_AWS:
            says.unknown.append(f"{key} is not one of EKS Auto Mode's labels, which begin with {AUTO_MODE}/")
        else:
            says.unknown.append(f"{key} is not known; Karpenter refuses it, unless it is newer than what is known here")
        return
    near = nearest(key.rpartition("/")[2], [one.rpartition("/")[2] for one in well_known(prefix)], 1)
    meant = next((one for one in well_known(prefix) if near and one.rpartition("/")[2] == near[0]), "")
    if meant:
        text = f"requirement {key} is an ordinary node label and restricts nothing; did you mean {meant}?"
        says.notes.append(text)
        says.ordinary.append(text)


def _limits(given: Mapping[str, Any], says: _Findings) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in given.items():
        try:
            number = amount(value)
        except ValueError as error:
            says.unknown.append(f"limits.{name}: {error}")
            continue
        if name not in _BOUNDABLE:
            near = nearest(name, _BOUNDABLE, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            says.notes.append(f"limits.{name} bounds nothing: no type has that resource{hint}")
            continue
        found[name] = number
    return found


def _whole(value: Any, says: _Findings) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        says.unknown.append(f"spec.replicas {value!r} is not a number")
        return None
    return value


def _used(obj: Obj) -> dict[str, float]:
    found = {}
    for name, value in dig(obj, "status", "resources", default={}).items():
        try:
            found[name] = amount(value)
        except ValueError:
            continue  # a status that cannot be read leaves the whole limits
    return found


# -- what it lets through --------------------------------------------------------------------------------------
def _launchable(
    requirements: Requirements,
    prefix: str,
    types: Launchable,
    *,
    static: bool,
    windows: bool,
) -> tuple[int, int, list[str]]:
    """(surely launched, possibly launched, what decides between the two)."""
    os = "windows" if windows else "linux"
    launched = types.select(requirements.serialized(), prefix, os=os)
    if static:
        return launched.certain, launched.possible, _undecided(launched.undecided)
    considered = types.select(requirements, prefix, os=os)
    undecided = _undecided(considered.undecided)
    certain = considered.certain & launched.certain
    readmitted = considered.possible & ~launched.possible
    if readmitted:
        keys = [key for key, one in requirements.items() if one.serialized() != one]
        undecided.append(
            f"bounds beside NotIn on {', '.join(keys)} read as NotIn, which readmits types that lack the label; only "
            "Karpenter's launch keeps them out"
        )
    return certain, considered.possible, undecided


def _undecided(keys: Iterable[str]) -> list[str]:
    return [f"the catalogue cannot decide {key}" for key in keys]


def _reservations(inner: Obj, context: Context, requirements: Requirements) -> list[str]:
    ref = inner.get("nodeClassRef") or {}
    node_class = context.classes.get((str(ref.get("group", KARPENTER_AWS)), str(ref.get("name", ""))))
    wanted = requirements.get("karpenter.sh/capacity-type")
    if wanted is not None and not wanted.has("reserved"):
        return []
    if node_class is not None and dig(node_class, "spec", "capacityReservationSelectorTerms"):
        return ["capacity reservations of its EC2NodeClass may hold any type"]
    return []


def _letting_through(requirements: Requirements, says: _Findings, inner: Obj) -> str:
    """Which of its words a reader should look at first."""
    if says.ordinary:
        return says.ordinary[0]
    named = requirements.get("node.kubernetes.io/instance-type")
    if named is not None and not named.complement:
        return "requirement node.kubernetes.io/instance-type lists it"
    counted = [key for key in requirements if key.endswith(("gpu-count", "gpu-name", "gpu-memory"))]
    if counted:
        return f"requirement {counted[0]} counts GPUs only, or lets that many through"
    if any(key.endswith(("instance-category", "instance-family", "instance-size")) for key in requirements):
        return "its requirements on category, family or size let it through"
    if not inner.get("requirements"):
        return "it has no requirement at all"
    return "no requirement is about devices or types"


def node_classes(objects: Iterable[Obj]) -> dict[tuple[str, str], Obj]:
    """EC2NodeClasses, AKSNodeClasses and Auto Mode's NodeClasses by (group, name)."""
    return {
        (str(one.get("apiVersion", "")).partition("/")[0], name_of(one)): one
        for one in objects
        if one.get("kind") in ("EC2NodeClass", "NodeClass", "AKSNodeClass")
    }


def feature_gates(objects: Iterable[Obj]) -> dict[str, bool] | None:
    """The feature gates of the Karpenter Deployment among ``objects``; None where there is none to read."""
    for one in objects:
        if one.get("kind") != "Deployment" or labels_of(one).get("app.kubernetes.io/name", name_of(one)) != "karpenter":
            continue
        for container in dig(one, "spec", "template", "spec", "containers", default=()):
            for variable in container.get("env") or ():
                if variable.get("name") == "FEATURE_GATES" and variable.get("value"):
                    pairs = (pair.partition("=") for pair in str(variable["value"]).split(","))
                    return {name.strip(): value.strip().lower() == "true" for name, _, value in pairs}
    return None
