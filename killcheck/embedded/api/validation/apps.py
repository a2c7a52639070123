"""Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers.

Source: pkg/apis/apps/validation/validation.go of Kubernetes v1.36; recordings 25, 30.
"""

from __future__ import annotations

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import cluster, meta, names, podspec
from killcheck.embedded.api.validation.fields import (
    Causes,
    forbidden,
    immutable,
    invalid,
    nonnegative,
    not_supported,
    required,
)
from killcheck.embedded.api.validation.intorpercent import amount, at_most_all, int_or_percent
from killcheck.kube.objects import Obj, dig
from killcheck.kube.selectors import SelectorError, from_match_labels

__all__ = ["create", "update"]

_MISMATCH = "`selector` does not match template `labels`"
_STATEFUL_CHANGES = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)


def create(kind: Kind, new: Obj) -> Causes:
    """A new workload."""
    rule = names.dns_label if kind.resource.kind == "StatefulSet" else names.dns_subdomain
    causes = meta.create(new["metadata"], rule, generated=kind.resource.kind != "ReplicationController") + _SPECS[
        kind.resource.kind
    ](new["spec"])
    return causes + (_claim_templates(new["spec"]) if kind.resource.kind == "StatefulSet" else [])


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed workload."""
    causes = meta.update(new["metadata"], old["metadata"])
    name, spec, before = kind.resource.kind, new["spec"], old["spec"]
    causes += _SPECS[name](spec)
    if name in ("Deployment", "ReplicaSet", "DaemonSet"):
        causes += immutable("spec.selector", spec.get("selector"), before.get("selector"))
    elif name == "StatefulSet" and _frozen(spec) != _frozen(before):
        causes.append(
            forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
                "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
                "'minReadySeconds' are forbidden",
            )
        )
    return causes


def _frozen(spec: Obj) -> Obj:
    return {field: value for field, value in spec.items() if field not in _STATEFUL_CHANGES}


def _selector(spec: Obj, what: str) -> Causes:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    causes = meta.selector(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(invalid("spec.selector", selector, f"empty selector is invalid for {what}"))
    return causes


def _template_matches(spec: Obj) -> Causes:
    """An absent selector matches nothing, an empty one is not asked."""
    selector = spec.get("selector")
    labels = dig(spec, "template", "metadata", "labels")
    if selector is not None and from_match_labels(selector).matches(labels or {}):
        return []
    return [invalid("spec.template.metadata.labels", labels, _MISMATCH)]


def _broken(spec: Obj) -> bool:
    """Whether the selector cannot be read at all: then the template is not looked at."""
    try:
        from_match_labels(spec.get("selector") or {})
    except SelectorError:
        return True
    return False


def _always(spec: Obj, what: str) -> Causes:
    causes: Causes = []
    policy = dig(spec, "template", "spec", "restartPolicy", default="")
    if policy != "Always":
        causes.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if dig(spec, "template", "spec", "activeDeadlineSeconds") is not None:
        causes.append(
            forbidden("spec.template.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {what} is not Supported")
        )
    return causes


def _template(spec: Obj, what: str) -> Causes:
    if _broken(spec):
        return [invalid("spec.selector", spec["selector"], "" if what == "StatefulSet" else "invalid label selector")]
    causes = _template_matches(spec)
    causes += podspec.template(spec.get("template") or {}, "spec.template")
    return causes + _always(spec, what)


def _deployment(spec: Obj) -> Causes:
    causes = nonnegative("spec.replicas", spec.get("replicas"))
    causes += _selector(spec, "deployment")
    causes += _template(spec, "ReplicaSet")
    causes += _deployment_strategy(spec.get("strategy") or {})
    causes += nonnegative("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += nonnegative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    causes += nonnegative("spec.progressDeadlineSeconds", deadline)
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        causes.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes


def _claim_templates(spec: Obj) -> Causes:
    return [
        cause
        for i, claim in enumerate(spec.get("volumeClaimTemplates") or [])
        for cause in cluster.volume_claim(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{i}].spec")
    ]


def _strategy_shown(strategy: Obj) -> Obj:
    """As the internal type shows itself: Go's names of fields."""
    rolling = strategy.get("rollingUpdate")
    shown = rolling and {name[:1].upper() + name[1:]: value for name, value in rolling.items()}
    return {"Type": strategy.get("type", ""), "RollingUpdate": shown}


def _deployment_strategy(strategy: Obj) -> Causes:
    kind, rolling, path = strategy.get("type"), strategy.get("rollingUpdate"), "spec.strategy"
    if kind == "Recreate":
        if rolling is not None:
            words = "may not be specified when strategy `type` is 'Recreate'"
            return [forbidden(f"{path}.rollingUpdate", words)]
        return []
    if kind != "RollingUpdate":
        return [not_supported(path, _strategy_shown(strategy), ("Recreate", "RollingUpdate"))]
    path += ".rollingUpdate"
    rolling = rolling or {}
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    causes = int_or_percent(unavailable, f"{path}.maxUnavailable") + int_or_percent(surge, f"{path}.maxSurge")
    if amount(unavailable) == 0 and amount(surge) == 0:
        causes.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return causes + at_most_all(unavailable, f"{path}.maxUnavailable")


def _replica_set(spec: Obj) -> Causes:
    causes = nonnegative("spec.replicas", spec.get("replicas"))
    causes += nonnegative("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += _selector(spec, "deployment")  # in these words
    return causes + _template(spec, "ReplicaSet")


def _stateful_set(spec: Obj) -> Causes:
    causes: Causes = []
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        causes.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    causes += _stateful_strategy(spec.get("updateStrategy") or {})
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field, value in retention.items():
        if value not in ("Retain", "Delete"):
            causes.append(
                not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{field}", value, ("Retain", "Delete"))
            )
    causes += nonnegative("spec.replicas", spec.get("replicas"))
    causes += nonnegative("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += nonnegative("spec.ordinals.start", dig(spec, "ordinals", "start"))
    if spec.get("serviceName"):
        causes += names.dns_label_cause("spec.serviceName", spec["serviceName"])
    causes += _selector(spec, "statefulset")
    return causes + _template(_with_claims(spec), "StatefulSet")


def _with_claims(spec: Obj) -> Obj:
    """The template as its pods will be: the claims' volumes are there."""
    claims = [dig(claim, "metadata", "name", default="") for claim in spec.get("volumeClaimTemplates") or []]
    if not claims:
        return spec
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [volume for volume in pod.get("volumes") or [] if volume.get("name") not in claims]
    return spec | {"template": template | {"spec": pod | {"volumes": volumes}}}


def _stateful_strategy(strategy: Obj) -> Causes:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if not kind:
        return [required(path)]
    if kind == "OnDelete":
        if rolling is None:
            return []
        return [invalid(f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")]
    if kind != "RollingUpdate":
        return [invalid(path, _strategy_shown(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    rolling, path = rolling or {}, f"{path}.rollingUpdate"
    causes = nonnegative(f"{path}.partition", rolling.get("partition"))
    return causes


def _daemon_set(spec: Obj) -> Causes:
    selector = spec.get("selector")
    causes = meta.selector(selector, "spec.selector")
    causes += [] if _broken(spec) else _template_matches(spec)
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    causes += podspec.template(spec.get("template") or {}, "spec.template")
    causes += _always(spec, "DaemonSet")
    causes += nonnegative("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += _daemon_strategy(spec.get("updateStrategy") or {})
    return causes + nonnegative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))


def _daemon_strategy(strategy: Obj) -> Causes:
    kind, path = strategy.get("type"), "spec.updateStrategy"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported(path, _strategy_shown(strategy), ("RollingUpdate", "OnDelete"))]
    rolling, path = strategy.get("rollingUpdate") or {}, f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    causes = int_or_percent(unavailable, f"{path}.maxUnavailable") + int_or_percent(surge, f"{path}.maxSurge")
    causes += at_most_all(unavailable, f"{path}.maxUnavailable") + at_most_all(surge, f"{path}.maxSurge")
    if amount(unavailable) and amount(surge):
        causes.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not amount(unavailable) and not amount(surge):
        causes.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def _replication_controller(spec: Obj) -> Causes:
    causes = nonnegative("spec.minReadySeconds", spec.get("minReadySeconds"))
    selector = spec.get("selector") or {}
    if not selector:
        causes.append(required("spec.selector"))
    causes += nonnegative("spec.replicas", spec.get("replicas"))
    template = spec.get("template")
    if template is None:
        return [*causes, required("spec.template")]
    labels = dig(template, "metadata", "labels", default={})
    if not selector.items() <= labels.items():
        causes.append(invalid("spec.template.metadata.labels", labels, _MISMATCH))
    return causes + podspec.template(template, "spec.template") + _always(spec, "ReplicationController")


_SPECS = {
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "ReplicationController": _replication_controller,
}
