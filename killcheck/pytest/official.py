"""The official Kubernetes client, bound to a cluster that killcheck drills; imported only when a test asks for it.

What may *not* live here: a client of killcheck's own, and what a test asserts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from killcheck.capabilities.cluster import ClusterError, NotInstalled

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

__all__ = ["api_client_of"]


@contextmanager
def api_client_of(cluster: Any) -> Iterator[ApiClient]:
    """A ``kubernetes.client.ApiClient`` of a drill's cluster, an embedded cluster or a session's.

    It asks with the rights of the cluster's kubeconfig: on an embedded one an administrator's. What it changes is
    not on record, and nobody puts it back. Raises ClusterError where the cluster has no Kubernetes API, NotInstalled
    where the package kubernetes is not there.
    """
    if find_spec("kubernetes") is None:
        raise NotInstalled("the official client is the package kubernetes: pip install 'killcheck[client]'")
    made = _embedded(cluster) or _named(cluster)
    if made is None:
        raise ClusterError(f"the official client needs a Kubernetes API, and {cluster.name} has none")
    try:
        yield made
    finally:
        made.rest_client.pool_manager.clear()
        made.close()


def _embedded(cluster: Any) -> ApiClient | None:
    """None: it is not in this process."""
    inside = getattr(cluster, "embedded", cluster)
    if not hasattr(inside, "wire"):
        return None
    from kubernetes.config import new_client_from_config

    with tempfile.TemporaryDirectory(prefix="killcheck-") as folder:
        file = Path(folder) / "kubeconfig"
        file.write_text(inside.kubeconfig(), encoding="utf-8")
        made: ApiClient = new_client_from_config(str(file), persist_config=False)
    return made


def _named(cluster: Any) -> ApiClient | None:
    """A cluster that a kubeconfig's context names, or the pod's own; None: neither."""
    from killcheck.cluster.kubeconfig import KubeconfigCluster
    from killcheck.kube.config import IN_CLUSTER

    if not isinstance(cluster, KubeconfigCluster):
        return None
    from kubernetes import client, config

    if cluster.name == IN_CLUSTER and cluster.kubeconfig is None:
        settings = client.Configuration()
        config.load_incluster_config(client_configuration=settings)
        return client.ApiClient(settings)
    file = None if cluster.kubeconfig is None else str(cluster.kubeconfig)
    made: ApiClient = config.new_client_from_config(file, context=cluster.name, persist_config=False)
    return made
