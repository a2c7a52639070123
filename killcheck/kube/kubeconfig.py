"""Kubeconfig files: several of them merged as kubectl merges them, and what one named context of them says."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.kube.errors import CredentialsError, KubeConfigError
from killcheck.kube.objects import Obj
from killcheck.text.files import bytes_of, text_of
from killcheck.text.suggestions import nearest
from killcheck.text.yamlfile import YamlError, documents

__all__ = ["Context", "Section", "contexts", "default_paths", "load"]

#: Contexts listed when none is near the name that was asked for.
_LISTED = 10


@dataclass(frozen=True, slots=True)
class Section:
    """A named cluster or user. ``fields`` may hold secrets; relative paths in it start at the ``file``'s folder."""

    kind: str
    name: str
    fields: Obj = field(repr=False)
    file: Path

    def text(self, key: str) -> str:
        """The field as text; empty where it is not there. Raises KubeConfigError where it is something else."""
        value = self.fields.get(key)
        if value is None or isinstance(value, str):
            return value or ""
        raise KubeConfigError(f"{self.file}: {self.kind} {self.name}: {key} must be text")

    def flag(self, key: str) -> bool:
        """The field as a boolean; false where it is not there."""
        value = self.fields.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise KubeConfigError(f"{self.file}: {self.kind} {self.name}: {key} must be true or false")

    def path(self, key: str) -> Path | None:
        """The file that the field names."""
        text = self.text(key)
        return self.file.parent / text if text else None

    def content(self, key: str) -> bytes:
        """``KEY-data`` decoded, else what the file at ``KEY`` holds; empty where there is neither.

        Raises KubeConfigError for bad base64, CredentialsError for a file that cannot be read.
        """
        data = self.text(f"{key}-data")
        if data:
            try:
                return base64.b64decode(data, validate=False)
            except binascii.Error as error:
                message = f"{self.file}: {self.kind} {self.name}: {key}-data is not base64"
                raise KubeConfigError(message) from error
        path = self.path(key)
        return read_file(path, f"{self.kind} {self.name}: {key}") if path else b""


class Context(Struct, frozen=True):
    """What a context stands for."""

    name: str
    cluster: Section
    user: Section


def read_file(path: Path, what: str) -> bytes:
    """A file's content. Raises CredentialsError where it cannot be read or is empty."""
    try:
        content = bytes_of(path)
    except OSError as error:
        raise CredentialsError(f"{what}: cannot read {path}: {error.strerror}") from error
    if not content.strip():
        raise CredentialsError(f"{what}: {path} is empty")
    return content


def default_paths(environ: Mapping[str, str] | None = None) -> list[Path]:
    """Where kubectl looks: every path in KUBECONFIG, else ``~/.kube/config``."""
    listed = (os.environ if environ is None else environ).get("KUBECONFIG", "")
    paths = [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    return paths or [Path("~/.kube/config").expanduser()]


def load(name: str, kubeconfig: Path | None = None) -> Context:
    """The context called ``name`` in ``kubeconfig``, or in the files where kubectl looks.

    As with kubectl, the first file that has a name wins, and files of a KUBECONFIG list that do not exist are passed
    over. Raises KubeConfigError; for an unknown context the message lists the nearest names.
    """
    merged, paths = _merged(kubeconfig)
    return _context(name, merged, paths)


def contexts(kubeconfig: Path | None = None) -> list[str]:
    """The names of the contexts there, in order. Raises KubeConfigError."""
    return list(_merged(kubeconfig)[0]["contexts"])


def _merged(kubeconfig: Path | None) -> tuple[dict[str, dict[str, Section]], list[Path]]:
    """Every section by its name, and the files that they are from. Raises KubeConfigError."""
    paths = [kubeconfig] if kubeconfig else [path for path in default_paths() if path.exists()]
    if not paths:
        listed = ", ".join(map(str, default_paths()))
        raise KubeConfigError(f"there is no kubeconfig: {listed} does not exist; set KUBECONFIG or name a file")
    merged: dict[str, dict[str, Section]] = {"clusters": {}, "users": {}, "contexts": {}}
    for path in paths:
        config = _read(path)
        for kind, sections in merged.items():
            for section in _sections(kind, config, path):
                sections.setdefault(section.name, section)
    return merged, paths


def _read(path: Path) -> Obj:
    try:
        found = documents(text_of(path), str(path))
    except OSError as error:
        raise KubeConfigError(f"cannot read the kubeconfig {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise KubeConfigError(f"{path}: not a kubeconfig: it is not text") from error
    except YamlError as error:
        # Not the problem itself, which may quote what stands there.
        raise KubeConfigError(f"{error.file}:{error.line}: not a kubeconfig: it is not YAML") from None
    values = [document.value for document in found if document.value is not None]
    if len(values) > 1 or any(not isinstance(value, dict) for value in values):
        raise KubeConfigError(f"{path}: not a kubeconfig: it must be one mapping")
    return values[0] if values else {}


def _sections(plural: str, config: Obj, path: Path) -> Sequence[Section]:
    kind = plural[:-1]
    entries: Any = config.get(plural) or []
    named = isinstance(entries, list) and all(isinstance(e, dict) and isinstance(e.get("name"), str) for e in entries)
    if not named:
        raise KubeConfigError(f"{path}: {plural} must be a list of mappings, each with a name")
    names = [entry["name"] for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise KubeConfigError(f"{path}: there is more than one {kind} called {name}")
    sections = []
    for entry in entries:
        fields = entry.get(kind) or {}
        if not isinstance(fields, dict):
            raise KubeConfigError(f"{path}: {kind} {entry['name']}: must be a mapping")
        sections.append(Section(kind, entry["name"], fields, path))
    return sections


def _context(name: str, merged: Mapping[str, Mapping[str, Section]], paths: Sequence[Path]) -> Context:
    where = ", ".join(map(str, paths))
    contexts = merged["contexts"]
    if name not in contexts:
        raise KubeConfigError(f"there is no context {name!r} in {where}{_alternatives(name, list(contexts))}")
    context = contexts[name]
    found: list[Section] = []
    for kind in ("cluster", "user"):
        wanted = context.text(kind)
        if not wanted:
            raise KubeConfigError(f"{context.file}: context {name} names no {kind}")
        section = merged[f"{kind}s"].get(wanted)
        if section is None:
            raise KubeConfigError(f"context {name} names the {kind} {wanted!r}, which is not in {where}")
        found.append(section)
    if not found[0].text("server"):
        raise KubeConfigError(f"{found[0].file}: cluster {found[0].name} has no server")
    return Context(name, *found)


def _alternatives(name: str, known: Sequence[str]) -> str:
    if not known:
        return ", which define no context at all"
    near = nearest(name, known)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    rest = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"; there are {', '.join(known[:_LISTED])}{rest}"
