"""An account at hand: the simulator decides what policies leave undecided; DryRun tries the caller's credentials."""

from __future__ import annotations

import boto3
import pytest
from botocore.stub import Stubber

from killcheck.cloud import session
from killcheck.cloud.iam import Decision
from killcheck.fence import Account, Ceiling, account_answers, evaluate
from killcheck.instances.catalogue import shipped

ROLE = "arn:aws:iam::123456789012:role/karpenter"
TYPES = ["g5.xlarge", "p4d.24xlarge"]
#: An operator that is not decided offline.
ODD = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "ec2:*", "Resource": "*"},
        {
            "Effect": "Deny",
            "Action": "ec2:RunInstances",
            "Resource": "*",
            "Condition": {"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}},
        },
    ],
}


def account(simulator=None):
    found = Account.of(
        [
            {
                "RoleDetailList": [
                    {
                        "RoleName": "karpenter",
                        "Arn": ROLE,
                        "RolePolicyList": [{"PolicyName": "p", "PolicyDocument": ODD}],
                    }
                ]
            }
        ]
    )
    found.simulator = simulator
    return found


def pool():
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
                    "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": TYPES}],
                }
            }
        },
    }


def judged(simulator):
    report = evaluate([pool()], Ceiling(max_devices_per_node=1), account=account(simulator), role=ROLE)
    return report.of("NodePool/gpu"), report.exit_code


def test_what_policies_leave_undecided_is_unproven_without_an_account():
    result, code = judged(None)
    assert (result.verdict, code) == ("unproven", 3)


@pytest.mark.parametrize(
    ("effect", "verdict", "code"),
    [
        ("implicit deny", "safe", 0),
        ("explicit deny", "safe", 0),
        ("allowed", "exposed", 1),
        ("undecided", "unproven", 3),
    ],
)
def test_the_simulator_decides_or_leaves_it_undecided(effect, verdict, code):
    asked = []

    def simulator(role, names):
        asked.extend([role, *names])
        return {name: Decision("allowed" if name == "g5.xlarge" else effect, "it said so") for name in names}

    result, found = judged(simulator)
    assert asked == [ROLE, "p4d.24xlarge", "g5.xlarge"], "no more than what the pools can launch"
    assert (result.verdict, found) == (verdict, code)
    if verdict == "unproven":
        assert "it said so" in result.reasons


def stubbed(monkeypatch, service, **responses):
    """An account whose client answers from a list, and no other."""
    client = boto3.client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y")
    stub = Stubber(client)
    for answers in responses.values():
        for answer in answers:
            answer(stub)
    stub.activate()
    monkeypatch.setattr(session.Aws, "client", lambda self, name: client)
    return session.Aws(region="us-east-1"), stub


def refusal(code, message="no"):
    return lambda stub: stub.add_client_error("run_instances", code, message, 412 if code == "DryRunOperation" else 403)


FAMILY = shipped().of("aws")


@pytest.mark.parametrize(
    ("code", "verdict"),
    [("DryRunOperation", "exposed"), ("UnauthorizedOperation", "safe"), ("InvalidSubnetID.NotFound", "unproven")],
)
def test_the_callers_own_credentials_are_a_door(monkeypatch, code, verdict):
    names = [one.name for one in FAMILY if one.name.startswith("p4d.")]
    aws, stub = stubbed(monkeypatch, "ec2", run=[refusal(code)] * len(names))
    ceiling = Ceiling(forbidden_types=("p4d.*",))
    door = account_answers.own_door(aws, "ami-1", "subnet-1", shipped(), ceiling)
    stub.assert_no_pending_responses()
    report = evaluate([], ceiling, doors=[door])
    assert report.of("Credentials/own").verdict == verdict
    if verdict == "exposed":
        assert "RunInstances with DryRun" in report.of("Credentials/own").door


def test_where_nothing_is_above_the_ceiling_nothing_is_tried_and_nothing_proven(monkeypatch):
    aws, _ = stubbed(monkeypatch, "ec2")
    door = account_answers.own_door(aws, "ami-1", "subnet-1", shipped(), Ceiling(max_usd_per_hour=3.0))
    assert evaluate([], Ceiling(max_usd_per_hour=3.0), doors=[door]).verdict == "unproven"


def test_a_simulator_that_may_not_be_asked_leaves_everything_undecided(monkeypatch):
    def denied(stub):
        stub.add_client_error("simulate_principal_policy", "AccessDenied", "not you", 403)

    aws, _ = stubbed(monkeypatch, "iam", simulate=[denied])
    found = account_answers._simulated(aws, ROLE, TYPES)
    assert {name: decision.effect for name, decision in found.items()} == dict.fromkeys(TYPES, "undecided")
    assert all("AccessDenied" in decision.reason or "not you" in decision.reason for decision in found.values())
