"""POST pods/NAME/eviction: what a disruption budget allows.

Source: pkg/registry/core/pod/storage/eviction.go; recordings 23, 23b and 23c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from killcheck.embedded.api import status
from killcheck.embedded.api.body import read_object
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.decoding import decode_object
from killcheck.embedded.api.deletion import DeleteOptions, check_propagation, options_from
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.status import StatusError
from killcheck.kube.objects import Obj, condition, copy, dig, format_time
from killcheck.kube.selectors import from_match_labels

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core
    from killcheck.embedded.api.deletion import Deleter

__all__ = ["Evictor"]

_PDBS = ("policy", "poddisruptionbudgets")
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_SUCCESS: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
#: Evictions that the disruption controller has not confirmed yet, at most.
MAX_DISRUPTED = 2000


class Evictor:
    """Evicts pods. Raises StatusError: 429 where a budget refuses, 500 where two match."""

    def __init__(self, server: Core, deleter: Deleter) -> None:
        self.server = server
        self.deleter = deleter
        self.store = server.store

    def handle(self, call: Call) -> Response:
        """Answer a call on the eviction subresource."""
        eviction = decode_object(
            call,
            read_object(call),
            kind_name="Eviction",
            api_version="policy/v1",
            schema="V1Eviction",
            former="policy/v1beta1",  # of kubectl 1.20
        )
        if eviction["metadata"].get("name") != call.name:
            raise status.bad_request("name in URL does not match name in Eviction object")
        options = options_from(eviction.get("deleteOptions") or {}, call, checked=False)
        pod = self.server.find(call)
        self.server.admit(call, "CREATE", eviction, None, dry_run=options.dry_run, subresource="eviction")
        if not _ignores_budgets(pod):
            self._spend(call, pod, options)
        self._evict(call, pod, options)
        return Response(201, dict(_SUCCESS))

    def _spend(self, call: Call, pod: Obj, options: DeleteOptions) -> None:
        """Take the eviction from the pod's budget, if it has one; raises where that is spent."""
        budgets = [pdb for pdb in self.store.values(_PDBS, call.namespace) if _covers(pdb, pod)]
        if len(budgets) > 1:
            raise StatusError(500, "", _TWO_BUDGETS)
        if not budgets:
            return
        pdb = budgets[0]
        if dig(condition(pod, "Ready"), "status") != "True" and _unhealthy_may_go(pdb):
            return
        self._check(pdb)
        if not options.dry_run:
            self.store.put(_PDBS, (call.namespace, pdb["metadata"]["name"]), self._decremented(pdb, call.name))

    def _check(self, pdb: Obj) -> None:
        meta, state = pdb["metadata"], pdb.get("status") or {}
        name = meta["name"]
        if int(state.get("observedGeneration", 0)) < int(meta.get("generation", 0)):
            raise self._refused(f"The disruption budget {name} is still being processed by the server.", 10)
        allowed = int(state.get("disruptionsAllowed", 0))
        if allowed < 0:
            raise status.forbidden("poddisruptionbudget", "policy", name, "pdb disruptions allowed is negative")
        if len(state.get("disruptedPods") or {}) > MAX_DISRUPTED:
            raise status.forbidden(
                "poddisruptionbudget",
                "policy",
                name,
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            )
        if allowed == 0:
            raise self._refused(_why(pdb, state))

    def _refused(self, why: str, retry_after_s: int | None = None) -> StatusError:
        causes = [{"reason": "DisruptionBudget", "message": why}]
        return status.too_many_requests(_REFUSED, retry_after_s=retry_after_s, causes=causes)

    def _decremented(self, pdb: Obj, pod: str) -> Obj:
        now = format_time(self.server.loop.now())
        new = copy(pdb)
        state = new["status"]
        state["disruptionsAllowed"] -= 1
        state["disruptedPods"] = (state.get("disruptedPods") or {}) | {pod: now}
        known = condition(new, "DisruptionAllowed")
        if state["disruptionsAllowed"] == 0 and known is not None and known["status"] != "False":
            known |= {
                "status": "False",
                "lastTransitionTime": now,
                "reason": "InsufficientPods",
                "message": "",
                "observedGeneration": state.get("observedGeneration", 0),
            }
        return new

    def _evict(self, call: Call, pod: Obj, options: DeleteOptions) -> None:
        """Mark the pod as a disruption's target and delete it."""
        uid, version = options.uid, options.resource_version
        meta = pod["metadata"]
        if uid and uid != meta["uid"]:
            raise status.conflict(
                "Pod",
                "",
                call.name,
                f"the UID in the precondition ({uid}) does not match the UID in record "
                f"({meta['uid']}). The object might have been deleted and then recreated",
            )
        if version and version != meta["resourceVersion"]:
            raise status.conflict(
                "Pod",
                "",
                call.name,
                f"the ResourceVersion in the precondition ({version}) does not match the "
                f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified",
            )
        if not options.dry_run:
            marked = self._marked(pod)
            if marked != pod:
                pod = self.store.put(call.kind.table, call.key, marked)
            options.resource_version = ""
        check_propagation(options.propagation, options.orphan)
        self.deleter.delete_object(call, pod, options)

    def _marked(self, pod: Obj) -> Obj:
        new = copy(pod)
        conditions = new.setdefault("status", {}).setdefault("conditions", [])
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self.server.loop.now()),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        known = condition(new, "DisruptionTarget")
        if known is None:
            conditions.append(target)
        elif (known.get("status"), known.get("reason")) != ("True", "EvictionByEvictionAPI"):
            known.update(target)  # whose observedGeneration stays with whoever set it
        return new


def _ignores_budgets(pod: Obj) -> bool:
    """A pod that has ended, has not started or is going already disrupts nothing."""
    phase = dig(pod, "status", "phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _covers(pdb: Obj, pod: Obj) -> bool:
    labels = pod["metadata"].get("labels")
    return bool(labels) and from_match_labels(dig(pdb, "spec", "selector")).matches(labels)


def _unhealthy_may_go(pdb: Obj) -> bool:
    if dig(pdb, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    state = pdb.get("status") or {}
    desired = int(state.get("desiredHealthy", 0))
    return desired > 0 and int(state.get("currentHealthy", 0)) >= desired


def _why(pdb: Obj, state: Obj) -> str:
    name = pdb["metadata"]["name"]
    known = condition(pdb, "DisruptionAllowed") or {}
    message = known.get("message") or ""
    told = known.get("status") == "False" and message
    if told and known.get("reason") == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    current, desired = int(state.get("currentHealthy", 0)), int(state.get("desiredHealthy", 0))
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if told:
        reason = known.get("reason")
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"
