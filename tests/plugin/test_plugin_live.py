"""The pytest plugin on a cluster that is somebody's: over TLS, by consent, one drill at a time."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "fence"))

from live_world import CONTEXT, LiveWorld

pytest_plugins = ["pytester"]


@pytest.mark.weekly
def test_on_a_real_cluster_drills_of_one_target_take_turns(pytester, tmp_path):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(2))
        def test_it(drill, number, worker_id, record_property):
            record_property("worker", worker_id)
            drill("nightly-off", watch_s=1)  # too short to tell
    """)
    world = LiveWorld(tmp_path, exec_mode="host", speed=400.0)
    try:
        done = pytester.runpytest_subprocess(
            "-n",
            "2",
            f"--killcheck-on={CONTEXT}",
            f"--killcheck-kubeconfig={world.kubeconfig}",
            f"--killcheck-spec={world.spec}",
            "--killcheck-allow-inconclusive",
            "-rs",
            "--junitxml=junit.xml",
        )
    finally:
        world.close()
    done.assert_outcomes(skipped=2)
    # Where they took no turns, the second would find the first one's Lease.
    done.stdout.fnmatch_lines(["*the watch ended*could be told*"])
    done.stdout.no_fnmatch_line("*Lease*")
    kept = ET.parse("junit.xml").iterfind(".//property[@name='worker']")
    assert {one.get("value") for one in kept} == {"gw0", "gw1"}
