"""``killcheck init`` on each seed's manifests writes a spec that drills without an edit, and says what it should."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from killcheck import discover, fixtures
from killcheck.cli import main
from killcheck.kube import manifests
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec import specfile

#: What a drill of each layer that is found must say: its verdict, and where it is stuck.
EXPECTED = {
    "dead-man": {"gpu-nightly-off": ("survived", "")},
    "dead-man-false-green": {"gpu-nightly-off": ("exposed", "scale_written")},
    "dead-man-image-gone": {"gpu-nightly-off": ("exposed", "image_pulled")},
    "dead-man-no-curl": {"gpu-nightly-off": ("exposed", "executor_finished")},
    "held-mornings": {"gpu-nightly-off": ("survived", ""), "gpu-hold": ("survived", "")},
    "kueue-quota": {"nightly-hold": ("survived", "")},
    "scale-to-zero": {"render-ui-to-zero": ("survived", ""), "video-to-zero": ("survived", "")},
    "self-terminating": {"embed-worker-self": ("survived", ""), "idle-monitor": ("survived", "")},
    "spot-training": {"spot-reclaim": ("survived", "")},
    "two-switches": {"gpu-nightly-off": ("survived", ""), "second-switch": ("survived", "")},
}


@pytest.mark.parametrize(("name", "layer"), [(name, layer) for name, layers in EXPECTED.items() for layer in layers])
@pytest.mark.one_in(4)
def test_the_written_spec_drills_as_it_is(
    name: str,
    layer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deploy = tmp_path / "deploy"
    shutil.copytree(fixtures.path(name), deploy, ignore=shutil.ignore_patterns("killcheck.yaml"))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["init", "--manifests", "deploy"])
    assert result.exit_code == 0, result.output
    session = Session(spec=Path("killcheck.yaml"), manifests=[deploy], exec_mode="host")
    assert {found.name for found in session.kill_path.layers} == set(EXPECTED[name])
    (drill,) = Run(session, [PlannedDrill(layer)], sinks=[]).execute().drills
    assert (str(drill.verdict), drill.stuck_at or "") == EXPECTED[name][layer], drill.cause or drill.why


@pytest.mark.parametrize("name", ["dead-man", "scale-to-zero", "self-terminating"])
def test_every_deadline_says_how_it_came_about(name: str, tmp_path: Path) -> None:
    spec = tmp_path / "killcheck.yaml"
    assert CliRunner().invoke(main, ["init", "--manifests", str(fixtures.path(name)), "-o", str(spec)]).exit_code == 0
    lines = [line.strip() for line in spec.read_text().splitlines()]
    lines = lines[lines.index("deadlines:", lines.index("nodes:")) :]
    for field in ("imagePulled", "scaleWritten", "podsGone", "nodeDrained", "nodeGone"):
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{field}:"))
        assert lines[at - 1].startswith("# "), field
    assert specfile.load(spec).deadlines.pods_gone_s > 0


def test_disruption_budgets_make_waves() -> None:
    objects = manifests.load(fixtures.path("dead-man")).objects
    plain = discover.from_objects(objects)
    for obj in objects:
        if obj["kind"] == "Deployment":
            obj["spec"]["replicas"] = 8
        if obj["kind"] == "NodePool":
            obj["spec"]["disruption"]["budgets"] = [{"nodes": "0"}]  # what holds them up earns no more time
    waves = discover.from_objects(objects)
    assert "1 of 8 nodes" in waves.comments["deadlines.nodeDrained"]
    drained = [found.kill_path.deadlines.node_drained_s for found in (plain, waves)]
    assert drained[1] - drained[0] == 7 * 120.0
