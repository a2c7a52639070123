"""Every call is declared with its permission, every way of not knowing has a name, and the policy says it all."""

import ast
import json
from pathlib import Path

import botocore.session
import pytest

import killcheck
from killcheck.cloud import session
from killcheck.cloud.session import CALLS, AskError, Aws

ROOT = Path(killcheck.__file__).parent
#: The one place that makes clients, and the stand-in, which is AWS itself here.
OWN = {ROOT / "cloud/session.py", ROOT / "cloud/standin.py", ROOT / "cluster/cloudword.py"}


def calls_in(path: Path):
    """(service, operation) of every ``call(aws, "s", "op")`` and ``pages(...)``; anything not literal fails."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("call", "pages"):
            service, operation = node.args[1:3]
            assert isinstance(service, ast.Constant), f"{path}:{node.lineno}"
            assert isinstance(operation, ast.Constant), f"{path}:{node.lineno}"
            yield service.value, operation.value


def aws_users():
    return [p for p in ROOT.rglob("*.py") if p not in OWN and "killcheck.cloud.session" in p.read_text()]


def test_every_call_of_the_code_is_declared_and_every_declared_one_is_made():
    made = {one for path in aws_users() for one in calls_in(path)}
    assert made == set(CALLS)


def test_nobody_makes_a_client_of_their_own():
    sources = (p for p in ROOT.rglob("*.py") if p not in OWN)
    assert [str(p) for p in sources if "import boto3" in p.read_text() or ".get_paginator(" in p.read_text()] == []


def test_every_declared_call_is_one_of_aws_own():
    loader = botocore.session.get_session()
    models = {service: loader.get_service_model(service) for service, _ in CALLS}
    for service, operation in CALLS:
        names = {name.lower() for name in models[service].operation_names}
        assert operation.replace("_", "") in names, f"{service}:{operation}"


def test_the_shipped_policy_is_what_the_calls_need():
    shipped = json.loads((ROOT.parent / "ci/aws-policy.json").read_text())
    assert shipped == session.policy(), "regenerate it: python -m killcheck.cloud.session > ci/aws-policy.json"
    granted = {action for statement in shipped["Statement"] for action in statement["Action"]}
    assert granted == {action for one in CALLS.values() for action in one.needs}
    assert not any("*" in action for action in granted)


def test_what_changes_machines_is_bound_to_those_that_consented():
    terminate = next(s for s in session.policy()["Statement"] if "ec2:TerminateInstances" in s["Action"])
    assert terminate["Condition"]["StringEquals"] == {"aws:ResourceTag/killcheck.dev/consent": "true"}


def test_an_undeclared_call_is_not_made(stand_in):
    with pytest.raises(KeyError):
        session.call(stand_in.aws(), "ec2", "delete_vpc", VpcId="vpc-1")
    assert not any(seen.service == "ec2" for seen in stand_in.gate.seen)


KEY = "AKIASTANDIN000000000"


@pytest.mark.parametrize(
    ("service", "operation", "arguments", "expired", "revoked"),
    [
        ("ec2", "describe_instances", {}, "RequestExpired", "AuthFailure"),
        ("sts", "get_caller_identity", {}, "ExpiredToken", "InvalidClientTokenId"),
        ("iam", "get_role", {"RoleName": "x"}, "ExpiredToken", "InvalidClientTokenId"),
        ("autoscaling", "describe_auto_scaling_groups", {}, "ExpiredToken", "InvalidClientTokenId"),
        ("s3", "list_objects_v2", {"Bucket": "b"}, "ExpiredToken", "InvalidAccessKeyId"),
        ("eks", "list_nodegroups", {"clusterName": "x"}, "ExpiredTokenException", "UnrecognizedClientException"),
        ("fis", "list_experiment_templates", {}, "ExpiredTokenException", "UnrecognizedClientException"),
        ("pricing", "get_products", {"ServiceCode": "x"}, "ExpiredTokenException", "UnrecognizedClientException"),
    ],
)
@pytest.mark.one_in(2)
def test_each_service_says_in_its_own_words_that_credentials_lapsed(
    stand_in, service, operation, arguments, expired, revoked
):
    for how, kind, code in (("expired", "expired", expired), ("revoked", "invalid-credentials", revoked)):
        stand_in.gate.lapse(KEY, how)
        with pytest.raises(AskError) as caught:
            session.call(stand_in.aws(), service, operation, **arguments)
        assert (caught.value.kind, caught.value.code) == (kind, code)
    stand_in.gate.restore(KEY)
    assert stand_in.gate.refused(KEY)


def test_a_denied_call_names_the_permission_that_it_lacks(stand_in):
    stand_in.gate.refuse("ec2", "DescribeInstances", "denied")
    with pytest.raises(AskError, match=r"access denied \(UnauthorizedOperation.*it needs ec2:DescribeIn"):
        session.call(stand_in.aws(), "ec2", "describe_instances")


def test_throttling_is_told_after_a_few_tries(stand_in, monkeypatch):
    monkeypatch.setattr(session, "TRIES", 2)
    stand_in.gate.refuse("sts", "GetCallerIdentity", "throttled")
    with pytest.raises(AskError) as caught:
        session.call(stand_in.aws(), "sts", "get_caller_identity")
    assert caught.value.kind == "throttled"
    assert len(stand_in.gate.refused()) == 2


def test_what_the_stand_in_cannot_do_is_not_taken_for_an_answer(stand_in):
    with pytest.raises(AskError, match="InvalidAction"):
        session.call(stand_in.aws(), "ec2", "describe_capacity_reservations")


@pytest.mark.parametrize(
    ("aws", "kind"),
    [
        (Aws("us-east-1", endpoint_url="http://127.0.0.1:1"), "no-credentials"),
        (Aws("us-east-1", endpoint_url="http://127.0.0.1:1", keys=("k", "s", "")), "unreachable"),
        (Aws(endpoint_url="http://127.0.0.1:1", keys=("k", "s", "")), "no-region"),
        (Aws("not a region", endpoint_url="http://127.0.0.1:1", keys=("k", "s", "")), "no-region"),
        (Aws("us-east-1", profile="nobody"), "bad-profile"),
    ],
)
def test_why_nothing_could_be_asked_has_a_name(aws, kind, monkeypatch):
    monkeypatch.setattr(session, "TRIES", 1)
    with pytest.raises(AskError) as caught:
        session.call(aws, "ec2", "describe_instances")
    assert caught.value.kind == kind
    assert str(caught.value).startswith("ec2:DescribeInstances: ")


def config(home: Path, text: str) -> None:
    (home / ".aws").mkdir()
    (home / ".aws/config").write_text(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[profile dev]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = r\n", "bad-profile"),
        ("[profile dev]\nsso_start_url = https://x.awsapps.com/start\nsso_region = us-east-1\n", "bad-profile"),
        (
            "[profile dev]\nsso_start_url = https://x.awsapps.com/start\nsso_region = us-east-1\nsso_account_id = 1\n"
            "sso_role_name = r\n",
            "expired",
        ),
    ],
)
def test_half_configured_sso_is_told_as_such(tmp_path, text, kind):
    config(tmp_path / "home", text)
    with pytest.raises(AskError) as caught:
        session.call(Aws("us-east-1", profile="dev"), "sts", "get_caller_identity")
    assert caught.value.kind in (kind, "no-credentials"), caught.value


@pytest.mark.parametrize(
    ("config", "lacks"),
    [
        (
            "[profile half]\nsso_start_url = https://c.awsapps.com/start\nsso_region = us-east-1\nregion = us-east-1\n",
            "sso_account_id, sso_role_name",
        ),
        (
            "[profile half]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = d\nregion = us-east-1\n"
            "[sso-session corp]\nsso_region = us-east-1\n",
            "sso_start_url (in [sso-session corp])",
        ),
    ],
)
def test_an_sso_profile_that_is_not_whole_is_told_by_what_it_lacks(tmp_path, monkeypatch, config, lacks):
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with pytest.raises(AskError) as told:
        session.call(Aws(profile="half"), "sts", "get_caller_identity")
    assert told.value.kind == "bad-profile"
    assert "half" in str(told.value)
    assert lacks.partition(" ")[0].rstrip(",") in str(told.value)
