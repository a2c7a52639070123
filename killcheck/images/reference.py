"""Image references, as the container runtime reads them.

Source: github.com/distribution/reference (normalize.go, regexp.go) and the messages of recording 05.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from killcheck.text import lazy_re

__all__ = ["NEVER_THERE", "InvalidReference", "Reference", "parse"]

#: How tags begin that no registry has: what a drill asks for in place of one that is gone.
NEVER_THERE = "killcheck-gone-"

_TAG = lazy_re.compile(r"[\w][\w.-]{0,127}\Z", re.ASCII)
_DIGEST = lazy_re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}\Z")
_PATH = lazy_re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*\Z")
_DOMAIN = lazy_re.compile(
    r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*"
    r"|\[[a-fA-F0-9:]+\])(?::[0-9]+)?\Z"
)


class InvalidReference(ValueError):
    """The text is no image reference; the message is the library's."""


class Reference(Struct, frozen=True):
    """A normalised reference: ``host/path`` and a tag, a digest, or both."""

    host: str
    path: str
    tag: str
    digest: str

    @property
    def repository(self) -> str:
        """``docker.io/library/python``."""
        return f"{self.host}/{self.path}"

    @property
    def canonical(self) -> str:
        """As containerd writes it: with the default host and tag; of tag and digest only the digest."""
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"

    @property
    def version(self) -> str:
        """What a registry is asked for: the digest, or the tag."""
        return self.digest or self.tag


@lru_cache(maxsize=4096)
def parse(image: str) -> Reference:
    """Read what a pod's ``image`` says. Raises InvalidReference."""
    rest, at, digest = image.partition("@")
    if at and not _DIGEST.match(digest):
        raise InvalidReference("invalid reference format")
    host, path = _split(rest)
    path, colon, tag = path.partition(":")
    if path != path.lower():
        raise InvalidReference(
            f"invalid reference format: repository name ({path.removeprefix('library/')}) must be lowercase"
        )
    if not _PATH.match(path) or not _DOMAIN.match(host) or (colon and not _TAG.match(tag)):
        raise InvalidReference("invalid reference format")
    return Reference(host, path, tag or ("" if digest else "latest"), digest)


def _split(name: str) -> tuple[str, str]:
    """Host and path; Docker Hub's official images live under ``library/``."""
    first, slash, rest = name.partition("/")
    is_host = slash and (any(c in first for c in ".:") or first == "localhost" or first.lower() != first)
    host, path = (first, rest) if is_host else ("docker.io", name)
    if host == "index.docker.io":
        host = "docker.io"
    if host == "docker.io" and "/" not in path:
        path = f"library/{path}"
    return host, path
