"""Removes the containers and networks of a killcheck that was killed: a small program that outlives it for that alone.

Its standard input ends when killcheck does, however that ends; whoever closes in good order kills it first. Run as
``python -P container_guardian.py HOST MARK``; nothing is imported before it is needed.
"""

from __future__ import annotations

import sys

__all__ = ["LABEL", "main"]

#: Label of containers and networks that are made for one run: host and pid, so that what a dead process left is known.
LABEL = "killcheck.dev/exec"


def main(host: str, mark: str) -> None:
    """Wait for the end of standard input, and remove what carries ``mark`` on the engine at ``host``."""
    sys.stdin.buffer.read()
    from killcheck.engine.connection import Engine, answered

    api = Engine(host).api
    marked = {"label": f"{LABEL}={mark}"}
    with answered(host):
        for one in api.containers(all=True, filters=marked):
            api.remove_container(one["Id"], force=True, v=True)
        for network in api.networks(filters=marked):
            api.remove_network(network["Id"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
