"""This machine as a new user's may be: without curl, kubectl and a Docker Engine, and not as root."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from killcheck.embedded.nodes.hostprograms import BINARY_DIRS

__all__ = ["HIDDEN", "poorer"]

HIDDEN = ("curl", "kubectl", "docker", "podman")
#: Hides files behind one that nobody can start, in a mount namespace of its own; then nobody is root any more.
_SCRIPT = """
while [ "$1" != -- ]; do mount --bind /dev/null "$1"; shift; done; shift
exec unshare --user --map-user=1000 --map-group=1000 "$@"
"""


@functools.cache
def poorer() -> tuple[str, ...] | None:
    """What stands before a command line so that it runs on the poorer machine; None where this one cannot be made so."""
    places = {f"{folder}/{name}" for folder in (*os.environ["PATH"].split(":"), *BINARY_DIRS) for name in HIDDEN}
    there = sorted({os.path.realpath(place) for place in places if Path(place).exists()})
    alone = ["--mount", "--propagation", "private"]
    first = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), *alone]
    made = (*first, "bash", "-c", _SCRIPT, "poorer", *there, "--")
    try:
        done = subprocess.run([*made, "true"], check=False, capture_output=True)
    except FileNotFoundError:
        return None
    return made if done.returncode == 0 else None
