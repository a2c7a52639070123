"""A Prometheus or ThanosRuler of the operator: whether it runs, what it does to alerts, and to whom it sends them.

A closed vocabulary: of its ``spec`` each field is heeded here or known to change no alert. Any other leaves what it
loads unproven, by name.

Sources: prometheus-operator Documentation/api-reference (PrometheusSpec, ThanosRulerSpec), pkg/prometheus/promcfg.go
(generateAlertmanagerConfig: without ``alerting`` there is no Alertmanager), pkg/thanos/statefulset.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from killcheck.kube.objects import Obj, dig, items, mappings, name_of, namespace_of, ref_of
from killcheck.text import lazy_re

__all__ = ["agents", "external_labels", "hindrances", "managers_of", "sends_nowhere"]

#: What this module, the rules' loading or the scrapes' reading heeds.
_HEEDED = frozenset(
    {
        *("replicas", "shards", "paused", "alerting", "externalLabels", "evaluationInterval", "scrapeInterval"),
        *("ruleSelector", "ruleNamespaceSelector", "enforcedNamespaceLabel", "overrideHonorLabels"),
        *("serviceMonitorSelector", "serviceMonitorNamespaceSelector"),
        *("podMonitorSelector", "podMonitorNamespaceSelector"),
        *("alertmanagersUrl", "alertmanagersConfig", "labels", "queryEndpoints", "queryConfig"),
        # further targets and rivals of the ones that are read
        *("probeSelector", "probeNamespaceSelector", "scrapeConfigSelector", "scrapeConfigNamespaceSelector"),
        *("additionalScrapeConfigs", "additionalAlertManagerConfigs"),
    }
)
#: How it runs and is stored: changes no alert.
_INERT = frozenset(
    {
        *("affinity", "apiserverConfig", "arbitraryFSAccessThroughSMs", "automountServiceAccountToken", "baseImage"),
        *("configMaps", "secrets", "volumes", "volumeMounts", "image", "imagePullPolicy", "imagePullSecrets", "tag"),
        *("sha", "version", "listenLocal", "logFormat", "logLevel", "maximumStartupDurationSeconds", "minReadySeconds"),
        *("nodeSelector", "persistentVolumeClaimRetentionPolicy", "podMetadata", "podManagementPolicy", "portName"),
        *("priorityClassName", "prometheusExternalLabelName", "replicaExternalLabelName", "reloadStrategy"),
        *("remoteWrite", "remoteWriteReceiverMessageVersions", "enableRemoteWriteReceiver", "resources", "retention"),
        *("retentionSize", "routePrefix", "externalUrl", "externalPrefix", "securityContext", "serviceAccountName"),
        *(
            "serviceName",
            "storage",
            "tolerations",
            "topologySpreadConstraints",
            "tsdb",
            "updateStrategy",
            "walCompression",
        ),
        *(
            "web",
            "dnsConfig",
            "dnsPolicy",
            "hostAliases",
            "hostNetwork",
            "hostUsers",
            "enableAdminAPI",
            "enableServiceLinks",
        ),
        *("terminationGracePeriodSeconds", "thanos", "exemplars", "otlp", "tracingConfig", "disableCompaction"),
        *("scrapeTimeout", "scrapeProtocols", "prometheusRulesExcludedFromEnforce", "excludedFromEnforcement"),
        *("grpcServerTlsConfig", "objectStorageConfig", "objectStorageConfigFile", "portNameConfig"),
    }
)
#: The operator's own Service in front of every Alertmanager of a namespace.
_OPERATED = "alertmanager-operated"


#: Prometheus that only passes on what it scrapes.
_AS_AGENT = lazy_re.compile(r"--agent|--enable-feature=(?:\S*,)?agent(?:,\S*)?")


def agents(objects: Iterable[Obj]) -> list[str]:
    """Those that scrape and load no rules: of the operator's kind, or a workload that runs as an agent."""
    return [ref_of(one) for one in objects if one.get("kind") == "PrometheusAgent" or _runs_as_agent(one)]


def _runs_as_agent(obj: Obj) -> bool:
    words = (
        str(word)
        for container in mappings(dig(obj, "spec", "template", "spec", "containers"))
        if "prometheus" in str(container.get("image"))
        for word in (*items(container.get("command")), *items(container.get("args")))
    )
    return any(_AS_AGENT.fullmatch(word) for word in words)


def hindrances(server: Obj) -> Iterator[tuple[str, str]]:
    """Why nothing comes of what a server loads: (why that is certain, why it is not known), one of them empty."""
    spec, ref = dig(server, "spec", default={}), ref_of(server)
    if spec.get("replicas") == 0 or spec.get("shards") == 0:
        yield f"{ref} has no replicas", ""
    if spec.get("paused") is True:
        yield "", f"{ref} is paused: its operator writes it no rules"
    if isinstance(spec.get("shards"), int) and spec["shards"] > 1:
        yield "", f"{ref} has {spec['shards']} shards: each of them sees a part of the series"
    if spec.get("enforcedNamespaceLabel"):
        yield "", f"{ref} adds {spec['enforcedNamespaceLabel']}= to every expression (enforcedNamespaceLabel)"
    for one in mappings(dig(spec, "alerting", "alertmanagers")):
        if one.get("alertRelabelings") or one.get("relabelings"):
            yield "", f"{ref} relabels or drops alerts before it sends them (alertRelabelings)"
    unknown = sorted(name for name, value in spec.items() if value and name not in _HEEDED | _INERT)
    if unknown:
        yield "", f"what spec.{unknown[0]} of {ref} makes of alerts is not evaluated"


def sends_nowhere(server: Obj) -> str:
    """Why nobody hears of a server's alerts; empty where it sends them somewhere."""
    spec = dig(server, "spec", default={})
    somewhere = ("additionalAlertManagerConfigs", "alertmanagersUrl", "alertmanagersConfig")
    if mappings(dig(spec, "alerting", "alertmanagers")) or any(spec.get(name) for name in somewhere):
        return ""
    return f"{ref_of(server)} sends its alerts to no Alertmanager"


def external_labels(server: Obj) -> dict[str, str]:
    """What it adds to an alert that has no such label."""
    said = mappings(dig(server, "spec", "externalLabels")) or mappings(dig(server, "spec", "labels"))
    return {str(name): str(value) for one in said for name, value in one.items()}


def managers_of(server: Obj, managers: Iterable[Obj], services: Iterable[Obj]) -> list[Obj] | None:
    """The Alertmanagers of the operator's that it sends to; None where it also sends to some that nobody saw."""
    spec, found = dig(server, "spec", default={}), list[Obj]()
    if any(spec.get(name) for name in ("additionalAlertManagerConfigs", "alertmanagersUrl", "alertmanagersConfig")):
        return None
    for one in mappings(dig(spec, "alerting", "alertmanagers")):
        home, named = str(one.get("namespace") or namespace_of(server) or "default"), str(one.get("name"))
        there = [each for each in managers if (namespace_of(each) or "default") == home]
        wanted: Obj = next(
            (
                dig(each, "spec", "selector", default={})
                for each in services
                if (namespace_of(each) or "default", name_of(each)) == (home, named)
            ),
            {},
        )
        if named != _OPERATED and len(there) > 1:
            own = [each for each in there if name_of(each) in map(str, wanted.values())]
            there = own if own else []
        if not there:
            return None
        found += [each for each in there if each not in found]
    return found
