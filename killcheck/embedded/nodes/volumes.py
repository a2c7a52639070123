"""What a pod's volumes hold when it starts.

Source: pkg/volume/{configmap,secret,projected,downwardapi} of Kubernetes v1.36; recording 33 (a missing ConfigMap:
``MountVolume.SetUp failed for volume "s" : configmap "kill-script" not found``).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from killcheck.embedded.nodes.environment import ConfigError, Context, field_value
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, KubeError
from killcheck.kube.objects import Obj, dig, name_of, uid_of
from killcheck.kube.quantities import parse

__all__ = ["File", "Mount", "MountError", "Volume", "mounts_of", "volumes_of"]

DEFAULT_MODE = 0o644
TOKEN_MODE = 0o644
TOKEN_EXPIRATION_S = 3600


class MountError(Exception):
    """FailedMount: the message is the kubelet's."""


class File(Struct, frozen=True):
    """One file of a volume."""

    content: bytes
    mode: int = DEFAULT_MODE


class Volume(Struct):
    """``kind`` is the source's name in the manifest; ``files`` by path. What begins empty (also a hostPath: it is never
    this host's) is ``writable``. ``size_bytes``: the most it may hold; 0: what the run has for all of them. ``kept``:
    by what name it outlives its pod; empty: it does not.
    """

    name: str
    kind: str
    files: dict[str, File] = field(default_factory=dict)
    writable: bool = False
    size_bytes: int = 0
    kept: str = ""


class Mount(Struct, frozen=True):
    """A volume (or a file or folder in it: ``sub_path``) at a path of a container.

    ``full``: a copy of what is in it, on a disk that has no room left.
    """

    volume: Volume
    path: str
    sub_path: str = ""
    read_only: bool = False
    full: bool = False


def volumes_of(context: Context) -> dict[str, Volume]:
    """Every volume of a pod, by name. Raises MountError for the first that cannot be set up."""
    return {entry["name"]: _volume(entry, context) for entry in context.pod["spec"].get("volumes") or ()}


def mounts_of(container: Obj, volumes: dict[str, Volume]) -> list[Mount]:
    """Where a container has them."""
    return [
        Mount(volumes[entry["name"]], entry["mountPath"], entry.get("subPath", ""), bool(entry.get("readOnly")))
        for entry in container.get("volumeMounts") or ()
        if entry["name"] in volumes
    ]


def _volume(entry: Obj, context: Context) -> Volume:
    name = entry["name"]
    kind = next((key for key in entry if key != "name"), "emptyDir")
    source = entry.get(kind) or {}
    make = _SOURCES.get(kind)
    if kind == "persistentVolumeClaim":
        claim = str(source.get("claimName", "")).replace("/", "_")
        return Volume(name, kind, writable=True, kept=f"{context.namespace}.{claim}")
    if make is None:
        return Volume(name, kind, writable=True, size_bytes=_size_limit(source) if kind == "emptyDir" else 0)
    try:
        files = make(source, source, context)
    except _SetUpError as error:
        raise MountError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error
    return Volume(name, kind, files)


def _size_limit(source: Obj) -> int:
    """What an emptyDir may hold, in bytes; 0: as much as there is."""
    try:
        return max(0, int(parse(str(source.get("sizeLimit") or 0))))
    except ValueError:
        return 0


class _SetUpError(Exception):
    """Why one volume could not be filled."""


def _config_map(source: Obj, whole: Obj, context: Context) -> dict[str, File]:
    name = source.get("name", "")
    found = context.kube.find(r.CONFIGMAPS, name, context.namespace)
    if found is None:
        if source.get("optional"):
            return {}
        raise _SetUpError(f'configmap "{name}" not found')
    data = {key: text.encode() for key, text in (found.get("data") or {}).items()}
    data |= {key: _decoded(text) for key, text in (found.get("binaryData") or {}).items()}
    return _chosen(data, source, whole, "configmap")


def _secret(source: Obj, whole: Obj, context: Context) -> dict[str, File]:
    name = source.get("secretName") or source.get("name", "")
    found = context.kube.find(r.SECRETS, name, context.namespace)
    if found is None:
        if source.get("optional"):
            return {}
        raise _SetUpError(f'secret "{name}" not found')
    data = {key: _decoded(text) for key, text in (found.get("data") or {}).items()}
    return _chosen(data, source, whole, "secret")


def _chosen(data: dict[str, bytes], source: Obj, whole: Obj, kind: str) -> dict[str, File]:
    default = int(whole.get("defaultMode") or DEFAULT_MODE)
    items = source.get("items")
    if not items:
        return {key: File(value, default) for key, value in data.items()}
    files: dict[str, File] = {}
    for item in items:
        if item["key"] not in data:
            if source.get("optional"):
                continue
            raise _SetUpError(
                f"{kind} references non-existent config key: {item['key']}"
                if kind == "configmap"
                else f"references non-existent secret key: {item['key']}"
            )
        files[item["path"]] = File(data[item["key"]], int(item.get("mode") or default))
    return files


def _downward(source: Obj, whole: Obj, context: Context) -> dict[str, File]:
    default = int(whole.get("defaultMode") or DEFAULT_MODE)
    files: dict[str, File] = {}
    for item in source.get("items") or ():
        if "fieldRef" not in item:
            continue
        try:
            text = field_value(context, item["fieldRef"]["fieldPath"])
        except ConfigError as error:
            raise _SetUpError(str(error)) from error
        files[item["path"]] = File(text.encode(), int(item.get("mode") or default))
    return files


def _token(source: Obj, _whole: Obj, context: Context) -> dict[str, File]:
    pod = context.pod
    spec: dict[str, Any] = {
        "expirationSeconds": source.get("expirationSeconds") or TOKEN_EXPIRATION_S,
        "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": name_of(pod), "uid": uid_of(pod)},
    }
    if source.get("audience"):
        spec["audiences"] = [source["audience"]]
    account = pod["spec"].get("serviceAccountName") or "default"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    try:
        answer = context.kube.create(r.SERVICEACCOUNTS, request, context.namespace, name=account, subresource="token")
    except ApiError as error:
        raise _SetUpError(f"failed to fetch token: {error.message}") from error
    except KubeError as error:
        raise _SetUpError(f"failed to fetch token: {error}") from error
    return {source["path"]: File(str(dig(answer, "status", "token", default="")).encode(), TOKEN_MODE)}


def _projected(source: Obj, _whole: Obj, context: Context) -> dict[str, File]:
    files: dict[str, File] = {}
    for part in source.get("sources") or ():
        for kind, make in _SOURCES.items():
            if kind in part and kind != "projected":
                files |= make(part[kind] or {}, source, context)
    return files


_SOURCES: dict[str, Callable[[Obj, Obj, Context], dict[str, File]]] = {
    "configMap": _config_map,
    "secret": _secret,
    "downwardAPI": _downward,
    "serviceAccountToken": _token,
    "projected": _projected,
}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (ValueError, binascii.Error):
        return b""
