"""The StatefulSet controller: pods with names, one after the other.

Source: pkg/controller/statefulset of Kubernetes v1.36. Unlike a ReplicaSet's, its ``status.replicas`` counts pods
that are still terminating.
"""

from __future__ import annotations

from msgspec import Struct

from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.history import REVISION_LABEL, History
from killcheck.embedded.controllers.podcontrol import claim, namespace_terminating
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict, NotFound
from killcheck.kube.objects import Obj, copy, dig, labels_of, name_of, namespace_of, uid_of
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.selectors import from_match_labels

__all__ = ["StatefulSetController"]

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


class _Pass(Struct):
    """One pass over a StatefulSet: its pods by ordinal, those that are too many, and its two revisions."""

    set: Obj
    pods: dict[int, Obj]
    condemned: list[Obj]
    current: Obj
    update: Obj
    start: int

    @property
    def monotonic(self) -> bool:
        """Whether one pod follows the other."""
        return bool(self.set["spec"].get("podManagementPolicy", "OrderedReady") != "Parallel")

    @property
    def min_ready_s(self) -> int:
        """``minReadySeconds``."""
        return int(self.set["spec"].get("minReadySeconds") or 0)


class StatefulSetController(Controller):
    """Keeps every StatefulSet's pods, claims and status."""

    name = "statefulset-controller"

    def setup(self) -> None:
        """Follow StatefulSets and their pods."""
        self.by_owner = self.informers.by_controller(r.PODS)
        self.history = History(self.kube, self.informers, r.STATEFULSETS)
        self.volume_claims = self.informers.of(r.PERSISTENTVOLUMECLAIMS)
        self.sets = self.follow(r.STATEFULSETS)
        self.follow(r.PODS, self.owned_by("StatefulSet"))

    def reconcile(self, key: Key) -> None:
        """One pass, as updateStatefulSet."""
        found = self.sets.objects.get(key)
        if found is None:
            return
        update = self.history.current(found)
        known = {name_of(revision): revision for revision in self.history.of(found)}
        current = known.get(dig(found, "status", "currentRevision", default=""), update)
        at = self._pass(found, current, update)
        error: ApiError | None = None
        if "deletionTimestamp" not in found["metadata"]:
            try:
                self._act(at)
            except ApiError as refused:
                error = refused
        self._update_status(at)
        if error is not None:
            raise error
        in_use = {labels_of(pod).get(REVISION_LABEL, "") for pod in [*at.pods.values(), *at.condemned]}
        self.history.prune(found, in_use | {name_of(current), name_of(update)})
        self._plan_availability(key, at)

    def _pass(self, found: Obj, current: Obj, update: Obj) -> _Pass:
        selector = from_match_labels(found["spec"].get("selector"))
        own = [
            *self.by_owner.get(uid_of(found)),
            *(pod for pod in self.by_owner.get(f"{namespace_of(found)}/") if _ordinal(found, pod) is not None),
        ]
        pods = claim(self.kube, r.STATEFULSETS, found, selector, own, target=r.PODS)
        start = int(dig(found, "spec", "ordinals", "start", default=0))
        wanted = range(start, start + int(found["spec"].get("replicas", 1)))
        by_ordinal = {ordinal: pod for pod in pods if (ordinal := _ordinal(found, pod)) is not None}
        inside = {ordinal: pod for ordinal, pod in by_ordinal.items() if ordinal in wanted}
        condemned = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if ordinal not in wanted]
        return _Pass(found, inside, condemned, current, update, start)

    # -- pods ----------------------------------------------------------------------------------------------
    def _act(self, at: _Pass) -> None:
        for ordinal in range(at.start, at.start + int(at.set["spec"].get("replicas", 1))):
            if self._process(at, ordinal) and at.monotonic:
                return
        first_unavailable = self._first_unavailable(at)
        waits = False
        for pod in at.condemned:
            waits = self._condemn(at, pod, first_unavailable) or waits
            if waits and at.monotonic:
                return
        if not waits:
            self._roll(at)

    def _process(self, at: _Pass, ordinal: int) -> bool:
        """Bring one replica about; whether those after it have to wait."""
        pod = at.pods.get(ordinal)
        if pod is not None and podset.is_terminal(pod):
            if "deletionTimestamp" not in pod["metadata"]:
                self._delete(at.set, pod)
            return True
        if pod is None:
            made = self._create(at, ordinal)
            if made is not None:
                at.pods[ordinal] = made
            return True
        if "deletionTimestamp" in pod["metadata"]:
            return True
        self._own_claims(at.set, pod, gone=False)
        return not self._available(pod, at)

    def _condemn(self, at: _Pass, pod: Obj, first_unavailable: Obj | None) -> bool:
        if "deletionTimestamp" in pod["metadata"]:
            return at.monotonic
        if at.monotonic and not self._available(pod, at) and pod is not first_unavailable:
            return True
        self._own_claims(at.set, pod, gone=True)
        self._delete(at.set, pod)
        return True

    def _first_unavailable(self, at: _Pass) -> Obj | None:
        ordered = [*(at.pods[ordinal] for ordinal in sorted(at.pods)), *reversed(at.condemned)]
        return next((pod for pod in ordered if not self._available(pod, at)), None)

    def _available(self, pod: Obj, at: _Pass) -> bool:
        running = podset.phase_of(pod) == "Running" and podset.is_available(pod, at.min_ready_s, self.loop.now())
        return running and "deletionTimestamp" not in pod["metadata"]

    def _roll(self, at: _Pass) -> None:
        """Replace the last pod that is not of the newest revision, once all after it are available."""
        strategy = at.set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        least = int(dig(strategy, "rollingUpdate", "partition", default=0)) + at.start
        for ordinal in sorted(at.pods, reverse=True):
            pod = at.pods[ordinal]
            if ordinal < least:
                return
            if labels_of(pod).get(REVISION_LABEL) != name_of(at.update) and "deletionTimestamp" not in pod["metadata"]:
                self._delete(at.set, pod)
                return
            if not self._available(pod, at):
                return

    def _create(self, at: _Pass, ordinal: int) -> Obj | None:
        owner = at.set
        old = at.current is not at.update and ordinal < self._first_updated(at)
        revision = at.current if old else at.update
        pod = self._draft(owner, ordinal, revision)
        name = name_of(pod)
        try:
            self._create_claims(owner, pod)
            made = self.kube.create(r.PODS, pod)
        except Conflict:
            return None
        except ApiError as error:
            if not namespace_terminating(error):
                text = f"Create Pod {name} in StatefulSet {name_of(owner)} failed error: {error.message}"
                self.events.emit(owner, "Warning", "FailedCreate", text)
            raise
        text = f"Create Pod {name} in StatefulSet {name_of(owner)} successful"
        self.events.emit(owner, "Normal", "SuccessfulCreate", text)
        return made

    def _first_updated(self, at: _Pass) -> int:
        """Ordinals below it are (re)created as they were before the update."""
        rolling = dig(at.set, "spec", "updateStrategy", "rollingUpdate")
        if rolling is not None:
            return at.start + int(rolling.get("partition") or 0)
        return at.start + int(dig(at.set, "status", "currentReplicas", default=0))

    def _delete(self, owner: Obj, pod: Obj) -> None:
        text = f"Delete Pod {name_of(pod)} in StatefulSet {name_of(owner)}"
        try:
            self.kube.delete(r.PODS, name_of(pod), namespace_of(pod))
        except NotFound:
            return
        except ApiError as error:
            self.events.emit(owner, "Warning", "FailedDelete", f"{text} failed error: {error.message}")
            raise
        self.events.emit(owner, "Normal", "SuccessfulDelete", f"{text} successful")

    def _draft(self, owner: Obj, ordinal: int, revision: Obj) -> Obj:
        pod = copy(self.history.template(revision))
        name = f"{name_of(owner)}-{ordinal}"
        meta = pod.get("metadata") or {}
        identity = {POD_NAME: name, POD_INDEX: str(ordinal), REVISION_LABEL: name_of(revision)}
        spec = pod["spec"]
        spec.setdefault("hostname", name)
        if owner["spec"].get("serviceName"):
            spec["subdomain"] = owner["spec"]["serviceName"]
        claims = {c["metadata"]["name"]: _claim_name(c, owner, ordinal) for c in _templates(owner)}
        volumes = [volume for volume in spec.get("volumes") or [] if volume["name"] not in claims]
        spec["volumes"] = volumes + [
            {"name": key, "persistentVolumeClaim": {"claimName": claim_name}} for key, claim_name in claims.items()
        ]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": spec,
            "metadata": {
                "name": name,
                "generateName": f"{name_of(owner)}-",
                "namespace": namespace_of(owner),
                "labels": dict(meta.get("labels") or {}) | identity,
                "annotations": dict(meta.get("annotations") or {}),
                "finalizers": meta.get("finalizers") or [],
                "ownerReferences": [controller_ref(owner, r.STATEFULSETS)],
            },
        }

    def _create_claims(self, owner: Obj, pod: Obj) -> None:
        ordinal = _ordinal(owner, pod) or 0
        for template in _templates(owner):
            name = _claim_name(template, owner, ordinal)
            if self.volume_claims.get(name, namespace_of(owner)) is not None:
                continue
            labels = dict(dig(owner, "spec", "selector", "matchLabels", default={}))
            meta = {"name": name, "namespace": namespace_of(owner), "labels": labels}
            if _policy(owner, "whenDeleted") == "Delete":
                meta["ownerReferences"] = [controller_ref(owner, r.STATEFULSETS)]
            body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": template["spec"]}
            try:
                self.kube.create(r.PERSISTENTVOLUMECLAIMS, body)
            except Conflict:
                continue
            text = f"Create Claim {name} Pod {name_of(pod)} in StatefulSet {name_of(owner)} success"
            self.events.emit(owner, "Normal", "SuccessfulCreate", text)

    def _own_claims(self, owner: Obj, pod: Obj, *, gone: bool) -> None:
        """A pod's claims go with the set, or with the pod that is scaled away (stateful_set_utils.go)."""
        by_pod = gone and _policy(owner, "whenScaled") == "Delete"
        ours = controller_ref(pod, r.PODS) if by_pod else controller_ref(owner, r.STATEFULSETS)
        wanted = [ours] if by_pod or _policy(owner, "whenDeleted") == "Delete" else []
        for template in _templates(owner):
            claim = self.volume_claims.get(_claim_name(template, owner, _ordinal(owner, pod) or 0), namespace_of(owner))
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                continue
            have = claim["metadata"].get("ownerReferences") or []
            uids = (owner["metadata"]["uid"], pod["metadata"]["uid"])
            refs = [ref for ref in have if ref["uid"] not in uids] + wanted
            if refs != have:
                meta = claim["metadata"] | {"ownerReferences": refs}
                self.kube.replace(r.PERSISTENTVOLUMECLAIMS, claim | {"metadata": meta})

    # -- status --------------------------------------------------------------------------------------------
    def _update_status(self, at: _Pass) -> None:
        now = self.loop.now()
        pods = [*at.pods.values(), *at.condemned]
        ready = [pod for pod in pods if podset.phase_of(pod) == "Running" and podset.is_ready(pod)]
        alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

        def of(revision: Obj) -> int:
            return sum(labels_of(pod).get(REVISION_LABEL) == name_of(revision) for pod in alive)

        status: Obj = {
            "observedGeneration": at.set["metadata"].get("generation", 0),
            "replicas": len(pods),
            "currentRevision": name_of(at.current),
            "updateRevision": name_of(at.update),
            "collisionCount": int(dig(at.set, "status", "collisionCount", default=0)),
            "availableReplicas": sum(podset.is_available(pod, at.min_ready_s, now) for pod in ready),
        }
        counts = {"readyReplicas": len(ready), "currentReplicas": of(at.current), "updatedReplicas": of(at.update)}
        rolled = counts["updatedReplicas"] == len(pods) == len(ready)
        if at.current is not at.update and rolled:
            status["currentRevision"] = name_of(at.update)
            counts["currentReplicas"] = counts["updatedReplicas"]
        status |= {field: count for field, count in counts.items() if count}
        if status != at.set.get("status"):
            self.kube.replace(r.STATEFULSETS, at.set | {"status": status}, subresource="status")

    def _plan_availability(self, key: Key, at: _Pass) -> None:
        if at.min_ready_s:
            now = self.loop.now()
            waits = [
                podset.next_available_s(pod, at.min_ready_s, now) for pod in at.pods.values() if podset.is_ready(pod)
            ]
            due = [wait for wait in waits if wait > 0]
            if due:
                self.queue.add(key, min(due))


def _ordinal(owner: Obj, pod: Obj) -> int | None:
    parent, _, number = name_of(pod).rpartition("-")
    return int(number) if parent == name_of(owner) and number.isdigit() else None


def _templates(owner: Obj) -> list[Obj]:
    return owner["spec"].get("volumeClaimTemplates") or []


def _policy(owner: Obj, when: str) -> str:
    return str(dig(owner, "spec", "persistentVolumeClaimRetentionPolicy", when, default="Retain"))


def _claim_name(template: Obj, owner: Obj, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{name_of(owner)}-{ordinal}"
