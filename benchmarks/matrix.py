"""The whole matrix (all layers, all faults) of a reference path on two processors, and how fast a search is.

Run: python benchmarks/matrix.py [fixture] [scenarios]
To reach: the matrix under 30 s, 50 scenarios a second and processor. Processor seconds are given beside the wall's: on
a machine that does something else only they say anything.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

from killcheck.clock import wall_seconds
from killcheck.run import explore, matrix
from killcheck.run.runner import Run
from killcheck.run.session import Session

WORKERS = 2


def processor_s() -> float:
    """Of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main(fixture: str = "two-switches", scenarios: str = "200") -> None:
    session = Session(fixture=fixture)
    with session.cluster() as (cluster, _):
        capabilities = cluster.capabilities.names
    planned = matrix.plan(session.kill_path, capabilities=capabilities)
    began, used = wall_seconds(), processor_s()
    with tempfile.TemporaryDirectory() as folder:
        Run(session, planned, folder=Path(folder), workers=WORKERS).execute()
    wall, used = wall_seconds() - began, processor_s() - used
    print(
        f"{fixture}: {len(planned)} cells in {wall:.1f} s on {WORKERS} processors (to reach: 30 s); "
        f"{used:.1f} processor seconds, {used / WORKERS:.1f} s were nothing else running"
    )
    used = processor_s()
    found = explore.explore(session, budget=int(scenarios), seconds=wall_seconds, workers=WORKERS)
    used = processor_s() - used
    print(
        f"explore: {found.tried} scenarios in {found.seconds:.1f} s, {found.rate:.1f} a second and processor "
        f"(to reach: 50); {used:.1f} processor seconds, {found.tried / used:.1f} a processor second, start included"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
