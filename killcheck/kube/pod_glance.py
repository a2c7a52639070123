"""Of a pod's JSON, only what says whether it holds GPUs, and where: the rest of most pods is never read.

What :mod:`killcheck.kube.gpus` comes to ask of a pod has to be here too (``tests/kube`` holds them together).
"""

from __future__ import annotations

from typing import Any, Required, TypedDict, cast

from msgspec.json import Decoder

from killcheck.kube.objects import Obj

__all__ = ["glance"]


class _Metadata(TypedDict, total=False):
    name: Required[str]
    namespace: str
    labels: dict[str, str] | None
    annotations: dict[str, str] | None


class _Container(TypedDict, total=False):
    resources: Any
    restartPolicy: Any


class _Spec(TypedDict, total=False):
    nodeName: Any
    containers: list[_Container] | None
    initContainers: list[_Container] | None
    resources: Any
    resourceClaims: Any


class _Status(TypedDict, total=False):
    resourceClaimStatuses: Any


class _Pod(TypedDict, total=False):
    metadata: Required[_Metadata]
    spec: _Spec
    status: _Status


_decoder = Decoder(_Pod)


def glance(text: bytes) -> Obj:
    """The pod. Raises MsgspecError where it is not as every pod is."""
    return cast(Obj, _decoder.decode(text))
