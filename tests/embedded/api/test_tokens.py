"""ServiceAccount tokens, against what recordings 10, 26 and 26b say of a real cluster."""

import base64
import json

import pytest
from access_world import world

from killcheck.embedded.api.legacy_tokens import LegacyTokens
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.api.tokens import AUDIENCE, OTHER_AUDIENCE, TokenRefused

USERNAME = "system:serviceaccount:team:gpu-off"


def request(**spec):
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def issue(w, **spec):
    return w.issuer.issue("team", "gpu-off", request(**spec))


def token(w, **spec):
    return issue(w, **spec)["status"]["token"]


def claims(jwt):
    body = jwt.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def review(w, jwt, audiences=None):
    spec = {"token": jwt} | ({"audiences": audiences} if audiences else {})
    return w.issuer.review({"kind": "TokenReview", "spec": spec})["status"]


def secret(w, name="b"):
    return w.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})


def pod(w, name="p", node="node-cpu"):
    spec = {"serviceAccountName": "gpu-off"} | ({"nodeName": node} if node else {})
    return w.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def bound(kind, name, **more):
    return {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, **more}}


@pytest.mark.parametrize("seconds", [60, 599])
def test_a_token_lives_ten_minutes_at_least(seconds):
    with pytest.raises(StatusError) as refused:
        issue(world(), expirationSeconds=seconds)
    assert refused.value.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": (
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: '
            f"{seconds}: may not specify a duration less than 10 minutes"
        ),
        "reason": "Invalid",
        "details": {
            "group": "authentication.k8s.io",
            "kind": "TokenRequest",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "field": "spec.expirationSeconds",
                    "message": f"Invalid value: {seconds}: may not specify a duration less than 10 minutes",
                }
            ],
        },
        "code": 422,
    }


def test_and_at_most_two_to_the_32_seconds():
    with pytest.raises(StatusError, match=r"4294967297: may not specify a duration larger than 2\^32 seconds"):
        issue(world(), expirationSeconds=4294967297)
    assert issue(world(), expirationSeconds=315360000)["status"]["expirationTimestamp"] == "2036-11-18T02:01:04Z"


def test_the_answer_to_a_request_is_the_recorded_one():
    w = world()
    answer = issue(w, expirationSeconds=600)
    jwt = answer["status"].pop("token")
    assert answer == {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": "gpu-off",
            "namespace": "team",
            "uid": "uid-of-gpu-off",
            "creationTimestamp": "2026-11-21T02:01:04Z",
        },
        "spec": {"audiences": [AUDIENCE], "expirationSeconds": 600, "boundObjectRef": None},
        "status": {"expirationTimestamp": "2026-11-21T02:11:04Z"},
    }
    found = claims(jwt)
    assert found.pop("jti")
    assert found == {
        "aud": [AUDIENCE],
        "exp": 1795227064,
        "iat": 1795226464,
        "nbf": 1795226464,
        "iss": AUDIENCE,
        "sub": USERNAME,
        "kubernetes.io": {"namespace": "team", "serviceaccount": {"name": "gpu-off", "uid": "uid-of-gpu-off"}},
    }


def test_without_a_lifetime_it_is_an_hour():
    answer = issue(world())
    assert answer["spec"]["expirationSeconds"] == 3600
    assert answer["status"]["expirationTimestamp"] == "2026-11-21T03:01:04Z"


def test_anyone_can_check_the_signature_with_the_published_key():
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    w = world()
    signed, _, signature = token(w).rpartition(".")
    key = w.issuer.jwks()["keys"][0]

    def number(text):
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")

    public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1()).public_key()
    raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    dss = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    public.verify(dss, signed.encode(), ec.ECDSA(hashes.SHA256()))
    assert key["kid"] == json.loads(base64.urlsafe_b64decode(signed.split(".")[0] + "=="))["kid"]


@pytest.mark.parametrize(
    ("ref", "code", "message"),
    [
        (bound("Secret", "nope"), 404, 'secrets "nope" not found'),
        (bound("Pod", "nope"), 404, 'pods "nope" not found'),
        (bound("Node", "nope"), 404, 'nodes "nope" not found'),
        (bound("ConfigMap", "b"), 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        (
            bound("Secret", "b", uid="0"),
            409,
            (
                'Operation cannot be fulfilled on Secret "b": the UID in the bound object reference (0) does not match the '
                "UID in record. The object might have been deleted and then recreated"
            ),
        ),
    ],
)
def test_what_a_token_is_bound_to_must_be_there(ref, code, message):
    w = world()
    secret(w)
    with pytest.raises(StatusError) as refused:
        issue(w, **ref)
    assert (refused.value.code, str(refused.value)) == (code, message)


def test_a_token_is_not_bound_to_another_accounts_pod():
    w = world()
    w.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"serviceAccountName": "default"}})
    with pytest.raises(StatusError, match='cannot bind token for serviceaccount "gpu-off" to pod running with'):
        issue(w, **bound("Pod", "p"))


def test_no_token_for_an_account_that_is_gone():
    w = world()
    w.remove("serviceaccounts", "gpu-off")
    with pytest.raises(StatusError) as refused:
        issue(w)
    assert (refused.value.code, str(refused.value)) == (404, 'serviceaccounts "gpu-off" not found')


def test_the_projected_token_of_a_pod_is_good_for_a_year_and_says_so():
    w = world()
    pod(w)
    answer = issue(w, expirationSeconds=3607, **bound("Pod", "p"))
    found = claims(answer["status"]["token"])
    assert answer["status"]["expirationTimestamp"] == "2026-11-21T03:01:11Z"
    assert found["exp"] - found["iat"] == 365 * 24 * 3600
    assert found["kubernetes.io"]["warnafter"] - found["iat"] == 3607


@pytest.mark.parametrize(
    "spec",
    [
        {"expirationSeconds": 3600},
        {"expirationSeconds": 3607, "audiences": ["sts.amazonaws.com"]},
    ],
)
def test_other_tokens_of_a_pod_are_not_extended(spec):
    w = world()
    pod(w)
    found = claims(token(w, **spec, **bound("Pod", "p")))
    assert found["exp"] - found["iat"] == spec["expirationSeconds"]
    assert "warnafter" not in found["kubernetes.io"]


def test_a_review_of_a_good_token_names_the_user():
    w = world()
    jwt = token(w)
    assert review(w, jwt) == {
        "authenticated": True,
        "user": {
            "username": USERNAME,
            "uid": "uid-of-gpu-off",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={claims(jwt)['jti']}"]},
        },
        "audiences": [AUDIENCE],
    }


def test_a_pods_token_tells_pod_and_node():
    w = world()
    pod(w)
    w.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-cpu"}})
    extra = review(w, token(w, **bound("Pod", "p")))["user"]["extra"]
    prefix = "authentication.kubernetes.io/"
    assert {key.removeprefix(prefix): value for key, value in extra.items() if "credential" not in key} == {
        "node-name": ["node-cpu"],
        "node-uid": ["uid-of-node-cpu"],
        "pod-name": ["p"],
        "pod-uid": ["uid-of-p"],
    }


def test_audiences_must_meet():
    w = world()
    mine, theirs = token(w), token(w, audiences=["sts.amazonaws.com"])
    assert review(w, theirs, ["sts.amazonaws.com"])["audiences"] == ["sts.amazonaws.com"]
    assert review(w, token(w, audiences=[OTHER_AUDIENCE]))["authenticated"]
    assert review(w, theirs) == {
        "user": {},
        "error": (
            '[invalid bearer token, token audiences ["sts.amazonaws.com"] is invalid for the target audiences '
            '["https://kubernetes.default.svc"]]'
        ),
    }
    assert review(w, mine, ["sts.amazonaws.com"])["error"] == (
        '[invalid bearer token, token audiences ["https://kubernetes.default.svc"] is invalid for the target '
        'audiences ["sts.amazonaws.com"]]'
    )


def tampered(jwt):
    head, body, signature = jwt.split(".")
    flipped = "A" if signature[0] != "A" else "B"
    return f"{head}.{body}.{flipped}{signature[1:]}"


def prolonged(jwt):
    head, _, signature = jwt.split(".")
    longer = json.dumps(claims(jwt) | {"exp": 2**33}).encode()
    return f"{head}.{base64.urlsafe_b64encode(longer).rstrip(b'=').decode()}.{signature}"


@pytest.mark.parametrize("forge", [tampered, prolonged])
def test_a_forged_token_fails_its_signature(forge):
    w = world()
    error = review(w, forge(token(w)))["error"]
    assert error == "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]"


@pytest.mark.parametrize("text", ["garbage", "a.b.c", "{}", "e30.e30.e30", "é.e30.e30"])
def test_what_is_no_token_of_ours_is_just_invalid(text):
    assert review(world(), text) == {"user": {}, "error": "invalid bearer token"}


def test_another_clusters_token_is_not_ours():
    ours, other = world(), world()
    assert review(ours, token(other))["error"] == "[invalid bearer token, invalid signature, no keys found]"


def test_a_review_without_a_token_is_a_bad_request():
    with pytest.raises(StatusError) as refused:
        review(world(), "")
    assert (refused.value.code, str(refused.value)) == (400, "token is required for TokenReview in authentication")


def test_a_token_goes_on_working_for_ten_seconds_after_its_secret_is_gone():
    w = world()
    secret(w)
    jwt = token(w, **bound("Secret", "b"))
    assert review(w, jwt)["authenticated"]
    w.remove("secrets", "b")
    w.loop.sleep(9.9)
    assert review(w, jwt)["authenticated"]
    w.loop.sleep(0.1)
    assert review(w, jwt)["error"] == "[invalid bearer token, service account token has been invalidated]"


def test_using_the_token_does_not_prolong_what_is_remembered():
    w = world()
    secret(w)
    jwt = token(w, **bound("Secret", "b"))
    assert review(w, jwt)["authenticated"]
    w.remove("secrets", "b")
    answers = []
    for _ in range(21):
        w.loop.sleep(0.5)
        answers.append(review(w, jwt).get("authenticated", False))
    assert answers == [True] * 19 + [False] * 2


def test_a_token_that_was_not_used_lately_dies_with_its_secret():
    w = world()
    secret(w)
    jwt = token(w, **bound("Secret", "b"))
    w.remove("secrets", "b")
    assert "has been invalidated" in review(w, jwt)["error"]


def test_failures_are_not_remembered():
    w = world()
    found = secret(w)
    jwt = token(w, **bound("Secret", "b"))
    w.remove("secrets", "b")
    assert "error" in review(w, jwt)
    w.put(dict(found))
    assert review(w, jwt)["authenticated"]


def test_a_pods_token_dies_with_the_pod_and_with_one_that_is_long_deleted():
    w = world()
    found = pod(w)
    jwt = token(w, **bound("Pod", "p"))
    terminating = json.loads(json.dumps(found))
    terminating["metadata"]["deletionTimestamp"] = "2026-11-21T02:01:30Z"
    w.put(terminating)
    w.loop.sleep(60)
    assert review(w, jwt)["authenticated"]
    w.loop.sleep(27)
    assert "has been invalidated" in review(w, jwt)["error"]
    w.remove("pods", "p")
    assert "has been invalidated" in review(w, jwt)["error"]


def test_a_recreated_secret_is_another_secret():
    w = world()
    secret(w)
    jwt = token(w, **bound("Secret", "b"))
    w.remove("secrets", "b")
    w.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b", "uid": "new"}})
    assert review(w, jwt)["error"] == (
        "[invalid bearer token, secret UID (new) does not match service account secret ref claim (uid-of-b)]"
    )


def test_a_token_of_an_account_that_was_deleted_and_of_one_that_was_recreated():
    w = world()
    jwt = token(w)
    w.remove("serviceaccounts", "gpu-off")
    assert review(w, jwt)["error"] == '[invalid bearer token, serviceaccounts "gpu-off" not found]'
    w.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gpu-off", "uid": "new"}})
    assert review(w, jwt)["error"] == (
        "[invalid bearer token, service account UID (new) does not match claim (uid-of-gpu-off)]"
    )


def test_a_token_is_accepted_until_a_minute_after_its_exp():
    w = world()
    jwt = token(w, expirationSeconds=600)
    w.loop.sleep(660)
    assert review(w, jwt)["authenticated"]
    w.loop.sleep(10.1)
    assert review(w, jwt) == {"user": {}, "error": "[invalid bearer token, service account token has expired]"}


def test_an_unremembered_token_is_refused_right_after_that_minute():
    w = world()
    jwt = token(w, expirationSeconds=600)
    w.loop.sleep(660.5)
    with pytest.raises(TokenRefused, match="service account token has expired"):
        w.issuer.authenticate(jwt)


def legacy(w, account="gpu-off"):
    LegacyTokens(w.store, w.loop, w.issuer, lambda: "the CA")
    w.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "forever", "annotations": {"kubernetes.io/service-account.name": account}},
        }
    )
    w.loop.sleep(0)
    return w.store.get(("", "secrets"), ("team", "forever"))


def test_a_token_secret_is_filled_and_its_token_never_expires():
    w = world()
    filled = legacy(w)
    data = {key: base64.b64decode(value).decode() for key, value in filled["data"].items()}
    assert (data["ca.crt"], data["namespace"]) == ("the CA", "team")
    assert filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == "uid-of-gpu-off"
    w.loop.sleep(10 * 365 * 86400)
    assert review(w, data["token"])["user"]["username"] == USERNAME


def test_a_token_secret_dies_with_its_account_and_the_token_with_the_secret():
    w = world()
    jwt = base64.b64decode(legacy(w)["data"]["token"]).decode()
    w.remove("serviceaccounts", "gpu-off")
    w.loop.sleep(0)
    assert w.store.get(("", "secrets"), ("team", "forever")) is None
    assert review(w, jwt)["error"] == "[invalid bearer token, Token has been invalidated]"


def test_a_token_secret_of_nobody_is_removed():
    assert legacy(world(), "ghost") is None


def test_a_legacy_token_that_was_declared_invalid():
    w = world()
    filled = json.loads(json.dumps(legacy(w)))
    filled["metadata"]["labels"] = {"kubernetes.io/legacy-token-invalid-since": "2026-11-20"}
    w.put(filled)
    error = review(w, base64.b64decode(filled["data"]["token"]).decode())["error"]
    assert "the token in secret team/forever for service account team/gpu-off has been marked invalid" in error
