"""In a container: ``nc -z``, which asks whether a port is open; in the cluster's time. Other uses are the host's nc.

Source: OpenBSD netcat's and busybox's manual pages (-z, -w, -v).
"""

from __future__ import annotations

import os
import socket
import sys

from killcheck.embedded.nodes.shim_agent import ask

REAL = "@REAL@"
#: Options whose value is a word of its own.
WITH_VALUE = "wipsIXOTqmP"


def parse(argv: list[str]) -> tuple[str, list[str]]:
    """(option letters, other words)."""
    letters, words, rest = "", [], list(argv)
    while rest:
        word = rest.pop(0)
        if word.startswith("-") and len(word) > 1:
            letters += word[1:]
            if word[-1] in WITH_VALUE and rest:
                rest.pop(0)
        else:
            words.append(word)
    return letters, words


def main(argv: list[str]) -> int:
    """0 where something listens, 1 where nothing does, as nc -z."""
    letters, words = parse(argv)
    if "z" not in letters or len(words) != 2 or not words[1].isdigit():
        if REAL:
            os.execv(REAL, [REAL, *argv])  # noqa: S606
        ask("lacking nc")
        return 1
    try:
        socket.create_connection((words[0], int(words[1])), timeout=5).close()
    except OSError as error:
        if "v" in letters:
            sys.stderr.write(f"nc: {words[0]} ({words[1]}): {error.strerror or error}\n")
        return 1
    if "v" in letters:
        sys.stderr.write(f"Connection to {words[0]} {words[1]} port [tcp/*] succeeded!\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
