"""P3 against a cloud that does not tell the whole truth: what is unseen, comes back or bills on is never a pass."""

from __future__ import annotations

import re
from typing import cast

import pytest
from test_founding_story import Prepared

from killcheck import fixtures
from killcheck.cloud import session
from killcheck.cloud.billed import ghosts
from killcheck.cloud.instances import Ec2, Instances
from killcheck.cloud.returning import members, returning
from killcheck.cloud.session import AskError, Aws
from killcheck.drill.sequence import Options
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.spec import specfile
from killcheck.spec.cloud_access import CloudAccess
from killcheck.spec.killpath import Proof
from killcheck.standins.aws import Ec2Machines, StandIn, StandInError
from killcheck.text.values import replace

XML = '<{0}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>{1}</{0}Response>'
REQUEST = """<spotInstanceRequestSet><item><spotInstanceRequestId>sir-1</spotInstanceRequestId><type>{}</type>
<state>{}</state></item></spotInstanceRequestSet>"""
RESERVATION = """<capacityReservationSet><item><capacityReservationId>cr-1</capacityReservationId><state>active</state>
<instanceType>p4d.24xlarge</instanceType><totalInstanceCount>1</totalInstanceCount>
<availableInstanceCount>{}</availableInstanceCount><reservationType>{}</reservationType></item></capacityReservationSet>"""
GROUP = """<DescribeAutoScalingGroupsResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/">
<DescribeAutoScalingGroupsResult><AutoScalingGroups><member><AutoScalingGroupName>gpu</AutoScalingGroupName>
<MinSize>0</MinSize><DesiredCapacity>{}</DesiredCapacity><Instances><member><InstanceId>i-00000001</InstanceId>
<LifecycleState>InService</LifecycleState></member></Instances>{}</member></AutoScalingGroups>
</DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>"""
NO_LAUNCH = "<SuspendedProcesses><member><ProcessName>Launch</ProcessName></member></SuspendedProcesses>"


def answers(stand_in, action, text, service="ec2"):
    said = text if text.startswith("<Describe") else XML.format(action, text)
    stand_in.gate.answers[service, action] = lambda query: ("text/xml", said.encode())


def edited(stand_in, edit):
    """What EC2 says of instances, changed by ``edit(text)`` on its way."""
    before = stand_in.gate.app

    def app(environ, start_response):
        begun = []
        said = b"".join(before(environ, lambda *how: begun.append(how)))
        if b"DescribeInstancesResponse" in said:
            said = edit(said.decode()).encode()
        status, headers = begun[0][:2]
        kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
        start_response(status, [*kept, ("Content-Length", str(len(said)))])
        return [said]

    stand_in.gate.app = app


def drilled(tmp_path, monkeypatch, edit, more=lambda stand_in: None):
    """The reference path; ``edit(text, seconds since the drill began)`` is what its account says of instances."""
    monkeypatch.setattr(session, "TRIES", 1)
    path = specfile.load(fixtures.spec("dead-man"))
    cloud = CloudAccess(endpoint="stand-in", region="eu-west-1", cluster="dev")  # and there its machines are
    prepared = Prepared(
        fixture="dead-man",
        _kill_path=replace(
            path,
            cloud=cloud,
            proof=path.proof | {Proof.P3},
            deadlines=replace(path.deadlines, instance_gone_s=300.0, held_s=120.0),
        ),
    )

    def prepare(cluster):
        stand_in, begun = cluster.capabilities.stand_in, cluster.loop.monotonic()
        edited(stand_in, lambda text: edit(text, cluster.loop.monotonic() - begun))
        more(stand_in)

    prepared.prepare = prepare
    planned = PlannedDrill("nightly-off", (), Options(horizon_s=360.0))
    return Run(prepared, [planned], folder=tmp_path).execute().drills[0]


def spot(text, _):
    return text.replace("</instanceType>", "</instanceType><spotInstanceRequestId>sir-1</spotInstanceRequestId>")


# -- as a drill meets it -----------------------------------------------------------------------------------
@pytest.mark.weekly
def test_one_that_was_stopped_and_is_started_again_is_on(tmp_path, monkeypatch):
    seen = []

    def restarted(text, at):
        if ">terminated<" in text:
            seen.append(at)
        return text.replace(">terminated<", ">stopped<" if not seen or at < seen[0] + 60 else ">running<")

    drill = drilled(tmp_path, monkeypatch, restarted)
    assert (str(drill.verdict), drill.stuck_at) == ("exposed", "instance_gone"), drill.why
    assert "was off, and is on again" in drill.cause


def test_a_persistent_spot_request_buys_it_back(tmp_path, monkeypatch):
    drill = drilled(
        tmp_path,
        monkeypatch,
        spot,
        lambda stand_in: answers(stand_in, "DescribeSpotInstanceRequests", REQUEST.format("persistent", "active")),
    )
    assert (str(drill.verdict), drill.stuck_at) == ("exposed", "instance_gone"), drill.why
    assert "spot request sir-1 is persistent and active: it launches the next instance" in drill.cause


def test_whether_one_does_may_not_be_asked(tmp_path, monkeypatch):
    drill = drilled(
        tmp_path,
        monkeypatch,
        spot,
        lambda stand_in: stand_in.gate.refuse("ec2", "DescribeSpotInstanceRequests", "denied"),
    )
    assert str(drill.verdict) == "inconclusive", drill.why
    assert "it needs ec2:DescribeSpotInstanceRequests" in drill.why


# -- each question -----------------------------------------------------------------------------------------
def asked(stand_in, **one):
    return [what for what, remedy in returning(stand_in.aws(), [{"InstanceId": "i-00000001", **one}]) if remedy]


def test_a_machine_that_names_nothing_needs_no_question(stand_in):
    assert asked(stand_in) == []
    assert stand_in.gate.seen == [one for one in stand_in.gate.seen if one.path == "/moto-api/reset"]


@pytest.mark.parametrize(
    ("kind", "state", "back"),
    [("persistent", "open", True), ("persistent", "cancelled", False), ("one-time", "active", False)],
)
def test_spot_requests(stand_in, kind, state, back):
    answers(stand_in, "DescribeSpotInstanceRequests", REQUEST.format(kind, state))
    assert bool(asked(stand_in, SpotInstanceRequestId="sir-1")) is back


def test_a_request_that_nobody_lists_is_not_over(stand_in):
    answers(stand_in, "DescribeSpotInstanceRequests", "<spotInstanceRequestSet/>")
    with pytest.raises(AskError, match="does not list spot request sir-1: whether it is over is not known"):
        asked(stand_in, SpotInstanceRequestId="sir-1")


@pytest.mark.parametrize(
    ("unused", "kind", "bills"), [(1, "default", True), (0, "default", False), (1, "capacity-block", False)]
)
def test_reservations(stand_in, unused, kind, bills):
    answers(stand_in, "DescribeCapacityReservations", RESERVATION.format(unused, kind))
    said = asked(stand_in, CapacityReservationId="cr-1")
    assert said == (["capacity reservation cr-1 is active: 1 of 1 p4d.24xlarge are unused and billed"] if bills else [])


@pytest.mark.parametrize(("wants", "suspended", "back"), [(1, "", True), (0, "", False), (1, NO_LAUNCH, False)])
def test_groups(stand_in, wants, suspended, back):
    answers(stand_in, "DescribeAutoScalingGroups", GROUP.format(wants, suspended), "autoscaling")
    said = asked(stand_in, Tags=[{"Key": "aws:autoscaling:groupName", "Value": "gpu"}])
    assert said == (["Auto Scaling group gpu wants 1 and has 0: it launches the rest"] if back else [])


def test_a_group_that_has_filled_the_gap_already(stand_in):
    """It wants one and has one: the machine that was turned off, and then another in its place."""
    gpu = {"InstanceId": "i-00000001", "Tags": [{"Key": "aws:autoscaling:groupName", "Value": "gpu"}]}
    answers(stand_in, "DescribeAutoScalingGroups", GROUP.format(1, ""), "autoscaling")
    before = members(stand_in.aws(), [gpu])
    assert before == {"gpu": frozenset({"i-00000001"})}
    answers(
        stand_in, "DescribeAutoScalingGroups", GROUP.format(1, "").replace("i-00000001", "i-00000002"), "autoscaling"
    )
    [(what, remedy)] = returning(stand_in.aws(), [gpu], before)
    assert what == "Auto Scaling group gpu has launched i-00000002 in place of what was turned off"
    assert "--desired-capacity 0" in remedy
    assert list(returning(stand_in.aws(), [gpu], {"gpu": {"i-00000001", "i-00000002"}})) == []  # it stood beside it


def test_a_drill_sees_that_its_group_has_filled_the_gap(tmp_path, monkeypatch):
    def grouped(text, at):
        return text.replace("<tagSet>", "<tagSet><item><key>aws:autoscaling:groupName</key><value>gpu</value></item>")

    def group(stand_in):
        asked = []

        def said(query):
            asked.append(query)
            text = GROUP.format(1, "") if len(asked) == 1 else GROUP.format(1, "").replace("i-00000001", "i-00000002")
            return "text/xml", text.encode()

        stand_in.gate.answers["autoscaling", "DescribeAutoScalingGroups"] = said

    drill = drilled(tmp_path, monkeypatch, grouped, group)
    assert (str(drill.verdict), drill.stuck_at) == ("exposed", "instance_gone"), drill.why
    assert "Auto Scaling group gpu has launched i-00000002" in drill.cause


def test_what_ec2_leaves_out_of_a_machine_that_is_off_is_remembered():
    word = Ec2(cast("Aws", None))
    tags = [{"Key": "aws:autoscaling:groupName", "Value": "gpu"}]
    for one in (
        {"State": {"Name": "running"}, "Tags": tags, "SpotInstanceRequestId": "sir-1"},
        {"State": {"Name": "terminated"}, "Tags": [], "SpotInstanceRequestId": ""},
    ):
        word._noted("aws:///us-east-1a/i-1", one)
    assert word.described["aws:///us-east-1a/i-1"] == {
        "State": {"Name": "terminated"},
        "Tags": tags,
        "SpotInstanceRequestId": "sir-1",
    }


@pytest.mark.parametrize("how", ["throttled", "denied", "expired"])
def test_what_is_not_answered_is_unknown(stand_in, monkeypatch, how):
    monkeypatch.setattr(session, "TRIES", 1)
    for action, one in (
        ("DescribeSpotInstanceRequests", {"SpotInstanceRequestId": "sir-1"}),
        ("DescribeCapacityReservations", {"CapacityReservationId": "cr-1"}),
        ("DescribeAutoScalingGroups", {"Tags": [{"Key": "aws:autoscaling:groupName", "Value": "g"}]}),
    ):
        stand_in.gate.refuse("*", action, how)
        with pytest.raises(AskError):
            asked(stand_in, **one)


# -- states and pages --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        ("<reservationSet>.*</reservationSet>", "<reservationSet/>", "unknown"),
        (">terminated<", ">shutting-down<", "stopping"),
        (">terminated<", ">stopping<", "stopping"),
        (">terminated<", ">hibernating<", "unknown"),
        (">terminated<", ">terminated<", "terminated"),
    ],
)
def test_what_is_half_said_or_half_done_is_not_gone(stand_in, before, after, state):
    """Over a drill, the first ends inconclusive and the second exposed, as what it is stuck at."""
    machines, clock = Ec2Machines(stand_in, lambda _: None), [0.0]
    one = f"aws:///us-east-1a/{machines.launch('p4d.24xlarge', 'us-east-1a', spot=False, tags={})}"
    asked = Instances(Ec2(stand_in.aws()), lambda: clock[0])
    assert asked.state(one) == "running"
    machines.terminate(one.rpartition("/")[2])
    edited(stand_in, lambda text: re.sub(f"(?s){before}", after, text))
    clock[0] = 60.0
    assert asked.state(one) == state
    assert bool(asked.problem) is (state == "unknown")
    assert asked.gone == ({one} if state == "terminated" else set())


# -- regions -----------------------------------------------------------------------------------------------
def test_a_wrong_region_lists_nothing_and_proves_nothing(stand_in):
    name = Ec2Machines(stand_in, lambda _: None).launch("p4d.24xlarge", "us-east-1a", spot=False, tags={})
    elsewhere = Instances(Ec2(replace(stand_in.aws(), region="eu-west-1")), lambda: 0.0)
    assert elsewhere.state(f"aws:///us-east-1a/{name}") == "unknown"
    assert "another account or region?" in elsewhere.problem


def test_without_one_each_machine_is_asked_after_in_its_own_and_so_are_ghosts(stand_in, monkeypatch):
    """Whatever region the environment of whoever runs the drill says."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-southeast-2")
    monkeypatch.setenv("AWS_REGION", "ap-southeast-2")
    ids = []
    for region in ("us-east-1", "eu-west-1"):
        machines = Ec2Machines(stand_in, lambda _: None, cluster="dev")
        machines.aws = replace(stand_in.aws(), region=region)
        known, ghost = (machines.launch("p4d.24xlarge", f"{region}a", spot=False, tags={}) for _ in range(2))
        ids.append((f"aws:///{region}a/{known}", ghost))
    nowhere = replace(stand_in.aws(), region="")
    asked = Instances(Ec2(nowhere), lambda: 0.0)
    assert [asked.state(known) for known, _ in ids] == ["running", "running"], asked.problem
    found = ghosts(CloudAccess(cluster="dev"), [known for known, _ in ids], aws=nowhere)
    assert sorted(one.object for one in found) == sorted(ghost for _, ghost in ids)
    alone = ghosts(CloudAccess(cluster="dev"), [], aws=nowhere, stood=[known for known, _ in ids])
    assert {ghost for _, ghost in ids} <= {one.object for one in alone}  # also once the last Node has gone


@pytest.mark.parametrize(
    ("region", "said"),
    [("eu-wset-1", "did you mean eu-west-1?"), ("the moon", "the stand-in has no region 'the moon'")],
)
def test_a_region_that_is_none_is_said_before_anything_is_started(region, said):
    with pytest.raises(StandInError, match=re.escape(said)):
        StandIn(region=region)


def test_a_machine_that_may_not_be_ended_is_exposed_and_no_defect(tmp_path, monkeypatch):
    drill = drilled(
        tmp_path,
        monkeypatch,
        lambda text, at: text,
        lambda stand_in: stand_in.gate.refuse("ec2", "TerminateInstances", "denied"),
    )
    assert (str(drill.verdict), drill.stuck_at) == ("exposed", "instance_gone"), drill.why
