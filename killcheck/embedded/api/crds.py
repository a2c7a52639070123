"""CustomResourceDefinitions: their types are served while they exist, and their objects go with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from killcheck.embedded.api.http import Request, User
from killcheck.embedded.api.kinds import Kind, from_crd
from killcheck.embedded.api.store import Change
from killcheck.kube.objects import Obj, dig, format_time

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core

__all__ = ["CustomResources"]

TABLE = ("apiextensions.k8s.io", "customresourcedefinitions")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_SYSTEM = User("system:apiserver", ("system:masters",))


class CustomResources:
    """Registers the types of CRDs with the server, and takes them away again."""

    def __init__(self, server: Core) -> None:
        self.server = server
        self._served: dict[str, list[Kind]] = {}
        server.store.listen(TABLE, self._changed)
        for crd in list(server.store.values(TABLE)):
            self._serve(crd)

    def accept(self, crd: Obj) -> None:
        """Complete a CRD that is about to be stored, in place: names, finalizer, the conditions that it is served."""
        spec, meta = crd.setdefault("spec", {}), crd["metadata"]
        names = spec.setdefault("names", {})
        kind = str(names.get("kind", ""))
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
        spec.setdefault("conversion", {"strategy": "None"})
        if "deletionTimestamp" in meta:
            return
        if CLEANUP not in meta.setdefault("finalizers", []):
            meta["finalizers"] = [*meta["finalizers"], CLEANUP]
        state = crd.setdefault("status", {})
        stored = [str(v.get("name")) for v in spec.get("versions") or [] if v.get("storage")]
        known = state.get("storedVersions") or []
        now = format_time(self.server.loop.now())
        crd["status"] = {
            "conditions": state.get("conditions")
            or [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
                _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
            ],
            "acceptedNames": names,
            "storedVersions": known + [v for v in stored if v not in known],
        }

    # -- inside --------------------------------------------------------------------------------------------
    def _changed(self, change: Change) -> None:
        if change.new is None:
            self._withdraw(change.key[1])
            return
        if "deletionTimestamp" in change.new["metadata"]:
            self.server.loop.call_soon(self._clean_up, change.key[1])
            return
        if change.old is None or change.old.get("spec") != change.new.get("spec"):
            self._serve(change.new)

    def _serve(self, crd: Obj) -> None:
        name = crd["metadata"]["name"]
        before = self._served.pop(name, [])
        for kind in before:
            self.server.kinds.remove(kind)
        kinds = from_crd(crd)
        for kind in kinds:
            self.server.kinds.add(kind)
        self._served[name] = kinds

    def _withdraw(self, name: str) -> None:
        for kind in self._served.pop(name, []):
            self.server.kinds.remove(kind)
            self.server.watches.close_table(kind.table)

    def _clean_up(self, name: str) -> None:
        """Delete the objects of a CRD that is going; when the last is gone, let it go."""
        server = self.server
        crd = server.store.get(TABLE, ("", name))
        if crd is None or CLEANUP not in (crd["metadata"].get("finalizers") or []):
            return
        kinds = self._served.get(name) or []
        if kinds:
            resource = kinds[0].resource
            for obj in list(server.store.values(kinds[0].table)):
                meta = obj["metadata"]
                if "deletionTimestamp" not in meta:
                    path = resource.path(meta.get("namespace"), meta["name"])
                    server.handle(Request("DELETE", path, user=_SYSTEM))
            if next(iter(server.store.values(kinds[0].table)), None) is not None:
                self._wait(name, kinds[0])
                return
        path = f"/apis/{TABLE[0]}/v1/{TABLE[1]}/{name}"
        rest = [finalizer for finalizer in dig(crd, "metadata", "finalizers") if finalizer != CLEANUP]
        patch = {"metadata": {"finalizers": rest or None}}
        headers = {"content-type": "application/merge-patch+json"}
        server.handle(Request("PATCH", path, headers=headers, body=patch, user=_SYSTEM))

    def _wait(self, name: str, kind: Kind) -> None:
        """Look again when an object that finalizers held is gone."""

        def gone(change: Change) -> None:
            if change.new is None:
                stop()
                self.server.loop.call_soon(self._clean_up, name)

        stop = self.server.store.listen(kind.table, gone)


def _condition(kind: str, reason: str, message: str, now: str) -> Obj:
    return {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
