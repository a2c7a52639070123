"""The CustomResourceDefinitions in `crds/`: what the models' own resources look like to clients.

The files there are for people, and what is changed. ``crds.json`` has the same, a definition a line, and is read by
every cluster: it takes a fortieth of the time. Make it again with ``python -m killcheck.embedded.models.definitions``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from killcheck.kube.objects import Obj

__all__ = ["crds", "written"]

_HERE = Path(__file__).parent


@cache
def crds() -> tuple[Obj, ...]:
    """Every CustomResourceDefinition that an embedded cluster has from the start; shared by all, and read-only."""
    return msgspec.json.decode((_HERE / "crds.json").read_bytes(), type=tuple[Obj, ...])


def written() -> bytes:
    """What ``crds.json`` is to hold: the definitions of `crds/`, file by file in order of name."""
    from killcheck.text.yamlfile import documents

    files = sorted((_HERE / "crds").glob("*.yaml"))
    found = [doc.value for file in files for doc in documents(file.read_text("utf-8"), file.name)]
    return b"[\n" + b",\n".join(map(msgspec.json.encode, found)) + b"\n]\n"


if __name__ == "__main__":
    (_HERE / "crds.json").write_bytes(written())
