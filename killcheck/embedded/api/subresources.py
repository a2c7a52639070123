"""Subresources other than an object's own status: where each is sent, and the small ones themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from killcheck.embedded.api import podexec, podlogs, portforward, proxying, status
from killcheck.embedded.api.body import read_object
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.decoding import check_name, check_namespace, decode_object
from killcheck.embedded.api.eviction import Evictor
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.managedfields import Manager
from killcheck.embedded.api.scale import Scaler
from killcheck.kube.objects import Obj, condition, copy, dig, format_time

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core
    from killcheck.embedded.api.deletion import Deleter
    from killcheck.embedded.api.patching import Patcher
    from killcheck.embedded.api.reads import Reader
    from killcheck.embedded.api.writes import Writer

__all__ = ["Subresources"]

_PODS = ("", "pods")
_CREATED: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Subresources:
    """Answers calls on subresources and on resources that are only questions. Every method raises StatusError."""

    def __init__(self, server: Core, reader: Reader, writer: Writer, patcher: Patcher, deleter: Deleter) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer
        self.patcher = patcher
        self.deleter = deleter
        self.store = server.store
        self.scaler = Scaler(server, writer, patcher)
        self.evictor = Evictor(server, deleter)
        self._routes: dict[str, Callable[[Call], Response]] = {
            "status": self._status,
            "scale": self.scaler.handle,
            "eviction": self.evictor.handle,
            "binding": self._binding,
            "token": self._token,
            "finalize": self._finalize,
            "log": partial(podlogs.log, server),
            "exec": partial(podexec.exec_in, server),
            "attach": partial(podexec.attach_to, server),
            "portforward": partial(portforward.forward, server),
            "proxy": partial(proxying.proxy, server),
            "approval": self._approval,
            "ephemeralcontainers": self._part,
            "resize": self._part,
        }

    def handle(self, call: Call) -> Response:
        """A call on a subresource that the kind has."""
        return self._routes[call.subresource](call)

    def _status(self, call: Call) -> Response:
        if call.verb == "get":
            return self.reader.get(call)
        return self.writer.put(call) if call.verb == "update" else self.patcher.patch(call)

    def _approval(self, call: Call) -> Response:
        """certificatesigningrequests/NAME/approval: the status, written by whoever may approve."""
        call.subresource = "status"
        return self._status(call)

    # -- questions -----------------------------------------------------------------------------------------
    def review(self, call: Call) -> Response:
        """POST of a review (or of a Binding, the old way to schedule)."""
        obj = decode_object(call, read_object(call))
        if call.kind.resource.kind == "Binding":
            call.name = str(obj["metadata"].get("name", ""))
            return self._bind(call, obj)
        if call.kind.resource.namespaced:
            check_namespace(call, obj)
        from killcheck.embedded.api import reviews

        server = self.server
        answer = reviews.create(call.kind, obj, call.user, server.authorizer, server.issuer)
        if call.kind.resource.kind == "SelfSubjectRulesReview":
            return Response(201, answer)
        version = call.kind.resource.api_version
        return Response(201, self._with_managers(call, answer, obj, call.kind.schema or "", version))

    def _with_managers(self, call: Call, answer: Obj, asked: Obj, schema: str, api_version: str) -> Obj:
        """What is answered and not kept shows who asked for it, too."""
        if not call.over_wire:
            return answer
        manager = Manager(call.manager, "Update", api_version, call.subresource)
        entries = self.server.managed.of_new(manager, asked, schema)
        return answer | {"metadata": answer["metadata"] | ({"managedFields": entries} if entries else {})}

    def _token(self, call: Call) -> Response:
        """POST serviceaccounts/NAME/token."""
        sent = read_object(call)
        request = decode_object(
            call,
            sent,
            kind_name="TokenRequest",
            api_version="authentication.k8s.io/v1",
            schema="AuthenticationV1TokenRequest",
        )
        self.server.find(call)
        admitted = self.server.admit(call, "CREATE", request, None, dry_run=call.dry_run, subresource="token")
        issued = self.server.issuer.issue(call.namespace, call.name, admitted)
        schema, version = "AuthenticationV1TokenRequest", "authentication.k8s.io/v1"
        given = {key: value for key, value in (request.get("spec") or {}).items() if value is not None}
        given |= {key: value for key, value in (dig(sent.value, "spec", default={}) or {}).items() if value == []}
        spec = {"expirationSeconds": issued["spec"]["expirationSeconds"]} | given
        return Response(201, self._with_managers(call, issued, request | {"spec": spec}, schema, version))

    # -- pods ----------------------------------------------------------------------------------------------
    def _binding(self, call: Call) -> Response:
        binding = decode_object(call, read_object(call), kind_name="Binding", api_version="v1", schema="V1Binding")
        if binding["metadata"].get("name") not in (None, "", call.name):
            raise status.bad_request("name in URL does not match name in Binding object")
        return self._bind(call, binding)

    def _bind(self, call: Call, binding: Obj) -> Response:
        """Assign a pod to a node: ``spec.nodeName`` and the condition PodScheduled. Nobody comes to manage them."""
        self._check_target(binding)
        pod = self.store.get(_PODS, call.key)
        if pod is None:
            raise status.not_found("pods", "", call.name)
        node = str(dig(binding, "target", "name", default=""))
        meta = pod["metadata"]
        self._check_binding(call, pod, binding, node)
        self.server.admit(
            call,
            "CREATE",
            binding,
            None,
            dry_run=call.dry_run,
            subresource="binding",
            kind=self.server.kinds.find("", "v1", "pods"),
        )
        if call.dry_run:
            return Response(201, dict(_CREATED))
        new = copy(pod)
        new["spec"]["nodeName"] = node
        annotations = dig(binding, "metadata", "annotations", default={})
        if annotations:
            new["metadata"]["annotations"] = (meta.get("annotations") or {}) | annotations
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self.server.loop.now()),
        }
        known = condition(new, "PodScheduled")
        if known is None:
            new["status"].setdefault("conditions", []).append(scheduled)
        else:
            known.clear()
            known.update(scheduled)
        self.store.put(_PODS, call.key, new)
        return Response(201, dict(_CREATED))

    def _check_target(self, binding: Obj) -> None:
        """Raises StatusError 500, as what pkg/registry/core/pod/storage does not wrap."""
        kind, name = (dig(binding, "target", field, default="") for field in ("kind", "name"))
        said = []
        if kind not in ("", "Node"):
            said.append(f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"')
        if not name:
            said.append("target.name: Required value")
        if said:
            raise status.StatusError(500, "", said[0] if len(said) == 1 else f"[{', '.join(said)}]")

    def _check_binding(self, call: Call, pod: Obj, binding: Obj, node: str) -> None:
        meta, uid = pod["metadata"], dig(binding, "metadata", "uid", default="")
        problem = ""
        if uid and uid != meta["uid"]:
            problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
        elif "deletionTimestamp" in meta:
            problem = f"pod {call.name} is being deleted, cannot be assigned to a host"
        elif pod["spec"].get("nodeName"):
            problem = f'pod {call.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        elif pod["spec"].get("schedulingGates"):
            problem = f"pod {call.name} has non-empty .spec.schedulingGates"
        if problem:
            raise status.conflict("pods/binding", "", call.name, problem)

    def _part(self, call: Call) -> Response:
        """A pod's ephemeral containers or its resources, written through the pod itself."""
        if call.verb == "get":
            return self.reader.get(call)
        return self.writer.put(call) if call.verb == "update" else self.patcher.patch(call)

    # -- namespaces ----------------------------------------------------------------------------------------
    def _finalize(self, call: Call) -> Response:
        """PUT namespaces/NAME/finalize: the only way to change ``spec.finalizers``."""
        obj = decode_object(call, read_object(call))
        check_name(call, obj)
        old = self.server.find(call)
        version = obj["metadata"].get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise status.conflict("namespaces", "", call.name)
        new = copy(old)
        new["spec"] = {"finalizers": list(dig(obj, "spec", "finalizers", default=[]))}
        if not new["spec"]["finalizers"]:
            del new["spec"]["finalizers"]
        meta = new["metadata"]
        done = "finalizers" not in new["spec"] and not meta.get("finalizers")
        if done and meta.get("deletionTimestamp"):
            self.deleter.remove(call.kind, call.key)
            return Response(200, new)
        return Response(200, self.store.put(call.kind.table, call.key, new) if new != old else old)
