"""Volumes of pods.

Source: ``ValidateVolumes`` in pkg/apis/core/validation/validation.go. Of a volume's source, what kill paths mount is
looked into: secrets, config maps, projections, host paths, claims; sources of other kinds are only counted.
"""

from __future__ import annotations

from killcheck.embedded.api.validation import names
from killcheck.embedded.api.validation.fields import Causes, at, duplicate, forbidden, invalid, not_supported, required
from killcheck.kube.objects import Obj
from killcheck.kube.quantities import parse

__all__ = ["descending_path", "host_path", "volumes"]

_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_MODE_WORDS = "must be a number between 0 and 0777 (octal), both inclusive"


def volumes(given: list[Obj], path: str) -> tuple[dict[str, Obj], Causes]:
    """The volumes that are all right, by name; and what is wrong with the others."""
    known: dict[str, Obj] = {}
    causes: Causes = []
    for i, volume in enumerate(given):
        here, name = at(path, i), volume.get("name", "")
        wrong = _source(volume, here)
        wrong += names.dns_label_cause(f"{here}.name", name) if name else [required(f"{here}.name")]
        if name in known:
            wrong.append(duplicate(f"{here}.name", name))
        causes += wrong
        if not wrong:
            known[name] = volume
    return known, causes


def _source(volume: Obj, path: str) -> Causes:
    kinds = [kind for kind, source in volume.items() if kind != "name" and source is not None]
    if not kinds:
        return [required(path, "must specify a volume type")]
    causes: Causes = [forbidden(f"{path}.{kind}", "may not specify more than 1 volume type") for kind in kinds[1:]]
    rule = _RULES.get(kinds[0])
    return causes + (rule(volume[kinds[0]], f"{path}.{kinds[0]}") if rule else [])


def _empty_dir(source: Obj, path: str) -> Causes:
    if source.get("sizeLimit") is not None and parse(source["sizeLimit"]) < 0:
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def host_path(source: Obj, path: str) -> Causes:
    """A path on the host, of a pod's volume or a persistent one."""
    causes: Causes = []
    if not source.get("path"):
        causes.append(required(f"{path}.path"))
    elif ".." in source["path"].split("/"):
        causes.append(invalid(f"{path}.path", source["path"], "must not contain '..'"))
    if source.get("type") is not None and source["type"] not in _HOST_PATH_TYPES:
        causes.append(not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES))
    return causes


def _mode(source: Obj, field: str, path: str) -> Causes:
    mode = source.get(field)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(f"{path}.{field}", mode, _MODE_WORDS)]


def _items(source: Obj, path: str) -> Causes:
    causes: Causes = []
    for i, item in enumerate(source.get("items") or []):
        here = f"{path}.items[{i}]"
        if not item.get("key"):
            causes.append(required(f"{here}.key"))
        if not item.get("path"):
            causes.append(required(f"{here}.path"))
        causes += descending_path(item.get("path", ""), f"{here}.path")
        causes += _mode(item, "mode", here)
    return causes


def descending_path(text: str, path: str) -> Causes:
    """A relative path that does not lead upwards."""
    causes: Causes = []
    if text.startswith("/"):
        causes.append(invalid(path, text, "must be a relative path"))
    if ".." in text.split("/"):
        causes.append(invalid(path, text, "must not contain '..'"))
    return causes


def _secret(source: Obj, path: str) -> Causes:
    causes: Causes = [] if source.get("secretName") else [required(f"{path}.secretName")]
    return causes + _mode(source, "defaultMode", path) + _items(source, path)


def _config_map(source: Obj, path: str) -> Causes:
    causes: Causes = [] if source.get("name") else [required(f"{path}.name")]
    return causes + _mode(source, "defaultMode", path) + _items(source, path)


def _claim(source: Obj, path: str) -> Causes:
    return [] if source.get("claimName") else [required(f"{path}.claimName")]


def _nfs(source: Obj, path: str) -> Causes:
    causes: Causes = [required(f"{path}.{field}") for field in ("server", "path") if not source.get(field)]
    if source.get("path") and not source["path"].startswith("/"):
        causes.append(invalid(f"{path}.path", source["path"], "must be an absolute path"))
    return causes


def _projected(source: Obj, path: str) -> Causes:
    causes = _mode(source, "defaultMode", path)
    for i, one in enumerate(source.get("sources") or []):
        here = f"{path}.sources[{i}]"
        kinds = [kind for kind, projection in one.items() if projection is not None]
        causes += [
            forbidden(f"{here}.{kind}", "may not specify more than 1 volume type per source") for kind in kinds[1:]
        ]
        token = one.get("serviceAccountToken")
        if token is not None:
            causes += _token(token, f"{here}.serviceAccountToken")
        for kind in ("secret", "configMap"):
            if one.get(kind) is not None:
                if not one[kind].get("name"):
                    causes.append(required(f"{here}.{kind}.name"))
                causes += _items(one[kind], f"{here}.{kind}")
    return causes


def _token(token: Obj, path: str) -> Causes:
    causes: Causes = []
    seconds = token.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        causes.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds is not None and seconds > 1 << 32:
        causes.append(
            invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        )
    if not token.get("path"):
        causes.append(required(f"{path}.path"))
    return causes + descending_path(token.get("path", ""), f"{path}.path")


_RULES = {
    "emptyDir": _empty_dir,
    "hostPath": host_path,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "nfs": _nfs,
    "projected": _projected,
}
