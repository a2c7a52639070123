"""KEDA's ScaledJobs: Jobs made at each poll for as long as a trigger is active, and none taken away.

Sources: kedacore/keda v2 pkg/scaling/executor/scale_jobs.go (RequestJobScale: Jobs are made where fewer run than are
called for, by the default strategy; nobody deletes one that runs), controllers/keda/scaledjob_controller.go (a pause
stops the loop and leaves Jobs; Jobs of an older generation are deleted unless the rollout is ``gradual``),
pkg/scaling/scaledjob (with ``minReplicaCount`` it is always active). Left out: strategies other than the default, what
triggers of several sources come to together, the history of Jobs that have ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.embedded.models import keda_triggers
from killcheck.embedded.models.keda import PAUSED, interval, says
from killcheck.embedded.models.keda_triggers import Reading
from killcheck.entries import Doubt
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    condition,
    copy,
    dig,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owners,
    parse_time,
    ref_of,
    uid_of,
)
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.resources import Resource

__all__ = ["ScaledJobs"]

SCALED_JOBS = Resource("keda.sh", "v1alpha1", "scaledjobs", "ScaledJob")
_NAME, _GENERATION = "scaledjob.keda.sh/name", "scaledjob.keda.sh/generation"
#: maxReplicaCount where a ScaledJob says none.
_MOST = 100


@dataclass(eq=False, repr=False)
class ScaledJobs(Controller):
    """keda-operator, of ScaledJobs."""

    name: ClassVar[str] = "keda-operator-jobs"

    def setup(self) -> None:
        """Follow them, their Jobs, and the pods that their triggers count."""
        #: The poll in which Jobs were last made of each: KEDA acts once a poll.
        self._acted: dict[Key, int] = {}
        self.scaled = self.follow(SCALED_JOBS, optional=True)
        self.jobs = self.follow(r.JOBS, self.owned_by(SCALED_JOBS.kind))
        self.pods = self.follow(r.PODS, self._counting)

    def _counting(self, change: Change, old: Obj | None, new: Obj) -> list[Key]:
        """Whose triggers count a pod that came, went or ended."""
        if change == "modified" and dig(old or {}, "status", "phase") == dig(new, "status", "phase"):
            return []
        return [key_of(scaled) for scaled in self.scaled.values() if keda_triggers.counts(scaled, new)]

    def reconcile(self, key: Key) -> None:
        """The controller's pass over one ScaledJob, and one poll of its scale loop."""
        scaled = self.scaled.get(key[1], key[0])
        if scaled is None or "deletionTimestamp" in scaled["metadata"] or says(scaled, PAUSED):
            return
        running = [job for job in self._own(scaled) if not self._outdated(scaled, job) and not _ended(job)]
        reading = keda_triggers.read(scaled, self.loop.now(), self.pods.values())
        lacking = _called_for(scaled, reading) - len(running)
        if lacking > 0:
            self._at_poll(key, scaled, lacking, reading)
        if reading.changes is not None:
            self.queue.add(key, (reading.changes - self.loop.now()).total_seconds() + 0.001)

    def _own(self, scaled: Obj) -> list[Obj]:
        return [one for one in self.jobs.values() if any(o.get("uid") == uid_of(scaled) for o in owners(one))]

    def _outdated(self, scaled: Obj, job: Obj) -> bool:
        """Whether a Job was made by an older ScaledJob; it is deleted then."""
        spec = scaled.get("spec") or {}
        rollout = spec.get("rolloutStrategy") or dig(spec, "rollout", "strategy")
        old = rollout != "gradual" and annotations_of(job).get(_GENERATION) != str(scaled["metadata"].get("generation"))
        if old and "deletionTimestamp" not in job["metadata"]:
            try:
                self.kube.delete(r.JOBS, name_of(job), namespace_of(job), propagation="Background")
            except NotFound:
                return True
        return old

    def _at_poll(self, key: Key, scaled: Obj, count: int, reading: Reading) -> None:
        """Make Jobs at the next poll, counted from the ScaledJob's own start."""
        every = interval(scaled)
        since = (self.loop.now() - parse_time(scaled["metadata"]["creationTimestamp"])).total_seconds()
        poll = int(since // every)
        if since % every >= 1.0 or self._acted.get(key) == poll:
            self.queue.add(key, every - since % every + 0.001)
            return
        if key in self._acted:
            self._doubt(scaled, reading)
        self._acted[key] = poll
        self._say_what_is_assumed(scaled, reading)
        for _ in range(count):
            self.kube.create(r.JOBS, _job(scaled))
        self.events.emit(scaled, "Normal", "KEDAJobsCreated", f"Created {count} jobs")

    def _say_what_is_assumed(self, scaled: Obj, reading: Reading) -> None:
        said = (
            f"what the {', '.join(reading.assumed)} trigger of {ref_of(scaled)} reads is not known here: assumed "
            f"active, for one Job (annotation {keda_triggers.VALUE} says otherwise)"
        )
        if reading.assumed:
            self.rests_on(said, ref_of(scaled))

    def _doubt(self, scaled: Obj, reading: Reading) -> None:
        """Jobs made anew because of a trigger that nobody here can read."""
        if dig(scaled, "spec", "minReplicaCount", default=0) or not set(reading.by) <= set(reading.assumed):
            return
        said = (
            f"{ref_of(scaled)} made Jobs again: its {', '.join(reading.assumed)} trigger is assumed active, and what "
            f"it reads then nobody here knows (annotation {keda_triggers.VALUE} says it)"
        )
        self.unproven.append(Doubt(ref_of(scaled), said, may_be_on=False))


def _called_for(scaled: Obj, reading: Reading) -> int:
    """How many Jobs are to run at least, by the default strategy."""
    spec = scaled.get("spec") or {}
    least, most = int(spec.get("minReplicaCount") or 0), spec.get("maxReplicaCount")
    called = max(reading.called, 1) if reading.active else 0
    return min(max(called, least), _MOST if most is None else int(most))


def _ended(job: Obj) -> bool:
    return any((condition(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed"))


def _job(scaled: Obj) -> Obj:
    """As generateJobs has it."""
    spec = copy(dig(scaled, "spec", "jobTargetRef", default={}))
    template = spec.setdefault("template", {})
    meta = template.setdefault("metadata", {})
    meta["labels"] = {**(meta.get("labels") or {}), _NAME: name_of(scaled)}
    template.setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")
    name = name_of(scaled)
    own = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": name, _NAME: name}
    return {
        "metadata": {
            "generateName": f"{name}-",
            "namespace": namespace_of(scaled),
            "labels": {"app.kubernetes.io/managed-by": "keda-operator", **own, **labels_of(scaled)},
            "annotations": {_GENERATION: str(scaled["metadata"].get("generation")), **annotations_of(scaled)},
            "ownerReferences": [controller_ref(scaled, SCALED_JOBS)],
        },
        "spec": spec,
    }
