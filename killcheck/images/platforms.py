"""Which machines an image is for, where its name says so: of any other name nothing is known.

Sources: github.com/docker-library/official-images (README, "Architectures other than amd64?": a namespace of Docker Hub
for each); opencontainers/image-spec image-index.md, whose names of architectures tags end with.
"""

from __future__ import annotations

from killcheck.images.reference import Reference
from killcheck.text import lazy_re

__all__ = ["arches_of"]

#: Namespaces of Docker Hub, and ends of repositories and tags, by what nodes call their architecture.
_NAMES = {
    "amd64": "amd64",
    "x86_64": "amd64",
    "arm64": "arm64",
    "arm64v8": "arm64",
    "aarch64": "arm64",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
}
_END = lazy_re.compile(rf"(?:^|[-_.])({'|'.join(_NAMES)})$")


def arches_of(reference: Reference) -> tuple[str, ...]:
    """The architectures (as ``kubernetes.io/arch`` has them) that an image's name confines it to, if any."""
    first, _, _ = reference.path.partition("/")
    ends = [_END.search(part) for part in (reference.tag, reference.path.rpartition("/")[2])]
    said = [found[1] for found in ends if found]
    if reference.host == "docker.io" and first in _NAMES and "/" in reference.path:
        said.append(first)
    return tuple(dict.fromkeys(_NAMES[name] for name in said[:1]))
