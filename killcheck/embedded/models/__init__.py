"""Models of what lives beside Kubernetes - Karpenter, KEDA, Argo CD, Kueue - each driven by its own resources.

Each is a controller: a client of the API like any other. What may *not* live here: anything that touches the store.
``MODELS`` is what an embedded cluster starts, in order; one with a field ``cloud`` gets the cluster's model cloud.
"""

from killcheck.embedded.controllers.runtime import Controller
from killcheck.embedded.models.cloudnodes import CloudNodes
from killcheck.embedded.models.clusterautoscaler import ClusterAutoscaler
from killcheck.embedded.models.definitions import crds
from killcheck.embedded.models.karpenter import Karpenter
from killcheck.embedded.models.nodegroups import NodeGroups

__all__ = ["MODELS", "crds"]

MODELS: tuple[type[Controller], ...] = (CloudNodes, Karpenter, NodeGroups, ClusterAutoscaler)
