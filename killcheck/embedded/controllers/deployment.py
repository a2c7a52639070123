"""The Deployment controller: which ReplicaSets there are, and when a rollout counts as done or stuck.

How replicas are moved between ReplicaSets is in ``rollout``; what the status says in ``deployment_status``.
Source: pkg/controller/deployment of Kubernetes v1.36; recordings 01, 21, 30.
"""

from __future__ import annotations

from killcheck.embedded.controllers import deployment_status as st
from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers import rollout
from killcheck.embedded.controllers.podcontrol import claim
from killcheck.embedded.controllers.revisions import (
    POD_TEMPLATE_HASH,
    REVISION,
    revision_of,
    same_template,
    template_hash,
)
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    controller_of,
    copy,
    dig,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.selectors import from_match_labels

__all__ = ["DeploymentController"]

_HISTORY = "deployment.kubernetes.io/revision-history"
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        _HISTORY,
        rollout.DESIRED,
        rollout.MAXIMUM,
        "deprecated.deployment.rollback.to",
    }
)
#: Characters that the annotation with former revisions may hold.
_HISTORY_CHARS = 2000


class DeploymentController(Controller):
    """Rolls Deployments out."""

    name = "deployment-controller"

    def setup(self) -> None:
        """Follow Deployments, their ReplicaSets, and the pods that a Recreate waits for."""
        self.deployments = self.follow(r.DEPLOYMENTS)
        self.sets = self.informers.of(r.REPLICASETS)
        self.by_owner = self.informers.by_controller(r.REPLICASETS)
        self.pods_by_owner = self.informers.by_controller(r.PODS)
        self.follow(r.REPLICASETS, self._owners)
        self.listen(r.PODS, self._pod_changed)

    def _owners(self, change: Change, old: Obj | None, new: Obj) -> list[Key]:
        keys = self.owned_by("Deployment")(change, old, new)
        if keys or controller_of(new) is not None or change == "deleted":
            return keys
        return [
            (namespace_of(d), name_of(d))
            for d in self.deployments.values()
            if namespace_of(d) == namespace_of(new)
            and from_match_labels(d["spec"].get("selector")).matches(labels_of(new))
        ]

    def _pod_changed(self, change: Change, _old: Obj | None, new: Obj) -> None:
        """The last pod of a Recreate's old template has gone."""
        owner = controller_of(new)
        if change != "deleted" or not owner or owner.get("kind") != "ReplicaSet":
            return
        rs = self.sets.get(owner["name"], namespace_of(new))
        above = controller_of(rs) if rs else None
        deployment = self.deployments.get(above["name"], namespace_of(new)) if above else None
        if deployment is None or dig(deployment, "spec", "strategy", "type") != "Recreate":
            return
        if not any(self.pods_by_owner.count(uid_of(rs)) for rs in self.by_owner.get(uid_of(deployment))):
            self.queue.add((namespace_of(deployment), name_of(deployment)))

    # -- one pass ------------------------------------------------------------------------------------------
    def reconcile(self, key: Key) -> None:
        """One pass over a Deployment, as syncDeployment."""
        found = self.deployments.get(key[1], key[0])
        if found is None:
            return
        d = copy(found)
        d.setdefault("status", {})
        selector = from_match_labels(d["spec"].get("selector"))
        candidates = [*self.by_owner.get(uid_of(d)), *self.by_owner.get(f"{key[0]}/")]
        sets = claim(self.kube, r.DEPLOYMENTS, d, selector, candidates, target=r.REPLICASETS)
        sets.sort(key=_age)
        if "deletionTimestamp" in d["metadata"]:
            new, old = self._replica_sets(d, sets, create=False)
            self._write_status(d, st.calculate(d, _with(old, new), new, self.loop.now()))
            return
        self._check_paused(d)
        new, old = self._replica_sets(d, sets, create=False)
        if d["spec"].get("paused") or rollout.is_scaling(d, _with(old, new)):
            self._scale_only(d, new, old)
        elif dig(d, "spec", "strategy", "type", default="RollingUpdate") == "Recreate":
            self._recreate(d, sets, new, old)
        else:
            self._rolling(d, sets)

    def _scale_only(self, d: Obj, new: Obj | None, old: list[Obj]) -> None:
        sizes = rollout.Sizes(self.kube, self.events, d)
        new, old = rollout.scale(sizes, new, old)
        if d["spec"].get("paused"):
            self._clean_up(d, old)
        self._write_status(d, st.calculate(d, _with(old, new), new, self.loop.now()))

    def _rolling(self, d: Obj, sets: list[Obj]) -> None:
        new, old = self._replica_sets(d, sets, create=True)
        if new is None:
            return
        sizes = rollout.Sizes(self.kube, self.events, d)
        grown = rollout.grow_new(sizes, new, old)
        shrunk = None if grown else rollout.shrink_old(sizes, new, old)
        if not grown and not shrunk and st.complete(d, d["status"]):
            self._clean_up(d, old)
        self._sync_rollout(d, _with(old, new), new)

    def _recreate(self, d: Obj, sets: list[Obj], new: Obj | None, old: list[Obj]) -> None:
        sizes = rollout.Sizes(self.kube, self.events, d)
        active = [rs for rs in old if int(rs["spec"]["replicas"])]
        if active:
            for rs in active:
                sizes.set(rs, 0)
            self._sync_rollout(d, _with(old, new), new)
            return
        if self._old_pods_running(new, old):
            self._sync_rollout(d, _with(old, new), new)
            return
        if new is None:
            new, old = self._replica_sets(d, sets, create=True)
            if new is None:
                return
        sizes.set(new, int(d["spec"]["replicas"]))
        if st.complete(d, d["status"]):
            self._clean_up(d, old)
        self._sync_rollout(d, _with(old, new), new)

    def _old_pods_running(self, new: Obj | None, old: list[Obj]) -> bool:
        if any(dig(rs, "status", "replicas", default=0) for rs in old):
            return True
        pods = (pod for rs in old if rs is not new for pod in self.pods_by_owner.get(uid_of(rs)))
        return any(not podset.is_terminal(pod) for pod in pods)

    # -- ReplicaSets ---------------------------------------------------------------------------------------
    def _replica_sets(self, d: Obj, sets: list[Obj], *, create: bool) -> tuple[Obj | None, list[Obj]]:
        """The ReplicaSet of the template as it is now (made if need be), and all others."""
        new = next((rs for rs in sets if same_template(rs["spec"]["template"], d["spec"]["template"])), None)
        old = [rs for rs in sets if rs is not new]
        revision = max((revision_of(rs) for rs in old), default=0) + 1
        if new is not None:
            return self._refresh(d, new, revision), old
        return (self._create(d, sets, revision) if create else None), old

    def _refresh(self, d: Obj, rs: Obj, revision: int) -> Obj:
        """Bring the annotations of the current ReplicaSet up to date, and the Deployment's revision."""
        meta = rs["metadata"] | {"annotations": _new_annotations(d, rs, revision)}
        min_ready = int(d["spec"].get("minReadySeconds") or 0)
        stale = int(rs["spec"].get("minReadySeconds") or 0) != min_ready
        if meta["annotations"] != annotations_of(rs) or stale:
            spec = rs["spec"] | ({"minReadySeconds": min_ready} if stale else {})
            return self.kube.replace(r.REPLICASETS, rs | {"metadata": meta, "spec": spec})
        changed = _set_revision(d, str(revision_of(rs)))
        if st.has_deadline(d) and st.progressing(d["status"]) is None:
            message = f'Found new replica set "{name_of(rs)}"'
            st.set_condition(d["status"], "Progressing", "True", "FoundNewReplicaSet", message, now=self.loop.now())
            changed = True
        if changed:
            self._update(d)
        return rs

    def _create(self, d: Obj, sets: list[Obj], revision: int) -> Obj | None:
        fresh = self._draft(d, sets)
        name = name_of(fresh)
        fresh["metadata"]["annotations"] = _new_annotations(d, fresh, revision) | rollout.size_annotations(d)
        size = int(fresh["spec"]["replicas"])
        try:
            made = self.kube.create(r.REPLICASETS, fresh)
        except Conflict:
            existing = self.sets.get(name, namespace_of(d))
            ref = controller_of(existing) if existing else None
            ours = ref is not None and ref["uid"] == uid_of(d)
            if existing and ours and same_template(existing["spec"]["template"], d["spec"]["template"]):
                return existing
            d["status"]["collisionCount"] = int(d["status"].get("collisionCount") or 0) + 1
            self._update(d)
            raise
        except ApiError as error:
            self._creation_failed(d, name, error)
            raise
        if size:
            self.events.emit(d, "Normal", "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {size}")
        changed = _set_revision(d, str(revision))
        if st.has_deadline(d):
            message = f'Created new replica set "{name}"'
            st.set_condition(d["status"], "Progressing", "True", "NewReplicaSetCreated", message, now=self.loop.now())
            changed = True
        if changed:
            self._update(d)
        return made

    def _creation_failed(self, d: Obj, name: str, error: ApiError) -> None:
        if any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes):
            return
        message = f'Failed to create new replica set "{name}": {error.message}'
        if st.has_deadline(d):
            st.set_condition(d["status"], "Progressing", "False", "ReplicaSetCreateError", message, now=self.loop.now())
            self._update(d)
        self.events.emit(d, "Warning", "ReplicaSetCreateError", message)

    def _draft(self, d: Obj, sets: list[Obj]) -> Obj:
        spec = d["spec"]
        collisions = d["status"].get("collisionCount")
        digest = template_hash(spec["template"], collisions)
        template = copy(spec["template"])
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[POD_TEMPLATE_HASH] = digest
        selector = copy(spec["selector"])
        selector.setdefault("matchLabels", {})[POD_TEMPLATE_HASH] = digest
        name = f"{name_of(d)[: 252 - len(digest)]}-{digest}"
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": namespace_of(d),
                "labels": dict(labels),
                "ownerReferences": [controller_ref(d, r.DEPLOYMENTS)],
            },
            "spec": {
                "replicas": rollout.new_size(d, sets, 0),
                "minReadySeconds": int(spec.get("minReadySeconds") or 0),
                "selector": selector,
                "template": template,
            },
        }

    def _clean_up(self, d: Obj, old: list[Obj]) -> None:
        """Delete the oldest ReplicaSets beyond ``revisionHistoryLimit``, if they are empty."""
        limit = d["spec"].get("revisionHistoryLimit")
        if limit is None:
            return
        alive = [rs for rs in old if "deletionTimestamp" not in rs["metadata"]]
        alive.sort(key=lambda rs: (revision_of(rs), _age(rs)))
        for rs in alive[: max(0, len(alive) - int(limit))]:
            status = rs.get("status") or {}
            behind = rs["metadata"].get("generation", 0) > status.get("observedGeneration", 0)
            if status.get("replicas") or int(rs["spec"]["replicas"]) or behind:
                continue
            try:
                self.kube.delete(r.REPLICASETS, name_of(rs), namespace_of(rs))
            except NotFound:
                continue

    # -- status --------------------------------------------------------------------------------------------
    def _check_paused(self, d: Obj) -> None:
        """Time spent paused does not count against the progress deadline."""
        if not st.has_deadline(d):
            return
        current = st.progressing(d["status"]) or {}
        if current.get("reason") == "ProgressDeadlineExceeded":
            return
        was, paused = current.get("reason") == "DeploymentPaused", bool(d["spec"].get("paused"))
        if paused == was:
            return
        reason, word = ("DeploymentPaused", "paused") if paused else ("DeploymentResumed", "resumed")
        st.set_condition(d["status"], "Progressing", "Unknown", reason, f"Deployment is {word}", now=self.loop.now())
        self._update(d)

    def _sync_rollout(self, d: Obj, sets: list[Obj], new: Obj | None) -> None:
        status = st.rollout_status(d, sets, new, self.loop.now())
        if status != d["status"]:
            self._write_status(d, status)
            return
        wait = st.seconds_to_deadline(d, status, self.loop.now())
        if wait is not None:
            key = (namespace_of(d), name_of(d))
            # A second more than needed, against rounding. (The real one retries at its rate limit once the deadline has
            # passed, many times a second while pods come up, also where time alone tells it nothing new.)
            self.queue.add(key, max(wait, 0.0) + 1.0)

    def _write_status(self, d: Obj, status: Obj) -> None:
        if status != d["status"]:
            d["status"] = status
            self._update(d)

    def _update(self, d: Obj) -> None:
        """Write status and revision; ``d`` then carries the new resourceVersion."""
        written = self.kube.replace(r.DEPLOYMENTS, d, subresource="status")
        d["metadata"] = copy(written["metadata"])


def _with(old: list[Obj], new: Obj | None) -> list[Obj]:
    return [*old, new] if new is not None else list(old)


def _age(rs: Obj) -> tuple[str, str]:
    return str(rs["metadata"].get("creationTimestamp") or ""), name_of(rs)


def _set_revision(d: Obj, revision: str) -> bool:
    annotations = d["metadata"].setdefault("annotations", {})
    if annotations.get(REVISION) == revision:
        return False
    annotations[REVISION] = revision
    return True


def _new_annotations(d: Obj, rs: Obj, revision: int) -> dict[str, str]:
    """A ReplicaSet's annotations as its Deployment would have them; a former revision is remembered."""
    result = dict(annotations_of(rs))
    result |= {k: v for k, v in annotations_of(d).items() if k not in _NOT_COPIED}
    before = result.get(REVISION)
    if (int(before) if before and before.isdigit() else 0) < revision:
        result[REVISION] = str(revision)
        if before is not None:
            former = [*filter(None, result.get(_HISTORY, "").split(",")), before]
            while len(",".join(former)) > _HISTORY_CHARS:
                former.pop(0)
            result[_HISTORY] = ",".join(former)
    return result
