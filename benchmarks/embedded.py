"""How fast the embedded cluster is: up with the reference path loaded, a whole night, and `killcheck --help`.

Run: python benchmarks/embedded.py
To reach: up under 0.5 s, a night of 24 virtual hours (the executor's process included) under 1 s, --help under 0.2 s.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from killcheck.clock import wall_seconds

ROUNDS = 5

UP = """
from killcheck.run.session import Session
with Session(fixture="dead-man").cluster() as (cluster, kill_path):
    pass
"""


def timed(argv: list[str], cwd: str) -> float:
    begun = wall_seconds()
    subprocess.run(argv, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    return wall_seconds() - begun


def inside() -> tuple[list[float], list[float]]:
    """(seconds to a loaded cluster, seconds for a whole night) in a warm process."""
    from killcheck.drill.sequence import Options
    from killcheck.run.planned import PlannedDrill
    from killcheck.run.runner import Run
    from killcheck.run.session import Session

    ups, nights = [], []
    for _ in range(ROUNDS):
        session = Session(fixture="dead-man")
        layer = session.kill_path.layers[0].name
        begun = wall_seconds()
        with session.cluster():
            ups.append(wall_seconds() - begun)
        begun = wall_seconds()
        with tempfile.TemporaryDirectory() as folder:
            planned = [PlannedDrill(layer, options=Options(run_out_s=24 * 3600.0))]
            result = Run(session, planned, folder=Path(folder)).execute()
        nights.append(wall_seconds() - begun)
        assert result.verdict == "survived", result.verdict
        assert result.drills[0].watched_s >= 24 * 3600.0
    return ups, nights


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        help_s = [timed(["killcheck", "--help"], folder) for _ in range(ROUNDS)]
        cold_s = [timed([sys.executable, "-c", UP], folder) for _ in range(ROUNDS)]
        drill_s = [timed(["killcheck", "drill", "--night", "24h", "--quiet"], folder) for _ in range(ROUNDS)]
    ups, nights = inside()
    for name, values in (
        ("killcheck --help (process)", help_s),
        ("cluster up, path loaded (process, imports included)", cold_s),
        ("cluster up, path loaded (warm)", ups),
        ("whole night, 24 virtual hours (warm)", nights),
        ("killcheck drill --night 24h (process)", drill_s),
    ):
        print(f"{name:<55} median {statistics.median(values):.3f} s   worst {max(values):.3f} s   of {len(values)}")


if __name__ == "__main__":
    main()
