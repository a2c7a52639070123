"""Words of a spot handler's drill: whose hand a taint is, what would have heard a notice, what mends what is wrong."""

from __future__ import annotations

__all__ = [
    "AKS_POOL",
    "CHECKPOINT",
    "EARS",
    "HANDS",
    "HONEST",
    "MORE_TYPES",
    "RETRIED",
    "SHUTDOWN",
    "TWO_POOLS",
]

#: Taints that handlers of notices set, and whose hand each is.
HANDS = {
    "karpenter.sh/disrupted": "Karpenter",
    "aws-node-termination-handler/spot-itn": "aws-node-termination-handler",
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler",
    "node.kubernetes.io/unschedulable": "a cordon",
    "cloud.google.com/impending-node-termination": "GKE",
    "remediator.kubernetes.azure.com/unschedulable": "AKS' node auto-drain",
    "remediator.aks.microsoft.com/unschedulable": "AKS' node auto-drain",
}
#: What AKS labels the nodes of a pool with.
AKS_POOL = "kubernetes.azure.com/agentpool"
#: What the labels begin with that Karpenter on AKS gives nodes.
AKS_KARPENTER = "karpenter.azure.com/"
#: Whose hand it is that shuts a node down gracefully.
SHUTDOWN = "the kubelet's graceful shutdown"
#: Who may go on at which price is said by pools.
TWO_POOLS = (
    "let the pool take spot alone; or make the on-demand one a pool of its own, with a lower weight and limits, and "
    "state its bill under fences: maxUsdPerHour"
)
MORE_TYPES = (
    "let the pool take more instance types and zones; where the work cannot wait, give it an on-demand pool of its own "
    "with a lower weight and limits"
)
RETRIED = "make the Job anew with retries left, and a podFailurePolicy that ignores DisruptionTarget"
HONEST = "let the worker leave with another exit code than 0 where its work is not done (143 when it is told to stop)"
CHECKPOINT = "let the worker write down how far it is, every few minutes and when it is told to stop"
#: What would have heard it, by cloud.
EARS = {
    "aws": "give Karpenter its interruption queue (settings.interruptionQueue) or run a node termination handler on "
    "every spot node",
    "gcp": "let the kubelet shut the node down gracefully (GKE's does, 15 s for pods that are not critical); or poll "
    "instance/preempted on every spot node, and drain it",
    "azure": "poll Scheduled Events for Preempt every second on every spot node, drain it, and approve the event; AKS' "
    "node auto-drain does so as best it can",
}
