"""Idle detectors that take their own noise for work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from killcheck.probes.base import Finding, Probe
from killcheck.probes.keda_floor import scales
from killcheck.probes.world import World

from killcheck.kube.objects import Obj, dig, name_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path

__all__ = ["KeptAwake"]


class KeptAwake(Probe):
    """A count of all HTTP requests counts the kubelet's probes too; a synthetic monitor is a visitor every minute."""

    id = "kept-awake"
    claim = "No probe and no monitor counts as the work that an idle detector waits for the end of."
    remedy = 'Leave probe and metrics paths out of the query (path!~"/health|/metrics"), or monitor another address.'
    severity = "warning"
    failures = (40,)
    sources = ("rjwalters/loom#4467", "jupyterhub/mybinder.org-deploy#502")

    def ask(self, world: World) -> Iterable[Finding]:
        """Prometheus triggers of scalers on targets with HTTP probes; monitors of what wakes at a request."""
        for _, obj in world.targets:
            paths = sorted(set(_probed(obj)))
            for scaler in world.of("ScaledObject"):
                for index, trigger in enumerate(dig(scaler, "spec", "triggers", default=[])):
                    query = str(dig(trigger, "metadata", "query", default=""))
                    if paths and scales(scaler, obj) and _ALL_REQUESTS.search(query) and not _EXCLUDES.search(query):
                        where: Path = ("spec", "triggers", index, "metadata", "query")
                        message = f"counts every request, those of the probes of {ref_of(obj)} ({paths[0]}) too"
                        yield self.finding(world, scaler, where, message)
        for scaler in world.of("HTTPScaledObject"):
            hosts = [str(host) for host in dig(scaler, "spec", "hosts", default=[])]
            for monitor, path, target in _monitors(world):
                if any(re.search(rf"(^|/){re.escape(host)}(:|/|$)", target) for host in hosts):
                    message = f"asks {target} again and again: {name_of(scaler)} is never idle"
                    yield self.finding(world, monitor, path, message, also=[(scaler, ("spec", "hosts"))])


def _probed(obj: Obj) -> Iterator[str]:
    """The HTTP paths that the kubelet asks for."""
    for template in templates(obj):
        for container in dig(template.spec, "containers", default=[]):
            for kind in ("livenessProbe", "readinessProbe"):
                found = dig(container, kind, "httpGet")
                if found:
                    yield str(found.get("path", "/"))


def _monitors(world: World) -> Iterator[tuple[Obj, Path, str]]:
    """(object, path, address) of what the Prometheus operator's Probes ask."""
    for monitor in world.of("Probe"):
        path: Path = ("spec", "targets", "staticConfig", "static")
        for index, target in enumerate(dig(monitor, *path, default=[])):
            yield monitor, (*path, index), str(target)


#: Counters of all requests that a server answers (Prometheus' conventions, Spring's, Starlette's).
_ALL_REQUESTS = lazy_re.compile(
    r"\b(http_requests?_total|http_request_duration_seconds_count|http_server_requests_seconds_count"
    r"|starlette_requests_total|flask_http_request_total)\b"
)
_EXCLUDES = lazy_re.compile(r"(path|handler|uri|route|endpoint|url_rule)\s*(!~|!=|=~|=)")
