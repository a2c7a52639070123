"""The horizontal pod autoscaler, in a cluster whose metrics are what somebody says they are (by default: none).

Source: pkg/controller/podautoscaler of Kubernetes v1.36; recording 29. The original looks every fifteen seconds; here
it looks on that grid, but only after something has changed. Where HPAScaleToZero is on (v1.37), an autoscaler wakes
what it put to zero itself, and leaves alone what somebody else did: the condition ScaledToZero says which (KEP-2021).
"""

from __future__ import annotations

from math import floor

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, dig, format_time, key_of, name_of, namespace_of, parse_time

__all__ = ["METRIC", "PERIOD_S", "HorizontalPodAutoscaler"]

#: How often it looks, in seconds.
PERIOD_S = 15.0
#: On an autoscaler that a model made: how many replicas its metrics call for (empty: as many as there are).
METRIC = "killcheck.dev/metric-replicas"
_NO_METRICS = "unable to fetch metrics from resource metrics API: the server could not find the requested resource"
_ZEROED = "ScaledToZero"
_NO_CUSTOM = "no custom metrics API (custom.metrics.k8s.io) registered"
_NOT_SERVED = "the server could not find the requested resource"


class HorizontalPodAutoscaler(Controller):
    """Scales targets within their bounds. :meth:`propose` stands in for metrics."""

    name = "horizontal-pod-autoscaler-controller"
    component = "horizontal-pod-autoscaler"

    def setup(self) -> None:
        """Follow autoscalers and what they scale."""
        self.proposals: dict[Key, int] = {}
        self.hpas = self.informers.of(r.HPAS)
        self.listen(r.HPAS, self._changed)
        for resource in (r.DEPLOYMENTS, r.STATEFULSETS, r.REPLICASETS):
            self.listen(resource, self._target_changed)

    def propose(self, namespace: str, name: str, replicas: int | None) -> None:
        """From now on the metrics of an autoscaler call for ``replicas`` (None: there are no metrics)."""
        if replicas is None:
            self.proposals.pop((namespace, name), None)
        else:
            self.proposals[namespace, name] = replicas
        self._look_soon((namespace, name))

    def _changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        key = key_of(new)
        if change == "deleted":
            self.queue.cancel(key)
            self.proposals.pop(key, None)
        elif old is None or old["spec"] != new["spec"] or _told(old) != _told(new):
            self._look_soon(key)

    def _target_changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        if change == "modified" and dig(old, "spec", "replicas") == dig(new, "spec", "replicas"):
            return
        for hpa in self.hpas.values():
            target = hpa["spec"]["scaleTargetRef"]
            if namespace_of(hpa) == namespace_of(new) and (target["kind"], target["name"]) == (
                new["kind"],
                name_of(new),
            ):
                self._look_soon(key_of(hpa))

    def _look_soon(self, key: Key) -> None:
        """At the next multiple of the period since the autoscaler was made."""
        hpa = self.hpas.objects.get(key)
        if hpa is None:
            return
        age = (self.loop.now() - parse_time(hpa["metadata"]["creationTimestamp"])).total_seconds()
        self.queue.add(key, (floor(age / PERIOD_S) + 1) * PERIOD_S - age)

    # -- one look ------------------------------------------------------------------------------------------
    def reconcile(self, key: Key) -> None:
        """Read the target's scale, decide, act, and say so."""
        hpa = self.hpas.objects.get(key)
        if hpa is None:
            return
        status = {**(hpa.get("status") or {}), "conditions": list(dig(hpa, "status", "conditions", default=[]))}
        ref = hpa["spec"]["scaleTargetRef"]
        try:
            resource = self.kube.resource_for(ref.get("apiVersion", "apps/v1"), ref["kind"])
            scale = self.kube.get(resource, ref["name"], key[0], subresource="scale")
        except ApiError as error:
            message = f"the HPA controller was unable to get the target's current scale: {error.message}"
            self.events.emit(hpa, "Warning", "FailedGetScale", error.message)
            self._set(status, "AbleToScale", "False", "FailedGetScale", message)
            self._write(hpa, status)
            self.queue.add(key, PERIOD_S)
            return
        current = int(dig(scale, "spec", "replicas", default=0))
        self._set(
            status,
            "AbleToScale",
            "True",
            "SucceededGetScale",
            "the HPA controller was able to get the target's current scale",
        )
        status |= {"currentReplicas": current}
        desired, why = self._decide(hpa, current, status)
        if desired is not None and desired != current:
            self.kube.replace(resource, scale | {"spec": {"replicas": desired}}, subresource="scale")
            self.events.emit(hpa, "Normal", "SuccessfulRescale", f"New size: {desired}; reason: {why}")
            self._set(
                status,
                "AbleToScale",
                "True",
                "SucceededRescale",
                f"the HPA controller was able to update the target scale to {desired}",
            )
            status |= {"desiredReplicas": desired, "lastScaleTime": format_time(self.loop.now())}
            if self.informers.release.on("HPAScaleToZero"):
                self._tell_who_zeroed(hpa, status, current, desired)
            self.queue.add(key, PERIOD_S)
        if not status["currentReplicas"]:
            del status["currentReplicas"]
        self._write(hpa, status)

    def _decide(self, hpa: Obj, current: int, status: Obj) -> tuple[int | None, str]:
        """The size that the target should have, and why; None: unknown."""
        spec = hpa["spec"]
        said, most = spec.get("minReplicas"), int(spec["maxReplicas"])
        least = 1 if said is None else int(said)
        asleep = current == 0 and not self._may_wake(spec, status)
        if asleep or (current and not least <= current <= most):
            status["currentMetrics"] = None  # nobody asked for metrics (setStatus writes a nil slice)
        if asleep:
            status["desiredReplicas"] = 0
            self._set(
                status,
                "ScalingActive",
                "False",
                "ScalingDisabled",
                "scaling is disabled since the replica count of the target is zero",
            )
            return None, ""
        if current > most:
            return most, "Current number of replicas above Spec.MaxReplicas"
        if 0 < current < least:
            return least, "Current number of replicas below Spec.MinReplicas"
        told = _told(hpa)
        proposed = self.proposals.get(key_of(hpa)) if told is None else int(told or current)
        if proposed is None:
            self._no_metrics(hpa, status)
            return None, ""
        desired = max(least, min(most, proposed))
        metric = (spec.get("metrics") or [{}])[0]
        self._set(
            status,
            "ScalingActive",
            "True",
            "ValidMetricFound",
            f"the HPA was able to successfully calculate a replica count from {_name_of_metric(metric)}",
        )
        self._limit(status, proposed, least, most)
        status["desiredReplicas"] = desired
        way = "above" if desired > current else "below"
        return desired, f"{_name_of_metric(metric)} {way} target"

    def _may_wake(self, spec: Obj, status: Obj) -> bool:
        """Whether metrics count at zero replicas: only where this autoscaler brought them there."""
        if not self.informers.release.on("HPAScaleToZero"):
            return False
        own = any(c["type"] == _ZEROED and c["status"] == "True" for c in status["conditions"])
        return own and (spec.get("minReplicas") != 0 or _from_outside(spec))

    def _tell_who_zeroed(self, hpa: Obj, status: Obj, current: int, desired: int) -> None:
        """Whether it was this autoscaler that put its target to zero."""
        spec = hpa["spec"]
        if current > 0 and desired == 0 and spec.get("minReplicas") == 0 and _from_outside(spec):
            self._set(status, _ZEROED, "True", _ZEROED, "the HPA controller scaled the workload to zero")
        else:
            self._set(
                status, _ZEROED, "False", "NotScaledToZero", "the HPA controller did not scale the workload to zero"
            )

    def _limit(self, status: Obj, proposed: int, least: int, most: int) -> None:
        if proposed > most:
            state, reason = "True", "TooManyReplicas"
            message = "the desired replica count is more than the maximum replica count"
        elif proposed < least:
            state, reason = "True", "TooFewReplicas"
            message = "the desired replica count is less than the minimum replica count"
        else:
            state, reason = "False", "DesiredWithinRange"
            message = "the desired count is within the acceptable range"
        self._set(status, "ScalingLimited", state, reason, message)

    def _no_metrics(self, hpa: Obj, status: Obj) -> None:
        metrics = hpa["spec"].get("metrics") or []
        first = metrics[0] if metrics else {"type": "Resource", "resource": {"name": "cpu", "target": {}}}
        reason, error, context = _failure(first, namespace_of(hpa))
        self.events.emit(hpa, "Warning", reason, error)
        count = max(1, len(metrics))
        text = f"invalid metrics ({count} invalid out of {count}), first error is: {context}: {error}"
        self.events.emit(hpa, "Warning", "FailedComputeMetricsReplicas", text)
        self._set(status, "ScalingActive", "False", reason, f"the HPA was unable to compute the replica count: {error}")
        status.setdefault("desiredReplicas", 0)
        status["currentMetrics"] = [{"type": ""} for _ in range(count)]

    # -- status --------------------------------------------------------------------------------------------
    def _set(self, status: Obj, kind: str, state: str, reason: str, message: str) -> None:
        old = next((c for c in status["conditions"] if c["type"] == kind), None)
        now = format_time(self.loop.now())
        since = old["lastTransitionTime"] if old and old["status"] == state else now
        new = {"type": kind, "status": state, "lastTransitionTime": since, "reason": reason, "message": message}
        if old is None:
            status["conditions"].append(new)
        else:
            status["conditions"][status["conditions"].index(old)] = new

    def _write(self, hpa: Obj, status: Obj) -> None:
        if status != hpa.get("status"):
            try:
                self.kube.replace(r.HPAS, hpa | {"status": status}, subresource="status")
            except NotFound:
                return


def _from_outside(spec: Obj) -> bool:
    """Whether a metric is there that does not come from the pods themselves."""
    return any(metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or [])


def _told(hpa: Obj) -> str | None:
    """What a model says of its metrics; None: nothing."""
    return annotations_of(hpa).get(METRIC)


def _name_of_metric(metric: Obj) -> str:
    kind = metric.get("type", "Resource")
    if kind == "Resource":
        resource = metric.get("resource") or {}
        form = "utilization (percentage of request)" if "averageUtilization" in (resource.get("target") or {}) else ""
        return f"{resource.get('name', 'cpu')} resource {form}".strip()
    if kind == "External":
        return f"external metric {dig(metric, 'external', 'metric', 'name', default='')}"
    part = metric.get("pods" if kind == "Pods" else "object") or {}
    return f"{kind.lower()} metric {dig(part, 'metric', 'name', default='')}"


def _failure(metric: Obj, namespace: str) -> tuple[str, str, str]:
    """(reason, what went wrong, what that was part of) where no metrics API is served."""
    kind = metric.get("type", "Resource")
    if kind == "External":
        name = dig(metric, "external", "metric", "name", default="")
        error = (
            f"unable to get external metric {namespace}/{name}/nil: unable to fetch metrics from external metrics API: "
            f"{_NOT_SERVED} (get {name}.external.metrics.k8s.io)"
        )
        return "FailedGetExternalMetric", error, f"failed to get {name} external metric value"
    if kind in ("Pods", "Object"):
        part = metric.get(kind.lower()) or {}
        name, of = dig(part, "metric", "name", default=""), part.get("describedObject") or {}
        where = f"{of.get('kind', '')} on {namespace} {of.get('name', '')}/" if kind == "Object" else ""
        error = f"unable to get metric {name}: {where}unable to fetch metrics from custom metrics API: {_NO_CUSTOM}"
        return f"FailedGet{kind}Metric", error, f"failed to get {kind.lower()} metric value"
    resource = metric.get("resource") or metric.get("containerResource") or {}
    name, container = resource.get("name", "cpu"), kind == "ContainerResource"
    what = "usage" if "averageValue" in (resource.get("target") or {}) else "utilization"
    error = (
        f"failed to get {name} {what}: unable to get metrics for resource {name}: {_NO_METRICS} "
        "(get pods.metrics.k8s.io)"
    )
    if container:
        named = dig(metric, "containerResource", "container", default="")
        return "FailedGetContainerResourceMetric", error, f"failed to get {named} container metric value"
    return "FailedGetResourceMetric", error, f"failed to get {name} resource metric value"
