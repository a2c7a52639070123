"""Karpenter's names: labels, annotations, taints, conditions (sigs.k8s.io/karpenter pkg/apis/v1, v1.14)."""

from __future__ import annotations

from killcheck.kube.objects import Obj

GROUP = "karpenter.sh"
NODEPOOL = "karpenter.sh/nodepool"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
TERMINATION_TIME = "karpenter.sh/nodeclaim-termination-timestamp"
FINALIZER = "karpenter.sh/termination"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
EXCLUDE_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"

DISRUPTED_TAINT: Obj = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
UNREGISTERED_TAINT: Obj = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}

#: Taints that every node starts with and loses by itself (pkg/scheduling/taints.go).
EPHEMERAL_TAINTS = (
    ("node.kubernetes.io/not-ready", "NoSchedule"),
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoSchedule"),
    ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
    ("karpenter.sh/unregistered", "NoExecute"),
)

#: The conditions that make a NodeClaim Ready, and a NodePool.
CLAIM_CONDITIONS = ("Launched", "Registered", "Initialized")
POOL_CONDITIONS = ("ValidationSucceeded", "NodeClassReady")
