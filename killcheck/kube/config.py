"""How to get a :class:`~killcheck.kube.client.Kube`: a kubeconfig's context by its name, or the pod we run in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from killcheck.clock import Loop
from killcheck.kube.client import Kube
from killcheck.kube.credentials import TokenFile, from_user, impersonation
from killcheck.kube.endpoint import Endpoint
from killcheck.kube.errors import KubeConfigError
from killcheck.kube.kubeconfig import Section, load, read_file
from killcheck.kube.wire import WireTransport

__all__ = ["IN_CLUSTER", "connect", "in_cluster"]

#: The name by which a pod names the cluster that it runs in.
IN_CLUSTER = "in-cluster"

#: Where a pod finds its ServiceAccount's token and the cluster's CA.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def connect(context: str, *, kubeconfig: Path | None = None, loop: Loop) -> Kube:
    """The cluster that ``context`` names in ``kubeconfig`` (default: KUBECONFIG, ``~/.kube/config``); nothing is sent.

    There is no default: ``current-context`` is never looked at. ``in-cluster``, without a kubeconfig, is the cluster
    of the pod that we run in. Raises KubeConfigError (for an unknown context with
    the nearest names) and CredentialsError; calls raise Unreachable, CredentialsError and ApiErrors.
    """
    _refuse_elsewhere(context)
    if context == IN_CLUSTER and kubeconfig is None and not os.environ.get("KUBECONFIG"):
        return in_cluster(loop)
    found = load(context, kubeconfig)
    endpoint = Endpoint.of(found.cluster, context)
    if not endpoint.secure:  # as kubectl: what listens there (`kubectl proxy`) has credentials of its own
        return Kube(WireTransport(endpoint, None, loop))

    def reload() -> Section:
        return load(context, kubeconfig).user

    credentials = from_user(found.user, reload, found.cluster, loop)
    return Kube(WireTransport(endpoint, credentials, loop, impersonate=impersonation(found.user)))


def _refuse_elsewhere(context: str) -> None:
    """What ``--on`` calls by these names is no context of a kubeconfig, and not every command can be on it."""
    what = context.partition(":")[0]
    if what == "docker":
        raise KubeConfigError(
            f"--on {context} is a Docker Engine: it can be drilled and restored; this takes Kubernetes"
        )
    if what == "kind":
        raise KubeConfigError(
            f"--on {context} can be drilled and restored; for anything else name its context: --on kind-NAME "
            f"--kubeconfig $(killcheck cluster kubeconfig --on {context})"
        )


def in_cluster(
    loop: Loop,
    *,
    account: Path = SERVICE_ACCOUNT,
    environ: Mapping[str, str] | None = None,
) -> Kube:
    """The cluster of the pod that we run in, as its ServiceAccount; the token is read anew as the kubelet rotates it.

    Raises KubeConfigError outside of a pod, CredentialsError where no token is mounted.
    """
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeConfigError("this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    authority = read_file(account / "ca.crt", "the pod's ServiceAccount")
    credentials = TokenFile(account / "token", "the pod's ServiceAccount token")
    credentials.login()
    return Kube(WireTransport(Endpoint(url, f"the API server {url} (this pod's)", authority), credentials, loop))
