"""Node pools whose autoscaler is the provider's: GKE's and AKS', from manifests or from what its command line prints.

What `gcloud container node-pools|clusters describe|list` and `az aks nodepool|show` print is taken for the object that
a team would write for it: Config Connector's ContainerNodePool, Azure Service Operator's ManagedClustersAgentPool. So
one vocabulary is read, by fences and by the embedded cluster alike.

Sources: cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools, "GPUs in GKE"
(the taint `nvidia.com/gpu=present`), "Spot VMs in GKE" (`cloud.google.com/gke-spot`), "cluster autoscaler" (counts are
for each zone); learn.microsoft.com/azure/aks/use-node-pools, spot-node-pool (label and taint
`kubernetes.azure.com/scalesetpriority`), use-labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from killcheck.kube.objects import Obj, dig, name_of
from killcheck.text.yamlfile import Document, YamlError, documents

__all__ = ["GKE_KIND", "GKE_POOL", "KINDS", "exported", "node_group", "selector"]

GKE_KIND = "ContainerNodePool"
#: What GKE labels the nodes of a pool with.
GKE_POOL = "cloud.google.com/gke-nodepool"
#: The kinds, and the label that their nodes carry with the pool's name.
KINDS = {
    GKE_KIND: GKE_POOL,
    "ManagedClustersAgentPool": "kubernetes.azure.com/agentpool",
}
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}


def exported(text: str, file: str) -> list[tuple[Obj, Document]]:
    """The pools that a CLI's answer names, as objects; none where the text is no such answer. JSON or YAML."""
    if not ('"vmSize"' in text or "vmSize:" in text or "machineType" in text):
        return []
    found = []
    for doc in _documents(text, file):
        listed = doc.value if isinstance(doc.value, list) else [doc.value]
        made = [list(_of_answer(one)) for one in listed if isinstance(one, Mapping)]
        if len(made) == len(listed) and all(made):
            found += [(obj, doc) for several in made for obj in several]
    return found


def _documents(text: str, file: str) -> list[Document]:
    try:
        if text.lstrip()[:1] in ("{", "["):
            return [Document(json.loads(text), file, 1, (), (), None)]
        return list(documents(text, file))
    except (YamlError, ValueError, RecursionError):
        return []


def _of_answer(answer: Mapping[str, Any]) -> Iterator[Obj]:
    for pool in answer.get("nodePools") or ():
        if isinstance(dig(pool, "config", "machineType"), str):
            yield _gke(pool)
    for pool in answer.get("agentPoolProfiles") or ():
        if isinstance(pool.get("vmSize"), str):
            yield _aks(pool, str(answer.get("location") or ""))
    if isinstance(dig(answer, "config", "machineType"), str) and "name" in answer:
        yield _gke(answer)
    if isinstance(answer.get("vmSize"), str) and "name" in answer:
        yield _aks(answer)


def _gke(pool: Mapping[str, Any]) -> Obj:
    """A ContainerNodePool of what gcloud says of a pool."""
    config, scaling = pool.get("config") or {}, pool.get("autoscaling") or {}
    accelerators = [
        {"type": one.get("acceleratorType"), "count": int(one.get("acceleratorCount") or 0)}
        for one in config.get("accelerators") or ()
    ]
    return {
        "apiVersion": "container.cnrm.cloud.google.com/v1beta1",
        "kind": GKE_KIND,
        "metadata": {"name": str(pool["name"])},
        "spec": {
            "nodeLocations": list(pool.get("locations") or ()),
            "nodeCount": pool.get("initialNodeCount", 0),
            **({"autoscaling": {k: v for k, v in scaling.items() if k != "enabled"}} if scaling.get("enabled") else {}),
            "nodeConfig": {
                "machineType": config["machineType"],
                "guestAccelerator": accelerators,
                "spot": bool(config.get("spot")),
                "preemptible": bool(config.get("preemptible")),
                "labels": dict(config.get("labels") or {}),
                "taint": list(config.get("taints") or ()),
            },
        },
    }


def _aks(pool: Mapping[str, Any], location: str = "") -> Obj:
    """A ManagedClustersAgentPool of what az says of a pool; its nodes' zones are named after the cluster's location."""
    kept = ("vmSize", "count", "minCount", "maxCount", "enableAutoScaling", "scaleSetPriority", "nodeLabels")
    return {
        "apiVersion": "containerservice.azure.com/v1api20240901",
        "kind": "ManagedClustersAgentPool",
        "metadata": {"name": str(pool["name"])},
        "spec": {
            **{key: pool[key] for key in (*kept, "nodeTaints") if pool.get(key) is not None},
            **(
                {"availabilityZones": [f"{location}-{z}" for z in pool.get("availabilityZones") or ()]}
                if location
                else {}
            ),
        },
    }


def selector(obj: Obj) -> str:
    """The label selector of a pool's nodes; empty where the object is no such pool."""
    key = KINDS.get(str(obj.get("kind")))
    return f"{key}={pool_name(obj)}" if key else ""


def pool_name(obj: Obj) -> str:
    """Its name in the cloud: the object's own, unless it says another."""
    return str(dig(obj, "spec", "resourceID") or dig(obj, "spec", "azureName") or name_of(obj))


def node_group(obj: Obj) -> dict[str, Any] | None:
    """A pool as the embedded cluster's node groups are described; None: no such pool, or its size is not known."""
    if obj.get("kind") not in KINDS:
        return None
    try:
        return _gke_group(obj) if obj["kind"] == GKE_KIND else _aks_group(obj)
    except (TypeError, ValueError):
        return None


def _gke_group(obj: Obj) -> dict[str, Any]:
    spec, config = obj.get("spec") or {}, dig(obj, "spec", "nodeConfig", default={})
    place = str(spec.get("location") or "")  # of the control plane: a zone where it has three parts, else a region
    zones = [str(zone) for zone in spec.get("nodeLocations") or ([place] if place.count("-") == 2 else ())]
    # without nodeLocations a regional pool has nodes in three zones ("Regional clusters"; which, GKE chooses)
    many, scaling = len(zones) or (3 if place.count("-") == 1 else 1), spec.get("autoscaling") or {}
    fixed = int(spec.get("nodeCount", spec.get("initialNodeCount", 0)) or 0) * many
    least = scaling.get("totalMinNodeCount", int(scaling.get("minNodeCount") or 0) * many) if scaling else fixed
    most = scaling.get("totalMaxNodeCount", int(scaling.get("maxNodeCount") or 0) * many) if scaling else fixed
    name, accelerators = pool_name(obj), config.get("guestAccelerator") or ()
    spot = bool(config.get("spot") or config.get("preemptible"))
    labels = {
        GKE_POOL: name,
        "cloud.google.com/gke-provisioning": "spot" if config.get("spot") else "standard",
        **({"cloud.google.com/gke-spot": "true"} if config.get("spot") else {}),
        **({"cloud.google.com/gke-preemptible": "true"} if config.get("preemptible") else {}),
        **({"cloud.google.com/gke-accelerator": str(accelerators[0].get("type"))} if accelerators else {}),
        **config.get("labels", {}),
    }
    taints = [_taint(one) for one in config.get("taint") or config.get("taints") or ()]
    if accelerators and all(one["key"] != "nvidia.com/gpu" for one in taints):
        taints.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
    machine = str(config.get("machineType") or "e2-medium")
    return _entry(name, machine, least, most, spot=spot, labels=labels, taints=taints, zones=zones, fixed=not scaling)


def _aks_group(obj: Obj) -> dict[str, Any]:
    spec = obj.get("spec") or {}
    fixed = int(spec.get("count") or 0)
    scaled = bool(spec.get("enableAutoScaling"))
    least, most = (spec.get("minCount") or 0, spec["maxCount"]) if scaled else (fixed, fixed)
    name, spot = pool_name(obj), str(spec.get("scaleSetPriority", "")).lower() == "spot"
    mark = "kubernetes.azure.com/scalesetpriority"
    labels = {KINDS["ManagedClustersAgentPool"]: name, "agentpool": name, **(spec.get("nodeLabels") or {})}
    taints = [_taint(one) for one in spec.get("nodeTaints") or ()]
    if spot:
        labels[mark] = "spot"
        taints = [one for one in taints if one["key"] != mark]
        taints.append({"key": mark, "value": "spot", "effect": "NoSchedule"})
    zones = [zone for one in spec.get("availabilityZones") or () if "-" in (zone := str(one))]
    machine = str(spec.get("vmSize") or "")
    return _entry(name, machine, least, most, spot=spot, labels=labels, taints=taints, zones=zones, fixed=not scaled)


def _taint(said: Any) -> Obj:
    """A taint of either cloud: a mapping, or ``key=value:Effect``."""
    if isinstance(said, Mapping):
        effect = str(said.get("effect") or "NoSchedule")
        return {"key": str(said["key"]), "value": str(said.get("value") or ""), "effect": _EFFECTS.get(effect, effect)}
    pair, _, effect = str(said).rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def _entry(
    name: str,
    machine: str,
    least: Any,
    most: Any,
    *,
    spot: bool,
    labels: dict[str, Any],
    taints: list[Obj],
    zones: list[str],
    fixed: bool,
) -> dict[str, Any]:
    return {
        "name": name,
        "instanceType": machine,
        "min": int(least),
        "max": int(most),
        "capacityType": "spot" if spot else "on-demand",
        "labels": {key: str(value) for key, value in labels.items()},
        "taints": taints,
        "zones": zones,
        "fixed": fixed,
    }
