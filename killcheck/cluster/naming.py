"""How ``--on`` names a kind cluster, and where its kubeconfig is kept; nothing that takes time to import."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DEFAULT_KIND", "KIND_FOLDER", "is_kind", "kind_name"]

#: The cluster that ``--on kind`` means; ``--on kind:NAME`` means another.
DEFAULT_KIND = "killcheck"
#: Where kubeconfigs of kind clusters are kept, under the working folder.
KIND_FOLDER = Path(".killcheck") / "kind"


def is_kind(on: str) -> bool:
    """Whether ``--on`` names a kind cluster."""
    return on == "kind" or on.startswith("kind:")


def kind_name(on: str) -> str:
    """The cluster's name in ``--on kind[:NAME]``."""
    return on.partition(":")[2] or DEFAULT_KIND
