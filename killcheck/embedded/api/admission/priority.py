"""``priorityClassName`` becomes ``priority`` and ``preemptionPolicy``.

Source: plugin/pkg/admission/priority/admission.go.
"""

from __future__ import annotations

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, name_of

__all__ = ["Priority"]

CLASSES = ("scheduling.k8s.io", "priorityclasses")
PODS = ("", "pods")


class Priority:
    """Priority admission of pods and PriorityClasses."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def mutate(self, request: AdmissionRequest) -> None:
        """Give a new pod its priority, or an updated one what it had."""
        if request.resource != PODS or request.subresource or request.obj is None:
            return
        spec = request.obj.setdefault("spec", {})
        if request.operation == "UPDATE":
            old: Obj = (request.old or {}).get("spec") or {}
            for key in ("priority", "preemptionPolicy"):
                if spec.get(key) is None and old.get(key) is not None:
                    spec[key] = old[key]
        elif request.operation == "CREATE":
            self._resolve(request, spec)

    def validate(self, request: AdmissionRequest) -> list[str]:
        """There is one default class at most."""
        if request.operation != "DELETE" and (request.obj or {}).get("globalDefault"):
            default = self._default()
            if default and (request.operation == "CREATE" or name_of(default) != name_of(request.obj or {})):
                raise request.forbidden(
                    f"PriorityClass {name_of(default)} is already marked as default. Only one default can exist"
                )
        return []

    def _resolve(self, request: AdmissionRequest, spec: Obj) -> None:
        chosen = self._class(request, spec)
        value = int(chosen.get("value") or 0)
        if spec.get("priority") not in (None, value):
            raise request.forbidden(
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority "
                f"admission controller computed {value} from the given PriorityClass name"
            )
        spec["priority"] = value
        policy = chosen.get("preemptionPolicy")
        if policy and spec.get("preemptionPolicy") not in (None, policy):
            raise request.forbidden(
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
        if policy:
            spec["preemptionPolicy"] = policy

    def _class(self, request: AdmissionRequest, spec: Obj) -> Obj:
        name = spec.get("priorityClassName")
        if name:
            chosen = self.store.get(CLASSES, ("", name))
            if chosen is None:
                raise request.forbidden(f"no PriorityClass with name {name} was found")
            return chosen
        default = self._default()
        if default:
            spec["priorityClassName"] = name_of(default)
            return default
        return {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}

    def _default(self) -> Obj | None:
        """The lowest class marked as default."""
        marked = [found for found in self.store.values(CLASSES) if found.get("globalDefault")]
        return min(marked, key=lambda found: int(found.get("value") or 0), default=None)
