"""What looks like a bite and is none: said before the fault was there, of another node, by another part."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from killcheck import faults
from killcheck.capabilities.offered import Capabilities
from killcheck.capabilities.programs import Ran
from killcheck.faults import FaultError
from killcheck.faults.other_layer import OfNamedLayer, may_name_a_layer
from killcheck.kube.objects import format_time
from killcheck.machine.programs import Files
from killcheck.spec.killpath import Command, KillPath, Layer, LayerType, Target
from killcheck.standins.sso import Portal

NOW = datetime(2026, 1, 15, 3, 0, 0, tzinfo=UTC)
TARGET = Target("vllm", "apps/v1", "Deployment", "inference", "vllm")
LAYER = Layer("off", LayerType.DEAD_MAN, covers=("vllm",))
RUN = SimpleNamespace(layer=LAYER)


class Journal:
    """Does what it is told, and writes nothing down."""

    def __init__(self, capabilities):
        self.capabilities = capabilities

    def never_happened(self):
        pass

    def call(self, capability, what, call, back):
        return getattr(self.capabilities.by_name(capability), call[0])(*call[1:])


def stage_of(*, now=NOW, capabilities=None, events=(), nodes=(), claims=(), objects=(), start=NOW):
    capabilities = capabilities or Capabilities()
    listed = {
        name: {str(n): one for n, one in enumerate(items)} for name, items in (("events", events), ("claims", claims))
    }
    return SimpleNamespace(
        cluster=SimpleNamespace(capabilities=capabilities, loop=SimpleNamespace(now=lambda: now), real=True),
        scene=SimpleNamespace(
            known_nodes={name: {} for name in nodes},
            objects_of=lambda target: list(objects),
            events=listed["events"],
            claims=listed["claims"],
            census=SimpleNamespace(broken=lambda: None, all_on=lambda: 0, targets=[1]),
        ),
        kill_path=KillPath("test", (TARGET,), (LAYER,)),
        journal=Journal(capabilities),
        run="20260115-030001-abc123-0",
        observations=SimpleNamespace(logs={}, events={}, pods={}),
        timeline=SimpleNamespace(start=start, reached={}, lost=set()),
        rewrites=[],
    )


# -- a sign-in that ended by itself ------------------------------------------------------------------------
def asked(portal, token):
    portal(
        {
            "PATH_INFO": "/federation/credentials",
            "REQUEST_METHOD": "GET",
            "HTTP_X_AMZ_SSO_BEARER_TOKEN": token,
            "QUERY_STRING": "account_id=1&role_name=x",
        },
        lambda status, headers: None,
    )


class ClockedPortal(Portal, dict=True):
    """``clock[0]`` is now."""


@pytest.fixture
def portal():
    clock = [NOW]
    made = ClockedPortal(lambda environ, start: [b""], lambda: clock[0], lambda *args: ("key", "secret", "token"))
    made.clock = clock
    return made


def expired(portal):
    """sso-expired, injected, and its moment past."""
    stand_in = SimpleNamespace(
        portal=portal, limit_sessions=lambda until: setattr(portal, "limit", datetime.fromisoformat(until))
    )
    fault = faults.SsoExpired()
    fault.inject(stage_of(capabilities=Capabilities(stand_in=stand_in)), RUN)
    portal.clock[0] = NOW + timedelta(seconds=fault.lives_on_s + 60)
    return fault, stage_of(now=portal.clock[0], capabilities=Capabilities(stand_in=stand_in))


def test_a_session_that_was_over_before_is_no_bite(portal):
    portal.begin("old", NOW - timedelta(hours=1))
    asked(portal, "old")
    fault, stage = expired(portal)
    assert fault.bitten(stage, RUN) is None
    asked(portal, "old")
    asked(portal, "nobodys")
    assert fault.bitten(stage, RUN) is None


def test_a_session_that_it_cut_short_is_one_once_somebody_shows_it(portal):
    portal.begin("dev", NOW + timedelta(hours=8))
    fault, stage = expired(portal)
    assert fault.bitten(stage, RUN) is None
    asked(portal, "dev")
    assert fault.bitten(stage, RUN) == "the portal refused a session that had ended: /federation/credentials"


# -- KEDA's hand of yesterday ------------------------------------------------------------------------------
@pytest.mark.parametrize(("written", "bites"), [(-86400, False), (-30, False), (30, True)])
def test_keda_has_bitten_when_it_wrote_after_the_trigger(written, bites):
    hand = {
        "manager": "keda-operator",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
        "time": format_time(NOW + timedelta(seconds=written)),
    }
    target = {"metadata": {"name": "vllm", "namespace": "inference", "managedFields": [hand]}, "spec": {"replicas": 1}}
    stage = stage_of(objects=[target], now=NOW + timedelta(seconds=60))
    assert bool(faults.KedaMinimum().bitten(stage, RUN)) is bites


# -- another node's notice ---------------------------------------------------------------------------------
def said(kind, name):
    return {
        "reason": "SpotInterrupted",
        "involvedObject": {"kind": kind, "name": name},
        "lastTimestamp": format_time(NOW + timedelta(seconds=5)),
        "metadata": {"name": "e"},
    }


@pytest.mark.parametrize(
    ("kind", "name", "bites"),
    [
        ("Node", "gpu-1", True),
        ("NodeClaim", "claim-of-gpu-1", True),
        ("Node", "web-7", False),
        ("NodeClaim", "claim-of-web-7", False),
    ],
)
def test_a_handler_has_heard_the_message_when_it_speaks_of_a_node_in_scope(kind, name, bites):
    claims = [{"metadata": {"name": f"claim-of-{node}"}, "status": {"nodeName": node}} for node in ("gpu-1", "web-7")]
    fault = faults.SpotQueueMessage()
    fault._at = NOW
    stage = stage_of(events=[said(kind, name)], nodes=["gpu-1"], claims=claims)
    assert bool(fault.bitten(stage, RUN)) is bites


# -- another file that is not there ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("errors", "bites"),
    [
        ("/bin/sh: 0: cannot open scripts/stop.sh: No such file", True),
        ("scripts/stop.sh: line 4: aws-v3: command not found", False),
        ("sh: 1: jq: not found", False),
    ],
)
def test_a_script_is_gone_when_it_is_the_script_that_is_not_found(errors, bites, monkeypatch):
    command = Command(("sh", "scripts/stop.sh"))
    monkeypatch.setattr("killcheck.faults.machine.program_needs.scripts.own_script", lambda *args: "scripts/stop.sh")
    layer = SimpleNamespace(
        layer=Layer("off", LayerType.COMMAND, covers=("vllm",), command=command),
        ran=Ran(command, NOW, NOW, 127, errors=errors),
    )
    fault = faults.ScriptGone()
    stage = stage_of(capabilities=Capabilities(machine=SimpleNamespace(lose_script=lambda name, how: None)))
    fault.inject(stage, layer)
    assert bool(fault.bitten(stage, layer)) is bites


# -- what it cannot do -------------------------------------------------------------------------------------
def test_a_fault_that_has_to_go_on_acting_is_no_other_layers():
    """The controller would stay down for good: nobody would bring it back after the slot."""
    assert not may_name_a_layer(faults.MissedFirings)
    path = KillPath("test", (TARGET,), (LAYER, Layer("second", LayerType.DEAD_MAN, covers=("vllm",))))
    assert "is no fault of a layer's own executor" in OfNamedLayer(faults.MissedFirings(), "second").unsuited_targets(
        path, LAYER
    )


def test_a_sentinel_that_is_somebody_elses_by_then_proves_nothing(tmp_path):
    (tmp_path / "hold").write_text("set by hand\n")
    layer = SimpleNamespace(layer=SimpleNamespace(sentinel=SimpleNamespace(path=str(tmp_path / "hold"))))
    stage = stage_of(capabilities=Capabilities(files=Files()))
    with pytest.raises(FaultError, match="is somebody else's now: it is left as it is"):
        faults.SentinelLost().react(stage, layer)
    assert (tmp_path / "hold").read_text() == "set by hand\n"


@pytest.mark.parametrize("there", [False, True], ids=["no-room", "somebodys"])
def test_a_program_that_cannot_be_put_before_others_is_a_fault_that_cannot_be_injected(monkeypatch, there):
    """Not a crash; and a folder of somebody's is not ours to take away."""
    refused = FileExistsError(17, "File exists") if there else OSError(28, "No space left on device")
    told = []

    class Programs:
        def put_before(self, texts, folder):
            raise refused

    monkeypatch.setattr("killcheck.faults.machine.cli.scripts.clis", lambda *args: ("aws",))
    stage = stage_of(capabilities=Capabilities(programs=Programs()))
    stage.journal.never_happened = lambda: told.append("never")
    with pytest.raises(FaultError, match=r"aws cannot be .*: (File exists|No space left)"):
        faults.CliGone().inject(stage, SimpleNamespace(layer=SimpleNamespace(command=Command(("x",)))))
    assert told == (["never"] if there else [])
