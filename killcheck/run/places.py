"""Where a layer is declared, for reports that point at lines: in the spec, or the manifest of its object."""

from __future__ import annotations

from typing import Any

from killcheck.kube.objects import dig, name_of, namespace_of
from killcheck.run.session import Session
from killcheck.text.files import text_of
from killcheck.text.yamlfile import documents

__all__ = ["layer_places"]


def layer_places(session: Session) -> dict[str, dict[str, Any]]:
    """``file`` and ``line`` of each layer, by its name; what was found on a cluster is nowhere.

    Raises OSError where the spec cannot be read any more.
    """
    file = session.spec_file
    if file is None:
        return _in_manifests(session)
    (document, *_) = documents(text_of(file), str(file))
    entries = dig(document.value, "layers", default=[])
    return {
        str(entry["name"]): {"file": str(file), "line": document.line_of(("layers", number))}
        for number, entry in enumerate(entries)
        if isinstance(entry, dict) and "name" in entry
    }


def _in_manifests(session: Session) -> dict[str, dict[str, Any]]:
    if session.loaded is None:
        return {}
    found = {}
    for layer in session.kill_path.layers:
        for manifest in session.loaded.manifests if layer.ref else ():
            obj = manifest.obj
            if layer.ref and (obj.get("kind"), namespace_of(obj), name_of(obj)) == (
                layer.ref.kind,
                layer.ref.namespace,
                layer.ref.name,
            ):
                found[layer.name] = {"file": str(manifest.file), "line": manifest.line}
    return found
