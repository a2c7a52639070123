"""Draw fresh requests, play them on a real API server and on the embedded one, and count what differs, by area.

    python tests/conformance/fresh.py KUBECONFIG [--seed N] [--requests N] [--areas A,B] [--keep FILE] [--report FILE]
    python tests/conformance/fresh.py - --keep FILE      counts anew what FILE holds, without a real server

A sequence is played twice on the real server: an answer in which it differs from itself is no measure, and not counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drawing import AREAS, Sequence, sequences
from drawn import differences, play
from kept import Kept, read, write
from servers import Embedded, Real

#: What changes the cluster for the others: a broken APIService keeps every namespace from going away.
APART = frozenset({"aggregation", "nodes"})


def record(kubeconfig: str, seed: int, drawn: list[Sequence], workers: int) -> Kept:
    """What the real server answers to every sequence; a step in which it was not of one mind has no answer."""
    server = Real(kubeconfig)
    version = server.ask("GET", "/version")[2]["gitVersion"]

    def both(number: int) -> list[dict]:
        sequence = drawn[number]
        one, other = (play(server, sequence, f"fresh-{seed}-{number}-{turn}") for turn in "ab")
        return [a if not differences(a, b, settled=sequence.settled) else {} for a, b in zip(one, other, strict=True)]

    apart = [number for number, sequence in enumerate(drawn) if sequence.area in APART]
    beside = [number for number in range(len(drawn)) if number not in apart]
    with ThreadPoolExecutor(workers) as pool:
        answers = dict(zip(beside, pool.map(both, beside), strict=True))
    answers |= {number: both(number) for number in apart}
    return Kept(version, seed, drawn, [answers[number] for number in range(len(drawn))])


def against(kept: Kept) -> list[tuple[str, int, int, list[str]]]:
    """(area, sequence, step, sentences) for every answer of the embedded server that a real one did not give."""
    server = Embedded(kubelets=False)
    found = []
    try:
        for number, (sequence, wanted) in enumerate(zip(kept.sequences, kept.answers, strict=True)):
            got = play(server, sequence, f"fresh-{kept.seed}-{number}-a")
            for step, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
                said = differences(mine, theirs, settled=sequence.settled)
                if said:
                    found.append((sequence.area, number, step, said))
    finally:
        server.close()
    return found


def table(kept: Kept, found: list) -> str:
    """The count by area, as Markdown."""
    rows = ["| area | requests | alike | differ |", "|---|---|---|---|"]
    asked = dict.fromkeys(AREAS, 0)
    for sequence, answers in zip(kept.sequences, kept.answers, strict=True):
        asked[sequence.area] += sum(bool(answer) for answer in answers)
    for area, count in asked.items():
        differ = sum(row[0] == area for row in found)
        if count:
            rows.append(f"| {area} | {count} | {count - differ} | {differ} |")
    rows.append(f"| all | {sum(asked.values())} | {sum(asked.values()) - len(found)} | {len(found)} |")
    return "\n".join(rows) + "\n"


def told(kept: Kept, found: list) -> str:
    """Every difference with its request."""
    lines = []
    for area, number, step, said in found:
        do, body, headers = kept.sequences[number].steps[step]
        lines += [
            f"## {area} {number}.{step} {do} {headers or ''}",
            f"    {str(body)[:1500]}",
            *(f"  - {line[:700]}" for line in said),
        ]
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig", help="of a real API server; '-': replay what --keep holds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--areas", default="")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--keep", type=Path, help="where requests and answers are kept, or read")
    parser.add_argument("--report", type=Path, help="where every difference is told")
    parser.add_argument("--release", help="what the server calls itself, where its build does not say")
    parser.add_argument("--known", type=Path, help="where the places that differ are noted, for the suite's replay")
    said = parser.parse_args(words)
    if said.kubeconfig == "-":
        kept = read(said.keep)
    else:
        drawn = sequences(said.seed, said.requests, tuple(said.areas.split(",")) if said.areas else ())
        kept = record(said.kubeconfig, said.seed, drawn, said.workers)
        kept = kept._replace(version=said.release or kept.version)
        if said.keep:
            write(said.keep, kept)
    found = against(kept)
    print(f"kube-apiserver {kept.version}, seed {kept.seed}\n\n{table(kept, found)}")
    if said.known:
        places = {area: [f"{n}.{step}" for name, n, step, _ in found if name == area] for area in AREAS}
        said.known.write_text(json.dumps({area: where for area, where in places.items() if where}, indent=1) + "\n")
    if said.report:
        said.report.write_text(told(kept, found))


if __name__ == "__main__":
    main(sys.argv[1:])
