"""Groups of machines as clouds' own command lines size them: which one is emptied, which one is filled.

Sources: the reference pages of ``aws autoscaling``, ``aws eks update-nodegroup-config``, ``gcloud compute
instance-groups managed resize``, ``gcloud container clusters resize``, ``az aks nodepool`` and ``az vmss``. What may
*not* live here: running any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from killcheck.text import lazy_re

__all__ = ["GROUPS", "Group"]

#: A number of machines, and no number without end.
_NUMBER = lazy_re.compile(r"[0-9]{1,6}")


class Group(Struct, frozen=True):
    """One command that sizes a group. ``names``: the options that say which, none where it is the first plain word.
    ``sizes``: those that say how many, the first that is there; a key of its value after a dot. ``to``: how many, where
    the command itself says so. ``count``, ``start``: what lists the machines that are on, and what starts one, with
    ``{name}``, ``{of}`` (the cluster), ``{where}`` and ``{account}`` (where, without the place)."""

    names: tuple[str, ...]
    count: tuple[str, ...]
    start: str
    sizes: tuple[str, ...] = ()
    to: int | None = None
    of: tuple[str, ...] = ()

    def size(self, options: Mapping[str, Sequence[str]]) -> int | None:
        """To how many machines a command line brings it; None: it does not say, or not in a number."""
        if self.to is not None:
            return self.to
        for size in self.sizes:
            option, _, key = size.partition(".")
            for value in options.get(option, ()):
                given = dict(part.partition("=")[::2] for part in value.split(",")) if key else {"": value}
                number = given.get(key, "")
                if _NUMBER.fullmatch(number):
                    return int(number)
        return None


_ON = "Name=instance-state-name,Values=pending,running,stopping,shutting-down"
_IDS = ("--query", "Reservations[].Instances[].InstanceId", "--output", "json")
_ASG = Group(
    ("--auto-scaling-group-name",),
    (
        *("aws", "autoscaling", "describe-auto-scaling-groups", "--auto-scaling-group-names", "{name}"),
        *("--query", "AutoScalingGroups[].Instances[].InstanceId", "--output", "json", "{where}"),
    ),
    "aws autoscaling set-desired-capacity --auto-scaling-group-name {name} --desired-capacity 1 {where}",
    ("--desired-capacity", "--max-size"),
)
_EKS = Group(
    ("--nodegroup-name",),
    (
        *("aws", "ec2", "describe-instances", "--filters", _ON, "Name=tag:eks:nodegroup-name,Values={name}"),
        *("Name=tag:eks:cluster-name,Values={of}", *_IDS, "{where}"),
    ),
    "aws eks update-nodegroup-config --cluster-name {of} --nodegroup-name {name} --scaling-config desiredSize=1 "
    "{where}",
    ("--scaling-config.desiredSize",),
    of=("--cluster-name",),
)
_MIG = Group(
    (),
    (
        *("gcloud", "compute", "instance-groups", "managed", "list-instances", "{name}"),
        *("--filter=instanceStatus!=TERMINATED", "--format=json(instance)", "{where}"),
    ),
    "gcloud compute instance-groups managed resize {name} --size 1 --quiet {where}",
    ("--size",),
)
_GKE = Group(
    ("--node-pool",),
    (
        *("gcloud", "compute", "instances", "list"),
        "--filter=labels.goog-k8s-node-pool-name={name} AND labels.goog-k8s-cluster-name={of} AND status!=TERMINATED",
        *("--format=json(name)", "{account}"),
    ),
    "gcloud container clusters resize {of} --node-pool {name} --num-nodes 1 --quiet {where}",
    ("--num-nodes", "--size"),
)
_AKS = Group(
    ("--name", "-n", "--nodepool-name"),
    (
        *("az", "aks", "nodepool", "list", "--cluster-name", "{of}", "--query"),
        *("[?name=='{name}' && count>`0` && powerState.code!='Stopped'].name", "--output", "json", "{where}"),
    ),
    "az aks nodepool scale --cluster-name {of} --name {name} --node-count 1 {where}",
    ("--node-count", "-c"),
    of=("--cluster-name",),
)
_VMSS = Group(
    ("--name", "-n"),
    (
        *("az", "vmss", "list-instances", "--name", "{name}", "--expand", "instanceView", "--query"),
        "[?!(instanceView.statuses[?code=='PowerState/deallocated'])].name",
        *("--output", "json", "{where}"),
    ),
    "az vmss scale --name {name} --new-capacity 1 {where}",
    ("--new-capacity",),
)


def _fixed(group: Group, start: str, to: int) -> Group:
    """The same group, sized by a command that says by itself to how many."""
    return Group(group.names, group.count, start, to=to, of=group.of)


_POOL_START = "az aks nodepool start --cluster-name {of} --nodepool-name {name} {where}"
_VMSS_START = "az vmss start --name {name} {where}"
#: By the words of the command.
GROUPS: Mapping[str, Group] = {
    "aws autoscaling update-auto-scaling-group": _ASG,
    "aws autoscaling set-desired-capacity": _ASG,
    "aws eks update-nodegroup-config": _EKS,
    "gcloud compute instance-groups managed resize": _MIG,
    "gcloud container clusters resize": _GKE,
    "az aks nodepool scale": _AKS,
    "az aks nodepool stop": _fixed(_AKS, _POOL_START, 0),
    "az aks nodepool start": _fixed(_AKS, _POOL_START, 1),
    "az vmss scale": _VMSS,
    "az vmss stop": _fixed(_VMSS, _VMSS_START, 0),
    "az vmss deallocate": _fixed(_VMSS, _VMSS_START, 0),
    "az vmss start": _fixed(_VMSS, _VMSS_START, 1),
}
