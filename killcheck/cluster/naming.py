"""How ``--on`` names a cluster of our own making, and where a kubeconfig is kept; nothing that takes time to import."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DEFAULT_KIND", "ENVTEST", "KIND_FOLDER", "is_kind", "kind_name"]

#: The cluster that ``--on kind`` means; ``--on kind:NAME`` means another.
DEFAULT_KIND = "killcheck"
#: A control plane of this machine's binaries, thrown away after the run.
ENVTEST = "envtest"
#: Where kubeconfigs of kind clusters are kept, under the working folder.
KIND_FOLDER = Path(".killcheck") / "kind"


def is_kind(on: str) -> bool:
    """Whether ``--on`` names a kind cluster."""
    return on == "kind" or on.startswith("kind:")


def kind_name(on: str) -> str:
    """The cluster's name in ``--on kind[:NAME]``."""
    return on.partition(":")[2] or DEFAULT_KIND
