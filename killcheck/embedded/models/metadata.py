"""Each node's instance metadata, for executors and handlers that really run: at 169.254.169.254, in its cloud's words.

A notice's time is the one that was fixed when it was given. On EC2, pods that are not on their node's network are one
hop away: where the hop limit is 1 (an EC2NodeClass's own default) they get no token, and the request is never answered.

Source: EC2 user guide "Configure the instance metadata options" (hop limit, httpTokens, httpEndpoint); Karpenter's
EC2NodeClass (``spec.metadataOptions``: httpPutResponseHopLimit 1, httpTokens required); EKS' managed node groups: 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from killcheck.clock import Loop
from killcheck.embedded.models.cloud import Cloud
from killcheck.embedded.models.instance import Instance
from killcheck.instances.reclaims import cloud_of
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.standins.application import UNANSWERED, App
from killcheck.standins.azure_metadata import ScheduledEvents
from killcheck.standins.ec2_metadata import Metadata
from killcheck.standins.gce_metadata import Preempted
from killcheck.text import lazy_re

__all__ = ["InstanceMetadata"]

NODE_CLASS = "karpenter.k8s.aws/ec2nodeclass"
_EC2_TYPE = lazy_re.compile(r"[a-z]+[0-9][a-z0-9-]*\.[a-z0-9-]+")
#: The hop limit of machines that no EC2NodeClass describes.
HOPS = 2

Desk = Metadata | ScheduledEvents | Preempted


class InstanceMetadata(Struct):
    """The metadata of every machine; :meth:`of` is what a pod finds."""

    cloud: Cloud
    kube: Kube
    loop: Loop
    #: What was asked, by pod: (path, status), 0 where nothing was answered.
    asked: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    _nodes: dict[str, Desk] = field(default_factory=dict)

    def of(self, pod: Obj) -> App | None:
        """What answers a pod; None where its node is no instance, or has its endpoint disabled."""
        try:
            node = self.kube.find(r.NODES, dig(pod, "spec", "nodeName", default=""))
            options = self._options(node) if node else {}
        except KubeError:
            return None
        provider_id = _provider_id(node) if node else ""
        if not provider_id or options.get("httpEndpoint") == "disabled":
            return None
        far = not dig(pod, "spec", "hostNetwork") and int(options.get("httpPutResponseHopLimit", HOPS)) < 2
        self._nodes.setdefault(provider_id, self._desk(provider_id, labels_of(node or {})))
        return self._app(f"{namespace_of(pod)}/{name_of(pod)}", provider_id, options, far=far)

    def _options(self, node: Obj) -> dict[str, Any]:
        name = labels_of(node).get(NODE_CLASS)
        if not name:
            return {}
        found = self.kube.find(self.kube.resource_for("karpenter.k8s.aws/v1", "EC2NodeClass"), name)
        return {"httpPutResponseHopLimit": 1, **dig(found or {}, "spec", "metadataOptions", default={})}

    def _desk(self, provider_id: str, labels: Mapping[str, str]) -> Desk:
        """Tokens are an instance's, good for whoever holds one: one desk a machine."""
        kind = labels.get("node.kubernetes.io/instance-type", "")
        zone = labels.get("topology.kubernetes.io/zone", "")
        name, cloud = provider_id.rpartition("/")[2], cloud_of(provider_id)
        if cloud == "azure":
            return ScheduledEvents(self.loop.now, name, kind, approved=lambda: self.loop.post(self.cloud.approve, name))
        if cloud == "gcp":
            return Preempted(self.loop.now, name, kind, zone)
        return Metadata(self.loop.now, name, kind or Metadata.instance_type, zone or Metadata.zone)

    def _app(self, pod: str, provider_id: str, options: dict[str, Any], *, far: bool) -> App:
        desk = self._nodes[provider_id]
        ec2 = isinstance(desk, Metadata)
        if isinstance(desk, Metadata):
            desk.required = options.get("httpTokens", "required") == "required"
        told = self.asked.setdefault(pod, [])

        def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            """WSGI: answer as the node's machine, and note what was asked; who is too far away gets no token."""
            _show(desk, self.cloud.by_provider_id(provider_id))
            if ec2 and (far or self.cloud.metadata_blocked) and environ["PATH_INFO"] == "/latest/api/token":
                told.append((environ["PATH_INFO"], 0))
                self.cloud.metadata_unheard.append(f"pod {pod}")
                environ[UNANSWERED]()  # the answer dies on its way back
                start_response("504 Too far", [])
                return []
            answer = list(desk(environ, start_response))
            told.append(desk.asked[-1])
            return answer

        return app


def _show(desk: Desk, instance: Instance | None) -> None:
    """As the model cloud has it now."""
    if instance is None:
        return
    notice = instance.notice if instance.metadata_tells else None
    if isinstance(desk, Metadata):
        desk.instance_type, desk.zone = instance.type.name, instance.zone
        desk.goes, desk.rebalance = notice, instance.rebalance
    elif notice is not None:
        desk.interrupt_at(notice)
    else:
        desk.clear()


def _provider_id(node: Obj) -> str | None:
    """A Node's machine; one that manifests bring without an id is EC2's where its type is named as EC2's are."""
    told = str(dig(node, "spec", "providerID", default=""))
    if told:
        return told if cloud_of(told) else None
    kind = labels_of(node).get("node.kubernetes.io/instance-type", "")
    made = hashlib.sha256(name_of(node).encode()).hexdigest()[:17]
    return f"aws:///{Metadata.zone}/i-{made}" if _EC2_TYPE.fullmatch(kind) else None
