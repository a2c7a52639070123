"""ECR's authorization tokens: twelve hours, a Secret, a CronJob that refreshes it, and a pull without any of them."""

import base64
import json
import os
import subprocess
import sys
from copy import deepcopy
from datetime import UTC, datetime, timedelta

import pytest
from test_founding_story import Prepared, run

from killcheck import faults, fixtures
from killcheck.embedded.nodes.registry import PullError, Registry, credentials
from killcheck.images.reference import parse
from killcheck.spec import specfile
from killcheck.spec.cloud_access import CloudAccess
from killcheck.standins.ecr import TokenService, registry_of
from killcheck.text.values import replace

HOST = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
IMAGE = f"{HOST}/off:1"
#: The usual refresher: ask for a token, write it into the Secret.
REFRESH = """
import base64, boto3, json, ssl, urllib.request
data = boto3.client("ecr").get_authorization_token()["authorizationData"][0]
user, _, password = base64.b64decode(data["authorizationToken"]).decode().partition(":")
host = data["proxyEndpoint"].removeprefix("https://")
auths = json.dumps({"auths": {host: {"username": user, "password": password}}})
account = "/var/run/secrets/kubernetes.io/serviceaccount"
urllib.request.urlopen(urllib.request.Request(
    "https://kubernetes.default.svc/api/v1/namespaces/inference/secrets/ecr-pull", method="PATCH",
    data=json.dumps({"data": {".dockerconfigjson": base64.b64encode(auths.encode()).decode()}}).encode(), headers={
        "Authorization": "Bearer " + open(account + "/token").read(), "Content-Type": "application/merge-patch+json"}),
    context=ssl.create_default_context(cafile=account + "/ca.crt")).read()
print("refreshed until", data["expiresAt"])
"""
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "ecr-refresh", "namespace": "inference"},
    "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["ecr-pull"], "verbs": ["patch"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "ecr-refresh", "namespace": "inference"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ecr-refresh"},
    "subjects": [{"kind": "ServiceAccount", "name": "ecr-refresh", "namespace": "inference"}],
}
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ecr-refresh", "namespace": "inference"}}


def refresher():
    env = [
        {"name": "AWS_ACCESS_KEY_ID", "value": "AKIASTANDIN000000000"},
        {"name": "AWS_SECRET_ACCESS_KEY", "value": "stand-in"},
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "ecr-refresh", "namespace": "inference"},
        "spec": {
            "schedule": "2 3 * * *",
            "jobTemplate": {
                "spec": {
                    "backoffLimit": 0,
                    "template": {
                        "spec": {
                            "serviceAccountName": "ecr-refresh",
                            "restartPolicy": "Never",
                            "containers": [
                                {
                                    "name": "refresh",
                                    "image": "public.ecr.aws/example/refresh:1",
                                    "env": env,
                                    "command": ["python3", "-c", REFRESH],
                                }
                            ],
                        }
                    },
                }
            },
        },
    }


def pull_secret():
    stale = base64.b64encode(json.dumps({"auths": {HOST: {"username": "AWS", "password": "stale"}}}).encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "ecr-pull", "namespace": "inference"},
        "data": {".dockerconfigjson": stale},
    }


def drilled(tmp_path, *under, secret=True, look=lambda cluster: None):
    path = specfile.load(fixtures.spec("dead-man"))
    session = Prepared(
        fixture="dead-man",
        _kill_path=replace(path, cloud=CloudAccess(endpoint="stand-in", region="us-east-1", cluster="dev")),
    )
    session.look = look
    objects = deepcopy(list(session.objects))
    pod = next(o for o in objects if o["kind"] == "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = IMAGE
    if secret:
        pod["imagePullSecrets"] = [{"name": "ecr-pull"}]
        objects += [ACCOUNT, ROLE, BINDING, pull_secret(), refresher()]
    session._objects = objects
    return run(tmp_path, session, "nightly-off", *under)


def asked(cluster):
    return [
        (one.service, one.action, one.status) for one in cluster.capabilities.stand_in.gate.seen if one.service == "ecr"
    ]


def test_undisturbed_the_token_opens_the_registry(tmp_path):
    drill, told = drilled(tmp_path)
    assert str(drill.verdict) == "survived", drill.why
    assert any("as if just refreshed" in str(event) for event in told)


def test_an_expired_token_is_the_cause_and_the_refresher_is_named(tmp_path):
    seen = []
    drill, _ = drilled(tmp_path, "ecr-token-expired", look=lambda cluster: seen.extend(asked(cluster)))
    assert (str(drill.verdict), drill.stuck_at) == ("exposed", "image_pulled"), drill.why
    ask = f"https://{HOST}/v2/off/manifests/1"
    assert (
        f'failed to resolve reference "{IMAGE}": unexpected status from HEAD request to {ask}: 403 Forbidden'
        in (drill.bites["ecr-token-expired"])
    )
    assert "Secret inference/ecr-pull: ECR's authorization token in it has expired" in drill.cause
    assert "CronJob inference/ecr-refresh" in drill.cause
    assert "mend CronJob inference/ecr-refresh" in drill.remedy
    assert ("ecr", "GetAuthorizationToken", 400) in seen  # the refresher ran meanwhile, afresh, and was refused
    assert not drill.dirty
    assert any("ECR's authorization tokens ended" in said for said in drill.healed)


def test_without_a_secret_the_nodes_provider_gets_a_token(tmp_path):
    drill, _ = drilled(tmp_path, secret=False)
    assert str(drill.verdict) == "survived", drill.why


def test_and_when_it_gets_none_that_is_the_cause(tmp_path):
    drill, _ = drilled(tmp_path, "ecr-token-expired", secret=False)
    assert str(drill.verdict) == "exposed", drill.why
    assert drill.bites["ecr-token-expired"].endswith("authorization failed: no basic auth credentials")
    assert "the node's credential provider got no authorization token" in drill.cause


@pytest.mark.weekly
def test_a_token_that_nobody_ended_does_not_bite(tmp_path, monkeypatch):
    monkeypatch.setattr(faults.named("ecr-token-expired").__class__, "inject", lambda *_: ["nothing"])
    drill, _ = drilled(tmp_path, "ecr-token-expired")
    assert str(drill.verdict) == "inconclusive"
    assert "did not bite" in drill.why


# -- by itself ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("image", "host"),
    [
        (IMAGE, HOST),
        (f"{HOST}.cn/a/b@sha256:0", f"{HOST}.cn"),
        ("public.ecr.aws/x/y:1", None),
        ("12345.dkr.ecr.us-east-1.amazonaws.com/a", None),
    ],
)
def test_which_images_are_ecrs(image, host):
    assert registry_of(image) == host


@pytest.mark.weekly
def test_a_refresher_started_afresh_gets_a_token_of_twelve_hours_or_is_told_that_its_keys_have_expired(stand_in):
    ask = (
        "import boto3\ntry:\n    d = boto3.client('ecr').get_authorization_token()['authorizationData'][0]\n"
        "    print(d['expiresAt'].isoformat(), d['authorizationToken'])\n"
        "except Exception as e:\n    print(type(e).__name__, e.response['Error']['Code'])\n"
    )
    env = {
        "PATH": os.environ["PATH"],
        **stand_in.environment(),
        "AWS_ACCESS_KEY_ID": "AKIAX",
        "AWS_SECRET_ACCESS_KEY": "s",
    }

    def afresh():
        return subprocess.run(
            [sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True
        ).stdout.split()

    end, token = afresh()
    assert abs(datetime.fromisoformat(end) - datetime.now(UTC) - timedelta(hours=12)) < timedelta(minutes=1)
    user, _, password = base64.b64decode(token).decode().partition(":")
    assert stand_in.ecr.ends(user, password) is not None
    stand_in.end_pull_tokens(datetime.now(UTC).isoformat())
    assert afresh() == ["ClientError", "ExpiredTokenException"]
    assert stand_in.ecr.ends(user, password) <= datetime.now(UTC)
    stand_in.end_pull_tokens("")
    assert len(afresh()) == 2


def test_the_registrys_words():
    now = datetime(2026, 11, 21, tzinfo=UTC)
    tokens = TokenService("123456789012", "us-east-1", lambda: now)
    registry = Registry()
    registry.tokens = lambda host: tokens if registry_of(host) else None
    good = tokens.issue()[0]

    def pull(login=(), at=now):
        auths = {HOST: {"username": login[0], "password": login[1]}} if login else {}
        text = base64.b64encode(json.dumps({"auths": auths}).encode()).decode()
        return registry.pull(parse(IMAGE), credentials([{"data": {".dockerconfigjson": text}}]), at)

    assert pull(("AWS", good))[0].reference.canonical == IMAGE
    for told, login, at in (
        ("403 Forbidden", ("AWS", good), now + timedelta(hours=12)),
        ("401 Unauthorized", ("AWS", "x"), now),
        ("401 Unauthorized", ("me", good), now),
        ("no basic auth credentials", (), now),
    ):
        with pytest.raises(PullError, match=told):
            pull(login, at)
    assert registry.pull(parse("public.ecr.aws/x/y:1"), {}, now)
