"""Manifests as a team commits them: files and folders of YAML and JSON, every object with the place it came from.

Read as Kubernetes reads them (YAML 1.1), and nothing is rendered: what a template, a chart or a kustomization would
have made of them is said to be missing, never guessed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from killcheck.kube import manifest_folders, manifest_text
from killcheck.kube.manifest_text import SPEC, Manifest, Skipped
from killcheck.kube.objects import Obj, key_of, ref_of
from killcheck.text.problems import FileProblems, Problem, not_utf8
from killcheck.text.redaction import hide_secrets

__all__ = ["Loaded", "Manifest", "ManifestError", "Skipped", "load", "loads"]


class ManifestError(FileProblems):
    """Manifests that the API server would not take, or that cannot be read; ``problems`` are all of them."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was found. ``skipped`` is what was not loaded and why, ``notes`` what a reader should know besides."""

    manifests: tuple[Manifest, ...]
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def objects(self) -> list[Obj]:
        """The objects alone, in the files' order."""
        return [manifest.obj for manifest in self.manifests]

    def passed_over(self, *, spec: bool) -> list[str]:
        """A line for each file that was not read, where no note says so. ``spec``: one was named, so none is told."""
        return [
            f"{one.file}: not read: {one.why}" + (" (give it as SPEC)" if one.why == SPEC else "")
            for one in self.skipped
            if not (spec and one.why == SPEC) and not any(one.why in note for note in self.notes)
        ]

    def find(self, obj: Obj) -> Manifest | None:
        """Where an object came from, by kind, namespace and name."""
        wanted = _identity(obj)
        return next((manifest for manifest in self.manifests if _identity(manifest.obj) == wanted), None)


def load(paths: FilePath | str | Sequence[FilePath | str]) -> Loaded:
    """Everything in these files and folders (``-`` is standard input). Raises ManifestError with all problems."""
    wanted = [paths] if isinstance(paths, str | FilePath) else list(paths)
    manifests: list[Manifest] = []
    skipped: list[Skipped] = []
    problems: list[Problem] = []
    notes: list[str] = []
    for file, text in _texts(wanted, skipped, problems, notes):
        found = manifest_text.read(text, file)
        manifests += found.manifests
        skipped += found.skipped
        problems += found.problems
    if not problems and not manifests:
        problems += [Problem(str(path), 0, "", _why_nothing(skipped)) for path in wanted]
    if problems:
        raise ManifestError(problems)
    hide_secrets(manifest.obj for manifest in manifests)
    return Loaded(tuple(_last_of_each(manifests, notes)), tuple(skipped), tuple(notes))


def loads(text: str, file: str = "<text>") -> Loaded:
    """Everything in one text. Raises ManifestError with all problems."""
    found = manifest_text.read(text, file)
    if found.problems:
        raise ManifestError(found.problems)
    notes: list[str] = []
    return Loaded(tuple(_last_of_each(found.manifests, notes)), tuple(found.skipped), tuple(notes))


def _texts(
    paths: Iterable[FilePath | str],
    skipped: list[Skipped],
    problems: list[Problem],
    notes: list[str],
) -> Iterable[tuple[str, str]]:
    """(name, text) of every file once, in order; what cannot be read becomes a problem."""
    seen: set[FilePath] = set()
    for path in paths:
        if str(path) == "-":
            yield "<stdin>", sys.stdin.read()
            continue
        for file in _files(FilePath(path), skipped, problems, notes):
            real = file.resolve()
            if real in seen:
                continue
            seen.add(real)
            try:
                yield str(file), file.read_text(encoding="utf-8-sig")
            except UnicodeDecodeError as error:
                problems.append(Problem(str(file), 0, "", not_utf8(error)))
            except OSError as error:
                problems.append(Problem(str(file), 0, "", (error.strerror or str(error)).lower()))


def _files(
    path: FilePath,
    skipped: list[Skipped],
    problems: list[Problem],
    notes: list[str],
) -> Iterable[FilePath]:
    try:
        yield from manifest_folders.files(path, skipped, notes)
    except OSError as error:  # a folder that cannot be read
        problems.append(Problem(str(error.filename or path), 0, "", (error.strerror or str(error)).lower()))


def _why_nothing(skipped: Sequence[Skipped]) -> str:
    if not skipped:
        return "no YAML or JSON file in it"
    return "no Kubernetes object in it; " + "; ".join(f"{s.file}: {s.why}" for s in skipped[:3])


def _identity(obj: Obj) -> tuple[str, str, tuple[str, str]]:
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    return group, str(obj.get("kind")), key_of(obj)


def _last_of_each(manifests: Iterable[Manifest], notes: list[str]) -> list[Manifest]:
    """Of an object that is given twice the later one, as applying the files in turn would have it; and a note."""
    kept: dict[tuple[str, str, tuple[str, str]], Manifest] = {}
    for manifest in manifests:
        identity = _identity(manifest.obj)
        before = kept.get(identity)
        if before is not None and identity[2][1]:
            notes.append(
                f"{ref_of(manifest.obj)} is given twice, at {before.place} and {manifest.place}; the later one is used"
            )
        elif before is not None:  # generateName: two objects
            identity = (*identity[:2], ("", f"{manifest.place}"))
        kept[identity] = manifest
    return list(kept.values())
