"""What each fault takes for a bite: somebody who met it, never that it is in place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from killcheck import faults
from killcheck.capabilities.programs import Ran
from killcheck.faults.base import Evidence, Fault
from killcheck.layers.base import Observations
from killcheck.machine.looks import Looks
from killcheck.spec.killpath import Command, KillPath, Layer, LayerType, Target

NOW = datetime(2026, 1, 15, 3, 0, 0, tzinfo=UTC)
COMMAND = Command(("./stop.sh",))
LAYER = Layer("off", LayerType.COMMAND, covers=("box",), command=COMMAND)
PATH = KillPath("test", (Target("box", "apps/v1", "Deployment", "inference", "box"),), (LAYER,))
#: Faults whose evidence may be a try of the drill's own: a layer that does without what is gone survives by that.
TRIED = {
    "clock-behind",
    "disk-full",
    "disk-read-only",
    "lock-held",
    "lock-stale",
    "orchestrator-dead",
    "podsecurity",
    "registry-quota",
    "registry-refuses",
    "registry-stopped",
    "registry-throttles",
    "registry-unreachable",
    "work-comes",
}


def quiet():
    """A drill an hour after its trigger: every state is as a fault left it, and nobody has met it or said a word."""
    scene = SimpleNamespace(
        events={}, claims={}, jobs={}, gone_at={}, pods={}, census=SimpleNamespace(targets=()),
        known_nodes={"gpu-1": {"metadata": {"name": "gpu-1"}}}, gpu_pods=list, pods_on=lambda node: [],
        pool_nodes=list, objects_of=lambda target: [], in_pool=lambda node: True,
    )  # fmt: skip
    kube = MagicMock()
    kube.find.return_value = None
    kube.list.return_value = SimpleNamespace(items=[])
    capabilities = MagicMock()
    ended = SimpleNamespace(state="terminated", terminated_by="spot", notice=NOW, rebalance=NOW, metadata_tells=True)
    capabilities.stand_in.portal = SimpleNamespace(cut_off=[], cut_short=lambda: ["dev"])
    capabilities.cloud = SimpleNamespace(
        metadata_unheard=[],
        spot_refused=[],
        identities_refused=[],
        instances={"i-1": ended},
        queue=SimpleNamespace(sent=[]),
    )
    capabilities.machine = SimpleNamespace(looked_at=lambda path: {})
    capabilities.controllers = SimpleNamespace(stopped={"job-controller", "cronjob-controller", "karpenter"})
    stage = SimpleNamespace(
        run="20260115-030001-abc123-0", kill_path=PATH, scene=scene, slot=None, observations=Observations(),
        timeline=SimpleNamespace(start=NOW, reached={}, lost=set(), deadline_s=lambda phase: 300.0), altered=False, journal=MagicMock(),
        programs=SimpleNamespace(met=lambda folder: []),
        cluster=SimpleNamespace(
            kube=kube, loop=SimpleNamespace(now=lambda: NOW + timedelta(hours=1), monotonic=lambda: 3600.0),
            capabilities=capabilities, real=False,
        ),
    )  # fmt: skip
    ran = Ran(COMMAND, NOW, NOW, 0, output="2026-01-15T03:00:00Z box is TERMINATED")
    return stage, SimpleNamespace(layer=LAYER, ran=ran, not_fired=lambda: None, cron_job=None)


def injected(kind):
    """A fault that believes itself in place: what its injection writes down is as it would be."""
    fault = kind()
    for name, value in {
        "_folder": "/before", "_names": ("gcloud",), "_taken": ("/srv/stop.lock",), "_until": "2026-01-15T03:04:00+00:00",
        "_at": NOW, "_nodes": ("gpu-1",), "struck": ("i-1",), "_due": NOW, "_since": "2026-01-15T03:00:00Z", "_ids": ("i-1",),
        "_before_s": 30, "container": "helper",
    }.items():  # fmt: skip
        if hasattr(fault, name):
            setattr(fault, name, value)
    return fault


@pytest.mark.parametrize("kind", faults.every(), ids=lambda kind: kind.name)
def test_every_fault_says_what_shows_it(kind):
    assert isinstance(kind.shows, Evidence)
    assert (kind.shows is Evidence.TRIED) == (kind.name in TRIED)


@pytest.mark.parametrize(
    "kind", [one for one in faults.every() if one.shows is not Evidence.TRIED], ids=lambda kind: kind.name
)
def test_that_it_is_in_place_is_no_bite(kind, monkeypatch):
    monkeypatch.setattr("killcheck.faults.machine.program_needs.scripts.own_script", lambda *args: "stop.sh")
    stage, layer = quiet()
    if kind.name in NEEDS_A_CRONJOB:
        monkeypatch.setattr(
            f"{kind.__module__}.cron_job_of", lambda layer: {"metadata": {"name": "off"}}, raising=False
        )
        monkeypatch.setattr(f"{kind.__module__}.images", lambda layer: ["busybox:1"], raising=False)
        monkeypatch.setattr(f"{kind.__module__}.executor_image", lambda layer: "busybox:1", raising=False)
    assert injected(kind).bitten(stage, layer) is None


NEEDS_A_CRONJOB = {"cached-copy-evicted", "ecr-token-expired", "pull-secret-expired", "tag-deleted"}


WAITS = {
    "metadata": {"name": "off-1"},
    "status": {"containerStatuses": [{"name": "off", "state": {"running": {"startedAt": "2026-01-15T03:00:01Z"}}}]},
}


@pytest.mark.parametrize(
    ("after_s", "seen", "bites"),
    [
        (300, {}, True),
        (299, {}, False),  # it may still be about to ask
        (300, {"logs": {("off-1", "off"): "deleting the old pods"}}, False),
        (300, {"unread": {("off-1", "off"): "its kubelet does not answer"}}, False),
    ],
)
@pytest.mark.parametrize("kind", [faults.ApiUnreachable, faults.DnsWrong, faults.ProxyInTheWay])
def test_an_executor_that_waits_in_silence_past_its_deadline_met_the_network_fault(kind, after_s, seen, bites):
    stage, layer = quiet()
    stage.cluster.loop.now = lambda: NOW + timedelta(seconds=after_s)
    stage.observations = Observations(pods={"1": WAITS}, **seen)
    assert bool(kind().bitten(stage, layer)) is bites


def test_a_plugin_that_comes_too_late_is_told():
    fault = faults.ApiUnreachable()
    assert fault.missed() is None  # where none was probed nothing is known
    fault._probed = True
    assert "only some time after a pod has started" in fault.missed()


def test_a_fault_that_does_not_say_is_refused_where_it_is_written():
    with pytest.raises(TypeError, match="does not say what it shows"):

        class Silent(Fault):
            """It has an evidence of its own, and nobody knows of what kind."""

            def bitten(self, stage, layer):
                return "it is there"


# -- who looked at a lock ----------------------------------------------------------------------------------
@pytest.fixture
def looks():
    return Looks(SimpleNamespace(now=lambda: NOW))


def test_who_looks_where_it_lies_follows_nothing(tmp_path, looks):
    file = tmp_path / "stop.lock"
    file.write_text("7\n")
    looks.lay(file)
    looks.begun(COMMAND)
    assert looks.lies_at(file).read_text() == "7\n"
    looks.ended(COMMAND)
    assert looks.seen(file) == {}
    looks.take_up(file)
    assert looks.lies_at(file) == file


def test_a_look_is_of_the_program_that_runs_alone(tmp_path, looks):
    file, other = tmp_path / "stop.lock", Command(("./other.sh",))
    file.write_text("7\n")
    looks.lay(file)
    assert file.read_text() == "7\n"
    assert looks.seen(file) == {}  # the drill's own look is nobody's
    looks.begun(COMMAND)
    assert file.exists()
    looks.begun(other)
    assert file.exists()  # by one of the two
    looks.ended(COMMAND)
    looks.ended(other)
    assert looks.seen(file) == {COMMAND: NOW}
    looks.take_up(file)
    assert [one.name for one in tmp_path.iterdir()] == ["stop.lock"]
    assert not file.is_symlink()
    looks.take_up(file)


@pytest.mark.parametrize("folder", [False, True])
def test_what_a_program_put_in_its_place_stays(tmp_path, looks, folder):
    file = tmp_path / "stop.lock"
    file.mkdir() if folder else file.touch()
    looks.lay(file)
    file.unlink()
    file.write_text("mine")
    looks.take_up(file)
    assert file.read_text() == "mine"
    assert [one.name for one in tmp_path.iterdir()] == ["stop.lock"]
