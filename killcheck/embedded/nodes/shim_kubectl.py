"""In a container: kubectl, whose ``--timeout`` counts in the cluster's time, as does its wait for dropped packets.

The texts are kubectl's own (k8s.io/kubectl v1.32: wait, rollout status, delete, drain, scale).
"""

from __future__ import annotations

import os
import sys

from killcheck.embedded.nodes.shim_agent import ask, complain, run

REAL = "@REAL@"
API = "@API@"
#: client-go gives up dialling after so many seconds, and the handshake that follows (net/http's default transport).
DIAL_S = 30.0
HANDSHAKE_S = 10.0
#: Those that ask again every second instead of watching: a clock of their own, by which a night would pass meanwhile.
POLLING = {"drain", "scale"}
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
PLURALS = {
    "po": "pods",
    "deploy": "deployments",
    "sts": "statefulsets",
    "ds": "daemonsets",
    "no": "nodes",
    "pvc": "persistentvolumeclaims",
    "ns": "namespaces",
    "rs": "replicasets",
}
#: Subcommands that wait, and their own limits in seconds (0: for ever; scale then does not wait).
WAITING = {"wait": 30.0, "rollout": 0.0, "delete": 0.0, "drain": 0.0, "scale": 0.0}


def seconds(text: str) -> float:
    """A Go duration; a bare number is seconds."""
    total, number, rest = 0.0, "", text
    while rest:
        if rest[0].isdigit() or rest[0] == ".":
            number, rest = number + rest[0], rest[1:]
            continue
        unit = "ms" if rest.startswith("ms") else rest[0]
        if unit not in UNITS or not number.strip("."):
            return 0.0
        total, number, rest = total + float(number) * UNITS[unit], "", rest[len(unit) :]
    return total + (float(number) if number.strip(".") else 0.0)


def limit_of(argv: list[str]) -> tuple[str, float]:
    """(subcommand, its --timeout in seconds)."""
    command = next((word for word in argv if word in WAITING), "")
    limit = WAITING.get(command, 0.0)
    for index, word in enumerate(argv):
        if word.startswith("--timeout="):
            limit = seconds(word.partition("=")[2])
        elif word == "--timeout" and index + 1 < len(argv):
            limit = seconds(argv[index + 1])
    return command, limit


def without_timeout(argv: list[str]) -> list[str]:
    """The arguments with every --timeout so long that kubectl's own clock never decides."""
    result: list[str] = []
    skip = False
    for word in argv:
        if skip:
            skip = False
        elif word == "--timeout":
            skip = True
        elif not word.startswith("--timeout="):
            result.append(word)
    return result


def main(argv: list[str]) -> int:
    """As kubectl."""
    policy = ask(f"reach {API.partition(':')[0]} {API.partition(':')[2]}")
    if policy == "drop" and not {"version", "config", "help", "completion"} & set(argv[:1]):
        ask(f"sleep {DIAL_S}")
        complain(f"Unable to connect to the server: dial tcp {API}: i/o timeout")
        return 1
    if policy == "mute" and not {"config", "help", "completion"} & set(argv[:1]):
        ask(f"sleep {HANDSHAKE_S}")
        complain("Unable to connect to the server: net/http: TLS handshake timeout")
        return 1
    command, limit = limit_of(argv)
    if not command or limit <= 0:
        if command in POLLING - {"scale"}:
            ask("polls")
        os.execv(REAL, ["kubectl", *argv])  # noqa: S606
    if command in POLLING:
        ask("polls")
    longest = ["--timeout=1000h"] if command in ("wait", "rollout", "delete", "drain", "scale") else []
    code = run([REAL, *without_timeout(argv), *longest], limit)
    if code is None:
        complain(late(command, argv, limit))
        return 1
    return code


def late(command: str, argv: list[str], limit: float) -> str:
    """What kubectl says when its time is up."""
    if command == "drain":
        return f"error: unable to drain node, aborting command...: global timeout reached: {limit:g}s"
    if command == "rollout":
        return "error: timed out waiting for the condition"
    named = [word for word in argv[argv.index(command) + 1 :] if not word.startswith("-")]
    kind, _, name = named[0].partition("/") if named else ("", "", "")
    name = name or (named[1] if len(named) > 1 else "")
    if command == "scale":
        return f'error: timed out waiting for "{name}" to be synced'
    what = f"{PLURALS.get(kind, kind if kind.endswith('s') else kind + 's')}/{name}"
    return f"error: timed out waiting for the condition on {what}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
