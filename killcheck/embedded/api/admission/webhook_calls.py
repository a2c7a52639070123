"""Reaching an admission webhook: a Service of the cluster, answered by a model. No URL is ever called.

A configuration comes with a stranger's manifests, or from a program in the sandbox: what it names is this host's, or
somebody's, and hears nothing of killcheck.

Sources: apiserver's pkg/util/webhook/client.go and pkg/util/proxy/proxy.go; recordings 15 and 15b for the words.
"""

from __future__ import annotations

from collections.abc import Callable

from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig, labels_of, name_of

__all__ = ["Backend", "CallFailed", "WebhookCaller"]

#: A model of a webhook server: answers an AdmissionReview; raises CallFailed where it cannot be reached.
Backend = Callable[[Obj], Obj]

SERVICES = ("", "services")
SLICES = ("discovery.k8s.io", "endpointslices")


class CallFailed(Exception):
    """The webhook gave no answer. The message is what follows ``failed to call webhook:`` in Kubernetes' words.

    A backend raises it with the network's part alone (``context deadline exceeded``, ``EOF``).
    """


class WebhookCaller:
    """Calls webhooks. ``backends`` models Services by (namespace, name); ``unmodelled`` answers for all others.

    Without ``unmodelled``, a Service whose pods are ready but which has no model refuses connections: nothing
    listens in a hollow pod, and what its webhook would say is not known.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.backends: dict[tuple[str, str], Backend] = {}
        self.unmodelled: Backend | None = None

    def call(self, client: Obj, timeout_s: int, review: Obj) -> Obj:
        """POST the review to a ``clientConfig``; answers the AdmissionReview that came back. Raises CallFailed."""
        service = client.get("service")
        url = _service_url(service) if service else str(client.get("url") or "")
        address = f"{url}?timeout={timeout_s}s"
        try:
            if service:
                return self._service(service, review)
            raise CallFailed("killcheck's embedded cluster calls no URL")
        except CallFailed as failed:
            raise CallFailed(f'Post "{address}": {failed}') from failed

    def _service(self, ref: Obj, review: Obj) -> Obj:
        namespace, name = ref.get("namespace", ""), ref.get("name", "")
        service = self.store.get(SERVICES, (namespace, name))
        if service is None:
            raise CallFailed(f'service "{name}" not found')
        port = int(ref.get("port") or 443)
        ports = [entry for entry in dig(service, "spec", "ports", default=[]) if entry.get("port") == port]
        if not ports:
            raise CallFailed(f'no service port {port} found for service "{name}"')
        backend = self.backends.get((namespace, name))
        endpoint = self._endpoint(namespace, name, ports[0])
        if not endpoint:
            raise CallFailed(f'no endpoints available for service "{name}"')
        answer = backend or self.unmodelled
        if answer is None:
            raise CallFailed(f"dial tcp {endpoint}: connect: connection refused")
        return answer(review)

    def _endpoint(self, namespace: str, name: str, port: Obj) -> str | None:
        """``address:port`` of a ready endpoint; None if there is none."""
        for _, found in self.store.items(SLICES, namespace):
            if labels_of(found).get("kubernetes.io/service-name") != name and name_of(found) != name:
                continue
            numbers = [
                p.get("port") for p in found.get("ports") or () if (p.get("name") or "") == (port.get("name") or "")
            ]
            for endpoint in found.get("endpoints") or () if numbers else ():
                if dig(endpoint, "conditions", "ready", default=True) and endpoint.get("addresses"):
                    return f"{endpoint['addresses'][0]}:{numbers[0]}"
        return None


def _service_url(ref: Obj) -> str:
    path = str(ref.get("path") or "/")
    port = int(ref.get("port") or 443)
    return f"https://{ref.get('name', '')}.{ref.get('namespace', '')}.svc:{port}/{path.lstrip('/')}"
