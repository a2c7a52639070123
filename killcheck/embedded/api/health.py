"""What an API server says of itself: /healthz, /livez, /readyz and their checks, /metrics.

Sources: k8s.io/apiserver/pkg/server/healthz and an answer of a v1.36.2 API server, whose checks these are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from killcheck.embedded.api.http import Request, Response

__all__ = ["Metrics", "no_page", "respond"]

_TEXT = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
_HOOKS = (
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "aggregator-reload-proxy-client-cert",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-wait-for-first-sync",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
)
_CHECKS = (
    "ping",
    "log",
    "loopback-serving-certificate",
    "etcd",
    *(f"poststarthook/{hook}" for hook in _HOOKS[:-2]),
    "autoregister-completion",
    *(f"poststarthook/{hook}" for hook in _HOOKS[-2:]),
)
#: What only one of the three paths asks as well.
_MORE = {"readyz": ("etcd-readiness", "informer-sync", "shutdown")}


def respond(request: Request) -> Response:
    """All checks, or one by its name: a server that answers is healthy."""
    _, name, *rest = request.path.rstrip("/").split("/")
    checks = _CHECKS + _MORE.get(name, ())
    if rest and "/".join(rest) not in checks:
        return no_page()
    if rest or "verbose" not in request.query:
        return Response(200, "ok", dict(_TEXT))
    excluded = request.query.get("exclude", ())
    told = "".join(f"[+]{check} {'excluded: ' if check in excluded else ''}ok\n" for check in checks)
    return Response(200, f"{told}{name} check passed\n", dict(_TEXT))


def no_page() -> Response:
    """What Go's mux says where nobody serves a path at all."""
    return Response(404, "404 page not found\n", dict(_TEXT))


class _Asked(NamedTuple):
    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    code: int


class Metrics:
    """What of a v1.36 API server's /metrics the model knows: requests from outside this process, objects, watches."""

    def __init__(self) -> None:
        self._asked: Counter[_Asked] = Counter()

    def count(self, verb: str, of: tuple[str, str, str, str], response: Response) -> None:
        """A request about (group, version, resource, subresource) was answered."""
        self._asked[_Asked(verb.upper(), *of, response.status)] += 1

    def respond(self, version: str, objects: Iterable[tuple[str, int]], watches: int) -> Response:
        """The page in Prometheus' text format; ``objects``: how many there are of each resource."""
        requests = [(dict(zip(_Asked._fields, map(str, asked), strict=True)), n) for asked, n in self._asked.items()]
        minor = version.removeprefix("v").split(".")[1]
        build = {"git_version": version, "major": "1", "minor": minor, "platform": "linux/amd64"}
        text = (
            _family("apiserver_request_total", "counter", "Requests by verb, resource and code.", requests)
            + _family(
                "apiserver_resource_objects", "gauge", "Stored objects.", [({"resource": r}, n) for r, n in objects]
            )
            + _family("apiserver_longrunning_requests", "gauge", "Open watches.", [({"verb": "WATCH"}, watches)])
            + _family("kubernetes_build_info", "gauge", "The release.", [(build, 1)])
        )
        return Response(200, text, {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


def _family(name: str, sort: str, words: str, samples: list[tuple[dict[str, str], int]]) -> str:
    lines = [f"# HELP {name} {words}", f"# TYPE {name} {sort}"]
    for labels, value in samples:
        shown = ",".join(f'{key}="{text}"' for key, text in sorted(labels.items()))
        lines.append(f"{name}{{{shown}}} {value}")
    return "\n".join(lines) + "\n"
