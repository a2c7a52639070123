"""Images whose tag may mean something else tomorrow."""

from __future__ import annotations

import re
from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.images.reference import InvalidReference, parse

__all__ = ["ImageUnpinned"]


class ImageUnpinned(Probe):
    """A floating tag: what was drilled is not what runs. A third party's registry account: it may drop the tag."""

    id = "image-unpinned"
    claim = "Every executor's image is pinned, so that what was drilled is what runs."
    remedy = "Pin the image by digest (image: name:tag@sha256:...)."
    severity = "warning"
    failures = (1, 2)
    sources = ("bitnami/containers#83267", "devantler-tech/platform#2384")

    def ask(self, world: World) -> Iterable[Finding]:
        """Floating tags are a warning; a version tag without a digest is a note."""
        for one in world.layer_executors:
            for path, container in one.containers:
                image = str(container.get("image", ""))
                try:
                    reference = parse(image)
                except InvalidReference:
                    continue
                if reference.digest:
                    continue
                floats = not re.search(r"\d", reference.tag) or reference.tag in ("latest", "stable", "edge")
                message = f"{image}: a floating tag" if floats else f"{image}: a tag, no digest"
                yield self.finding(
                    world, one.owner, (*path, "image"), message, severity="warning" if floats else "note"
                )
