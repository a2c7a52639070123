"""An executor that shows AWS a key, a session or a role's token: each of them lapsing is seen for what it is."""

from copy import deepcopy

import pytest
from test_founding_story import Prepared, run

from killcheck import events, fixtures
from killcheck.faults.aws.credentials import WebIdentityExpired
from killcheck.spec import specfile
from killcheck.spec.cloud_access import CloudAccess
from killcheck.text.values import replace

SCRIPT = """
import boto3, json, os, ssl, urllib.request
print("acting as", boto3.client("sts").get_caller_identity()["Account"], flush=True)
account = "/var/run/secrets/kubernetes.io/serviceaccount"
request = urllib.request.Request(
    "https://kubernetes.default.svc/apis/apps/v1/namespaces/inference/deployments/vllm/scale", method="PATCH",
    data=json.dumps({"spec": {"replicas": 0}}).encode(), headers={
        "Authorization": "Bearer " + open(account + "/token").read(), "Content-Type": "application/merge-patch+json"})
urllib.request.urlopen(request, context=ssl.create_default_context(cafile=account + "/ca.crt")).read()
"""
ROLE = [
    {"name": "AWS_ROLE_ARN", "value": "arn:aws:iam::123456789012:role/off"},
    {"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": "/var/run/secrets/aws/token"},
]
KEY = [{"name": "AWS_ACCESS_KEY_ID", "value": "AKIASTANDIN000000000"}, {"name": "AWS_SECRET_ACCESS_KEY", "value": "s"}]

SESSION = [*KEY, {"name": "AWS_SESSION_TOKEN", "value": "t"}]


def drilled(tmp_path, env, *under):
    path = specfile.load(fixtures.spec("dead-man"))
    session = Prepared(
        fixture="dead-man",
        _kill_path=replace(path, cloud=CloudAccess(endpoint="stand-in", region="us-east-1", cluster="dev")),
    )
    objects = deepcopy(list(session.objects))
    spec = next(o for o in objects if o["kind"] == "CronJob")["spec"]["jobTemplate"]["spec"]
    spec["backoffLimit"] = 0
    pod = spec["template"]["spec"]
    pod["containers"] = [
        {
            "name": "executor",
            "image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/off:1",
            "env": env,
            "command": ["python3", "-c", SCRIPT],
            "volumeMounts": [{"name": "aws", "mountPath": "/var/run/secrets/aws", "readOnly": True}],
        }
    ]
    pod["volumes"] = [
        {
            "name": "aws",
            "projected": {
                "sources": [
                    {
                        "serviceAccountToken": {
                            "audience": "sts.amazonaws.com",
                            "expirationSeconds": 3600,
                            "path": "token",
                        }
                    }
                ]
            },
        }
    ]
    session._objects = objects
    return run(tmp_path, session, "nightly-off", *under)


def test_undisturbed_it_acts(tmp_path):
    drill, _ = drilled(tmp_path, ROLE)
    assert str(drill.verdict) == "survived", drill.why


@pytest.mark.parametrize(
    ("env", "fault", "said", "cause"),
    [
        (KEY, "static-key-revoked", "InvalidClientTokenId", "AWS does not know its access key"),
        (SESSION, "sts-expired", "ExpiredToken", "session credentials have expired"),
        (ROLE, "web-identity-expired", "ExpiredTokenException", "STS did not take its ServiceAccount's token"),
    ],
)
@pytest.mark.one_in(3)
def test_what_lapsed_is_the_cause(tmp_path, env, fault, said, cause):
    drill, _ = drilled(tmp_path, env, fault)
    assert (str(drill.verdict), drill.stuck_at) == ("exposed", "executor_finished"), drill.why
    assert said in drill.bites[fault]
    assert cause in drill.cause
    assert not drill.dirty


def test_a_lapse_that_nobody_made_does_not_bite(tmp_path, monkeypatch):
    monkeypatch.setattr(WebIdentityExpired, "inject", lambda *_: ["nothing"])
    drill, _ = drilled(tmp_path, ROLE, "web-identity-expired")
    assert str(drill.verdict) == "inconclusive"
    assert "did not bite" in drill.why


@pytest.mark.parametrize(
    ("env", "fault", "why"),
    [
        (ROLE, "static-key-revoked", "takes a role, and has no key that could be revoked"),
        (ROLE, "sts-expired", "takes a role, and has a session of its own at each start"),
        (KEY, "sts-expired", "carries no AWS_SESSION_TOKEN"),
        (KEY, "web-identity-expired", "takes no role by web identity"),
        ([], "static-key-revoked", "carries no AWS_ACCESS_KEY_ID"),
    ],
)
def test_what_it_has_not_is_not_given_to_it_to_be_broken(tmp_path, env, fault, why):
    drill, told = drilled(tmp_path, env, fault)
    assert str(drill.verdict) == "inconclusive"
    assert why in drill.why
    assert not any(isinstance(e, events.FaultInjected) for e in told)
