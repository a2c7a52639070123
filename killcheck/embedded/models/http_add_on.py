"""KEDA's HTTP add-on: an HTTPScaledObject becomes a ScaledObject of the same name with an external trigger.

Semantics of kedacore/http-add-on operator/controllers/http (replicas.min and max, scaledownPeriod as the cooldown,
300 s by default). Requests in flight are modelled as for every ScaledObject: ``killcheck.dev/trigger-value``.
"""

from __future__ import annotations

from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict
from killcheck.kube.objects import annotations_of, dig, name_of, namespace_of, uid_of

__all__ = ["HttpAddOn"]

#: What every trigger of a ScaledObject reads here.
VALUE = "killcheck.dev/trigger-value"
#: scaledownPeriod where none is given, seconds.
SCALEDOWN_S = 300


class HttpAddOn(Controller):
    """keda-http-add-on-operator."""

    name: ClassVar[str] = "keda-http-add-on-operator"

    def setup(self) -> None:
        """Follow HTTPScaledObjects."""
        self.declared = self.follow(r.HTTPSCALEDOBJECTS, optional=True)

    def reconcile(self, key: tuple[str, str]) -> None:
        """Make the ScaledObject of one HTTPScaledObject."""
        declared = self.declared.get(key[1], key[0])
        if declared is None:
            return
        spec = declared.get("spec") or {}
        ref = spec.get("scaleTargetRef") or {}
        notes = {VALUE: annotations_of(declared)[VALUE]} if VALUE in annotations_of(declared) else {}
        made = {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": {
                "name": name_of(declared),
                "namespace": namespace_of(declared),
                "annotations": notes,
                "ownerReferences": [
                    {
                        "apiVersion": declared["apiVersion"],
                        "kind": declared["kind"],
                        "name": name_of(declared),
                        "uid": uid_of(declared),
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "scaleTargetRef": {key: ref[key] for key in ("apiVersion", "kind", "name") if key in ref},
                "minReplicaCount": int(dig(spec, "replicas", "min", default=0)),
                "maxReplicaCount": int(dig(spec, "replicas", "max", default=100)),
                "cooldownPeriod": int(spec.get("scaledownPeriod", SCALEDOWN_S)),
                "pollingInterval": 15,
                "triggers": [
                    {
                        "type": "external-push",
                        "metadata": {
                            "httpScaledObject": name_of(declared),
                            "scalerAddress": "keda-add-ons-http-external-scaler.keda:9090",
                        },
                    }
                ],
            },
        }
        try:
            self.kube.create(r.SCALEDOBJECTS, made, namespace_of(declared))
        except Conflict:
            body = {"metadata": {"annotations": notes}, "spec": made["spec"]}
            self.kube.patch(r.SCALEDOBJECTS, name_of(declared), body, namespace_of(declared))
