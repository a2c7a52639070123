import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws

from killcheck.cloud import ask
from killcheck.fence import Account, Ceiling, evaluate


@pytest.fixture
def credentials(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)


@pytest.fixture
def aws(credentials):
    with mock_aws():
        yield ask.session(region="us-east-1")


def network(aws):
    ec2 = aws.client("ec2")
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    return ec2, subnet, image


def test_an_account_is_exported_as_its_files_would_be(aws):
    ec2, subnet, _ = network(aws)
    ec2.create_launch_template(LaunchTemplateName="gpu", LaunchTemplateData={"InstanceType": "g5.xlarge"})
    ec2.create_launch_template_version(LaunchTemplateName="gpu", LaunchTemplateData={"InstanceType": "p4d.24xlarge"})
    aws.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName="gpu",
        MinSize=0,
        MaxSize=3,
        VPCZoneIdentifier=subnet,
        MixedInstancesPolicy={
            "LaunchTemplate": {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "gpu", "Version": "$Latest"},
                "Overrides": [{"InstanceType": "g5.xlarge"}, {"InstanceType": "p5.48xlarge"}],
            }
        },
    )
    aws.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName="latest",
        MinSize=0,
        MaxSize=1,
        VPCZoneIdentifier=subnet,
        LaunchTemplate={"LaunchTemplateName": "gpu", "Version": "$Latest"},
    )
    iam = aws.client("iam")
    iam.create_role(RoleName="karpenter", AssumeRolePolicyDocument="{}")
    iam.put_role_policy(
        RoleName="karpenter",
        PolicyName="p",
        PolicyDocument=(
            '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}]}'
        ),
    )
    account = Account.of(ask.export(aws))
    assert account.unknown == []
    report = evaluate([], Ceiling(max_devices_per_node=1), account=account)
    assert {r.pool: (r.verdict, r.worst_instance, r.max_nodes) for r in report.results} == {
        "AutoScalingGroup/gpu": ("exposed", "p5.48xlarge", 3),
        "AutoScalingGroup/latest": ("exposed", "p4d.24xlarge", 1),
    }
    assert account.access_of("karpenter").identity


def test_node_groups_of_a_cluster_are_exported(aws):
    _, subnet, _ = network(aws)
    eks = aws.client("eks")
    role = "arn:aws:iam::123456789012:role/r"
    eks.create_cluster(name="dev", roleArn=role, resourcesVpcConfig={"subnetIds": [subnet]})
    eks.create_nodegroup(
        clusterName="dev",
        nodegroupName="gpu",
        subnets=[subnet],
        nodeRole=role,
        instanceTypes=["p5.48xlarge"],
        scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0},
    )
    account = Account.of(ask.export(aws, "dev"))
    (result,) = evaluate([], Ceiling(max_devices_per_node=1), account=account).results
    assert (result.pool, result.verdict, result.max_devices) == ("EKSNodegroup/dev/gpu", "exposed", 16)


def test_a_dry_run_that_would_go_through_is_allowed(aws):
    _, subnet, image = network(aws)
    assert ask.dry_run(aws, "t3.micro", image, subnet).effect == "allowed"


class Session:
    """A session whose one client is given."""

    def __init__(self, client):
        self.given = client

    def client(self, name):
        return self.given


@pytest.mark.parametrize(
    ("code", "message", "effect"),
    [
        ("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", "allowed"),
        (
            "UnauthorizedOperation",
            "not authorized ... with an explicit deny in a service control policy",
            "explicit deny",
        ),
        ("UnauthorizedOperation", "You are not authorized to perform this operation.", "implicit deny"),
        ("InvalidSubnetID.NotFound", "no such subnet", "undecided"),
        ("RequestExpired", "expired", "undecided"),
    ],
)
def test_what_a_dry_run_proves(credentials, code, message, effect):
    ec2 = boto3.client("ec2", region_name="us-east-1")
    with Stubber(ec2) as stub:
        stub.add_client_error("run_instances", code, message)
        assert ask.dry_run(Session(ec2), "p5.48xlarge", "ami-1", "subnet-1").effect == effect


@pytest.mark.parametrize(
    ("result", "effect"),
    [
        ({"EvalDecision": "allowed"}, "allowed"),
        ({"EvalDecision": "explicitDeny"}, "explicit deny"),
        ({"EvalDecision": "implicitDeny"}, "implicit deny"),
        ({"EvalDecision": "allowed", "MissingContextValues": ["aws:PrincipalTag/team"]}, "undecided"),
        ({"EvalDecision": "implicitDeny", "MissingContextValues": ["aws:PrincipalTag/x"]}, "undecided"),
        ({"EvalDecision": "explicitDeny", "MissingContextValues": ["aws:PrincipalTag/x"]}, "explicit deny"),
    ],
)
def test_what_the_simulator_says(credentials, result, effect):
    iam = boto3.client("iam", region_name="us-east-1")
    principal = "arn:aws:iam::123456789012:role/karpenter"
    with Stubber(iam) as stub:
        stub.add_response(
            "simulate_principal_policy",
            {"EvaluationResults": [{"EvalActionName": "ec2:RunInstances"} | result]},
            {
                "PolicySourceArn": principal,
                "ActionNames": ["ec2:RunInstances"],
                "ResourceArns": ["arn:aws:ec2:us-east-1:123456789012:instance/*"],
                "ContextEntries": [
                    {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
                    for key, value in (("ec2:InstanceType", "p5.48xlarge"), ("aws:RequestedRegion", "us-east-1"))
                ],
            },
        )
        found = ask.simulate(Session(iam), principal, ["p5.48xlarge"], region="us-east-1")
    assert found["p5.48xlarge"].effect == effect


def test_what_may_not_be_read_is_an_error_not_an_empty_account(aws, monkeypatch):
    def refuse(*args, **kwargs):
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeAutoScalingGroups")

    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", refuse)
    with pytest.raises(ask.AskError, match="Auto Scaling groups"):
        ask.export(aws)
    with pytest.raises(ask.AskError, match="may launch"):
        ask.simulate(aws, "arn:aws:iam::1:role/x", ["p5.48xlarge"], region="us-east-1")
