"""The command without its script: ``python -m killcheck``."""

from __future__ import annotations

import subprocess
import sys


def test_python_runs_the_package():
    done = subprocess.run(
        [sys.executable, "-m", "killcheck", "gone"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 2
    assert "no such command 'gone'" in done.stderr
