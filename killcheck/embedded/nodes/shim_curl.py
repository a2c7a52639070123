"""In a container: curl, whose time limits and retries count in the cluster's time. Everything else is the host's curl.

Source: curl 8's tool_operate.c (what is transient, how long it waits) and its manual page.
"""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

from killcheck.embedded.nodes.shim_agent import ask, complain, run

REAL = "@REAL@"
#: curl's own limit for connecting, in seconds.
CONNECT_S = 300.0
#: The kernel's: SYNs that nobody answers.
SYN_S = 130.0
TRANSIENT = {408, 429, 500, 502, 503, 504}
WITH_VALUE = {
    "--retry": "retry",
    "--retry-delay": "delay",
    "--retry-max-time": "window",
    "--max-time": "limit",
    "--connect-timeout": "connect",
}


def options(argv: list[str]) -> tuple[dict[str, float], set[str], str]:
    """(limits in seconds and counts, flags, first URL)."""
    limits: dict[str, float] = {}
    flags: set[str] = set()
    url = ""
    index = 0
    while index < len(argv):
        word = argv[index]
        name, equals, value = word.partition("=")
        if name in WITH_VALUE or (word.startswith("-") and not word.startswith("--") and word.endswith("m")):
            if not equals:
                index += 1
                value = argv[index] if index < len(argv) else "0"
            limits[WITH_VALUE.get(name, "limit")] = number(value)
        elif word.startswith("-m") and not word.startswith("--"):
            limits["limit"] = number(word[2:])
        elif word.startswith("--"):
            flags.add(word)
        elif word.startswith("-"):
            flags |= {f"-{letter}" for letter in word[1:].partition("X")[0]}
        elif "://" in word and not url:
            url = word
        index += 1
    return limits, flags, url


def number(text: str) -> float:
    """A number as curl reads it; 0 for anything else."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def once(argv: list[str], limits: dict[str, float], url: str) -> int:
    """One transfer: its exit code."""
    host = urlsplit(url).hostname or ""
    port = urlsplit(url).port or (443 if url.startswith("https") else 80)
    limit = min((v for v in (limits.get("limit"), limits.get("connect")) if v), default=0.0)
    policy = ask(f"reach {host} {port}") if url else "allow"
    if policy == "nodns":
        complain(f"curl: (6) Could not resolve host: {host}")
        return 6
    if policy == "refuse":
        complain(f"curl: (7) Failed to connect to {host} port {port} after 0 ms: Couldn't connect to server")
        return 7
    if policy == "drop":
        waited = limit or min(CONNECT_S, SYN_S)
        ask(f"sleep {waited}")
        after = f"after {int(waited * 1000)} ms"
        complain(f"curl: (28) Failed to connect to {host} port {port} {after}: Timeout was reached")
        return 28
    if policy == "mute":
        waited = limit or CONNECT_S
        ask(f"sleep {waited}")
        complain(f"curl: (28) SSL connection timed out after {int(waited * 1000)} milliseconds")
        return 28
    # The time for connecting is over with a look-up; after that the answer takes none of the cluster's time.
    patience = limit if policy == "unanswered" else limits.get("limit")
    code = run([REAL, *argv, "--retry", "0", "--max-time", "0"], patience or None)
    if code is None:
        after = f"after {int((patience or 0.0) * 1000)} milliseconds"
        if policy == "unanswered":
            complain(f"curl: (28) Resolving timed out {after}")
        else:
            complain(f"curl: (28) Operation timed out {after} with 0 bytes received")
        return 28
    return code


def transient(code: int, flags: set[str]) -> bool:
    """Whether curl would try again."""
    if code in (0, 22):
        status = int(ask("last") or 0)
        return status in TRANSIENT or (code == 22 and "--retry-all-errors" in flags)
    if "--retry-all-errors" in flags:
        return True
    return code in (6, 28) or (code == 7 and "--retry-connrefused" in flags)


def main(argv: list[str]) -> int:
    """As curl."""
    tried: int | None = None
    if argv and argv[0].startswith("--killcheck-tried="):
        tried = int(argv.pop(0).partition("=")[2])
    limits, flags, url = options(argv)
    left = int(limits.get("retry", 0))
    delay = limits.get("delay") or 1.0
    spent = 0.0
    while True:
        code = once(argv, limits, url) if tried is None else tried
        tried = None
        if left <= 0 or not transient(code, flags):
            return code
        wait = limits.get("delay") or delay
        if limits.get("window") and spent + wait > limits["window"]:
            return code
        if "-s" not in flags and "--silent" not in flags:
            plural = "ies" if left > 1 else "y"
            complain(f"Warning: Problem: transient error. Will retry in {int(wait)} seconds. {left} retr{plural} left.")
        ask(f"sleep {wait}")
        spent += wait
        left -= 1
        delay = min(delay * 2, 600.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
