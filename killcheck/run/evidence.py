"""A run's evidence in S3: the record and the reports made from it, where nobody who was in the run can lose them.

Uploads read the local files and nothing else; what was uploaded half is taken up where it stopped. A bucket that
cannot be reached is told, and changes no verdict. Journals stay here: what undoes a change can hold what it replaced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.clock import wall_now
from killcheck.cloud.results import split
from killcheck.cloud.session import AskError, Aws, call, pages
from killcheck.text.files import bytes_of
from killcheck.text.redaction import redact

__all__ = ["Left", "Store", "files_of", "leave"]

#: From here on a file goes in parts (S3: parts of 5 MiB at least, 10,000 at most).
PART = 8 * 1024 * 1024
_TYPES = {
    ".jsonl": "application/x-ndjson",
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
    ".xml": "application/xml",
    ".sarif": "application/sarif+json",
    ".prom": "text/plain",
    ".md": "text/markdown",
}
#: Of the files of a run, what is no evidence.
_KEPT_HERE = ("journal-",)


class Store(Struct, frozen=True):
    """Where it goes and how it is kept: ``url`` is ``s3://bucket/prefix``.

    ``kms_key``: encrypted with that key instead of S3's own. ``retain_s``: locked for so long (the bucket needs object
    lock), by ``mode``: GOVERNANCE, or COMPLIANCE, which nobody can lift.
    """

    url: str
    kms_key: str = ""
    retain_s: float = 0.0
    mode: str = "GOVERNANCE"

    def settings(self, now: datetime) -> dict[str, Any]:
        """Encryption and lock, as every upload says them."""
        found: dict[str, Any] = {"ServerSideEncryption": "AES256"}
        if self.kms_key:
            found = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.kms_key}
        if self.retain_s:
            until = now + timedelta(seconds=self.retain_s)
            found |= {"ObjectLockMode": self.mode, "ObjectLockRetainUntilDate": until}
        return found


class Left(Struct, frozen=True):
    """What became of one file: ``uploaded``, ``there already``, or the ``problem``."""

    file: Path
    url: str
    state: str = ""
    problem: str = ""


def files_of(record: Path) -> list[Path]:
    """The run record and what lies beside it that is evidence, the record first."""
    beside = sorted(
        path
        for path in record.parent.iterdir()
        if path.is_file() and path != record and path.suffix in _TYPES and not path.name.startswith(_KEPT_HERE)
    )
    return [record, *beside]


def leave(aws: Aws, store: Store, files: Iterable[Path], *, run: str) -> list[Left]:
    """Upload files as ``prefix/run/name``; what fails is told, file by file. Raises ValueError for a bad URL."""
    bucket, prefix = split(store.url)
    told = []
    for file in files:
        key = "/".join(part for part in (prefix.strip("/"), run, file.name) if part)
        url = f"s3://{bucket}/{key}"
        try:
            state = _Upload(aws, bucket, key, _content(file), store.settings(wall_now()), file.suffix).run()
            told.append(Left(file, url, state))
        except (AskError, OSError) as error:
            told.append(Left(file, url, problem=str(error)))
    return told


def _content(file: Path) -> bytes:
    """The file, once more without secrets: a report may quote what the record did not. A certificate quotes the record,
    and not a byte of it may change."""
    if file.name.endswith(".intoto.json"):
        return bytes_of(file)
    return redact(bytes_of(file).decode("utf-8", "replace")).encode()


@dataclass
class _Upload:
    aws: Aws
    bucket: str
    key: str
    content: bytes
    settings: dict[str, Any]
    suffix: str
    _digest: str = field(init=False)

    def __post_init__(self) -> None:
        self._digest = hashlib.sha256(self.content).hexdigest()

    def run(self) -> str:
        """Returns what was done. Raises AskError."""
        if self._there():
            return "there already"
        how: dict[str, Any] = {
            **self._place,
            **self.settings,
            "ContentType": _TYPES.get(self.suffix, "application/octet-stream"),
            "Metadata": {"killcheck-sha256": self._digest},
        }
        if len(self.content) <= PART:
            call(self.aws, "s3", "put_object", Body=self.content, **how, ChecksumAlgorithm="SHA256")
            return "uploaded"
        return self._in_parts(how)

    @property
    def _place(self) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.key}

    def _there(self) -> bool:
        try:
            found = call(self.aws, "s3", "head_object", **self._place)
        except AskError as error:
            # Without the right to list, S3 answers 403 for a key that is not there.
            if error.kind in ("not-found", "denied"):
                return False
            raise
        return (found.get("Metadata") or {}).get("killcheck-sha256") == self._digest

    def _in_parts(self, how: dict[str, Any]) -> str:
        upload, done = self._begun()
        if not upload:
            upload = str(call(self.aws, "s3", "create_multipart_upload", **how)["UploadId"])
        parts: list[dict[str, Any]] = []
        for number, part in self._parts():
            tag = f'"{hashlib.md5(part).hexdigest()}"'  # noqa: S324 - S3 names parts so
            if done.get(number) != tag:
                sent = call(self.aws, "s3", "upload_part", **self._place, UploadId=upload, PartNumber=number, Body=part)
                tag = str(sent["ETag"])
            parts.append({"PartNumber": number, "ETag": tag})
        call(
            self.aws,
            "s3",
            "complete_multipart_upload",
            **self._place,
            UploadId=upload,
            MultipartUpload={"Parts": parts},
        )
        taken = sum(1 for part in parts if done.get(part["PartNumber"]) == part["ETag"])
        return f"uploaded ({taken} of {len(parts)} parts were there from an earlier try)" if taken else "uploaded"

    def _parts(self) -> Iterator[tuple[int, bytes]]:
        for number, start in enumerate(range(0, len(self.content), PART), 1):
            yield number, self.content[start : start + PART]

    def _begun(self) -> tuple[str, dict[int, str]]:
        """An upload of this very key that was cut short, and its parts; one of other content is given up."""
        mine = {number: f'"{hashlib.md5(part).hexdigest()}"' for number, part in self._parts()}  # noqa: S324
        for page in pages(self.aws, "s3", "list_multipart_uploads", Bucket=self.bucket, Prefix=self.key):
            for one in page.get("Uploads") or ():
                if one["Key"] != self.key:
                    continue
                upload, found = str(one["UploadId"]), dict[int, str]()
                for listed in pages(self.aws, "s3", "list_parts", **self._place, UploadId=upload):
                    found.update({int(p["PartNumber"]): str(p["ETag"]) for p in listed.get("Parts") or ()})
                if all(mine.get(number) == tag for number, tag in found.items()):
                    return upload, found
                call(self.aws, "s3", "abort_multipart_upload", **self._place, UploadId=upload)
        return "", {}
