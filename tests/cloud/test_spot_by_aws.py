"""Spot reclaims through AWS' own API, on the stand-in: they bite, heal, refuse what nobody named, and fail by name."""

import json

import botocore.session
import pytest
from test_founding_story import Prepared, run

from killcheck import events, fixtures
from killcheck.capabilities.offered import Capabilities
from killcheck.cloud import account_undo, notices
from killcheck.cloud.notices import Hands
from killcheck.spec import specfile
from killcheck.spec.cloud_access import CloudAccess, Experiment
from killcheck.spec.killpath import Proof
from killcheck.standins.aws import AMI
from killcheck.text.values import replace

ALARM = "arn:aws:cloudwatch:us-east-1:123456789012:alarm:stop"
ROLE = "arn:aws:iam::123456789012:role/fis"
TRIAL = Experiment(ROLE, (ALARM,))


def prepared(cluster):
    """The role and the alarm that an experiment needs."""
    aws = cluster.capabilities.aws
    trust = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "fis.amazonaws.com"}}]}
    aws.client("iam").create_role(RoleName="fis", AssumeRolePolicyDocument=json.dumps(trust))
    watch = aws.client("cloudwatch")
    watch.put_metric_alarm(
        AlarmName="stop",
        MetricName="m",
        Namespace="n",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )
    watch.set_alarm_state(AlarmName="stop", StateValue="OK", StateReason="test")


def struck(tmp_path, fault, *, account="123456789012", experiment=TRIAL, prepare=prepared, look=lambda cluster: None):
    path = specfile.load(fixtures.spec("dead-man"))
    cloud = CloudAccess(endpoint="stand-in", region="us-east-1", cluster="dev", account=account, experiment=experiment)
    session = Prepared(fixture="dead-man", _kill_path=replace(path, cloud=cloud, proof=path.proof | {Proof.P3}))
    session.prepare, session.look = prepare, look
    return run(tmp_path, session, "nightly-off", fault)


@pytest.mark.parametrize(
    ("fault", "evidence"),
    [
        ("spot-queue-message", "SpotInterrupted"),
        ("spot-queue-health", "InstanceUnhealthy"),
    ],
)
@pytest.mark.one_in(2)
def test_a_message_in_the_queue_bites_when_its_reader_says_so(tmp_path, fault, evidence):
    drill, told = struck(tmp_path, fault)
    assert evidence in drill.bites[fault]
    assert "s of 120 s are left" in drill.bites[fault]
    assert str(drill.verdict) == "survived"
    assert not drill.dirty
    notes = "; ".join(drill.notes)
    assert ("spot-queue-message gave 120 s: node cordoned after" in notes) == (fault == "spot-queue-message"), notes
    assert "still" not in notes
    (injected,) = [e for e in told if isinstance(e, events.FaultInjected)]
    assert "(message " in injected.changes[0]


def test_an_experiment_of_fis_interrupts_them_and_leaves_no_template(tmp_path):
    left = {}

    def look(cluster):
        fis = cluster.capabilities.stand_in.fis
        left.update(templates=dict(fis.templates), experiments=list(fis.experiments.values()))

    drill, _ = struck(tmp_path, "spot-fis", look=look)
    assert "completed" in drill.bites["spot-fis"]
    assert left["templates"] == {}
    assert left["experiments"][0]["tags"][notices.RUN_TAG]
    assert any("an experiment template of FIS" in said for said in drill.healed)
    assert str(drill.verdict) == "survived"


def test_terminated_without_notice(tmp_path):
    drill, _ = struck(tmp_path, "spot-terminate")
    assert "is terminated; node " in drill.bites["spot-terminate"]
    assert str(drill.verdict) in ("survived", "inconclusive"), drill.why


# -- what is refused ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fault", "settings", "why"),
    [
        ("spot-fis", {"experiment": None}, "the spec names no role and stop condition"),
        ("spot-fis", {"prepare": lambda cluster: None}, "NoSuchEntity"),
        ("spot-fis", {"experiment": Experiment(ROLE, (ALARM + "-other",))}, "is not there"),
        ("spot-terminate", {"account": "999999999999"}, "the spec names 999999999999"),
    ],
)
@pytest.mark.one_in(2)
def test_what_a_preflight_does_not_like_is_not_done(tmp_path, fault, settings, why):
    seen = []
    drill, told = struck(tmp_path, fault, look=lambda c: seen.extend(c.capabilities.stand_in.gate.seen), **settings)
    assert str(drill.verdict) == "inconclusive"
    assert why in drill.why
    assert not any(isinstance(e, events.FaultInjected) for e in told)
    assert not any(one.action == "TerminateInstances" and one.status == 200 for one in seen if not drill.phases)


def test_an_alarm_that_rings_already_stops_it_before_it_begins(tmp_path):
    def ringing(cluster):
        prepared(cluster)
        cluster.capabilities.aws.client("cloudwatch").set_alarm_state(
            AlarmName="stop", StateValue="ALARM", StateReason="test"
        )

    drill, _ = struck(tmp_path, "spot-fis", prepare=ringing)
    assert "is ALARM" in drill.why


@pytest.mark.parametrize(
    ("fault", "service", "action"),
    [("spot-queue-message", "sqs", "GetQueueAttributes"), ("spot-terminate", "sts", "GetCallerIdentity")],
)
def test_what_is_denied_is_named(tmp_path, fault, service, action):
    def refuse(cluster):
        cluster.capabilities.stand_in.gate.refuse(service, action, "denied")

    drill, _ = struck(tmp_path, fault, prepare=refuse)
    assert str(drill.verdict) == "inconclusive"
    assert f"{service}:{action}" in drill.why


def test_a_message_that_nobody_reads_does_not_bite(tmp_path):
    def deaf(cluster):
        cluster.embedded.cloud.queue.subscribe = lambda consumer: lambda: None
        cluster.embedded.stop_controller("karpenter")
        cluster.embedded.start_controller("karpenter")

    drill, _ = struck(tmp_path, "spot-queue-message", prepare=deaf)
    assert "did not bite" in drill.why
    (left,) = [note for note in drill.notes if "still" in note]
    assert left.startswith("spot-queue-message: nobody has said that they read what was sent to http://127.0.0.1:")
    assert "it may be there still" in left


# -- shapes ------------------------------------------------------------------------------------------------
def test_the_template_is_one_that_fis_own_model_admits(stand_in):
    hands = Hands(stand_in.aws())
    template = hands.create_template(
        "run-1", role=ROLE, alarms=[ALARM], instances=["arn:aws:ec2:us-east-1:1:instance/i-1"], minutes=2
    )
    sent = stand_in.fis.templates[template]
    model = botocore.session.get_session().get_service_model("fis").operation_model("CreateExperimentTemplate")
    assert set(sent) - {"id", "minutes"} <= set(model.input_shape.members)
    place = account_undo.where(hands.aws, hands.account())
    assert account_undo.take_back("fis:DeleteExperimentTemplate", place, "another-run", hands.aws) == 0
    assert template in stand_in.fis.templates
    assert account_undo.take_back("fis:DeleteExperimentTemplate", place, "run-1", hands.aws) == 1
    assert account_undo.take_back("fis:DeleteExperimentTemplate", place, "run-1", hands.aws) == 0
    assert stand_in.fis.templates == {}


def test_events_are_as_eventbridge_sends_them(stand_in):
    from datetime import UTC, datetime

    now = datetime(2026, 11, 21, tzinfo=UTC)
    made = {
        kind: notices.event(kind, "i-1", account="123456789012", region="us-east-1", now=now) for kind in notices.KINDS
    }
    for one in made.values():
        assert set(one) == {
            "version",
            "id",
            "detail-type",
            "source",
            "account",
            "time",
            "region",
            "resources",
            "detail",
        }
        assert one["time"] == "2026-11-21T00:00:00Z"
    assert made["interruption"]["resources"] == ["arn:aws:ec2:us-east-1:instance/i-1"]
    assert made["interruption"]["detail"] == {"instance-id": "i-1", "instance-action": "terminate"}
    assert made["rebalance"]["resources"] == ["arn:aws:ec2:us-east-1:123456789012:instance/i-1"]
    assert made["health"]["detail"]["affectedEntities"] == [{"entityValue": "i-1"}]


def test_on_somebodys_cluster_an_instance_must_have_consented(stand_in):
    from types import SimpleNamespace

    from killcheck.faults.aws.spot import SpotTerminate
    from killcheck.faults.base import FaultError

    aws = stand_in.aws()
    (made,) = aws.client("ec2").run_instances(ImageId=AMI, InstanceType="p4d.24xlarge", MinCount=1, MaxCount=1)[
        "Instances"
    ]
    node = {"spec": {"providerID": f"aws:///us-east-1a/{made['InstanceId']}"}}
    stage = SimpleNamespace(
        cluster=SimpleNamespace(real=True, capabilities=Capabilities(hands=Hands(aws))),
        kill_path=SimpleNamespace(cloud=CloudAccess(account="123456789012")),
        scene=SimpleNamespace(nodes=object(), pool_nodes=lambda: [node]),
    )
    with pytest.raises(FaultError, match=r"has not consented: tag it killcheck\.dev/consent=true"):
        SpotTerminate().plan(stage, None)
    aws.client("ec2").create_tags(
        Resources=[made["InstanceId"]], Tags=[{"Key": "killcheck.dev/consent", "Value": "true"}]
    )
    assert made["InstanceId"] in SpotTerminate().plan(stage, None).changes[0]
