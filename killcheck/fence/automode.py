"""The pools that EKS Auto Mode brings itself, where a manifest turns it on: nobody writes them, nothing limits them.

Source: docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools (on-demand machines of C, M and R from their
fifth generation on; ``system`` also of arm64), eksctl's ``autoModeConfig``, ACK's ``computeConfig``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from killcheck.kube.objects import Obj, dig, items, name_of

__all__ = ["built_in", "is_cluster"]

_ARCHITECTURES = {"general-purpose": ["amd64"], "system": ["amd64", "arm64"]}


def built_in(objects: Iterable[Obj]) -> Iterator[Obj]:
    """As NodePools, of every cluster of eksctl or ACK that has them."""
    for obj in objects:
        said = _said(obj)
        if said.get("enabled") is True:
            asked = said.get("nodePools")
            for name in _ARCHITECTURES if asked is None else map(str, items(asked)):
                if name in _ARCHITECTURES:
                    yield _pool(f"{name_of(obj) or 'cluster'}-{name}", _ARCHITECTURES[name])


def is_cluster(obj: Obj) -> bool:
    """Whether it is a cluster of ACK, which makes no machines but these."""
    return str(obj.get("apiVersion", "")).partition("/")[0] == "eks.services.k8s.aws" and obj.get("kind") == "Cluster"


def _said(obj: Obj) -> Obj:
    """What a cluster says of Auto Mode; eksctl has both pools where nobody names any."""
    eksctl = str(obj.get("apiVersion", "")).partition("/")[0] == "eksctl.io" and obj.get("kind") == "ClusterConfig"
    said = dig(obj, "spec", "computeConfig") if is_cluster(obj) else obj.get("autoModeConfig") if eksctl else None
    if not isinstance(said, dict):
        return {}
    return said if eksctl else {"nodePools": [], **said}


def _pool(name: str, architectures: list[str]) -> Obj:
    wanted = {
        "eks.amazonaws.com/instance-category": ("In", ["c", "m", "r"]),
        "eks.amazonaws.com/instance-generation": ("Gt", ["4"]),
        "kubernetes.io/arch": ("In", architectures),
        "karpenter.sh/capacity-type": ("In", ["on-demand"]),
    }
    requirements = [{"key": key, "operator": how, "values": values} for key, (how, values) in wanted.items()]
    node_class = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
    inner = {"requirements": requirements, "nodeClassRef": node_class}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": inner}},
    }
