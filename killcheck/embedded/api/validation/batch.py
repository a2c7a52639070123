"""Jobs and CronJobs.

Source: pkg/apis/batch/validation/validation.go of Kubernetes v1.36; recording 19.
"""

from __future__ import annotations

import re

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import meta, names, podspec
from killcheck.embedded.api.validation.fields import (
    IMMUTABLE,
    Causes,
    duplicate,
    immutable,
    invalid,
    invalid_value,
    key,
    nonnegative,
    not_supported,
    required,
    too_long,
    too_many,
)
from killcheck.embedded.api.validation.internalpod import inside
from killcheck.kube.objects import Obj, copy, dig
from killcheck.kube.releases import Release
from killcheck.kube.schedule import ScheduleError, parse, zone
from killcheck.kube.selectors import from_match_labels

__all__ = ["create", "update"]

_POLICIES = ("Allow", "Forbid", "Replace")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_MOST_INDEXES = 100_000
_LONGEST_MANAGER = 63


def create(kind: Kind, new: Obj) -> Causes:
    """A new Job or CronJob."""
    causes = meta.create(new["metadata"], names.dns_subdomain)
    if kind.resource.kind == "Job":
        return causes + _generated_selector(new) + _job_spec(new["spec"], "spec", with_selector=True) + _pod_names(new)
    causes += _cron_job_spec(new["spec"], None)
    name = new["metadata"].get("name", "")
    if len(name) > 52:  # the controller appends eleven characters, and a Job's name has 63
        causes.append(invalid("metadata.name", name, "must be no more than 52 characters"))
    return causes


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed Job or CronJob."""
    rule = names.dns_subdomain if kind.resource.kind == "Job" else None
    causes = meta.update(new["metadata"], old["metadata"], rule=rule)
    if kind.resource.kind == "CronJob":
        return causes + _cron_job_spec(new["spec"], old["spec"])
    spec, before = new["spec"], old["spec"]
    causes += _generated_selector(new) + _job_spec(spec, "spec", with_selector=True)
    causes += _completions(spec, before)
    causes += immutable("spec.selector", spec.get("selector"), before.get("selector"))
    causes += _template_change(new, old, kind.release)
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        causes += immutable(f"spec.{field}", spec.get(field), before.get(field))
    return causes


# -- CronJobs --------------------------------------------------------------------------------------------------
def _cron_job_spec(spec: Obj, old: Obj | None) -> Causes:
    causes: Causes = []
    if not spec.get("schedule"):
        causes.append(required("spec.schedule"))
    else:
        causes += _schedule(spec, "TZ" in old.get("schedule", "") if old is not None else False)
    causes += nonnegative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    if spec.get("timeZone") is not None and (old is None or old.get("timeZone") != spec["timeZone"]):
        causes += _time_zone(spec["timeZone"])
    policy = spec.get("concurrencyPolicy", "")
    if not policy:
        causes.append(required("spec.concurrencyPolicy"))
    elif policy not in _POLICIES:
        causes.append(not_supported("spec.concurrencyPolicy", policy, _POLICIES))
    causes += _job_template(spec.get("jobTemplate") or {}, "spec.jobTemplate")
    causes += nonnegative("spec.successfulJobsHistoryLimit", spec.get("successfulJobsHistoryLimit"))
    return causes + nonnegative("spec.failedJobsHistoryLimit", spec.get("failedJobsHistoryLimit"))


def _schedule(spec: Obj, zone_allowed: bool) -> Causes:
    text, path = spec["schedule"], "spec.schedule"
    causes: Causes = []
    try:
        parse(text)
    except ScheduleError as error:
        causes.append(invalid(path, text, str(error)))
    if "TZ" in text and not zone_allowed:
        causes.append(invalid(path, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
    elif "TZ" in text and spec.get("timeZone") is not None:
        causes.append(invalid(path, text, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
    return causes


def _time_zone(name: str) -> Causes:
    path = "spec.timeZone"
    if not name:
        return [invalid(path, name, "timeZone must be nil or non-empty string")]
    for part in name.split("/"):
        if part in (".", "..") or part.startswith("-") or not re.fullmatch(r"[A-Za-z.\-_0-9+]{1,14}", part):
            return [invalid(path, name, f"unknown time zone {name}")]
    causes: Causes = []
    if name.lower() == "local":
        causes.append(
            invalid(path, name, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
        )
    try:
        zone(name)
    except ScheduleError as error:
        causes.append(invalid(path, name, str(error)))
    return causes


def _job_template(template: Obj, path: str) -> Causes:
    spec = template.get("spec") or {}
    causes = _job_spec(spec, f"{path}.spec", with_selector=False)
    if spec.get("selector") is not None:
        causes.append(invalid(f"{path}.spec.selector", spec["selector"], "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        causes.append(not_supported(f"{path}.spec.manualSelector", True, ("nil", "false")))
    return causes


# -- Jobs ------------------------------------------------------------------------------------------------------
def _generated_selector(job: Obj) -> Causes:
    """The labels that the server put there must still be there, unless the writer minds the selector himself."""
    spec, job_meta = job["spec"], job["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    labels = dig(spec, "template", "metadata", "labels", default={})
    path = "spec.template.metadata.labels"
    uid, name = job_meta.get("uid", ""), job_meta.get("name", "")
    wanted = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }
    causes: Causes = []
    for label, value in wanted.items():
        if label not in labels:
            causes.append(required(key(path, label), f"must be '{value}'"))
        elif labels[label] != value:
            causes.append(invalid(key(path, label), labels, f"must be '{value}'"))
    if not from_match_labels(spec["selector"]).matches(wanted):
        causes.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return causes


def _pod_names(job: Obj) -> Causes:
    spec = job["spec"]
    if spec.get("completionMode") != "Indexed" or not spec.get("completions"):
        return []
    name = job["metadata"].get("name", "")
    longest = f"{name}-{spec['completions'] - 1}"
    if names.dns_label(longest):
        words = f"will not able to create pod with invalid DNS label: {longest}"
        return [invalid("metadata.name", name, words)]
    return []


_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)


#: Rules that a success policy may have.
_MOST_RULES = 20
#: Of an index: strconv.Atoi takes no more than an int64 holds.
_MOST_DIGITS = 18


def _success_policy(rules: list[Obj], completions: int, path: str) -> Causes:
    path = f"{path}.successPolicy.rules"
    causes: Causes = []
    if not rules:
        causes.append(required(path, "at least one rules must be specified when the successPolicy is specified"))
    if len(rules) > _MOST_RULES:
        causes.append(too_many(path, len(rules), _MOST_RULES))
    for i, rule in enumerate(rules):
        indexes, count, total = rule.get("succeededIndexes"), rule.get("succeededCount"), 0
        here = f"{path}[{i}].succeededCount"
        if indexes is None and count is None:
            words = "at least one of succeededCount or succeededIndexes must be specified"
            causes.append(required(f"{path}[{i}]", words))
        try:
            total = _indexes(indexes or "", completions)
        except ValueError as error:
            words = f"error parsing succeededIndexes: {error}"
            causes.append(invalid(f"{path}[{i}].succeededIndexes", indexes, words))
        causes += nonnegative(here, count)
        if count is not None and count > completions:
            words = f"must be less than or equal to {completions} (the number of specified completions)"
            causes.append(invalid(here, count, words))
        if count is not None and indexes is not None and count > total:
            words = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            causes.append(invalid(here, count, words))
    return causes


def _indexes(text: str, completions: int) -> int:
    """How many indexes a text like ``0-2,5`` has. Raises ValueError (validateIndexesFormat)."""
    last, total = -1, 0
    for interval in text.split(",") if text else ():
        ends = interval.split("-")
        if len(ends) > 2:
            raise ValueError(
                f'the fragment "{interval}" violates the requirement that an index interval can have at most two parts '
                "separated by '-'"
            )
        numbers: list[int] = []
        for end in ends:
            if not end.isascii() or not end.isdigit() or len(end) > _MOST_DIGITS:
                raise ValueError(f'cannot convert string to integer for index: "{end}"')
            if int(end) >= completions:
                raise ValueError(f'too large index: "{end}"')
            if numbers and numbers[0] >= int(end):
                raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {end}")
            numbers.append(int(end))
        if last >= numbers[0]:
            raise ValueError(f"non-increasing order, previous: {last}, current: {numbers[0]}")
        last = numbers[-1]
        total += last - numbers[0] + 1
    return total


def _job_spec(spec: Obj, path: str, *, with_selector: bool) -> Causes:
    causes: Causes = []
    for field in _COUNTS:
        causes += nonnegative(f"{path}.{field}", spec.get(field))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        causes.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        causes += names.domain_prefixed_path(f"{path}.managedBy", spec["managedBy"])
        if len(spec["managedBy"].encode()) > _LONGEST_MANAGER:
            causes.append(too_long(f"{path}.managedBy", _LONGEST_MANAGER))
    causes += _completion_mode(spec, path)
    if spec.get("podFailurePolicy") is not None:
        causes += _failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None and spec.get("completionMode") != "Indexed":
        inner = [
            {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
            for rule in spec["successPolicy"].get("rules") or ()
        ]
        causes.append(invalid(f"{path}.successPolicy", {"Rules": inner}, "requires indexed completion mode"))
    elif spec.get("successPolicy") is not None and spec.get("completions") is not None:
        causes += _success_policy(spec["successPolicy"].get("rules") or [], spec["completions"], path)
    causes += _replacement(spec, f"{path}.podReplacementPolicy")
    template = spec.get("template") or {}
    causes += podspec.template(template, f"{path}.template")
    causes += _restart_policy(spec, f"{path}.template.spec.restartPolicy")
    return causes + (_selector(spec, path) if with_selector else [])


def _completion_mode(spec: Obj, path: str) -> Causes:
    mode = spec.get("completionMode")
    causes: Causes = []
    if mode not in (None, "NonIndexed", "Indexed"):
        causes.append(not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        if spec.get("completions") is None:
            causes.append(required(f"{path}.completions", "when completion mode is Indexed"))
        if (spec.get("parallelism") or 0) > _MOST_INDEXES:
            words = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
            causes.append(invalid(f"{path}.parallelism", spec["parallelism"], words))
        failed, completions = spec.get("maxFailedIndexes"), spec.get("completions")
        if failed is not None and completions is not None and failed > completions:
            causes.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    elif mode in (None, "NonIndexed"):
        causes += [
            invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
            for field in ("backoffLimitPerIndex", "maxFailedIndexes")
            if spec.get(field) is not None
        ]
    return causes


def _replacement(spec: Obj, path: str) -> Causes:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return []
    if spec.get("podFailurePolicy") is not None:
        return [] if policy == "Failed" else [not_supported(path, policy, ("Failed",))]
    known = ("Failed", "TerminatingOrFailed")
    return [] if policy in known else [not_supported(path, policy, known)]


def _restart_policy(spec: Obj, path: str) -> Causes:
    policy = dig(spec, "template", "spec", "restartPolicy", default="")
    if policy in ("Always", ""):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _selector(spec: Obj, path: str) -> Causes:
    labels, words = dig(spec, "template", "metadata", "labels"), "`selector` does not match template `labels`"
    mismatch = invalid(f"{path}.template.metadata.labels", labels, words)
    if spec.get("selector") is None:
        return [required(f"{path}.selector"), mismatch]
    causes = meta.selector(spec["selector"], f"{path}.selector")
    if not causes and not from_match_labels(spec["selector"]).matches(labels or {}):
        causes.append(mismatch)
    return causes


# -- pod failure policy ----------------------------------------------------------------------------------------
def _failure_policy(spec: Obj, path: str) -> Causes:
    rules = spec["podFailurePolicy"].get("rules") or []
    causes: Causes = [too_many(f"{path}.rules", len(rules), 20)] if len(rules) > 20 else []
    pod = dig(spec, "template", "spec", default={})
    containers = {c.get("name") for field in ("containers", "initContainers") for c in pod.get(field) or []}
    for i, rule in enumerate(rules):
        causes += _failure_rule(spec, rule, f"{path}.rules[{i}]", containers)
    return causes


def _failure_rule(spec: Obj, rule: Obj, path: str, containers: set[str]) -> Causes:
    causes: Causes = []
    action = rule.get("action", "")
    listed = "[" + " ".join(f'"{name}"' for name in _ACTIONS) + "]"
    if not action:
        causes.append(required(f"{path}.action", f"valid values: {listed}"))
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        causes.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    elif action not in _ACTIONS:
        causes.append(not_supported(f"{path}.action", action, _ACTIONS))
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        causes += _exit_codes(codes, f"{path}.onExitCodes", containers)
    for i, pattern in enumerate(conditions):
        causes += [
            invalid(f"{path}.onPodConditions[{i}].type", pattern.get("type", ""), words)
            for words in names.qualified_name(pattern.get("type", ""))
        ]
        if pattern.get("status") not in ("False", "True", "Unknown"):
            causes.append(
                not_supported(
                    f"{path}.onPodConditions[{i}].status", pattern.get("status", ""), ("False", "True", "Unknown")
                )
            )
    if codes is not None and conditions:
        causes.append(invalid_value(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        causes.append(invalid_value(path, "specifying one of OnExitCodes and OnPodConditions is required"))
    return causes


def _exit_codes(codes: Obj, path: str, containers: set[str]) -> Causes:
    causes: Causes = []
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        causes.append(required(f"{path}.operator", 'valid values: ["In" "NotIn"]'))
    elif operator not in ("In", "NotIn"):
        causes.append(not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    container = codes.get("containerName")
    if container is not None and container not in containers:
        words = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{path}.containerName", container, words))
    if not values:
        causes.append(invalid(f"{path}.values", values, "at least one value is required"))
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            causes.append(invalid(f"{path}.values[{i}]", value, "must not be 0 for the In operator"))
        if value in values[:i]:
            causes.append(duplicate(f"{path}.values[{i}]", value))
    if values != sorted(values):
        causes.append(invalid(f"{path}.values", values, "must be ordered"))
    return causes


# -- updates ---------------------------------------------------------------------------------------------------
def _completions(spec: Obj, before: Obj) -> Causes:
    """Only an indexed Job may change them, and only together with parallelism."""
    new, old, path = spec.get("completions"), before.get("completions"), "spec.completions"
    if new == old:
        return []
    if spec.get("completionMode") != "Indexed" or new is None or old is None:
        return immutable(path, new, old)
    if new != spec.get("parallelism"):
        return [invalid(path, new, "can only be modified in tandem with spec.parallelism")]
    return []


_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")
_RESIZED = ("containers", "initContainers")


def _template_change(new: Obj, old: Obj, release: Release) -> Causes:
    """A Job that is suspended and has no pods may still be told where they go and what they use."""
    template, before = dig(new, "spec", "template", default={}), copy(dig(old, "spec", "template", default={}))
    spec, before_spec = template.get("spec") or {}, before.setdefault("spec", {})
    if not _may_change(old, release):
        if template == before:
            return []
        shown = (template.get("metadata") or {}) | {"Spec": inside(spec)}
        return [invalid("spec.template", shown, IMMUTABLE)]
    for field in _SCHEDULING:
        _take(before_spec, spec, field)
    affinity = {k: v for k, v in (before_spec.get("affinity") or {}).items() if k != "nodeAffinity"}
    node = dig(spec, "affinity", "nodeAffinity")
    before_spec["affinity"] = affinity | ({"nodeAffinity": node} if node else {})
    if not before_spec["affinity"] and not spec.get("affinity"):
        before_spec.pop("affinity")
        _take(before_spec, spec, "affinity")
    for field in _RESIZED if release.on("MutablePodResourcesForSuspendedJobs") else ():
        ours, theirs = before_spec.get(field) or [], spec.get(field) or []
        for mine, other in zip(ours, theirs, strict=False) if len(ours) == len(theirs) else ():
            if mine.get("name") == other.get("name"):
                _take(mine, other, "resources")
    return [] if spec == before_spec else [invalid("spec.template.spec", inside(spec), IMMUTABLE)]


def _may_change(old: Obj, release: Release) -> bool:
    """``shouldAllowMutablePodTemplate`` in pkg/registry/batch/job/strategy.go; before, of one that never started."""
    status = old.get("status") or {}
    told = any(c.get("type") == "Suspended" and c.get("status") == "True" for c in status.get("conditions") or [])
    suspended = bool(dig(old, "spec", "suspend", default=False))
    if not release.on("MutableSchedulingDirectivesForSuspendedJobs"):
        return suspended and status.get("startTime") is None
    return suspended and (status.get("startTime") is None or told) and not status.get("active")


def _take(into: Obj, source: Obj, field: str) -> None:
    if field in source:
        into[field] = source[field]
    else:
        into.pop(field, None)
