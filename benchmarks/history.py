"""How long `killcheck history` takes over many runs: the first time, and with its index.

Run: python benchmarks/history.py [RUNS]
To reach: 10,000 runs in 2 s with the index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from killcheck.clock import wall_seconds

#: The command of the Python that runs this, whether or not its folder is in the PATH.
KILLCHECK = str(Path(sys.executable).with_name("killcheck"))
HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests" / "history"))


def main() -> None:
    from nights_made import record, write

    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"  # the key that seals them is the one that history knows
        objects = {f"CronJob/ml/off-{number}": {"schedule": "0 3 * * *"} for number in range(20)}
        layers = [f"layer-{number}" for number in range(20)]
        for number in range(runs):
            layer = layers[number % len(layers)]
            verdict = "exposed" if number % 37 == 5 else "survived"
            write(
                Path(folder), record(number // len(layers), verdict, objects=objects, layer=layer, zero=4 + number % 7)
            )
        for name in ("first", "again", "again"):
            begun = wall_seconds()
            argv = [KILLCHECK, "history", f"{folder}/runs", "--json"]
            done = subprocess.run(argv, stdout=subprocess.PIPE, check=False)
            print(f"{runs} runs, {name}: {wall_seconds() - begun:.2f} s, exit code {done.returncode}")


if __name__ == "__main__":
    main()
