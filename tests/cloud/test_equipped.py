"""Who is asked on whose cluster: the account on a real one, a stand-in or the model on the embedded one."""

import sys
from types import SimpleNamespace

import pytest

from killcheck import fixtures
from killcheck.capabilities.cluster import ClusterError, NotInstalled
from killcheck.capabilities.offered import Capabilities
from killcheck.clock import WallLoop
from killcheck.cloud.session import AskError, Aws, call
from killcheck.cluster.cloudword import equip_with_cloud
from killcheck.run.planned import PlannedDrill
from killcheck.run.session import Session
from killcheck.spec import specfile
from killcheck.spec.cloud_access import CloudAccess
from killcheck.spec.killpath import Command, Consent
from killcheck.text.values import replace

NODE = "gce://project/zone/gpu-1"
SAYS = Command((sys.executable, "-c", 'print(\'{"gpu-1": "RUNNING"}\')'), 20.0)


def equipped(access, **settings):
    path = replace(specfile.load(fixtures.spec("dead-man")), cloud=access, **settings)
    cluster = SimpleNamespace(real=True, name="staging", loop=WallLoop(), capabilities=Capabilities())
    equip_with_cloud(cluster, path)
    return cluster.capabilities


def test_without_a_section_nobody_is_asked():
    assert equipped(None).names == frozenset()


def test_an_account_is_asked_and_acted_in():
    assert equipped(CloudAccess(region="us-east-1")).names == {"instances", "aws", "hands", "spot-prices"}


def test_a_program_runs_only_where_consent_names_it():
    asked = equipped(CloudAccess(command=SAYS)).instances
    assert asked.state(NODE) == "unknown"
    assert "name it under consent.commands" in asked.problem
    allowed = equipped(CloudAccess(command=SAYS), consent=Consent(commands=("*",)))
    assert allowed.instances.state(NODE) == "running"
    assert allowed.hands is None


def test_a_stand_in_is_for_the_embedded_cluster():
    with pytest.raises(ClusterError, match="a real one has a real account"):
        equipped(CloudAccess(endpoint="stand-in"))


def test_the_embedded_cluster_asks_nobody_outside_this_machine(monkeypatch):
    path = specfile.load(fixtures.spec("dead-man"))
    account = Session(fixture="dead-man", _kill_path=replace(path, cloud=CloudAccess(region="us-east-1")))
    with account.cluster(PlannedDrill("nightly-off")) as (cluster, _):
        assert cluster.capabilities.instances is None  # its own model answers
        assert cluster.capabilities.aws is None


def test_without_moto_there_is_no_stand_in(monkeypatch):
    monkeypatch.setitem(sys.modules, "moto.server", None)
    with pytest.raises(NotInstalled, match=r"stand-in\}: .*pip install 'killcheck\[aws-stand-in\]'"):  # noqa: SIM117
        with Session(fixture="founding-story").cluster(PlannedDrill("nightly-off")):
            pass


def test_and_that_is_the_users_to_mend(monkeypatch, tmp_path, capsys):
    from killcheck.cli import main

    monkeypatch.setitem(sys.modules, "moto.server", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["drill", str(fixtures.spec("founding-story")), "--layer", "nightly-off", "--exec", "host"])
    told = capsys.readouterr().err.strip()
    assert (ended.value.code, told.count("\n")) == (2, 0), told
    assert told.endswith("pip install 'killcheck[aws-stand-in]'")


def test_without_boto3_an_account_is_not_asked_and_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    with pytest.raises(AskError, match=r"sts:GetCallerIdentity: .*pip install 'killcheck\[aws\]'") as told:
        call(Aws("us-east-1"), "sts", "get_caller_identity")
    assert told.value.kind == "not-installed"
