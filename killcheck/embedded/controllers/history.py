"""ControllerRevisions: what templates a StatefulSet or DaemonSet has had.

Source: pkg/controller/history of Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.controllers.garbage import CONTROLLERREVISIONS
from killcheck.embedded.controllers.revisions import same_template, template_hash
from killcheck.embedded.controllers.runtime import Informers
from killcheck.kube.client import Kube
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.objects import Obj, copy, name_of, namespace_of, uid_of
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.resources import Resource

__all__ = ["REVISION_LABEL", "History"]

REVISION_LABEL = "controller-revision-hash"


class History:
    """The revisions of one type of owner."""

    def __init__(self, kube: Kube, informers: Informers, resource: Resource) -> None:
        self.kube = kube
        self.resource = resource
        self.by_owner = informers.by_controller(CONTROLLERREVISIONS)

    def of(self, owner: Obj) -> list[Obj]:
        """All revisions, the oldest first."""
        return sorted(self.by_owner.get(uid_of(owner)), key=lambda revision: (revision["revision"], name_of(revision)))

    def current(self, owner: Obj) -> Obj:
        """The revision of the template as it is, made or renumbered if need be. Raises ApiError."""
        known = self.of(owner)
        template = owner["spec"]["template"]
        equal = [revision for revision in known if same_template(self.template(revision), template)]
        highest = max((revision["revision"] for revision in known), default=0)
        if equal:
            found = equal[-1]
            if found["revision"] == highest:
                return found
            return self.kube.replace(CONTROLLERREVISIONS, found | {"revision": highest + 1})
        digest = template_hash(template, (owner.get("status") or {}).get("collisionCount"))
        labels = dict((template.get("metadata") or {}).get("labels") or {}) | {"controller.kubernetes.io/hash": digest}
        fresh: Obj = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": f"{name_of(owner)[:222]}-{digest}",
                "namespace": namespace_of(owner),
                "labels": labels,
                "ownerReferences": [controller_ref(owner, self.resource)],
            },
            "data": {"spec": {"template": copy(template) | {"$patch": "replace"}}},
            "revision": highest + 1,
        }
        try:
            return self.kube.create(CONTROLLERREVISIONS, fresh)
        except Conflict:
            return self.kube.get(CONTROLLERREVISIONS, fresh["metadata"]["name"], namespace_of(owner))

    def template(self, revision: Obj) -> Obj:
        """The pod template that a revision holds."""
        held: Obj = revision["data"]["spec"]["template"]
        return {key: value for key, value in held.items() if key != "$patch"}

    def prune(self, owner: Obj, in_use: set[str]) -> None:
        """Forget the oldest revisions beyond ``revisionHistoryLimit`` that no pod is of. Raises ApiError."""
        idle = [revision for revision in self.of(owner) if name_of(revision) not in in_use]
        limit = int(owner["spec"].get("revisionHistoryLimit", 10))
        for revision in idle[: max(0, len(idle) - limit)]:
            try:
                self.kube.delete(CONTROLLERREVISIONS, name_of(revision), namespace_of(revision))
            except NotFound:
                continue
