"""How fast the embedded cluster is: up with the reference path loaded, whole nights, `lint` of a folder, `--help`.

Run: python benchmarks/embedded.py [ROUNDS]
To reach, in seconds: up 0.25 as a process, a night of 24 virtual hours (the executor's process included) 0.40 as a
process and 0.08 warm, lint of a folder 0.25. Processor seconds are given beside the wall's: on a machine that does
something else only they say anything, and the least of them most.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from killcheck.clock import wall_seconds

UP = """
from killcheck.run.session import Session
with Session(fixture="dead-man").cluster() as (cluster, kill_path):
    pass
"""
#: The command of the Python that runs this, whether or not its folder is in the PATH.
KILLCHECK = str(Path(sys.executable).with_name("killcheck"))
DRILL = [KILLCHECK, "drill", "--example", "dead-man", "--night", "24h", "--quiet"]
FOLDER = str(Path(__file__).resolve().parents[1] / "fixtures/paths/dead-man")

#: (wall seconds, processor seconds) of one round.
Cost = tuple[float, float]


def processor_s() -> float:
    """Of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(work: Callable[[], object]) -> Cost:
    """What one round of it costs."""
    begun, used = wall_seconds(), processor_s()
    work()
    return wall_seconds() - begun, processor_s() - used


def process(argv: list[str], folder: str) -> Callable[[], object]:
    """A command as a process of its own; ``lint`` may find what it finds."""
    return lambda: subprocess.run(
        argv, cwd=folder, check="lint" not in argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def up() -> None:
    """A cluster with the reference path, in this process."""
    from killcheck.run.session import Session

    with Session(fixture="dead-man").cluster():
        pass


def night() -> None:
    """A night of 24 virtual hours, in this process."""
    from killcheck.drill.sequence import Options
    from killcheck.run.planned import PlannedDrill
    from killcheck.run.runner import Run
    from killcheck.run.session import Session

    session = Session(fixture="dead-man")
    planned = [PlannedDrill(session.kill_path.layers[0].name, options=Options(run_out_s=24 * 3600.0))]
    with tempfile.TemporaryDirectory() as folder:
        result = Run(session, planned, folder=Path(folder)).execute()
    assert result.verdict == "survived", result.verdict
    assert result.drills[0].watched_s >= 24 * 3600.0


def main(rounds: str = "5") -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, work in (
            ("killcheck --help (process)", process([KILLCHECK, "--help"], folder)),
            ("cluster up, path loaded (process, imports included)", process([sys.executable, "-c", UP], folder)),
            ("killcheck drill --night 24h (process)", process(DRILL, folder)),
            ("killcheck lint of a folder (process)", process([KILLCHECK, "lint", "--manifests", FOLDER], folder)),
            ("cluster up, path loaded (warm)", up),
            ("whole night, 24 virtual hours (warm)", night),
        ):
            work()
            walls, used = zip(*(timed(work) for _ in range(int(rounds))), strict=True)
            print(
                f"{name:<52} wall median {statistics.median(walls):.3f} s, worst {max(walls):.3f} s; "
                f"processor least {min(used):.3f} s, median {statistics.median(used):.3f} s; of {rounds}"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
