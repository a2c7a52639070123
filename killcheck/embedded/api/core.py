"""What every verb of the API server works with: the store, who may what, admission, the clock, the kubelets.

What may *not* live here: what a verb does. Each verb knows this and the verbs that it is made of, never its router.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from killcheck.clock import Loop
from killcheck.embedded.api import status
from killcheck.embedded.api.addresses import Addresses
from killcheck.embedded.api.admission.request import AdmissionRequest, Operation
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.conversion import converted
from killcheck.embedded.api.http import Request, Response, User
from killcheck.embedded.api.kinds import Kind, Registry
from killcheck.embedded.api.kubelet_endpoint import KubeletEndpoint
from killcheck.embedded.api.managedfields import ManagedFields
from killcheck.embedded.api.nodeports import NodePorts
from killcheck.embedded.api.rbac import Attributes, forbidden
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.watch import Watches
from killcheck.embedded.limits import Limits
from killcheck.kube.objects import Obj
from killcheck.kube.releases import DEFAULT, Release

__all__ = ["MASTERS", "Config", "Core", "new_uid"]

#: Who may everything, whatever any rule says.
MASTERS = "system:masters"


class Config(Struct, frozen=True):
    """What an API server is given (genericapiserver.Config).

    ``authenticator``, ``authorizer`` and ``admission`` have the methods of ``authn.Authenticator``,
    ``rbac.Authorizer`` and ``admission.Chain``; ``issuer`` (``tokens.Issuer``) answers TokenRequests and defaults to
    the authenticator's. ``rng`` makes uids and generated names.
    """

    authenticator: Any
    authorizer: Any
    admission: Any
    rng: random.Random
    release: Release = DEFAULT
    issuer: Any = None


class Core(ABC):
    """An API server over a :class:`Store`, as its verbs see it."""

    def __init__(self, store: Store, loop: Loop, config: Config) -> None:
        self.store = store
        self.loop = loop
        self.authenticator = config.authenticator
        self.authorizer = config.authorizer
        self.admission = config.admission
        self.rng = config.rng
        self.release = config.release
        self.version = config.release.version
        self.issuer: Any = config.issuer or getattr(config.authenticator, "tokens", None)
        self.kinds = Registry(config.release)
        #: Answers of ours alone, to whoever is no part of this process.
        self.limits = Limits(loop, lambda: store.revision)
        self.kubelets: dict[str, KubeletEndpoint] = {}
        #: Which of ``scheduler`` and ``controller-manager`` do not run now.
        self.down: Callable[[], frozenset[str]] = frozenset
        self.watches = Watches(store, loop)
        self.managed = ManagedFields(loop)
        self.addresses = Addresses(store)
        self.node_ports = NodePorts(store)

    @abstractmethod
    def handle(self, request: Request) -> Response:
        """Answer a request; failures come back as Status bodies, never as exceptions."""

    def find(self, call: Call) -> Obj:
        """The object that a call names, in the version asked for. Raises StatusError 404."""
        obj = self.store.get(call.kind.table, call.key)
        if obj is None:
            resource = call.kind.resource
            raise status.not_found(resource.plural, resource.group, call.name)
        return converted(call.kind, obj)

    def new_uid(self) -> str:
        """A fresh uid from the seeded generator."""
        return new_uid(self.rng.getrandbits(128))

    def admit(
        self,
        call: Call,
        operation: Operation,
        obj: Obj | None,
        old: Obj | None,
        *,
        dry_run: bool,
        subresource: str = "",
        kind: Kind | None = None,
        between: Callable[[Obj], None] | None = None,
        named: bool = True,
    ) -> Any:
        """Run admission for a write and collect its warnings; returns the object as admission left it.

        ``named``: whether admission is told the name; of a collection's objects it is not.

        ``between`` is called with the object after mutation and before validation.
        """
        request = AdmissionRequest(
            operation=operation,
            kind=kind or call.kind,
            subresource=subresource,
            namespace=call.namespace,
            name=call.name if named else "",
            obj=obj,
            old=old,
            user=call.user,
            dry_run=dry_run,
            whole=call.whole,
            authorizer=self.authorizer,
        )
        admitted, warnings = self.admission.admit(request, between)
        for text in warnings:
            call.warn(text)
        return admitted

    def authorize(self, user: User, attributes: Attributes) -> None:
        """Raise StatusError 403 where ``user`` may not."""
        if MASTERS in user.groups:
            return
        decision = self.authorizer.decide(user, attributes)
        if not decision.allowed:
            raise forbidden(user, attributes, decision.reason)

    def authorize_create(self, call: Call) -> None:
        """Whoever creates by PUT or by apply must be allowed to create, too."""
        resource = call.kind.resource
        self.authorize(call.user, Attributes("create", resource.group, resource.plural, "", call.name, call.namespace))

    def authorize_connect(self, call: Call) -> None:
        """Whoever connects must be allowed to create the subresource, also by GET, as WebSockets begin.

        pkg/registry/core/pod/rest/authorize.go (AuthorizePodWebsocketUpgradeCreatePermission). Raises StatusError 403.
        """
        if MASTERS in call.user.groups or call.verb == "create":
            return
        if not self.release.on("AuthorizePodWebsocketUpgradeCreatePermission"):
            return
        resource = call.kind.resource
        decision = self.authorizer.decide(
            call.user,
            Attributes("create", resource.group, resource.plural, call.subresource, call.name, call.namespace),
        )
        if not decision.allowed:
            raise StatusError(
                403,
                "Forbidden",
                f'{resource.plural} "{call.name}" is forbidden: {decision.reason}',
                details={"name": call.name, "kind": resource.plural},
            )

    def kubelet_of(self, pod: Obj) -> KubeletEndpoint:
        """Who runs a pod. Raises StatusError 400, 404 or 500."""
        node = str(pod["spec"].get("nodeName") or "")
        if not node:
            raise status.bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
        kubelet = self.kubelets.get(node)
        if kubelet is not None:
            return kubelet
        if self.store.get(("", "nodes"), ("", node)) is None:
            raise status.not_found("pods", "", node)
        raise StatusError(500, "", f"error dialing backend: dial tcp: lookup {node}: no such host")


def new_uid(bits: int) -> str:
    """A version 4 UUID from 128 random bits."""
    bits = bits & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62  # the version, and RFC 9562's variant
    digits = f"{bits:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
