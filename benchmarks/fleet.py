"""A fleet of embedded kill paths, each drilled under faults, side by side: the wall's time against the work in it.

Run: python benchmarks/fleet.py [PATHS [FAULT ...]]
To reach: within 1.2 times the processor time of all drills divided by the processors. On a machine that does something
else the wall's time says nothing.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from killcheck import fixtures
from killcheck.clock import wall_seconds
from killcheck.run.parallel import processors

#: The command of the Python that runs this, whether or not its folder is in the PATH.
KILLCHECK = str(Path(sys.executable).with_name("killcheck"))
FAULTS = ["suspended", "image-gone", "token-dead"]


def main() -> None:
    count, faults = int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2:] or FAULTS
    with tempfile.TemporaryDirectory() as folder:
        file = written(Path(folder), count, faults)
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        begun = wall_seconds()
        done = subprocess.run([KILLCHECK, "fleet", "drill", str(file), "--json"], stdout=subprocess.PIPE, check=False)
        took = wall_seconds() - begun
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = used.ru_utime + used.ru_stime
    codes = [one["exit_code"] for one in json.loads(done.stdout)["shards"]]
    ideal = work / processors()
    print(f"{len(codes)} kill paths, exit codes {sorted(set(codes))}: {took:.1f} s on {processors()} processors")
    print(f"processor time {work:.1f} s: {took / ideal:.2f} times what it would take divided evenly")


def written(folder: Path, count: int, faults: list[str]) -> Path:
    """The reference kill path, so many times under other names, and the fleet of all of them."""
    for number in range(count):
        for source in fixtures.path("dead-man").glob("*.yaml"):
            text = source.read_text()
            target = folder / f"path-{number}" / source.name
            target.parent.mkdir(exist_ok=True)
            named = yaml.safe_load(text) | {"name": f"path-{number}"} if source.name == "killcheck.yaml" else None
            target.write_text(text if named is None else yaml.safe_dump(named))
    fleet = {
        "apiVersion": "killcheck/v1",
        "kind": "Fleet",
        "name": "benchmark",
        "atOnce": processors(),
        "results": "results",
        "clusters": [{"name": "own", "context": "embedded"}],
        "paths": [
            {"spec": f"path-{number}/killcheck.yaml", "exec": "host", "matrix": True, "under": faults}
            for number in range(count)
        ],
    }
    (folder / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    return folder / "fleet.yaml"


if __name__ == "__main__":
    main()
