"""Build the wheel, install it into an empty environment, drive it from an empty folder: what a new user would do."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Of an environment without extras, pip's own included.
MOST_MB = 115.0


def run(*argv: str | Path, cwd: Path, expect: int = 0) -> str:
    done = subprocess.run([str(a) for a in argv], cwd=cwd, capture_output=True, text=True, check=False)
    what = " ".join(str(a) for a in argv)
    if done.returncode != expect:
        sys.exit(f"{what}: exit {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}")
    if "Package would be ignored" in done.stdout + done.stderr:
        sys.exit(f"{what}: setuptools warns of data as of packages that are not listed\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty = folder / "empty"
        empty.mkdir()
        run(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", ROOT, cwd=empty)
        wheel = next((folder / "dist").glob("*.whl"))
        venv.create(folder / "venv", with_pip=True)
        bin_ = folder / "venv" / "bin"
        run(bin_ / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=empty)
        site = run(bin_ / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=empty).strip()
        for bare in ("probes", "suites", "fixtures"):
            if (Path(site) / bare).exists():
                sys.exit(f"the wheel puts a bare {bare!r} into site-packages")
        size_mb = sum(file.stat().st_size for file in Path(site).rglob("*") if file.is_file()) / 1e6
        if size_mb > MOST_MB:
            sys.exit(f"pip install puts {size_mb:.0f} MB there: what only some need is an extra")
        run(bin_ / "python", "-c", "import killcheck.probes, killcheck.suites, killcheck.fixtures", cwd=empty)
        document = json.loads(run(bin_ / "killcheck", "demo", "--json", cwd=empty))
        verdicts = [drill["verdict"] for drill in document["drills"]]
        if verdicts != ["survived", "exposed", "exposed", "exposed"]:
            sys.exit(f"the installed wheel's demo ended with {verdicts}")
        run(bin_ / "killcheck", "drill", "--example", "dead-man", "--under", "image-gone", cwd=empty, expect=1)
        # As the README has it, from a clone beside an installed killcheck.
        run(bin_ / "killcheck", "drill", ROOT / "fixtures/paths/two-switches/killcheck.yaml", "-q", cwd=empty)
        print(f"wheel: {wheel.name} works from an empty folder: {', '.join(verdicts)}")


if __name__ == "__main__":
    main()
