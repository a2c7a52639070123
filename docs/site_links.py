"""A hook of the documentation's site: links to files beside ``docs/`` are their names, for a site has no such pages."""

from __future__ import annotations

import re
from typing import Any

_OUT = re.compile(r"\[([^]]+)\]\((?:\.\./)+([\w./-]+)(?:#[\w-]+)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """``[Recipes](../ci/README.md)`` -> ``Recipes (`ci/README.md`)``, where that leaves docs/."""
    depth = page.file.src_uri.count("/")

    def inside(found: re.Match[str]) -> str:
        ups = found[0].count("../")
        return f"{found[1]} (`{found[2]}`)" if ups > depth else found[0]

    return _OUT.sub(inside, markdown)
