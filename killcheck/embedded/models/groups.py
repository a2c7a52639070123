"""Controllers of kinds that make groups of pods: JobSet, LeaderWorkerSet, RayCluster, Notebook - from replicas to pods.

Only what turns them on and off, as their own controllers do it (2026):

- JobSet (kubernetes-sigs/jobset pkg/controllers): a Job for each replica of each replicated job, ``suspend`` passed on;
  a Job that somebody deletes is made again.
- LeaderWorkerSet (kubernetes-sigs/lws pkg/controllers): a StatefulSet of leaders, and for each leader pod one of
  ``size`` - 1 workers that belongs to it.
- RayCluster (ray-project/kuberay ray-operator/controllers/ray): bare pods; a group never has fewer than
  ``minReplicas``, whatever ``replicas`` says, and none while it or the cluster is suspended.
- Notebook (kubeflow/kubeflow notebook-controller): a StatefulSet of one, none while ``kubeflow-resource-stopped``.

Left out: their failure policies, rolling updates, Ray's in-tree autoscaler, TTLs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict, NotFound
from killcheck.kube.objects import Obj, annotations_of, copy, dig, labels_of, name_of, namespace_of, owners, uid_of
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.resources import Resource
from killcheck.kube.workloads import STOP_MARKS

__all__ = ["JOBSETS", "RAY_CLUSTERS", "Groups", "JobSets", "LeaderWorkerSets", "Notebooks", "RayClusters"]

JOBSETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster")
_NOTEBOOKS = Resource("kubeflow.org", "v1", "notebooks", "Notebook")
_LWS_NAME, _LWS_GROUP, _LWS_WORKER = (
    f"leaderworkerset.sigs.k8s.io/{part}" for part in ("name", "group-index", "worker-index")
)
_STOPPED = STOP_MARKS["Notebook"]


class Groups(Controller, ABC):
    """One kind: makes what it wants, takes away what it does not, keeps replicas and suspend of what is there."""

    own: ClassVar[Resource]
    made: ClassVar[Resource]

    def setup(self) -> None:
        """Follow the kind and what is made of it."""
        self.objects = self.follow(self.own, optional=True)
        self.children = self.follow(self.made, self.owned_by(self.own.kind), optional=True)

    @abstractmethod
    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """What there should be of an object, each with its name and spec."""

    def is_of(self, obj: Obj, one: Obj) -> bool:
        """Whether something was made of an object."""
        return namespace_of(one) == namespace_of(obj) and any(o.get("uid") == uid_of(obj) for o in owners(one))

    def hands_off(self, obj: Obj) -> bool:
        """Whether what is there of an object is left as it is, and nothing is made."""
        return False

    def reconcile(self, key: Key) -> None:
        """Bring what is made of one object to what is wanted."""
        obj = self.objects.get(key[1], key[0])
        if obj is None or "deletionTimestamp" in obj["metadata"] or self.hands_off(obj):
            return
        there = {name_of(one): one for one in self.children.values() if self.is_of(obj, one)}
        wanted = {name_of(one): one for one in self.wanted(obj)}
        for name, one in wanted.items():
            if name not in there:
                self._create(obj, one)
            else:
                self.adjust(there[name], one)
        for name, one in there.items():
            if name not in wanted and "deletionTimestamp" not in one["metadata"]:
                self._delete(one)

    def _create(self, owner: Obj, body: Obj) -> None:
        body = copy(body)
        body |= {"apiVersion": self.made.api_version, "kind": self.made.kind}
        body["metadata"] |= {"namespace": namespace_of(owner), "ownerReferences": [controller_ref(owner, self.own)]}
        try:
            self.kube.create(self.made, body)
        except Conflict:
            return
        except ApiError as error:
            self.events.emit(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
            raise

    def adjust(self, one: Obj, wanted: Obj) -> None:
        """Keep the replicas and the suspend of what is there."""
        change = {
            part: wanted["spec"][part]
            for part in ("replicas", "suspend")
            if part in wanted["spec"] and dig(one, "spec", part) != wanted["spec"][part]
        }
        if change:
            self.kube.patch(self.made, name_of(one), {"spec": change}, namespace_of(one))

    def _delete(self, one: Obj) -> None:
        try:
            self.kube.delete(self.made, name_of(one), namespace_of(one))
        except NotFound:
            return


class JobSets(Groups):
    """jobset-controller."""

    name: ClassVar[str] = "jobset-controller"
    own: ClassVar[Resource] = JOBSETS
    made: ClassVar[Resource] = r.JOBS

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """A Job for each replica of each replicated job."""
        suspended = bool(dig(obj, "spec", "suspend", default=False))
        for group in dig(obj, "spec", "replicatedJobs", default=[]):
            for index in range(int(group.get("replicas", 1))):
                template = copy(group.get("template") or {})
                labels = {
                    "jobset.sigs.k8s.io/jobset-name": name_of(obj),
                    "jobset.sigs.k8s.io/jobset-uid": uid_of(obj),
                    "jobset.sigs.k8s.io/replicatedjob-name": str(group.get("name")),
                    "jobset.sigs.k8s.io/replicatedjob-replicas": str(group.get("replicas", 1)),
                    "jobset.sigs.k8s.io/job-index": str(index),
                    "jobset.sigs.k8s.io/restart-attempt": "0",
                }
                pods = template.setdefault("spec", {}).setdefault("template", {})
                meta = pods.setdefault("metadata", {})
                meta["labels"] = {**(meta.get("labels") or {}), **labels}
                pods.setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")
                yield {
                    "metadata": {"name": f"{name_of(obj)}-{group.get('name')}-{index}", "labels": labels},
                    "spec": {**template["spec"], "suspend": suspended},
                }


class LeaderWorkerSets(Groups):
    """lws-controller-manager: the leaders; :meth:`reconcile` also sees to each leader's workers."""

    name: ClassVar[str] = "lws-controller-manager"
    own: ClassVar[Resource] = r.LEADERWORKERSETS
    made: ClassVar[Resource] = r.STATEFULSETS

    def setup(self) -> None:
        """Follow the leader pods as well."""
        super().setup()
        self.pods = self.follow(r.PODS, self._set_of)

    def _set_of(self, _change: object, _old: Obj | None, pod: Obj) -> list[Key]:
        name = dig(pod, "metadata", "labels", _LWS_NAME)
        return [(namespace_of(pod), str(name))] if name else []

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """The StatefulSet of leaders."""
        parts = dig(obj, "spec", "leaderWorkerTemplate", default={})
        template = parts.get("leaderTemplate") or parts.get("workerTemplate") or {}
        yield _stateful_set(
            name_of(obj), template, int(dig(obj, "spec", "replicas", default=1)), name_of(obj), role="leader"
        )

    def reconcile(self, key: Key) -> None:
        """The leaders, and the workers of each of them."""
        super().reconcile(key)
        obj = self.objects.get(key[1], key[0])
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return
        parts = dig(obj, "spec", "leaderWorkerTemplate", default={})
        size = int(parts.get("size", 1))
        for pod in self.pods.values():
            labels = labels_of(pod)
            if namespace_of(pod) != key[0] or labels.get(_LWS_NAME) != key[1] or "deletionTimestamp" in pod["metadata"]:
                continue
            self._number(pod, key[1])
            if labels.get("killcheck.dev/lws-role") != "leader":
                continue
            if size > 1 and self.children.get(name_of(pod), key[0]) is None:
                self._workers(pod, parts, size - 1, key[1])

    def _number(self, pod: Obj, name: str) -> None:
        """Which group a pod is of, and which of it: labels that its webhook gives (pkg/webhooks/pod_webhook.go)."""
        group, _, worker = name_of(pod).removeprefix(f"{name}-").partition("-")
        labels = {_LWS_GROUP: group, _LWS_WORKER: worker or "0"}
        if not labels.items() <= labels_of(pod).items():
            self.kube.patch(r.PODS, name_of(pod), {"metadata": {"labels": labels}}, namespace_of(pod))

    def _workers(self, leader: Obj, parts: Obj, count: int, name: str) -> None:
        body = _stateful_set(name_of(leader), parts.get("workerTemplate") or {}, count, name, role="worker")
        body["spec"]["ordinals"] = {"start": 1}
        body |= {"apiVersion": "apps/v1", "kind": "StatefulSet"}
        body["metadata"] |= {"namespace": namespace_of(leader), "ownerReferences": [controller_ref(leader, r.PODS)]}
        try:
            self.kube.create(r.STATEFULSETS, body)
        except Conflict:
            return


class RayClusters(Groups):
    """kuberay-operator: bare pods, the head and the workers of each group."""

    name: ClassVar[str] = "kuberay-operator"
    own: ClassVar[Resource] = RAY_CLUSTERS
    made: ClassVar[Resource] = r.PODS

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """The head's pod and each group's; none while the cluster is suspended."""
        spec = obj.get("spec") or {}
        if spec.get("suspend") is True:
            return
        head = dig(spec, "headGroupSpec", "template", default={})
        yield _pod(f"{name_of(obj)}-head", head, name_of(obj), "headgroup", "head")
        for group in spec.get("workerGroupSpecs") or ():
            for index in range(_workers(group)):
                name = str(group.get("groupName"))
                pod = f"{name_of(obj)}-{name}-worker-{index}"
                yield _pod(pod, group.get("template") or {}, name_of(obj), name, "worker")


def _workers(group: Obj) -> int:
    """util.GetWorkerGroupDesiredReplicas."""
    if group.get("suspend") is True:
        return 0
    least, most = int(group.get("minReplicas") or 0), int(group.get("maxReplicas") or 2**31 - 1)
    asked = least if group.get("replicas") is None else int(group["replicas"])
    return min(max(asked, least), most) * int(group.get("numOfHosts") or 1)


class Notebooks(Groups):
    """notebook-controller."""

    name: ClassVar[str] = "notebook-controller"
    own: ClassVar[Resource] = _NOTEBOOKS
    made: ClassVar[Resource] = r.STATEFULSETS

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """A StatefulSet of one, or of none where it was stopped."""
        template = dig(obj, "spec", "template", default={})
        replicas = 0 if _STOPPED in annotations_of(obj) else 1
        yield _stateful_set(name_of(obj), template, replicas, name_of(obj))


# -- what is made --------------------------------------------------------------------------------------------
def _stateful_set(name: str, template: Obj, replicas: int, of: str, *, role: str = "") -> Obj:
    labels, beside = {"statefulset": name}, {"notebook-name": name}
    if role:
        labels = {"killcheck.dev/lws-of": name, "killcheck.dev/lws-role": role, _LWS_NAME: of}
    pods = copy(template)
    meta = pods.setdefault("metadata", {})
    meta["labels"] = {**(meta.get("labels") or {}), **labels, **({} if role else beside)}
    meta.pop("name", None)
    return {
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "replicas": replicas,
            "serviceName": of,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": meta, "spec": pods.get("spec") or {}},
        },
    }


def _pod(name: str, template: Obj, cluster: str, group: str, role: str) -> Obj:
    """A pod of Ray's, with the labels that it is found by (common/pod.go, labelPod)."""
    given = dig(template, "metadata", default={})
    labels = {
        "ray.io/is-ray-node": "yes",
        "ray.io/identifier": f"{cluster}-{role}",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
        **(given.get("labels") or {}),
        "ray.io/cluster": cluster,
        "ray.io/group": group,
        "ray.io/node-type": role,
    }
    meta = {"name": name, "labels": labels, "annotations": given.get("annotations") or {}}
    return {"metadata": meta, "spec": copy(template.get("spec") or {})}
