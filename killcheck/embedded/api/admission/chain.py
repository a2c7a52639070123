"""The admission chain: the plugins that are on by default, in Kubernetes' order, mutation before validation.

Source: pkg/kubeapiserver/options/plugins.go.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from killcheck.clock import Loop
from killcheck.embedded.api.admission.inuse import StorageObjectInUseProtection
from killcheck.embedded.api.admission.limitranger import LimitRanger
from killcheck.embedded.api.admission.mutatingadmissionpolicy import BINDINGS as MUTATING_BINDINGS
from killcheck.embedded.api.admission.mutatingadmissionpolicy import MutatingAdmissionPolicy
from killcheck.embedded.api.admission.namespace_lifecycle import NamespaceLifecycle
from killcheck.embedded.api.admission.nodetaint import TaintNodes
from killcheck.embedded.api.admission.podresize import PodResize
from killcheck.embedded.api.admission.podsecurity import TEMPLATES, PodSecurity
from killcheck.embedded.api.admission.priority import CLASSES, Priority
from killcheck.embedded.api.admission.rbac_escalation import BINDINGS, ROLES, RbacEscalation
from killcheck.embedded.api.admission.request import AdmissionRequest, Mutator, Validator
from killcheck.embedded.api.admission.resourcequota import QUOTAS, ResourceQuota
from killcheck.embedded.api.admission.runtimeclass import RuntimeClass
from killcheck.embedded.api.admission.serviceaccount import ServiceAccount
from killcheck.embedded.api.admission.tolerations import DefaultTolerationSeconds
from killcheck.embedded.api.admission.validatingadmissionpolicy import BINDINGS as POLICY_BINDINGS
from killcheck.embedded.api.admission.validatingadmissionpolicy import ValidatingAdmissionPolicy
from killcheck.embedded.api.admission.volumeresize import VolumeResize
from killcheck.embedded.api.admission.webhook_calls import WebhookCaller
from killcheck.embedded.api.admission.webhooks import MUTATING, VALIDATING, Webhooks
from killcheck.embedded.api.rbac import GROUP, Authorizer
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig
from killcheck.text.values import replace

__all__ = ["AdmissionRequest", "Chain"]

PODS = ("", "pods")
CLAIMS = ("", "persistentvolumeclaims")
VOLUMES = ("", "persistentvolumes")
NAMESPACES = ("", "namespaces")
NODES = ("", "nodes")

#: Characters that a generated name has more than its ``generateName``.
SUFFIX_LENGTH = 5

Table = tuple[str, str]


class Chain:
    """Admission of one cluster.

    ``authorizer`` answers the escalation check of roles and bindings, ``rng`` makes the names of token volumes;
    share the cluster's own. ``caller`` reaches webhooks: put models of webhook servers in ``caller.backends``.
    """

    def __init__(
        self,
        store: Store,
        loop: Loop,
        authorizer: Authorizer | None = None,
        rng: random.Random | None = None,
    ) -> None:
        authorizer = authorizer or Authorizer(store)
        rng = rng or random.Random(0)  # noqa: S311 - names, not secrets
        self.store = store
        self.caller = WebhookCaller(store)
        self.webhooks = Webhooks(store, self.caller, rng)
        classes = RuntimeClass(store)
        limits, priority, security = LimitRanger(store), Priority(store), PodSecurity(store)
        self._lifecycle = NamespaceLifecycle(store)
        self._mutators: dict[Table, tuple[Mutator, ...]] = {
            PODS: (limits, ServiceAccount(store, loop, rng), priority, DefaultTolerationSeconds(), classes),
            NODES: (TaintNodes(),),
        } | dict.fromkeys((CLAIMS, VOLUMES), (StorageObjectInUseProtection(),))
        self._validators: dict[Table, tuple[Validator, ...]] = {
            PODS: (limits, PodResize(store), classes, security),
            CLAIMS: (limits, VolumeResize(store)),
            NAMESPACES: (security,),
            CLASSES: (priority,),
        }
        self._validators |= dict.fromkeys(TEMPLATES, (security,))
        self._grants = RbacEscalation(authorizer)
        #: Webhooks of what is modelled beside the cluster, by the model's name; called after the built-in mutators.
        self.modelled: dict[str, Mutator] = {}
        self._mutations = MutatingAdmissionPolicy(store, loop)
        self._policies = ValidatingAdmissionPolicy(store)
        self._quota = ResourceQuota(store, loop)

    def admit(
        self,
        request: AdmissionRequest,
        between: Callable[[Obj], None] | None = None,
    ) -> tuple[Obj, list[str]]:
        """Run both halves: the object as it is to be stored, and what the client is warned of.

        ``request.obj`` must be the caller's own: it is edited in place, and is what comes back. ``between`` is
        called with it between the halves (the real server validates the object there). For a DELETE the object is
        ``request.old``. Raises StatusError.
        """
        warnings = self.mutate(request)
        if request.resource[0] == GROUP and request.resource[1] in ROLES | BINDINGS:
            self._grants.validate(request)
        if between is not None and request.obj is not None:
            between(request.obj)
        warnings += self.validate(request)
        return request.obj if request.obj is not None else request.old or {}, warnings

    def mutate(self, request: AdmissionRequest) -> list[str]:
        """The first half: edits ``request.obj``; answers warnings."""
        warnings: list[str] = []
        request = _unnamed(request)
        self._lifecycle.mutate(request)
        mutators = self._mutators.get(request.resource, ())
        for mutator in mutators:
            mutator.mutate(request)
        for model in self.modelled.values():
            model.mutate(request)
        policies, webhooks = _any(self.store, MUTATING_BINDINGS), _any(self.store, MUTATING)
        changed = policies and self._mutations.mutate(request)
        if (webhooks and self.webhooks.mutate(request, warnings)) or changed:
            for mutator in mutators:
                mutator.mutate(request)
            if policies:
                self._mutations.mutate(request, again=True)
            if webhooks:
                self.webhooks.mutate(request, warnings, again=True)
        return warnings

    def validate(self, request: AdmissionRequest) -> list[str]:
        """The second half, on the object as mutation and naming left it; answers warnings."""
        warnings: list[str] = []
        for validator in self._validators.get(request.resource, ()):
            warnings += validator.validate(request)
        if _any(self.store, POLICY_BINDINGS):
            warnings += self._policies.validate(request)
        if _any(self.store, VALIDATING):
            warnings += self.webhooks.validate(request)
        if request.operation == "CREATE" and _any(self.store, QUOTAS):
            warnings += self._quota.validate(request)
        return warnings


def _unnamed(request: AdmissionRequest) -> AdmissionRequest:
    """The request as mutation sees it: a name made from ``generateName`` has not been made yet.

    So what refuses there speaks of ``pods "gpu-off-drill-"``, and what refuses later of ``pods "gpu-off-drill-gf697"``
    (recordings 11 and 12).
    """
    base = dig(request.obj, "metadata", "generateName", default="")
    if request.operation != "CREATE" or not base or request.name[:-SUFFIX_LENGTH] != base:
        return request
    return replace(request, name=base)


def _any(store: Store, table: Table) -> bool:
    """Whether a table holds anything: most writes meet no webhook, no policy and no quota."""
    return store.holds(table)
