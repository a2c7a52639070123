"""How a Job creates and removes its pods.

Source: ``manageJob`` in pkg/controller/job/job_controller.go of Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.job_pass import Pass
from killcheck.embedded.controllers.job_rules import (
    FINALIZER,
    INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED,
    failures_of,
    index_of,
    is_indexed,
    match_failure,
    replaces_failed_only,
    tracked,
    wait_after,
)
from killcheck.embedded.controllers.job_rules import finished_at as ended_at
from killcheck.embedded.controllers.podcontrol import PodControl
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, NotFound
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of

__all__ = ["JobPods"]

#: Pods created or deleted in one pass.
BURST = 500
_MAX_PREFIX = 58


class JobPods:
    """The pods of Jobs, as the Job controller handles them. Every method raises ApiError."""

    def __init__(self, control: PodControl) -> None:
        self.control = control

    def manage(self, at: Pass) -> float:
        """Remove or add pods; returns the seconds to wait before pods may be added (0: nothing to wait for).

        ``at.active``, ``at.ready`` and ``at.terminating`` follow what was done; ``at.error`` holds the first refusal.
        """
        wanted = 0 if at.suspended else self._wanted(at)
        surplus = self._surplus(at, max(0, len(at.active_pods) - wanted))
        if surplus or at.suspended:
            self._remove(at, surplus[:BURST])
            return 0.0
        missing = wanted - len(at.active_pods)
        if replaces_failed_only(at.job):
            missing -= at.terminating
        return self._add(at, missing) if missing > 0 else 0.0

    def delete_active(self, at: Pass) -> bool:
        """Delete every active pod, keeping its finalizer; whether all could be."""
        done = 0
        for pod in at.active_pods:
            try:
                self.control.delete(at.job, pod)
            except ApiError as error:
                at.error = at.error or error
                continue
            done += 1
            at.deleted(pod)
        return done == len(at.active_pods)

    def untrack(self, pod: Obj) -> None:
        """Take the finalizer away; a pod that has gone has none."""
        if not tracked(pod):
            return
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        try:
            self.control.kube.patch(r.PODS, name_of(pod), patch, namespace_of(pod), kind="strategic")
        except NotFound:
            return

    # -- fewer ---------------------------------------------------------------------------------------------
    def _wanted(self, at: Pass) -> int:
        parallelism = int(at.spec.get("parallelism", 1))
        completions = at.spec.get("completions")
        if completions is None:
            return len(at.active_pods) if at.succeeded else parallelism
        return max(0, min(int(completions) - at.succeeded, parallelism))

    def _surplus(self, at: Pass, least: int) -> list[Obj]:
        if at.suspended:
            return podset.active_first(at.active_pods)
        gone, left = _doubled(at) if is_indexed(at.job) else ([], at.active_pods)
        if len(gone) < least:
            gone = gone + podset.active_first(left)[: least - len(gone)]
        return gone

    def _remove(self, at: Pass, surplus: list[Obj]) -> None:
        for pod in surplus:
            try:
                self.untrack(pod)
                self.control.delete(at.job, pod)
            except ApiError as error:
                at.error = at.error or error
                continue
            at.deleted(pod)

    # -- more ----------------------------------------------------------------------------------------------
    def _add(self, at: Pass, missing: int) -> float:
        per_index = at.spec.get("backoffLimitPerIndex") is not None
        wait = 0.0 if per_index else at.backoff.wait_s(at.now)
        if wait > 0:
            at.active = 0  # what the original reports while it waits
            return wait
        missing = min(missing, BURST)
        indexes: list[int] | None = None
        if is_indexed(at.job):
            indexes = _pending(at, missing)
            if per_index:
                indexes, wait = _ripe(at, indexes)
                if wait > 0:
                    at.active = 0
                    return wait
            missing = len(indexes)
        self._create(at, missing, indexes)
        return 0.0

    def _create(self, at: Pass, missing: int, indexes: list[int] | None) -> None:
        """In batches of 1, 2, 4 ...; a batch in which a pod is refused is the last."""
        done, size = 0, 1
        while done < missing and at.error is None:
            for _ in range(min(size, missing - done)):
                index = indexes[done] if indexes is not None else None
                done += 1
                try:
                    self.control.create(at.job, _template(at, index), generate_name=_prefix(at.job, index))
                except ApiError as error:
                    at.error = at.error or error
                else:
                    at.active += 1
            size *= 2


def _doubled(at: Pass) -> tuple[list[Obj], list[Obj]]:
    """Active pods without a valid index, or whose index has another: those to go, those to stay."""
    completions = int(at.spec.get("completions") or 0)
    by_index: dict[int, list[Obj]] = {}
    gone: list[Obj] = []
    for pod in at.active_pods:
        index = index_of(pod)
        if index is None or index >= completions:
            gone.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    left = []
    for index in sorted(by_index):
        ordered = podset.active_first(by_index[index])
        gone += ordered[:-1]
        left.append(ordered[-1])
    return gone, left


def _pending(at: Pass, count: int) -> list[int]:
    busy = {index_of(pod) for pod in at.active_pods} | at.succeeded_indexes | at.failed_indexes
    if replaces_failed_only(at.job):
        busy |= {index_of(pod) for pod in at.pods if podset.is_terminating(pod)}
    free = (index for index in range(int(at.spec.get("completions") or 0)) if index not in busy)
    return [index for index, _ in zip(free, range(count), strict=False)]


def _ripe(at: Pass, indexes: list[int]) -> tuple[list[int], float]:
    """The indexes whose own back-off is over; if none is, the shortest time that one still has to wait."""
    waits = {}
    for index in indexes:
        pod = at.delayed.get(index)
        waits[index] = wait_after(sum(failures_of(pod)) + 1, ended_at(pod), at.now) if pod else 0.0
    ripe = [index for index in indexes if not waits[index]]
    return ripe, 0.0 if ripe else min(waits.values(), default=0.0)


def _prefix(job: Obj, index: int | None) -> str:
    if index is None:
        return f"{name_of(job)}-"
    tail = f"-{index}-"
    return name_of(job)[: _MAX_PREFIX - len(tail)] + tail


def _template(at: Pass, index: int | None) -> Obj:
    template = copy(at.spec["template"])
    meta = template.setdefault("metadata", {})
    meta["finalizers"] = [*(f for f in meta.get("finalizers") or [] if f != FINALIZER), FINALIZER]
    if index is None:
        return template
    meta.setdefault("annotations", {})[INDEX] = str(index)
    meta.setdefault("labels", {})[INDEX] = str(index)
    template["spec"]["hostname"] = f"{name_of(at.job)}-{index}"
    for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"]):
        env = container.setdefault("env", [])
        if all(entry["name"] != "JOB_COMPLETION_INDEX" for entry in env):
            field = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
            env.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": field})
    if at.spec.get("backoffLimitPerIndex") is not None:
        meta["annotations"] |= _failure_counts(at, at.delayed.get(index))
    return template


def _failure_counts(at: Pass, replaced: Obj | None) -> dict[str, str]:
    if replaced is None:
        return {INDEX_FAILURES: "0"}
    counted, ignored = failures_of(replaced)
    if match_failure(at.job, replaced).counts:
        counted += 1
    else:
        ignored += 1
    return {INDEX_FAILURES: str(counted)} | ({INDEX_IGNORED: str(ignored)} if ignored else {})


def restarts(pod: Obj) -> int:
    """How often a pod's containers were restarted in place."""
    kinds = ("initContainerStatuses", "containerStatuses")
    return sum(int(s.get("restartCount", 0)) for kind in kinds for s in dig(pod, "status", kind, default=[]))
