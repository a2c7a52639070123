"""What was around a run's drills, for whoever asks later what changed since a night that worked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from killcheck.kube.objects import Obj, controller_of, dig, namespace_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.text.files import text_of
from killcheck.text.redaction import redact
from killcheck.text.yamlfile import YamlError, documents
from killcheck.version import __version__

__all__ = ["MOST", "snapshot"]

#: Objects of a snapshot: more is no kill path, it is a whole cluster.
MOST = 1000
#: Characters of a value that is kept as it is; hexadecimal digits of a digest of one that is longer.
SHORT, DIGITS = 80, 12
#: What comes and goes by itself, and what is nobody's to keep.
_PASSING = frozenset(
    {"Pod", "Event", "Lease", "Node", "NodeClaim", "ReplicaSet", "Endpoints", "EndpointSlice", "Secret", "Job"}
)
#: Long, and never with a secret in it.
_SCHEMAS = frozenset({"CustomResourceDefinition"})
_ABOUT = frozenset({"kind", "metadata", "status"})
#: Which objects outside the kill path's namespaces can change what a kill path does.
_ANYWHERE = frozenset({"Deployment", "DaemonSet", "StatefulSet"})


def snapshot(
    objects: Iterable[Obj],
    namespaces: Collection[str] = (),
    spec: Path | None = None,
) -> dict[str, dict[str, str]] | None:
    """By object, its fields; None where there are more than :data:`MOST`: a part of them would differ by chance.

    ``namespaces``: of others, only what runs there is taken, and of that only the images. ``spec``: the kill path's
    file, whose parts are in it too, as is killcheck's own version.
    """
    found = {"killcheck": {"version": __version__}}
    if spec is not None:
        found["killcheck.yaml"] = dict(_parts(spec))
    for obj in objects:
        kind, namespace = str(obj.get("kind", "")), namespace_of(obj)
        if kind in _PASSING or not kind or controller_of(obj) is not None:
            continue
        near = not namespaces or not namespace or namespace in namespaces
        if near or kind in _ANYWHERE:
            found[ref_of(obj)] = dict(_fields(obj, schema=kind in _SCHEMAS) if near else _images(obj))
            if len(found) > MOST:
                return None
    return found


def _parts(spec: Path) -> Iterator[tuple[str, str]]:
    with suppress(OSError, YamlError):
        for document in documents(text_of(spec), str(spec)):
            if isinstance(document.value, dict):
                yield from ((str(key), _short(value)) for key, value in document.value.items())


def _fields(obj: Obj, *, schema: bool) -> Iterator[tuple[str, str]]:
    for key, value in obj.items():
        if key in _ABOUT:
            continue
        if key == "spec" and isinstance(value, dict):
            yield from ((name, _short(part, schema=schema)) for name, part in value.items())
        else:
            yield key, _short(value, schema=schema)
    yield from _images(obj)


def _images(obj: Obj) -> Iterator[tuple[str, str]]:
    images = {
        str(container.get("image", ""))
        for template in templates(obj)
        for name in ("initContainers", "containers")
        for container in dig(template.spec, name, default=()) or ()
        if isinstance(container, dict)
    } - {""}
    if images:
        yield "images", redact(" ".join(sorted(images)))


def _short(value: Any, *, schema: bool = False) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    if not schema:
        text = redact(text)
    if len(text) <= SHORT and "\n" not in text:
        return text
    # Of the text without its secrets: whoever guesses at one could try it on a digest.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
