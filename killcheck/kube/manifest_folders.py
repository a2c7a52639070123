"""Which files of a folder are manifests, and what its charts and kustomizations would have made of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from killcheck.kube.manifest_text import Skipped
from killcheck.text.yamlfile import YamlError, documents

__all__ = ["files"]

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_NOT_MANIFESTS = frozenset({"node_modules", "vendor", "__pycache__"})
#: What a kustomization says that does not change what is deployed.
_NEUTRAL = frozenset({"apiVersion", "kind", "metadata", "resources", "bases", "buildMetadata", "sortOptions", "crds"})


def files(
    path: Path,
    skipped: list[Skipped],
    notes: list[str],
    within: tuple[Path, ...] = (),
) -> Iterator[Path]:
    """The manifest files of a file or folder, in order of name; ``within``: the kustomizations that led here.

    A folder with a kustomization has the files that its resources name; a chart's templates are skipped. Both are
    said in ``skipped`` and ``notes``. A path that does not exist is yielded: reading it says so. Raises OSError for a
    folder that cannot be read.
    """
    if not path.is_dir():
        yield path
        return
    kustomization = next((path / name for name in _KUSTOMIZATIONS if (path / name).is_file()), None)
    if kustomization is not None:
        yield from _kustomized(kustomization, skipped, notes, within)
    elif (path / "Chart.yaml").is_file():
        why = f"a Helm chart, which is not rendered here: helm template {path} > rendered.yaml"
        skipped.append(Skipped(str(path), 0, why))
        notes.append(f"{path}: {why}")
    else:
        for entry in sorted(path.iterdir()):
            if entry.name.startswith(".") or entry.name in _NOT_MANIFESTS:
                continue
            if entry.is_dir() and not entry.is_symlink():
                yield from files(entry, skipped, notes)
            elif entry.is_dir():
                skipped.append(Skipped(str(entry), 0, "a link to a folder, not followed: name that folder too"))
            elif entry.suffix in _SUFFIXES and entry.is_file():
                yield entry
            elif entry.suffix in _SUFFIXES:
                skipped.append(Skipped(str(entry), 0, "a link that leads nowhere, or no file"))


def _kustomized(
    file: Path,
    skipped: list[Skipped],
    notes: list[str],
    within: tuple[Path, ...],
) -> Iterator[Path]:
    if file.resolve() in within:
        notes.append(f"{file}: a kustomization that is among its own resources")
        return
    try:
        found = documents(file.read_text(encoding="utf-8-sig"), str(file))
    except (YamlError, OSError, UnicodeDecodeError):
        yield file  # reading it again says what is wrong
        return
    spec: dict[str, Any] = found[0].value if found and isinstance(found[0].value, dict) else {}
    undone = sorted(key for key, value in spec.items() if key not in _NEUTRAL and value)
    if undone:
        how = f"kubectl kustomize {file.parent} > rendered.yaml"
        notes.append(f"{file}: not rendered here: {', '.join(undone)} ({how})")
    for entry in (entry for key in ("resources", "bases") for entry in _listed(spec, key, file, notes)):
        target = file.parent / str(entry)
        if target.exists():
            yield from files(target, skipped, notes, (*within, file.resolve()))
        else:
            skipped.append(Skipped(str(file), 0, f"its resource {entry} is not a file here, and nothing is downloaded"))
            notes.append(f"{file}: its resource {entry} is not a file here, and nothing is downloaded")


def _listed(spec: dict[str, Any], key: str, file: Path, notes: list[str]) -> list[Any]:
    value = spec.get(key) or []
    if isinstance(value, list):
        return value
    notes.append(f"{file}: {key} must be a list, found {value!r}: kustomize would not take it")
    return []
