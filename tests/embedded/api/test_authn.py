"""Who is asking: credentials in, a user out, or 401."""

import pytest
from access_world import ADMIN, world

from killcheck.embedded.api.authn import ANONYMOUS, peer_header
from killcheck.embedded.api.http import Request, User
from killcheck.embedded.api.rbac import Attributes
from killcheck.embedded.api.status import StatusError

SA = "system:serviceaccount:team:gpu-off"


def ask(w, user=None, **headers):
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return w.authenticator.authenticate(Request("GET", "/api", headers=named, user=user))


def bearer(w):
    return w.issuer.issue("team", "gpu-off", {"spec": {}})["status"]["token"]


def grant(w, *rules, user="helper"):
    w.put(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "impersonator"},
            "rules": list(rules),
        }
    )
    w.put(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "impersonator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "impersonator"},
            "subjects": [{"kind": "User", "name": user}],
        }
    )


def impersonating(*resources, group=""):
    return {"verbs": ["impersonate"], "apiGroups": [group], "resources": list(resources)}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer "},
        {"authorization": "Bearer"},
        {"authorization": "Basic YTpi"},
    ],
)
def test_without_a_token_one_is_anonymous(headers):
    assert ask(world(), **headers) == ANONYMOUS


@pytest.mark.parametrize("token", ["garbage", "a.b.c", "eyJhbGciOiJub25lIn0.e30."])
def test_a_token_that_is_no_good_is_401_and_not_anonymous(token):
    with pytest.raises(StatusError) as refused:
        ask(world(), authorization=f"Bearer {token}")
    assert refused.value.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


def test_a_service_accounts_token():
    w = world()
    user = ask(w, authorization=f"bearer {bearer(w)}")
    assert (user.name, user.groups) == (
        SA,
        ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"),
    )


def test_a_token_for_another_audience_is_401():
    w = world()
    token = w.issuer.issue("team", "gpu-off", {"spec": {"audiences": ["sts.amazonaws.com"]}})["status"]["token"]
    with pytest.raises(StatusError, match="Unauthorized"):
        ask(w, authorization=f"Bearer {token}")


def test_a_static_token_is_its_user_and_authenticated():
    w = world()
    w.authenticator.static_tokens = {"let-me-in": User("root", ("system:masters",))}
    assert ask(w, authorization="Bearer let-me-in") == User("root", ("system:masters", "system:authenticated"))


def test_a_client_certificate_is_user_and_groups_and_goes_before_a_token():
    w = world()
    headers = peer_header("system:node:gpu-1", ("system:nodes",)) | {"authorization": "Bearer garbage"}
    user = w.authenticator.authenticate(Request("GET", "/api", headers=headers))
    assert user == User("system:node:gpu-1", ("system:nodes", "system:authenticated"))


def test_a_trusted_callers_user_stands():
    assert ask(world(), user=ADMIN) is ADMIN


def test_an_administrator_impersonates_a_service_account_with_its_groups():
    assert ask(world(), user=ADMIN, impersonate_user=SA) == User(
        SA, ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")
    )


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("jane", "", ("system:authenticated",)),
        ("jane", "ops, gpu", ("ops", "gpu", "system:authenticated")),
        ("jane", "system:authenticated", ("system:authenticated",)),
        ("jane", "system:unauthenticated", ("system:unauthenticated",)),
        ("system:anonymous", "", ("system:unauthenticated",)),
        (SA, "ops", ("ops", "system:authenticated")),
    ],
)
def test_the_groups_of_an_impersonated_user(name, groups, expected):
    headers = {"impersonate_user": name} | ({"impersonate_group": groups} if groups else {})
    assert ask(world(), user=ADMIN, **headers).groups == expected


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            {"impersonate-user": "jane"},
            (
                'users "jane" is forbidden: User "helper" cannot impersonate resource "users" in API group "" at the cluster '
                "scope"
            ),
        ),
        (
            {"impersonate-user": SA},
            (
                'serviceaccounts "gpu-off" is forbidden: User "helper" cannot impersonate resource "serviceaccounts" in API '
                'group "" in the namespace "team"'
            ),
        ),
        (
            {"impersonate-user": "root", "impersonate-group": "system:masters"},
            (
                'groups "system:masters" is forbidden: User "helper" cannot impersonate resource "groups" in API group "" at '
                "the cluster scope"
            ),
        ),
        (
            {"impersonate-user": "root", "impersonate-uid": "7"},
            (
                'uids.authentication.k8s.io "7" is forbidden: User "helper" cannot impersonate resource "uids" in API group '
                '"authentication.k8s.io" at the cluster scope'
            ),
        ),
        (
            {"impersonate-user": "root", "impersonate-extra-scopes": "view"},
            (
                'userextras.authentication.k8s.io "view" is forbidden: User "helper" cannot impersonate resource '
                '"userextras/scopes" in API group "authentication.k8s.io" at the cluster scope'
            ),
        ),
    ],
)
def test_impersonation_must_be_allowed(headers, message):
    w = world()
    grant(w, impersonating("users") | {"resourceNames": ["root"]})
    with pytest.raises(StatusError) as refused:
        w.authenticator.authenticate(Request("GET", "/api", headers=headers, user=User("helper")))
    assert (refused.value.code, str(refused.value)) == (403, message)


def test_what_is_allowed_of_it_is_done():
    w = world()
    grant(
        w, impersonating("users", "groups"), impersonating("userextras/scopes", "uids", group="authentication.k8s.io")
    )
    headers = {
        "impersonate-user": "jane",
        "impersonate-group": "ops",
        "impersonate-uid": "7",
        "impersonate-extra-scopes": "view",
    }
    user = w.authenticator.authenticate(Request("GET", "/api", headers=headers, user=User("helper")))
    assert user == User("jane", ("ops", "system:authenticated"), "7", {"scopes": ["view"]})


def test_groups_without_a_user_are_a_bad_request():
    with pytest.raises(StatusError, match="without impersonating a user") as refused:
        ask(world(), user=ADMIN, impersonate_group="system:masters")
    assert refused.value.code == 400


@pytest.mark.parametrize("node", ["gpu-1", "gpu-2"])
def test_a_pod_may_be_let_be_the_node_that_it_is_on_and_no_other(node):
    rules = [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["nodes"], "verbs": ["impersonate:associated-node"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["impersonate-on:associated-node:get"]},
    ]
    me = {"authentication.kubernetes.io/node-name": ["gpu-1"]}
    w = world()
    grant(w, *rules, user=SA)
    w.authenticator.attributes_of = lambda _request: Attributes("get", "", "nodes", "", node, "")
    agent = User("system:serviceaccount:team:gpu-off", extra=me)
    request = Request("GET", "/", headers={"impersonate-user": f"system:node:{node}"}, user=agent)
    if node == "gpu-2":
        with pytest.raises(StatusError) as refused:
            w.authenticator.authenticate(request)
        assert "arbitrary-node" in str(refused.value)
    else:
        assert w.authenticator.authenticate(request) == User(
            "system:node:gpu-1", ("system:nodes", "system:authenticated")
        )
