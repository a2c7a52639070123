"""Where run records are kept: a folder, or a prefix of an S3 bucket. Another kind of place is another class here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from killcheck.cloud.results import split
from killcheck.cloud.session import AskError, Aws, call, pages
from killcheck.text.files import text_of

__all__ = ["Bucket", "Folder", "Listed", "NoPlace", "Place", "PlaceError", "place_of"]

#: What a record is called, wherever it is.
RECORD = "run.jsonl"
#: Folders that no record is in, and that can be large.
_PASSED_OVER = frozenset({".git", ".venv", "node_modules", "__pycache__"})


class PlaceError(Exception):
    """The place cannot be read; the message says why, and what to do."""


class NoPlace(PlaceError):
    """There is no such place: nothing was drilled yet, or it is called otherwise."""


class Listed(Struct, frozen=True):
    """A record: its name in its place, and what changes when its content does.

    ``problem``: why what is there cannot be listed, in one sentence; it is no record then.
    """

    name: str
    version: str
    problem: str = ""


class Place(Protocol):
    """A place of run records."""

    @property
    def name(self) -> str:
        """How a person names it; the same for the same place."""

    def listed(self) -> Iterator[Listed]:
        """Every record. Raises PlaceError."""

    def where(self, name: str) -> str:
        """How a person finds a record."""

    def lines(self, name: str) -> list[str]:
        """The lines of one. Raises PlaceError."""


class Folder(Struct, frozen=True):
    """Every ``run.jsonl`` at any depth of a folder; links out of it are not followed."""

    path: Path

    @property
    def name(self) -> str:
        """The folder, absolute."""
        return str(self.path.resolve())

    def listed(self) -> Iterator[Listed]:
        """By size and time of their last change. Raises PlaceError."""
        if not self.path.is_dir():
            raise NoPlace(
                f"{self.path}: expected a folder of run records (killcheck drill makes one), or s3://BUCKET/PREFIX"
            )
        root = str(self.path)
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                yield Listed(folder, "", f"{folder}: {_said(error)}")
                continue
            for entry in found:
                if entry.is_dir(follow_symlinks=False) and entry.name not in _PASSED_OVER:
                    waiting.append(entry.path)
                elif entry.name == RECORD and not entry.is_file(follow_symlinks=False):
                    yield Listed(entry.path, "", f"{entry.path}: is a link, or no file: it is not read")
                elif entry.name == RECORD:
                    stat = entry.stat(follow_symlinks=False)
                    yield Listed(entry.path[len(root) :].lstrip(os.sep), f"{stat.st_size} {stat.st_mtime_ns}")

    def where(self, name: str) -> str:
        """Its file."""
        return os.path.join(self.path, name)  # noqa: PTH118 - of each of ten thousand

    def lines(self, name: str) -> list[str]:
        """Raises PlaceError."""
        try:
            return text_of(os.path.join(self.path, name), "utf-8-sig", errors="replace").splitlines()  # noqa: PTH118
        except OSError as error:
            raise PlaceError(f"{self.where(name)}: {_said(error)}") from error


class Bucket(Struct, frozen=True):
    """Every ``…/run.jsonl`` below ``s3://bucket/prefix``, as ``killcheck evidence`` leaves them. Raises ValueError."""

    aws: Aws
    url: str

    @property
    def name(self) -> str:
        """The URL."""
        return self.url.rstrip("/")

    def listed(self) -> Iterator[Listed]:
        """By ETag. Raises PlaceError."""
        bucket, prefix = split(self.url)
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        try:
            for page in pages(self.aws, "s3", "list_objects_v2", Bucket=bucket, Prefix=folder):
                for one in page.get("Contents") or ():
                    if str(one["Key"]).rpartition("/")[2] == RECORD:
                        yield Listed(str(one["Key"]), f"{one.get('ETag')} {one.get('Size')}")
        except AskError as error:
            raise PlaceError(f"{self.url}: {error}") from error

    def where(self, name: str) -> str:
        """Its URL."""
        return f"s3://{split(self.url)[0]}/{name}"

    def lines(self, name: str) -> list[str]:
        """Raises PlaceError."""
        bucket, _ = split(self.url)
        try:
            body = call(self.aws, "s3", "get_object", Bucket=bucket, Key=name)["Body"].read()
        except AskError as error:
            raise PlaceError(f"{self.where(name)}: {error}") from error
        return str(body.decode("utf-8", "replace")).splitlines()


def _said(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def place_of(named: str, aws: Aws | None = None) -> Place:
    """The place that a person names; ``aws``: None is what the environment has.

    Raises PlaceError for a URL of anything but S3."""
    if "://" not in named:
        return Folder(Path(named))
    try:
        split(named)
    except ValueError as error:
        raise PlaceError(str(error)) from error
    return Bucket(aws or Aws(), named)
