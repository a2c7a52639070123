"""What an unrelated project's pytest pays for having killcheck installed. To reach: under 20 ms.

Run: python benchmarks/plugin.py [rounds]
A project of one empty test, with and without the plugin, in turns; the processor's time of whole processes, which other
work on the machine disturbs less than the wall's. Every other plugin is off.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 15
TO_REACH_S = 0.020
LOAD = {True: ["-p", "killcheck.pytest.plugin"], False: []}


def once(folder: str, *, with_plugin: bool) -> float:
    """Seconds of the processor for one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *LOAD[with_plugin], "test_it.py"],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(rounds: int = ROUNDS) -> int:
    """Print both, and the difference; exit 1 where that is too much."""
    took: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_it.py").write_text("def test_it(): pass\n")
        once(folder, with_plugin=True)
        for _ in range(rounds):
            for with_plugin in (False, True):
                took[with_plugin].append(once(folder, with_plugin=with_plugin))
    medians = {key: statistics.median(values) for key, values in took.items()}
    cost = medians[True] - medians[False]
    print(
        f"without {medians[False] * 1000:.0f} ms, with {medians[True] * 1000:.0f} ms (medians of {rounds}): "
        f"{cost * 1000:.1f} ms more; least of each {(min(took[True]) - min(took[False])) * 1000:.1f} ms apart "
        f"(to reach: under {TO_REACH_S * 1000:.0f} ms)"
    )
    return 0 if cost < TO_REACH_S else 1


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
