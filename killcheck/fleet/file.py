"""``fleet.yaml``: which clusters, which kill paths on them, and how many drills may be under way at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from killcheck.run.session import ExecMode
from killcheck.spec import specfile
from killcheck.spec.specfile import SpecError
from killcheck.spec.specfile.shape import fitted, one_document, read
from killcheck.text.problems import Problem
from killcheck.text.yamlfile import Document

__all__ = ["EMBEDDED", "TREE", "Fleet", "Search", "Shard", "load"]

#: What a search keeps, in its shard's folder.
TREE = "tree.jsonl"
#: The context of what is drilled on a cluster in its own process.
EMBEDDED = "embedded"
_Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
_Word = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Cluster(_Strict):
    name: _Name
    context: _Word
    kubeconfig: str = ""
    secret: str = ""
    labels: dict[str, str] = {}


class _Explore(_Strict):
    maxFaults: Annotated[int, Field(ge=1, le=5)] = 2
    budget: Annotated[int, Field(ge=1)] = 500


class _Path(_Strict):
    spec: _Word
    clusters: dict[str, str] = {}
    manifests: list[_Word] = []
    exec: Literal["host", "none"] | None = None
    layers: list[_Word] = []
    under: list[_Word] = []
    matrix: bool = False
    explore: _Explore | None = None
    shards: Annotated[int, Field(ge=1, le=10_000)] = 1


class _Fleet(_Strict):
    apiVersion: Literal["killcheck/v1"]
    kind: Literal["Fleet"]
    name: _Name
    atOnce: Annotated[int, Field(ge=1, le=1000)]
    results: _Word
    clusters: Annotated[list[_Cluster], Field(min_length=1)]
    paths: Annotated[list[_Path], Field(min_length=1)]


class Search(Struct, frozen=True):
    """A search for sets of faults, in place of drills: how many at once, and how many scenarios a shard runs."""

    max_faults: int
    budget: int


class Shard(Struct, frozen=True):
    """One drill command, or one search. ``key`` names it, in folders too. ``kubeconfig``: on this machine; ``secret``:
    in a Job.

    ``part`` of ``parts``: which cells of a matrix, or sets of faults, are its own (both 1: all).
    """

    key: str
    cluster: str
    context: str
    kill_path: str
    spec: Path
    kubeconfig: str = ""
    secret: str = ""
    manifests: tuple[Path, ...] = ()
    exec_mode: ExecMode | None = None
    layers: tuple[str, ...] = ()
    under: tuple[str, ...] = ()
    matrix: bool = False
    search: Search | None = None
    part: int = 1
    parts: int = 1

    @property
    def real(self) -> bool:
        """Whether it is on a cluster that is somebody's."""
        return self.context != EMBEDDED

    def words(self) -> list[str]:
        """Its words after ``killcheck``; where its kubeconfig is, and its results go, is the caller's."""
        command = "drill" if self.search is None else "explore"
        found = [command, str(self.spec), "--quiet", *(["--on", self.context, "--yes"] if self.real else [])]
        for option, values in (("--manifests", self.manifests), ("--layer", self.layers), ("--under", self.under)):
            found += [word for value in values for word in (option, str(value))]
        found += ["--exec", self.exec_mode] if self.exec_mode else []
        found += ["--matrix"] if self.matrix else []
        if self.search is not None:
            found += [
                "--max-faults",
                str(self.search.max_faults),
                "--budget",
                str(self.search.budget),
                "--tree",
                TREE,
                "--json",
            ]
        return found + (["--shard", f"{self.part}/{self.parts}"] if self.parts > 1 else [])


class Fleet(Struct, frozen=True):
    """``at_once``: how many of its drills may be under way at once. ``results``: a folder, or ``s3://BUCKET/PREFIX``."""

    file: Path
    name: str
    at_once: int
    results: str
    shards: tuple[Shard, ...]

    def place(self, shard: Shard) -> str:
        """Where the records of a shard are."""
        return f"{self.results.rstrip('/')}/{shard.key}"

    @property
    def in_bucket(self) -> bool:
        """Whether results go to S3."""
        return "://" in self.results


def load(file: Path) -> Fleet:
    """The fleet of a file. Raises SpecError with every problem and its line, of its specs too."""
    document = one_document(read(file), str(file), what="fleet")
    said = fitted(document, _Fleet)
    shards = [shard for number, path in enumerate(said.paths) for shard in _shards(file, document, said, number, path)]
    _distinct(file, shards)
    results = said.results if "://" in said.results else str((file.parent / said.results).resolve())
    return Fleet(file, said.name, said.atOnce, results, tuple(shards))


def _shards(file: Path, document: Document, said: _Fleet, number: int, path: _Path) -> Iterator[Shard]:
    """Those of one entry of ``paths``, cluster by cluster."""

    def bad(name: str, why: str) -> SpecError:
        return SpecError([Problem(str(file), document.line_of(("paths", number)), f"paths[{number}].{name}", why)])

    spec = (file.parent / path.spec).resolve()
    kill_path = specfile.load(spec)
    chosen = [one for one in said.clusters if path.clusters.items() <= one.labels.items()]
    if not chosen:
        raise bad("clusters", f"no cluster has these labels: {path.clusters}")
    here = all(one.context == EMBEDDED for one in chosen)
    if path.shards > 1 and not ((path.matrix or path.explore) and here):
        raise bad("shards", "only a matrix or a search on embedded clusters is cut: on a real one drills take turns")
    if path.explore and not here:
        raise bad("explore", "faults are combined on embedded clusters: choose those by their labels")
    if path.explore and path.matrix:
        raise bad("explore", "an entry is a matrix or a search: make two of it")
    if path.explore and "://" in said.results:
        raise bad("explore", "a search keeps what it found in a folder: let results be one, or give --results")
    for one in chosen:
        if one.context != EMBEDDED and not kill_path.consent.allows_context(one.context):
            raise bad("spec", f"{path.spec} gives no consent for {one.context}: name it under consent.contexts")
        for part in range(1, path.shards + 1):
            key = ".".join([one.name, re.sub(r"[^a-z0-9-]+", "-", kill_path.name.lower()), *_which(path)])
            yield Shard(
                key if path.shards == 1 else f"{key}.{part}-of-{path.shards}",
                one.name,
                one.context,
                kill_path.name,
                spec,
                str((file.parent / one.kubeconfig).resolve()) if one.kubeconfig else "",
                one.secret,
                tuple((file.parent / name).resolve() for name in path.manifests),
                path.exec,
                tuple(path.layers),
                tuple(path.under),
                path.matrix,
                Search(path.explore.maxFaults, path.explore.budget) if path.explore else None,
                part,
                path.shards,
            )


def _which(path: _Path) -> list[str]:
    """What tells other drills of the same kill path apart: results of those are none of these."""
    said = [sorted(path.layers), sorted(path.under), path.matrix, path.exec, *(["explore"] if path.explore else [])]
    return [hashlib.sha256(repr(said).encode()).hexdigest()[:6]] if any(said) else []


def _distinct(file: Path, shards: list[Shard]) -> None:
    seen: dict[str, Shard] = {}
    for one in shards:
        if one.key in seen:
            raise SpecError([Problem(str(file), 0, "paths", f"{one.kill_path} is named twice for {one.cluster}")])
        seen[one.key] = one
