"""Reaching an admission webhook: a Service of the cluster, answered by a model, or a URL on loopback, over HTTP(S).

Sources: apiserver's pkg/util/webhook/client.go and pkg/util/proxy/proxy.go; recordings 15 and 15b for the words.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig, labels_of, name_of
from killcheck.text.jsontext import from_text

if TYPE_CHECKING:
    from http.client import HTTPConnection

__all__ = ["Backend", "CallFailed", "WebhookCaller"]

#: A model of a webhook server: answers an AdmissionReview; raises CallFailed where it cannot be reached.
Backend = Callable[[Obj], Obj]

SERVICES = ("", "services")
SLICES = ("discovery.k8s.io", "endpointslices")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


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
            return _post(url, f"timeout={timeout_s}s", review, client.get("caBundle"), timeout_s)
        except _Answered as answered:
            raise CallFailed(str(answered)) from answered
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


class _Answered(Exception):
    """The server answered with something that is no AdmissionReview."""


def _service_url(ref: Obj) -> str:
    path = str(ref.get("path") or "/")
    port = int(ref.get("port") or 443)
    return f"https://{ref.get('name', '')}.{ref.get('namespace', '')}.svc:{port}/{path.lstrip('/')}"


def _post(url: str, query: str, review: Obj, ca: str | None, timeout_s: int) -> Obj:
    """Really call a URL; only on loopback, for the embedded cluster touches nothing beyond this machine."""
    import ssl
    from http.client import HTTPException

    parts = urlsplit(url)
    host = parts.hostname or ""
    if host not in LOOPBACK:
        raise CallFailed(f"dial tcp: {host}: killcheck's embedded cluster calls webhooks on loopback only")
    port = parts.port or (80 if parts.scheme == "http" else 443)
    try:
        connection = _connection(parts.scheme, host, port, ca, timeout_s)
    except (ValueError, ssl.SSLError) as error:
        raise CallFailed("tls: failed to load the webhook's caBundle") from error
    headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
    try:
        connection.request("POST", f"{parts.path or '/'}?{query}", json.dumps(review), headers)
        response = connection.getresponse()
        code, body = response.status, response.read()
    except TimeoutError as error:
        raise CallFailed("context deadline exceeded") from error
    except ssl.SSLError as error:
        raise CallFailed(f"tls: failed to verify certificate: {error.reason}") from error
    except ConnectionRefusedError as error:
        raise CallFailed(f"dial tcp {host}:{port}: connect: connection refused") from error
    except (OSError, HTTPException) as error:
        raise CallFailed("EOF") from error
    finally:
        connection.close()
    return _parsed(code, body)


def _connection(scheme: str, host: str, port: int, ca: str | None, timeout_s: int) -> HTTPConnection:
    import ssl
    from http.client import HTTPConnection, HTTPSConnection

    if scheme == "http":
        return HTTPConnection(host, port, timeout=timeout_s)
    context = ssl.create_default_context(cadata=base64.b64decode(ca).decode() if ca else None)
    return HTTPSConnection(host, port, timeout=timeout_s, context=context)


def _parsed(code: int, body: bytes) -> Obj:
    text = body.decode(errors="replace")
    if code >= 500:
        said = json.dumps(text.strip())
        raise _Answered(f"an error on the server ({said}) has prevented the request from succeeding")
    if code >= 400:
        raise _Answered(
            {
                404: "the server could not find the requested resource",
                403: "unknown",
                401: "Unauthorized",
            }.get(code, "the server rejected our request for an unknown reason")
        )
    try:
        answer = from_text(text)
    except ValueError as error:
        raise _Answered(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(answer, dict):
        raise _Answered("couldn't get version/kind; json parse error: not an object")
    return answer
