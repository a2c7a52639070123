"""Pools of GKE and AKS, from what gcloud and az print or from their manifests.

Machine types with devices must be in the catalogue; the families without any are known by their names. A GKE node count
is for each zone of the pool.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from killcheck.fence import surges
from killcheck.fence.pools import Pool
from killcheck.instances.catalogue import Catalogue, InstanceType
from killcheck.instances.launchable import Launchable
from killcheck.kube.objects import Obj, dig, items, name_of
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["aks_pool", "from_manifest", "gke_auto_provisioning", "gke_pool", "provisioned_elsewhere"]

#: GCP families that come without devices (N1 takes them by guestAccelerators) and Azure's sizes that are not of N.
_GCP_PLAIN = lazy_re.compile(
    r"(custom|e2|n1|n2|n2d|n4|n4a|n4d|c2|c2d|c3|c3d|c4|c4a|c4d|t2a|t2d|m1|m2|m3|m4|h3|h4d|z3|x4|f1|g1)-"
)
_AZURE_PLAIN = lazy_re.compile(r"Standard_([A-MO-Z]|N$)", re.IGNORECASE)


class _Shape(Struct):
    """One machine shape, and what is not known of it."""

    one: InstanceType | None
    unknown: list[str] = field(default_factory=list)


def _pool(name: str, shape: _Shape, most: float, floor: float, surge: float) -> Pool:
    types = Launchable([shape.one] if shape.one else [])
    return Pool(
        name,
        types,
        types.all,
        types.all,
        max_nodes=most,
        floor=int(floor) if not math.isinf(floor) else 0,
        requirement="its machine type",
        unknown=tuple(shape.unknown),
        overrun=surges.share(most, surge),
    )


def _gcp_shape(machine: str, accelerators: Iterable[Mapping[str, Any]], catalogue: Catalogue) -> _Shape:
    one = catalogue.get(machine)
    if one is not None and one.provider == "gcp":
        return _Shape(one)
    if not _GCP_PLAIN.match(machine):
        return _Shape(None, [f"machine type {machine or '?'} is not in the catalogue"])
    shape = _Shape(None)
    devices, name = 0, ""
    for attached in accelerators:
        name = str(attached.get("acceleratorType") or attached.get("type") or "?")
        devices += int(_size(attached.get("acceleratorCount", attached.get("count")), f"the count of {name}", shape))
    vcpu = re.search(r"-(\d+)$", machine)
    shape.one = InstanceType(
        machine,
        provider="gcp",
        vcpu=int(vcpu[1]) if vcpu else 0,
        device_kind="gpu" if devices else "",
        device_name=name,
        device_manufacturer="nvidia" if devices else "",
        device_count=devices,
    )
    return shape


def _size(value: Any, what: str, shape: _Shape) -> float:
    """A count; where there is none to read it is said, and never taken for zero nodes that would be safe."""
    try:
        return float(int(value))
    except (TypeError, ValueError):
        shape.unknown.append(f"{what} is {'not stated' if value is None else repr(value)}")
        return 0.0


def _full_name(kind: str, cluster: str, pool: Mapping[str, Any]) -> str:
    return "/".join(part for part in (kind, cluster, str(pool.get("name", "?"))) if part)


def gke_pool(pool: Mapping[str, Any], catalogue: Catalogue, cluster: str = "") -> Pool:
    """A node pool as ``gcloud container node-pools describe --format json`` prints it."""
    config = pool.get("config") or {}
    shape = _gcp_shape(str(config.get("machineType", "e2-medium")), config.get("accelerators") or (), catalogue)
    zones = max(1, len(items(pool.get("locations"))))
    scaling = pool.get("autoscaling") or {}
    if scaling.get("enabled"):
        total = scaling.get("totalMaxNodeCount")
        most = _size(total or scaling.get("maxNodeCount"), "maxNodeCount", shape) * (1 if total else zones)
        least = scaling.get("totalMinNodeCount") or scaling.get("minNodeCount") or 0
        floor = _size(least, "minNodeCount", shape) * (1 if scaling.get("totalMinNodeCount") else zones)
    else:
        most = floor = _size(pool.get("initialNodeCount"), "the node count", shape) * zones
    return _pool(_full_name("GKENodePool", cluster, pool), shape, most, floor, surges.of_gke_pool(pool, most, zones))


def gke_auto_provisioning(cluster: Mapping[str, Any], catalogue: Catalogue) -> Pool | None:
    """Node auto-provisioning makes pools of any machine type within its resource limits; None where it is off."""
    scaling = cluster.get("autoscaling") or {}
    if not scaling.get("enableNodeAutoprovisioning"):
        return None
    stated = scaling.get("resourceLimits") or ()
    limits = {str(one.get("resourceType")): float(one.get("maximum") or 0) for one in stated}
    accelerators = {name: most for name, most in limits.items() if name not in ("cpu", "memory")}
    types = Launchable(one for one in catalogue.of("gcp") if _offered(one, accelerators))
    bounds = {"google.com/tpu" if "tpu" in name else "nvidia.com/gpu": most for name, most in accelerators.items()}
    if "cpu" in limits:
        bounds["cpu"] = limits["cpu"]
    return Pool(
        f"GKEAutoProvisioning/{cluster.get('name', '?')}",
        types,
        0,
        types.all,
        limits=bounds,
        requirement="its resource limits name the accelerator",
        undecided=("auto-provisioning chooses among every machine type that carries the accelerator",),
    )


def _offered(one: InstanceType, accelerators: Mapping[str, float]) -> bool:
    """Whether a limit's accelerator (``nvidia-tesla-a100``, ``nvidia-h100-80gb``) is what a type carries."""
    return any(
        most >= one.devices and one.device_name.split("-")[0] in re.split(r"[-_]", name)
        for name, most in accelerators.items()
    )


def aks_pool(pool: Mapping[str, Any], catalogue: Catalogue, cluster: str = "") -> Pool:
    """An agent pool as ``az aks nodepool show`` prints it."""
    size = str(pool.get("vmSize") or "")
    one = catalogue.get(size)
    if one is not None and one.provider == "azure":
        shape = _Shape(one)
    elif _AZURE_PLAIN.match(size):
        shape = _Shape(InstanceType(size, provider="azure"))
    else:
        shape = _Shape(None, [f"VM size {size or '?'} is not in the catalogue"])
    if pool.get("enableAutoScaling"):
        most, floor = _size(pool.get("maxCount"), "maxCount", shape), _size(pool.get("minCount", 0), "minCount", shape)
    else:
        most = floor = _size(pool.get("count"), "count", shape)
    return _pool(_full_name("AKSNodePool", cluster, pool), shape, most, floor, surges.of_agent_pool(pool, most))


def provisioned_elsewhere(cluster: Mapping[str, Any]) -> str | None:
    """Why the pools of a cluster that was exported are not all that launches there; None: they are."""
    name = cluster.get("name", "?")
    if dig(cluster, "autopilot", "enabled") is True:
        return f"GKE cluster {name} is Autopilot: it launches whatever pods ask for"
    if dig(cluster, "nodeProvisioningProfile", "mode") == "Auto":
        return f"AKS cluster {name} has node auto-provisioning: give its NodePools too (--manifests)"
    return None


#: Why the number of a pool's nodes is not known.
_NO_ZONES = "its nodes are counted a zone, and nodeLocations does not say in how many it is: these figures are of one"
_ZONE = lazy_re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")


def _zones_known(spec: Obj) -> bool:
    """Whether it is known in how many zones a ContainerNodePool's nodes are; by default those of its cluster."""
    if spec.get("nodeLocations") or _ZONE.fullmatch(str(spec.get("location") or "")):
        return True
    return bool(dig(spec, "autoscaling", "totalMaxNodeCount"))


def from_manifest(obj: Obj, catalogue: Catalogue) -> Iterator[Pool]:
    """The pools of Config Connector's ContainerNodePool and Azure Service Operator's ManagedClustersAgentPool."""
    spec = obj.get("spec") or {}
    if obj.get("kind") == "ContainerNodePool":
        config = spec.get("nodeConfig") or {}
        scaling = spec.get("autoscaling") or {}
        accelerators = [
            {"acceleratorType": one.get("type"), "acceleratorCount": one.get("count")}
            for one in config.get("guestAccelerator") or ()
        ]
        made = gke_pool(
            {
                "name": name_of(obj),
                "config": {"machineType": config.get("machineType", "e2-medium"), "accelerators": accelerators},
                "locations": spec.get("nodeLocations"),
                "autoscaling": {"enabled": True, **scaling} if scaling else {},
                "initialNodeCount": spec.get("nodeCount", spec.get("initialNodeCount")),
            },
            catalogue,
        )
        yield made if _zones_known(spec) else replace(made, unknown=(*made.unknown, _NO_ZONES))
    elif obj.get("kind") == "ManagedClustersAgentPool":
        yield aks_pool({"name": name_of(obj), **spec}, catalogue)
