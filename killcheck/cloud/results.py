"""Whether a run left what it must leave in S3: something new, not empty, at each of the places that the spec names."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from killcheck.cloud.session import Aws, pages

__all__ = ["Results", "split"]


def split(url: str) -> tuple[str, str]:
    """(bucket, key or prefix) of ``s3://bucket/key``. Raises ValueError for anything else."""
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise ValueError(f"expected s3://bucket/prefix, found {url!r}")
    return bucket, key


class Results(Struct):
    """Looks before the drill and after it: only what was written in between counts."""

    aws: Aws
    urls: tuple[str, ...]
    _before: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)

    def remember(self) -> None:
        """Look at what is there already. Raises AskError."""
        self._before = {url: self._listed(url) for url in self.urls}

    def missing(self) -> list[str]:
        """The places at which nothing was left since. Raises AskError."""
        return [url for url in self.urls if not self._left(url)]

    def _left(self, url: str) -> Iterable[str]:
        before = self._before.get(url, {})
        return [key for key, now in self._listed(url).items() if now[1] and before.get(key) != now]

    def _listed(self, url: str) -> dict[str, tuple[str, int]]:
        """Key to (ETag and time, size); a URL that does not end in '/' is one key."""
        bucket, key = split(url)
        found = {}
        for page in pages(self.aws, "s3", "list_objects_v2", Bucket=bucket, Prefix=key):
            for one in page.get("Contents") or ():
                if key.endswith("/") or one["Key"] == key:
                    found[str(one["Key"])] = (f"{one.get('ETag')} {one.get('LastModified')}", int(one["Size"]))
        return found
