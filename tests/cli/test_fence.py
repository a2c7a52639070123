"""``killcheck fence`` as a user runs it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main


def fence(*argv):
    return CliRunner().invoke(main, ["fence", "--no-color", *argv])


def test_the_reference_paths_pool_is_within_its_ceiling():
    done = fence("--json")
    document = json.loads(done.stdout)
    assert done.exit_code == 0, done.output
    assert {"pool", "verdict", "worst_instance", "max_devices_per_node", "max_usd_per_hour", "door", "remedy"} <= set(
        document["fences"][0])


@pytest.mark.parametrize(("ceiling", "code"), [(["--max-devices", "8"], 0), (["--max-devices", "4"], 1), ([], 3)])
def test_the_ceiling_decides(ceiling, code):
    done = fence("--manifests", str(fixtures.path("dead-man")), *ceiling)
    assert done.exit_code == code, done.output
    assert "g6e.48xlarge" in done.output


def test_a_hole_is_named_with_what_closes_it():
    text = " ".join(fence("--manifests", str(fixtures.path("dead-man")), "--max-devices", "4").output.split())
    assert "remedy" in text
    assert "NodePool/gpu" in text
