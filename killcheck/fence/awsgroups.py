"""AWS pools outside Karpenter: Auto Scaling groups, EKS managed node groups, Fargate, and the manifests that make them.

Managed node groups and Auto Scaling launch through their service-linked roles, which service control policies do not
bind: their own types are all there is to judge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from killcheck.fence import attributes, surges
from killcheck.fence.pools import Pool
from killcheck.fence.templates import Chosen, Templates, named
from killcheck.instances.launchable import Launchable
from killcheck.kube.objects import Obj, dig, items, labels_of, mappings, name_of

__all__ = ["PAST_SCPS", "auto_scaling_group", "eks_node_group", "from_manifest", "owned_by_node_group"]

PAST_SCPS = "launched through a service-linked role, which service control policies do not bind"
#: What EKS launches where nobody says.
DEFAULT_TYPE = "t3.medium"


def auto_scaling_group(group: Mapping[str, Any], templates: Templates) -> Pool:
    """One entry of DescribeAutoScalingGroups."""
    chosen, smallest_weight = Chosen(), 1.0
    mixed = group.get("MixedInstancesPolicy")
    if mixed:
        chosen, smallest_weight = _mixed(mixed, templates)
    elif group.get("LaunchTemplate"):
        chosen = templates.resolve(group["LaunchTemplate"])
    elif group.get("LaunchConfigurationName"):
        chosen = templates.configuration(str(group["LaunchConfigurationName"]))
    else:
        chosen.unknown.append("the group has neither a launch template nor a launch configuration")
    most = math.ceil(_number(group.get("MaxSize"), chosen) / smallest_weight)
    return _pool(
        f"AutoScalingGroup/{group.get('AutoScalingGroupName', '?')}",
        templates.types,
        chosen,
        most=most,
        surge=surges.of_scaling_group(group, most),
        floor=math.ceil(_number(group.get("MinSize"), chosen) / max(1.0, smallest_weight)),
        notes=(PAST_SCPS,),
    )


def _mixed(policy: Mapping[str, Any], templates: Templates) -> tuple[Chosen, float]:
    """(the types of a mixed instances policy, the least weight of one)."""
    base = dig(policy, "LaunchTemplate", "LaunchTemplateSpecification", default={})
    overrides = dig(policy, "LaunchTemplate", "Overrides", default=[])
    if not overrides:
        return templates.resolve(base), 1.0
    chosen, weights = Chosen(), []
    for override in overrides:
        weights.append(float(override.get("WeightedCapacity") or 1))
        if override.get("InstanceRequirements"):
            certain, possible, undecided = attributes.select(override["InstanceRequirements"], templates.types)
            chosen.add(Chosen(certain, possible, undecided=undecided))
        elif override.get("InstanceType"):
            chosen.add(named(templates.types, [override["InstanceType"]]))
        else:
            chosen.add(templates.resolve(override.get("LaunchTemplateSpecification") or base))
    return chosen, min(weights)


def owned_by_node_group(group: Mapping[str, Any]) -> str | None:
    """The managed node group that an Auto Scaling group belongs to, by its tag; empty: none."""
    tags = {tag.get("Key"): tag.get("Value") for tag in group.get("Tags") or ()}
    return str(tags.get("eks:nodegroup-name", ""))


def eks_node_group(group: Mapping[str, Any], templates: Templates) -> Pool:
    """``nodegroup`` of DescribeNodegroup (or a manifest's spec with the same words)."""
    scaling = group.get("scalingConfig") or {}
    types, template = group.get("instanceTypes") or [], group.get("launchTemplate")
    if types:
        chosen = named(templates.types, types)
    elif template:
        chosen = templates.resolve(template)
    else:
        chosen = named(templates.types, [DEFAULT_TYPE])
    name = "/".join(str(part) for part in (group.get("clusterName"), group.get("nodegroupName")) if part) or "?"
    return _pool(
        f"EKSNodegroup/{name}",
        templates.types,
        chosen,
        most=_number(scaling.get("maxSize"), chosen),
        surge=surges.of_node_group(group),
        floor=int(_number(scaling.get("minSize", 0), chosen)),
        notes=(PAST_SCPS,),
    )


def _number(value: Any, chosen: Chosen) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        chosen.unknown.append(f"a group's size is {value!r}")
        return 0.0
    return float(value)


def _pool(
    name: str,
    types: Launchable,
    chosen: Chosen,
    *,
    most: float,
    floor: int,
    surge: float = 0.0,
    notes: tuple[str, ...] = (),
) -> Pool:
    return Pool(
        name,
        types,
        chosen.certain,
        chosen.possible,
        max_nodes=most,
        floor=floor,
        requirement="its instance types name it",
        remedy="take the types above the ceiling out of its instance types, or lower its maximum size",
        unknown=tuple(chosen.unknown),
        undecided=tuple(chosen.undecided),
        notes=(*notes, *chosen.notes),
        overrun=surges.share(most, surge),
    )


# -- manifests that make them ----------------------------------------------------------------------------------
def from_manifest(obj: Obj, templates: Templates) -> Iterator[Pool]:
    """The pools of an eksctl ClusterConfig, a node group of Cluster API, ACK or Crossplane, or of killcheck itself."""
    group = str(obj.get("apiVersion", "")).partition("/")[0]
    kind, spec = obj.get("kind"), obj.get("spec") or {}
    if kind == "ClusterConfig" and group == "eksctl.io":
        yield from _eksctl(obj, templates)
    elif kind == "AWSManagedMachinePool":
        template: Obj = dict(*mappings(spec.get("awsLaunchTemplate"))[:1])  # its text, not a template of the account
        types = [one for one in (spec.get("instanceType"), template.get("instanceType")) if one]
        yield eks_node_group(
            {
                "nodegroupName": name_of(obj),
                "instanceTypes": types,
                "scalingConfig": spec.get("scaling"),
                "launchTemplate": template,
            },
            templates,
        )
    elif kind == "Nodegroup" and group == "eks.services.k8s.aws":
        yield eks_node_group({"nodegroupName": name_of(obj), **spec}, templates)
    elif kind == "NodeGroup" and group.startswith("eks.aws."):
        given = spec.get("forProvider") or {}
        yield eks_node_group(
            {
                "nodegroupName": name_of(obj),
                "instanceTypes": given.get("instanceTypes"),
                "scalingConfig": _first(given.get("scalingConfig")),
                "launchTemplate": _first(given.get("launchTemplate")),
            },
            templates,
        )
    elif kind == "ConfigMap" and labels_of(obj).get("killcheck.dev/node-groups") == "true":
        yield from _own(obj, templates)


def _first(given: Any) -> Any:
    """A field that Crossplane's older versions have as a list of one."""
    return given[0] if isinstance(given, list) and given else given


def _eksctl(obj: Obj, templates: Templates) -> Iterator[Pool]:
    for field in ("nodeGroups", "managedNodeGroups"):
        given = obj.get(field) or []
        for group in given if isinstance(given, list) else [None]:
            if isinstance(group, Mapping):
                yield _eksctl_group(group, templates)
            else:  # no schema was asked of it
                unknown = (f"{field} of its ClusterConfig is no list of maps",)
                yield Pool("EKSNodegroup/?", templates.types, 0, 0, unknown=unknown)


def _eksctl_group(group: Mapping[str, Any], templates: Templates) -> Pool:
    chosen = named(templates.types, _eksctl_types(group) or [DEFAULT_TYPE])
    if group.get("instanceSelector"):
        chosen = Chosen(0, templates.types.all, ["instanceSelector is resolved when eksctl runs, not here"])
    template = group.get("launchTemplate")
    if template and isinstance(template, Mapping):
        chosen = templates.resolve(template)
    elif template:
        chosen = Chosen(0, templates.types.all, [f"a launch template is {template!r}"])
    desired = group.get("desiredCapacity", 2 if group.get("minSize") is None else group["minSize"])
    return _pool(
        f"EKSNodegroup/{group.get('name', '?')}",
        templates.types,
        chosen,
        most=_number(group.get("maxSize", desired), chosen),
        floor=int(_number(group.get("minSize", desired), chosen)),
        notes=(PAST_SCPS,),
    )


def _eksctl_types(group: Mapping[str, Any]) -> list[str]:
    mixed = dig(group, "instancesDistribution", "instanceTypes", default=[])
    single = [one for one in items(group.get("instanceType")) if one != "mixed"]
    return [str(one) for one in (*items(group.get("instanceTypes")), *items(mixed), *single)]


def _own(obj: Obj, templates: Templates) -> Iterator[Pool]:
    from killcheck.embedded import read_groups

    try:
        groups: Iterable[Any] = read_groups(obj).values()
    except ValueError as error:
        yield Pool(f"ConfigMap/{name_of(obj)}", templates.types, 0, 0, unknown=(str(error),))
        return
    for group in groups:
        chosen = named(templates.types, [group.instance_type])
        yield _pool(f"NodeGroup/{group.name}", templates.types, chosen, most=float(group.maximum), floor=group.minimum)
