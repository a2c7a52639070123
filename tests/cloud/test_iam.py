import json

import pytest

from killcheck.cloud.iam import Access, PolicyError, Request, decide, launch, run_instances

ALLOW_ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
INSTANCES = "arn:aws:ec2:*:*:instance/*"


def deny(condition, resource=INSTANCES, action="ec2:RunInstances", **more):
    return {
        "Statement": {
            "Sid": "NoBigBoxes",
            "Effect": "Deny",
            "Action": action,
            "Resource": resource,
            "Condition": condition,
        }
        | more
    }


def allow(action, resource="*", **more):
    return {"Statement": [{"Effect": "Allow", "Action": action, "Resource": resource} | more]}


@pytest.mark.parametrize(
    ("condition", "effect"),
    [
        ({"StringLike": {"ec2:InstanceType": ["p4*", "p5*"]}}, "explicit deny"),
        ({"StringLike": {"ec2:InstanceType": "g*"}}, "allowed"),
        ({"StringNotLike": {"ec2:InstanceType": ["t3.*", "m5.*"]}}, "explicit deny"),
        ({"StringEquals": {"ec2:instancetype": "p5.48xlarge"}}, "explicit deny"),
        ({"StringEquals": {"ec2:InstanceType": "P5.48XLARGE"}}, "allowed"),
        ({"StringEqualsIgnoreCase": {"ec2:InstanceType": "P5.48XLARGE"}}, "explicit deny"),
        ({"StringLike": {"ec2:InstanceType": "p5.48xlarg?"}}, "explicit deny"),
        ({"StringLike": {"ec2:InstanceType": "p[5].48xlarge"}}, "allowed"),
        ({"StringLikeIfExists": {"ec2:InstanceType": "p5*"}}, "explicit deny"),
        ({"StringLike": {"ec2:InstanceType": "p5*"}, "StringEquals": {"ec2:InstanceMarketType": "spot"}}, "allowed"),
        ({"NumericGreaterThan": {"ec2:InstanceType": "8"}}, "undecided"),
        ({"ForAnyValue:StringLike": {"ec2:InstanceType": ["p5*"]}}, "undecided"),
        ({"StringLike": {"ec2:InstanceType": "p5*"}, "StringNotEquals": {"aws:PrincipalTag/team": "ml"}}, "undecided"),
        ({"StringLike": {"ec2:InstanceType": "${aws:PrincipalTag/type}"}}, "undecided"),
        ({"Null": {"ec2:InstanceType": "false"}}, "explicit deny"),
        ({"Null": {"ec2:InstanceType": "true"}}, "allowed"),
        ({"Null": {"aws:TokenIssueTime": "true"}}, "undecided"),
    ],
)
def test_conditions_on_the_instance_type(condition, effect):
    access = Access([ALLOW_ALL], scps=[[ALLOW_ALL, deny(condition)]])
    assert run_instances("p5.48xlarge", access).effect == effect


def test_a_denial_that_names_no_type_on_every_resource_blocks_every_launch():
    """The key exists on instance/* only: on a subnet, 'not like' is true."""
    scp = deny({"StringNotLike": {"ec2:InstanceType": ["t3.*"]}}, resource="*")
    decision = run_instances("t3.micro", Access([ALLOW_ALL], scps=[[ALLOW_ALL, scp]]))
    assert decision.effect == "explicit deny"
    assert "NoBigBoxes" in decision.reason
    guarded = deny({"StringNotLike": {"ec2:InstanceType": ["t3.*"]}})
    assert run_instances("t3.micro", Access([ALLOW_ALL], scps=[[ALLOW_ALL, guarded]])).effect == "allowed"


def test_a_denial_with_if_exists_on_every_resource_blocks_everything_too():
    scp = deny({"StringLikeIfExists": {"ec2:InstanceType": ["p5*"]}}, resource="*")
    assert run_instances("t3.micro", Access([ALLOW_ALL], scps=[[ALLOW_ALL, scp]])).effect == "explicit deny"


def test_every_layer_must_allow():
    nothing = allow("s3:*")
    assert run_instances("g5.xlarge", Access([nothing])).effect == "implicit deny"
    assert run_instances("g5.xlarge", Access([])).effect == "implicit deny"
    assert run_instances("g5.xlarge", Access([ALLOW_ALL], boundary=nothing)).effect == "implicit deny"
    assert run_instances("g5.xlarge", Access([ALLOW_ALL], scps=[[ALLOW_ALL], [nothing]])).effect == "implicit deny"
    whole = Access([ALLOW_ALL], ALLOW_ALL, [[ALLOW_ALL], [nothing, ALLOW_ALL]])
    assert run_instances("g5.xlarge", whole).effect == "allowed"


def test_service_linked_roles_are_not_bound_by_scps():
    scp = deny({"StringLike": {"ec2:InstanceType": "p5*"}})
    access = Access([ALLOW_ALL], scps=[[ALLOW_ALL, scp]], service_linked=True)
    assert run_instances("p5.48xlarge", access).effect == "allowed"


def test_an_allowance_of_one_image_is_enough_and_a_denial_of_one_too_little():
    some = {
        "Statement": [
            {"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": ["arn:aws:ec2:*::image/ami-123", INSTANCES]},
            {
                "Effect": "Allow",
                "Action": "ec2:Run*",
                "Resource": [
                    f"arn:aws:ec2:*:*:{kind}/*" for kind in ("subnet", "network-interface", "security-group", "volume")
                ],
            },
        ]
    }
    assert run_instances("p5.48xlarge", Access([some])).effect == "allowed"
    one_image = {"Statement": {"Effect": "Deny", "Action": "*", "Resource": "arn:aws:ec2:*::image/ami-999"}}
    assert run_instances("p5.48xlarge", Access([ALLOW_ALL, one_image])).effect == "allowed"
    all_images = {"Statement": {"Effect": "Deny", "Action": "*", "Resource": "arn:aws:ec2:*::image/*"}}
    assert run_instances("p5.48xlarge", Access([ALLOW_ALL, all_images])).effect == "explicit deny"
    no_subnet = {"Statement": [{"Effect": "Allow", "Action": "ec2:*", "NotResource": "arn:aws:ec2:*:*:subnet/*"}]}
    assert run_instances("p5.48xlarge", Access([no_subnet])).effect == "implicit deny"


def test_regions_and_accounts_that_are_not_known_are_not_guessed():
    here = allow("*", "arn:aws:ec2:eu-west-1:123456789012:*")
    access = Access([here, allow("*", "arn:aws:ec2:*::image/*")])
    assert run_instances("p5.48xlarge", access).effect == "undecided"
    assert run_instances("p5.48xlarge", access, region="eu-west-1", account="123456789012").effect == "allowed"
    assert run_instances("p5.48xlarge", access, region="us-east-1", account="123456789012").effect == "implicit deny"
    outside = deny({"StringNotEquals": {"aws:RequestedRegion": "eu-west-1"}}, resource="*", action="*")
    assert run_instances("p5.48xlarge", Access([ALLOW_ALL, outside])).effect == "undecided"
    assert run_instances("p5.48xlarge", Access([ALLOW_ALL, outside]), region="us-east-1").effect == "explicit deny"


@pytest.mark.parametrize(
    ("policy", "effect"),
    [
        (allow("EC2:runinstances"), "allowed"),
        (allow("ec2:Describe*"), "implicit deny"),
        ({"Statement": [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}]}, "allowed"),
        ({"Statement": [{"Effect": "Allow", "NotAction": "ec2:*", "Resource": "*"}]}, "implicit deny"),
        ({"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*", "Sunset": "2027"}]}, "undecided"),
        (allow("*", Condition={"StringEquals": {"aws:RequestTag/owner": "ml"}}), "undecided"),
        (allow("*", Condition={"Bool": {"aws:SecureTransport": True}}), "undecided"),
    ],
)
def test_actions_and_elements(policy, effect):
    assert run_instances("g5.xlarge", Access([json.dumps(policy)])).effect == effect


def test_a_fleet_needs_both_rights():
    run_only = allow("ec2:RunInstances")
    assert launch("g5.xlarge", Access([run_only]), by="CreateFleet").effect == "implicit deny"
    assert launch("g5.xlarge", Access([run_only])).effect == "allowed"
    both = allow(["ec2:RunInstances", "ec2:CreateFleet"])
    assert launch("g5.xlarge", Access([both]), by="CreateFleet").effect == "allowed"
    scp = deny({"StringLike": {"ec2:InstanceType": "g5*"}})
    assert launch("g5.xlarge", Access([both], scps=[[ALLOW_ALL, scp]]), by="CreateFleet").effect == "explicit deny"


def test_a_right_without_an_instance_type_key_cannot_be_fenced_by_one():
    scp = deny({"StringLike": {"ec2:InstanceType": "p5*"}}, resource="*", action="eks:CreateNodegroup")
    request = Request(
        "eks:CreateNodegroup", "arn:aws:eks:us-east-1:123456789012:cluster/x", absent=frozenset({"ec2:instancetype"})
    )
    assert decide(request, Access([ALLOW_ALL, scp])).effect == "allowed"


@pytest.mark.parametrize(
    "document", ["not json", "{}", '{"Statement": [{"Effect": "allow"}]}', 3, '{"Statement": ["x"]}']
)
def test_what_is_no_policy(document):
    with pytest.raises(PolicyError):
        run_instances("g5.xlarge", Access([document]))
