"""How a Prometheus scrapes the exporters of a GPU cluster: by which ServiceMonitor or PodMonitor, and what that makes
of their series.

A monitor that is there and that its Prometheus does not select, or that selects no Service, brings no series. What one
says that is outside the vocabulary of this module leaves every alert on its series unproven. Where no monitor of an
exporter is there, nobody saw how it is scraped: that is taken, and said.

Sources: prometheus-operator Documentation/api-reference (ServiceMonitor, PodMonitor, Endpoint, RelabelConfig) and
pkg/prometheus/promcfg.go (a ServiceMonitor's targets get namespace, service, pod, container, endpoint, and ``node``
only where the target is a Node); prometheus.io/docs ``honor_labels``; promql lookback (5 min).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from killcheck.kube.objects import Obj, dig, items, labels_of, mappings, name_of, namespace_of, ref_of
from killcheck.kube.selectors import SelectorError, from_match_labels
from killcheck.promql import exporters
from killcheck.promql.evaluation import pattern
from killcheck.promql.language import Unsupported, duration_s

__all__ = ["EXPORTERS", "Scrape", "families", "matches", "scrape", "within"]

#: The exporters whose series a drill makes, and by what their monitors are known.
EXPORTERS = {"dcgm-exporter": "dcgm", "kube-state-metrics": "kube-state-metrics"}
#: A series that is scraped more seldom is not there between two scrapes (lookback 5 min), in seconds.
_SELDOM_S = 270.0
_HONOUR = "honorLabels"
_OF_ENDS = frozenset(
    {
        *("port", "targetPort", "portNumber", "path", "interval", "scrapeTimeout", "honorLabels", "honorTimestamps"),
        *("relabelings", "metricRelabelings", "scheme", "tlsConfig", "bearerTokenFile", "bearerTokenSecret"),
        *("authorization", "basicAuth", "enableHttp2", "followRedirects", "trackTimestampsStaleness", "filterRunning"),
    }
)
_OF_SPECS = frozenset(
    {
        *("selector", "namespaceSelector", "endpoints", "podMetricsEndpoints", "jobLabel", "targetLabels"),
        *("podTargetLabels", "attachMetadata"),
    }
)


class Scrape(Struct, frozen=True):
    """How one exporter is scraped. ``honours``: its own labels are kept; ``node``: the scrape adds a label of the node.

    ``silent``: why there are none of its series; ``problem``: why nobody knows what becomes of them; ``dropped``:
    patterns of names that are dropped.
    """

    monitor: str
    namespace: str
    honours: bool = True
    node: bool = False
    silent: str = ""
    problem: str = ""
    dropped: tuple[str, ...] = ()

    def lacks(self, name: str) -> str:
        """Why a metric of the exporter is never there; empty where it may be."""
        dropped = any(pattern(one).fullmatch(name) for one in self.dropped)
        return self.silent or (f"{self.monitor} drops {name}" if dropped else "")


def scrape(
    exporter: str,
    server: Obj | None,
    monitors: Sequence[Obj],
    services: Sequence[Obj],
    spaces: dict[str, dict[str, str]],
) -> Scrape | None:
    """How ``server`` scrapes an exporter; None where no monitor of it is there. ``spaces``: labels by namespace."""
    word = EXPORTERS[exporter]
    about = [one for one in monitors if word in f"{name_of(one)} {dig(one, 'spec', 'selector')}"]
    if not about:
        return None
    chosen = [one for one in about if server is None or _selects(server, one, spaces)]
    first = chosen[0] if chosen else about[0]
    base = Scrape(ref_of(first), _home(first))
    if not chosen:
        if any(dig(server, "spec", name) for name in ("additionalScrapeConfigs", "scrapeConfigSelector")):
            return _but(
                base, problem=f"{ref_of(server or {})} does not select {base.monitor}, and scrapes by other words too"
            )
        return _but(base, silent=f"{ref_of(server or {})} does not select {base.monitor}, which scrapes {exporter}")
    if len(chosen) > 1:
        return _but(base, problem=f"{exporter} is scraped twice, by {base.monitor} and {ref_of(chosen[1])}")
    return _read(base, first, word, server, services)


def _but(base: Scrape, **changed: Any) -> Scrape:
    return Scrape(**{name: getattr(base, name) for name in base.__struct_fields__} | changed)


def _read(base: Scrape, monitor: Obj, word: str, server: Obj | None, services: Sequence[Obj]) -> Scrape:
    ends = [*mappings(dig(monitor, "spec", "endpoints")), *mappings(dig(monitor, "spec", "podMetricsEndpoints"))]
    ends = [one for one in ends if "self" not in str(one.get("port"))]  # kube-state-metrics' figures of itself
    problem = next(_strange(monitor, ends, server), "")
    silent = _targets(monitor, ends, word, services) if monitor.get("kind") == "ServiceMonitor" else ""
    override = dig(server, "spec", "overrideHonorLabels") is True if server is not None else False
    return _but(
        base,
        honours=any(one.get(_HONOUR) is True for one in ends) and not override,
        node=any(_gives_node(one) for end in ends for one in mappings(end.get("relabelings"))),
        silent=silent,
        problem=problem,
        dropped=tuple(_dropped(ends)),
    )


def _strange(monitor: Obj, ends: Sequence[Obj], server: Obj | None) -> Iterator[str]:
    """What is said of a scrape that nobody here evaluates."""
    ref, spec = ref_of(monitor), dig(monitor, "spec", default={})
    if len(ends) != 1:
        yield f"{ref} has {len(ends)} endpoints"
    fields = [name for name, value in spec.items() if value and name not in _OF_SPECS]
    fields += [name for end in ends for name, value in end.items() if value and name not in _OF_ENDS]
    if fields:
        yield f"what {ref} means by {sorted(fields)[0]} is not evaluated"
    for end in ends:
        for said in (end.get("interval"), dig(server, "spec", "scrapeInterval") if server is not None else None):
            if said:
                if _too_seldom(str(said)):
                    yield f"{ref} is scraped every {said}, and its series are not there in between"
                break
        if any(not (_gives_node(one) or _lets_go(one, end)) for one in mappings(end.get("relabelings"))):
            yield f"what {ref} relabels is not evaluated"
        if any(not _drops(one) for one in mappings(end.get("metricRelabelings"))):
            yield f"what {ref} relabels of its series is not evaluated"


def _too_seldom(text: str) -> bool:
    try:
        return duration_s(text) > _SELDOM_S
    except Unsupported:
        return True


def _gives_node(one: Obj) -> bool:
    """The usual way to a label of the node."""
    plain = set(one) <= {"action", "sourceLabels", "targetLabel", "separator", "regex", "replacement"}
    said = (one.get("action", "replace").lower(), one.get("targetLabel"), one.get("regex", "(.*)"))
    of_node = items(one.get("sourceLabels")) in (
        ["__meta_kubernetes_pod_node_name"],
        ["__meta_kubernetes_endpoint_node_name"],
    )
    whole = one.get("replacement", "$1") in ("$1", "${1}") and said[2] in ("(.*)", "(.+)", "^(.*)$", ".*", "")
    return plain and of_node and whole and said[:2] == ("replace", "node")


def _lets_go(one: Obj, end: Obj) -> bool:
    """Whether it takes labels from the target alone, where the exporter's own are kept anyway."""
    return (
        str(one.get("action")).lower() == "labeldrop" and set(one) <= {"action", "regex"} and end.get(_HONOUR) is True
    )


def _drops(one: Obj) -> bool:
    """Whether it drops series by their names, and does nothing else."""
    by_name = items(one.get("sourceLabels")) == ["__name__"] and isinstance(one.get("regex"), str)
    if not by_name or str(one.get("action")).lower() != "drop" or set(one) > {"action", "sourceLabels", "regex"}:
        return False
    try:
        pattern(one["regex"])
    except Unsupported:
        return False
    return True


def _dropped(ends: Iterable[Obj]) -> Iterator[str]:
    yield from (str(one["regex"]) for end in ends for one in mappings(end.get("metricRelabelings")) if _drops(one))


def _targets(monitor: Obj, ends: Sequence[Obj], word: str, services: Sequence[Obj]) -> str:
    """Why a ServiceMonitor selects nothing; empty where it does, or where no Service of the exporter is there."""
    known = [one for one in services if word in f"{name_of(one)} {labels_of(one)}"]
    if not known:
        return ""
    selector, spaces = dig(monitor, "spec", "selector"), dig(monitor, "spec", "namespaceSelector", default={})
    named = {str(one) for one in items(spaces.get("matchNames"))} or {_home(monitor)}
    found = [one for one in known if matches(selector, labels_of(one)) and (spaces.get("any") or _home(one) in named)]
    if not found:
        return f"{ref_of(monitor)} selects no Service ({ref_of(known[0])} is not what it selects)"
    ports = {str(port.get("name")) for one in found for port in mappings(dig(one, "spec", "ports"))}
    wanted = next((str(end["port"]) for end in ends if end.get("port")), None)
    if wanted is not None and wanted not in ports:
        return f"{ref_of(monitor)} scrapes port {wanted}, and {ref_of(found[0])} has {', '.join(sorted(ports))}"
    return ""


def _selects(server: Obj, monitor: Obj, spaces: dict[str, dict[str, str]]) -> bool:
    if server.get("kind") != "Prometheus":  # a ThanosRuler asks what others have scraped
        return True
    field = "podMonitor" if monitor.get("kind") == "PodMonitor" else "serviceMonitor"
    selector = dig(server, "spec", f"{field}Selector")
    return within(server, f"{field}NamespaceSelector", monitor, spaces) and matches(selector, labels_of(monitor))


def within(server: Obj, field: str, obj: Obj, spaces: dict[str, dict[str, str]]) -> bool:
    """Whether a server looks into an object's namespace; without words, into its own alone."""
    selector, home = dig(server, "spec", field), _home(obj)
    if selector is None:
        return home == _home(server)
    return matches(selector, {"kubernetes.io/metadata.name": home, **spaces.get(home, {})})


def matches(selector: Any, labels: dict[str, str]) -> bool:
    """Whether a selector selects labels; what the operator cannot read selects nothing."""
    try:
        return isinstance(selector, dict) and from_match_labels(selector).matches(labels)
    except SelectorError:
        return False


def _home(obj: Obj) -> str:
    return namespace_of(obj) or "default"


def families(names: Iterable[str]) -> dict[str, list[str]]:
    """Metrics by the exporter that makes them, of those that a drill knows."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        exporter = exporters.exporter_of(name)
        if exporter in EXPORTERS:
            found.setdefault(exporter, []).append(name)
    return found
