"""The programs among objects that could be part of a kill path, and the Job that fires one.

These are CronJobs and Jobs, and controllers that may change what holds GPUs or nodes, where what they run is known:
idle monitors, operators. What an account cannot change, none of its programs turns off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from killcheck.images.contents import contents_of
from killcheck.images.reference import InvalidReference, parse
from killcheck.kube import gpus, schedule
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of, owners
from killcheck.kube.permissions import Permissions
from killcheck.kube.workloads import templates

__all__ = ["CONTROLLERS", "Program", "may_light", "programs", "watches_over"]


#: Kinds whose pods go on for ever: such a program is watched until it acts.
CONTROLLERS = frozenset({"Deployment", "StatefulSet", "DaemonSet"})
#: What turns GPUs off, as (group, resource, verbs): a controller that may do none of it is no part of a kill path.
_ACTS = (
    ("apps", "deployments/scale", ("patch", "update")),
    ("apps", "statefulsets/scale", ("patch", "update")),
    ("apps", "deployments", ("patch", "update", "delete")),
    ("apps", "statefulsets", ("patch", "update", "delete")),
    ("batch", "jobs", ("patch", "update", "delete", "deletecollection")),
    ("", "pods", ("delete", "deletecollection")),
    ("", "pods/eviction", ("create",)),
    ("", "nodes", ("delete",)),
    ("karpenter.sh", "nodepools", ("patch", "update", "delete")),
    ("karpenter.sh", "nodeclaims", ("delete",)),
    ("keda.sh", "scaledobjects", ("patch", "update", "delete")),
)
#: What lights one again.
_LIGHTS = tuple((group, resource, ("patch", "update")) for group, resource, _ in _ACTS if group == "apps")


class Program(Struct, frozen=True):
    """A CronJob, a Job or a controller whose pods hold no GPU."""

    obj: Obj

    @property
    def ref(self) -> str:
        """``CronJob/inference/nightly-off``, as :attr:`killcheck.rehearsal.record.Rehearsed.program`."""
        return f"{self.obj['kind']}/{self.namespace}/{name_of(self.obj)}"

    @property
    def namespace(self) -> str:
        """Where its pods run."""
        return namespace_of(self.obj) or "default"

    @property
    def account(self) -> str:
        """Its ServiceAccount."""
        return str(self.pod_spec.get("serviceAccountName") or "default")

    @property
    def pod_spec(self) -> Obj:
        """What its pods are made from."""
        found: Obj = dig(self.job_spec, "template", "spec", default={})
        return found

    @property
    def images(self) -> set[str]:
        """What its containers are made from."""
        found = (*dig(self.pod_spec, "initContainers", default=[]), *dig(self.pod_spec, "containers", default=[]))
        return {str(container.get("image", "")) for container in found}

    @property
    def job_spec(self) -> Obj:
        """The spec of the Job that a firing makes."""
        if self.obj.get("kind") == "CronJob":
            found: Obj = dig(self.obj, "spec", "jobTemplate", "spec", default={"template": {}})
            return found
        if self.goes_on:
            return {"template": dig(self.obj, "spec", "template", default={})}
        own: Obj = dig(self.obj, "spec", default={"template": {}})
        return own

    @property
    def goes_on(self) -> bool:
        """Whether it is not meant to end."""
        return self.obj.get("kind") in CONTROLLERS

    @property
    def deadline_s(self) -> float | None:
        """After how many seconds its Job, or the pod of that, is ended."""
        found = [spec.get("activeDeadlineSeconds") for spec in (self.job_spec, self.pod_spec)]
        return min((float(limit) for limit in found if isinstance(limit, int)), default=None)

    def next_slot(self, after: datetime) -> datetime:
        """When it is fired next; ``after`` itself where nothing says."""
        if self.obj.get("kind") != "CronJob":
            return after
        try:
            found = schedule.parse(
                str(dig(self.obj, "spec", "schedule", default="")), dig(self.obj, "spec", "timeZone")
            ).next(after)
        except schedule.ScheduleError:
            return after
        return found or after

    def job(self, name: str) -> Obj:
        """The Job of a firing, that ends by itself alone: without a deadline, and not tried again.

        What its first pod does is what is to be seen; whether it took too long is known from its seconds.
        """
        spec = copy(self.job_spec)
        for field in ("activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend", "selector", "manualSelector"):
            spec.pop(field, None)
        spec["backoffLimit"] = 0
        spec.setdefault("template", {}).setdefault("spec", {})["restartPolicy"] = "Never"
        spec["template"]["spec"].pop("activeDeadlineSeconds", None)
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": spec,
            "metadata": {"name": name, "namespace": self.namespace},
        }


def programs(objects: Sequence[Obj]) -> list[Program]:
    """Every CronJob and Job whose pods ask for no GPU, and the controllers that could turn one off."""
    permissions = Permissions(objects)
    return [Program(obj) for obj in objects if _fires(obj) or _watches(obj, permissions)]


def _fires(obj: Obj) -> bool:
    own = str(obj.get("apiVersion", "")).startswith("batch/")  # Volcano's are of another shape
    return own and obj.get("kind") in ("CronJob", "Job") and _is_plain(obj)


def _is_plain(obj: Obj) -> bool:
    """Whether it stands by itself, and its pods hold no GPU."""
    if any(True for _ in owners(obj)) or not name_of(obj):
        return False
    found = templates(obj)
    return bool(found) and not any(gpus.spec_devices(template.spec) for template in found)


def watches_over(obj: Obj) -> bool:
    """Whether a controller has pods of its own that hold no GPU."""
    return _is_plain(obj) and dig(obj, "spec", "replicas") != 0


def _watches(obj: Obj, permissions: Permissions) -> bool:
    """Whether a controller may act on what holds GPUs, and what it runs is known."""
    if obj.get("kind") not in CONTROLLERS or not watches_over(obj):
        return False
    one = Program(obj)
    acts = _may(one, permissions, _ACTS)
    return acts and all(_is_known(c) for c in dig(one.pod_spec, "containers", default=[]))


def may_light(program: Program, objects: Sequence[Obj]) -> bool:
    """Whether a program's account may give a Deployment or a StatefulSet replicas."""
    return _may(program, Permissions(objects), _LIGHTS)


def _may(program: Program, permissions: Permissions, acts: Iterable[tuple[str, str, tuple[str, ...]]]) -> bool:
    """Whether a program's account may do any of some acts, anywhere."""
    return any(
        permissions.allows(
            program.account,
            program.namespace,
            verb=verb,
            group=group,
            resource=resource.partition("/")[0],
            subresource=resource.partition("/")[2],
        )
        for group, resource, verbs in acts
        for verb in verbs
    )


def _is_known(container: Obj) -> bool:
    """Whether what a container runs is told: by the manifest, or by what is known of its image."""
    if container.get("command"):
        return True
    try:
        contents = contents_of(parse(str(container.get("image", ""))))
    except InvalidReference:
        return False
    return bool(contents.entrypoint or contents.command)
