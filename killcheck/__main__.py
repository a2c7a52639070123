"""``python -m killcheck``: the command, where its script is not in the PATH."""

from __future__ import annotations

from killcheck.cli import run

if __name__ == "__main__":
    run()
