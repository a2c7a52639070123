"""The authorizer and the reviews, against recording 27 (and 10 and 25 for the words of refusals)."""

import pytest
from access_world import ADMIN, REGISTRY, world

from killcheck.embedded.api import reviews
from killcheck.embedded.api.authn import ANONYMOUS
from killcheck.embedded.api.http import Request, User
from killcheck.embedded.api.rbac import Attributes
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.api.tokens import service_account_user
from killcheck.embedded.cluster import Cluster

RBAC = "rbac.authorization.k8s.io"
SA = "system:serviceaccount:team:gpu-off"
GROUPS = ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"]
ALLOWED = 'RBAC: allowed by RoleBinding "gpu-off/team" of Role "gpu-off" to ServiceAccount "gpu-off/team"'
SCALE = {
    "apiGroups": ["apps"],
    "resources": ["deployments/scale"],
    "verbs": ["get", "patch"],
    "resourceNames": ["vllm"],
}


def role(w, *rules, kind="Role", name="gpu-off", **more):
    w.put({"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}, "rules": list(rules), **more})


def bind(w, *subjects, kind="RoleBinding", name="gpu-off", to=("Role", "gpu-off")):
    w.put(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": kind,
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": to[0], "name": to[1]},
            "subjects": list(subjects) or [{"kind": "ServiceAccount", "name": "gpu-off", "namespace": "team"}],
        }
    )


def executors_world(*rules):
    w = world()
    role(w, *(rules or (SCALE,)))
    bind(w)
    return w


def ask(w, kind, spec, user=ADMIN, **metadata):
    registered = next(k for k in REGISTRY.all() if k.resource.kind == kind)
    return reviews.create(registered, {"kind": kind, "metadata": metadata, "spec": spec}, user, w.authorizer, w.issuer)


def may(w, user=SA, groups=GROUPS, **attributes):
    wanted = {
        "namespace": "team",
        "group": "apps",
        "resource": "deployments",
        "subresource": "scale",
        "name": "vllm",
        "verb": "patch",
    } | attributes
    return ask(w, "SubjectAccessReview", {"user": user, "groups": groups, "resourceAttributes": wanted})["status"]


@pytest.mark.parametrize(
    "asked", [{}, {"verb": "get"}, {"version": "v9"}, {"resource": "deployments/scale", "subresource": ""}]
)
def test_what_the_role_names_is_allowed(asked):
    assert may(executors_world(), **asked) == {"allowed": True, "reason": ALLOWED}


@pytest.mark.parametrize(
    "asked",
    [
        {"name": ""},
        {"name": "other"},
        {"subresource": ""},
        {"verb": "update"},
        {"group": ""},
        {"namespace": "default"},
        {"namespace": ""},
        {"subresource": "*"},
        {"resource": "deploymints"},
        {"subresource": "", "verb": "list"},
        {"user": "system:serviceaccount:team:ghost"},
    ],
)
def test_and_nothing_beside_it(asked):
    assert may(executors_world(), **asked) == {"allowed": False}


@pytest.mark.parametrize(
    ("resource", "scale", "main"),
    [
        ("deployments", False, True),
        ("deployments/scale", True, False),
        ("*/scale", True, False),
        ("deployments/*", False, False),
        ("*", True, True),
    ],
)
def test_which_resources_cover_the_scale_subresource(resource, scale, main):
    w = executors_world({**SCALE, "resources": [resource]})
    assert (may(w)["allowed"], may(w, subresource="")["allowed"]) == (scale, main)


def test_a_rule_that_changes_counts_at_once():
    w = executors_world()
    assert may(w)["allowed"]
    role(w, {**SCALE, "verbs": ["get"]})
    assert not may(w)["allowed"]


def test_a_binding_to_a_role_that_is_gone_says_so():
    w = executors_world()
    w.remove("roles", "gpu-off", group=RBAC)
    assert may(w) == {"allowed": False, "reason": f'RBAC: role.{RBAC} "gpu-off" not found'}
    with pytest.raises(StatusError) as refused:
        w.authorizer.check(
            service_account_user("team", "gpu-off"), Attributes("patch", "apps", "deployments", "scale", "vllm", "team")
        )
    assert str(refused.value) == (
        f'deployments.apps "vllm" is forbidden: User "{SA}" cannot patch resource "deployments/scale" in API group '
        f'"apps" in the namespace "team": RBAC: role.{RBAC} "gpu-off" not found'
    )


def test_several_broken_bindings_are_listed_once_each():
    w = world()
    bind(w, name="a", to=("Role", "x"))
    bind(w, name="b", to=("ClusterRole", "y"))
    bind(w, name="c", to=("Role", "x"))
    assert may(w)["reason"] == f'RBAC: [role.{RBAC} "x" not found, clusterrole.{RBAC} "y" not found]'


def test_the_answer_repeats_the_question_as_recorded():
    w = executors_world()
    spec = {
        "user": SA,
        "groups": GROUPS,
        "resourceAttributes": {
            "namespace": "team",
            "group": "apps",
            "resource": "deployments",
            "subresource": "scale",
            "name": "",
            "verb": "patch",
        },
    }
    assert ask(w, "SubjectAccessReview", spec) == {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {
            "resourceAttributes": {
                "namespace": "team",
                "verb": "patch",
                "group": "apps",
                "resource": "deployments",
                "subresource": "scale",
            },
            "user": SA,
            "groups": GROUPS,
        },
        "status": {"allowed": False},
    }


def test_a_review_of_nobody_is_invalid():
    with pytest.raises(StatusError) as refused:
        ask(world(), "SubjectAccessReview", {"resourceAttributes": {"verb": "get", "resource": "pods"}})
    message = 'Invalid value: "": at least one of user or group must be specified'
    assert (refused.value.code, refused.value.status["details"]) == (
        422,
        {
            "group": "authorization.k8s.io",
            "causes": [{"reason": "FieldValueInvalid", "message": message, "field": "spec.user"}],
        },
    )
    assert str(refused.value) == f'.authorization.k8s.io "" is invalid: spec.user: {message}'


def test_a_local_review_stays_in_its_namespace():
    wanted = {"verb": "get", "resource": "pods", "namespace": "default"}
    with pytest.raises(StatusError, match=r"must match metadata\.namespace"):
        ask(world(), "LocalSubjectAccessReview", {"user": "jane", "resourceAttributes": wanted}, namespace="team")


def test_a_self_review_asks_for_who_asks():
    w = executors_world()
    spec = {
        "resourceAttributes": {
            "namespace": "team",
            "group": "apps",
            "resource": "deployments",
            "subresource": "scale",
            "name": "vllm",
            "verb": "patch",
        }
    }
    me = service_account_user("team", "gpu-off")
    assert ask(w, "SelfSubjectAccessReview", spec, me)["status"] == {"allowed": True, "reason": ALLOWED}
    assert ask(w, "SelfSubjectAccessReview", spec, ANONYMOUS)["status"] == {"allowed": False}
    assert ask(w, "SelfSubjectAccessReview", spec, ADMIN)["status"] == {"allowed": True}


def test_who_am_i():
    answer = ask(world(), "SelfSubjectReview", {}, service_account_user("team", "gpu-off", "7"))
    assert answer["status"] == {"userInfo": {"username": SA, "uid": "7", "groups": GROUPS}}


def test_the_rules_of_an_executor():
    w = executors_world()
    answer = ask(w, "SelfSubjectRulesReview", {"namespace": "team"}, service_account_user("team", "gpu-off"))["status"]
    assert SCALE in answer["resourceRules"]
    assert {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]} in (
        answer["resourceRules"]
    )
    assert any("/openapi" in rule["nonResourceURLs"] for rule in answer["nonResourceRules"])
    with pytest.raises(StatusError, match="no namespace on request"):
        ask(w, "SelfSubjectRulesReview", {}, ADMIN)


@pytest.mark.parametrize(
    ("user", "attributes", "message"),
    [
        (
            ANONYMOUS,
            Attributes("get", "apps", "deployments", "scale", "vllm", "team"),
            (
                'deployments.apps "vllm" is forbidden: User "system:anonymous" cannot get resource "deployments/scale" in API '
                'group "apps" in the namespace "team"'
            ),
        ),
        (ANONYMOUS, Attributes("get", path="/api"), 'forbidden: User "system:anonymous" cannot get path "/api"'),
        (
            service_account_user("team", "gpu-off"),
            Attributes("list", "apps", "deployments", namespace="team"),
            (
                f'deployments.apps is forbidden: User "{SA}" cannot list resource "deployments" in API group "apps" in the '
                'namespace "team"'
            ),
        ),
        (
            User("jane"),
            Attributes("list", "", "nodes"),
            ('nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope'),
        ),
    ],
)
def test_refusals_are_worded_as_recorded(user, attributes, message):
    with pytest.raises(StatusError) as refused:
        executors_world().authorizer.check(user, attributes)
    assert (refused.value.code, str(refused.value)) == (403, message)


@pytest.mark.parametrize(
    ("user", "path", "allowed"),
    [
        (ANONYMOUS, "/version", True),
        (ANONYMOUS, "/healthz", True),
        (ANONYMOUS, "/apis", False),
        (service_account_user("team", "gpu-off"), "/apis/apps/v1", True),
        (service_account_user("team", "gpu-off"), "/openapi/v2", True),
        (service_account_user("team", "gpu-off"), "/openid/v1/jwks", True),
        (service_account_user("team", "gpu-off"), "/metrics", False),
        (ADMIN, "/metrics", True),
    ],
)
def test_which_paths_are_open(user, path, allowed):
    assert world().authorizer.decide(user, Attributes("get", path=path)).allowed is allowed


def test_aggregated_roles_follow_the_roles_they_are_made_of():
    w = world()
    bind(w, {"kind": "User", "name": "jane"}, to=("ClusterRole", "edit"))

    def jane_may(verb, resource, group="keda.sh"):
        return w.authorizer.decide(User("jane"), Attributes(verb, group, resource, "", "", "team")).allowed

    assert jane_may("patch", "deployments", "apps")
    assert jane_may("list", "pods", "")
    assert not jane_may("create", "rolebindings", RBAC)
    assert not jane_may("patch", "scaledobjects")
    role(
        w,
        {"apiGroups": ["keda.sh"], "resources": ["scaledobjects"], "verbs": ["patch"]},
        kind="ClusterRole",
        name="keda-edit",
    )
    labelled = dict(w.store.get((RBAC, "clusterroles"), ("", "keda-edit")))
    labelled["metadata"] = labelled["metadata"] | {"labels": {f"{RBAC}/aggregate-to-edit": "true"}}
    w.put(labelled)
    assert jane_may("patch", "scaledobjects")


def test_an_aggregated_role_keeps_its_own_rules_until_others_take_their_place():
    w = world()
    scales = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}
    reads = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    selects = {"clusterRoleSelectors": [{"matchLabels": {"into": "sum"}}]}
    meta = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole"}
    w.put({**meta, "metadata": {"name": "sum"}, "aggregationRule": selects, "rules": [scales]})
    rules = [w.authorizer.role_rules("ClusterRole", "", "sum")]
    part = {**meta, "metadata": {"name": "part", "labels": {"into": "sum"}}, "rules": [reads]}
    for one in (part, {**part, "metadata": {"name": "part"}}):
        w.put(one)
        rules.append(w.authorizer.role_rules("ClusterRole", "", "sum"))
    assert rules == [[scales], [reads], []]


def test_the_stored_rules_of_admin_are_what_it_may():
    w = world()
    stored = w.store.get((RBAC, "clusterroles"), ("", "admin"))["rules"]
    resolved = w.authorizer.role_rules("ClusterRole", "", "admin")
    assert sorted(map(str, stored)) == sorted(map(str, resolved))


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        (Attributes("patch", "", "nodes", "status", "gpu-1"), True),
        (Attributes("patch", "", "nodes", "status", "gpu-2"), False),
        (Attributes("update", "coordination.k8s.io", "leases", "", "gpu-1", "kube-node-lease"), True),
        (Attributes("update", "coordination.k8s.io", "leases", "", "gpu-2", "kube-node-lease"), False),
        (Attributes("create", "", "serviceaccounts", "token", "gpu-off", "team"), True),
        (Attributes("patch", "", "pods", "status", "p", "team"), True),
        (Attributes("delete", "apps", "deployments", "", "vllm", "team"), False),
    ],
)
def test_a_kubelet_does_what_kubelets_do_on_its_own_node(attributes, allowed):
    kubelet = User("system:node:gpu-1", ("system:nodes", "system:authenticated"))
    assert world().authorizer.decide(kubelet, attributes).allowed is allowed


def test_the_first_subject_of_a_binding_is_named():
    w = world()
    role(w, SCALE)
    bind(w, {"kind": "Group", "name": "ops"}, {"kind": "User", "name": "jane"})
    assert may(w, user="jane", groups=["ops"])["reason"].endswith('to Group "ops"')


GRANT = {"apiGroups": ["apps"], "resources": ["deployments", "deployments/scale"], "verbs": ["get", "patch"]}


def test_nobody_grants_what_they_do_not_hold():
    w = executors_world({**SCALE, "resourceNames": []})
    me = service_account_user("team", "gpu-off")
    new = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "more", "namespace": "team"}}
    with pytest.raises(StatusError) as refused:
        w.admit("CREATE", new | {"rules": [GRANT]}, user=me)
    assert str(refused.value) == (
        f'roles.{RBAC} "more" is forbidden: user "{SA}" (groups=["system:serviceaccounts" '
        '"system:serviceaccounts:team" "system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held:\n{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "patch"]}'
    )
    held = {**GRANT, "resources": ["deployments/scale"], "resourceNames": ["vllm"]}
    assert w.admit("CREATE", new | {"rules": [held]}, user=me)[0]["rules"] == [held]
    assert w.admit("CREATE", new | {"rules": [GRANT]}, user=ADMIN)[0]["rules"] == [GRANT]


def test_binding_takes_the_roles_powers_or_the_verb_bind():
    w = executors_world()
    me = service_account_user("team", "gpu-off")
    new = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "up", "namespace": "team"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
        "subjects": [],
    }
    with pytest.raises(StatusError, match="attempting to grant RBAC permissions not currently held"):
        w.admit("CREATE", new, user=me)
    role(w, SCALE, {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["view"]})
    assert w.admit("CREATE", new, user=me)[0] == new
    missing = new | {"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "nope"}}
    with pytest.raises(StatusError, match=f'rolebindings.{RBAC} "nope" not found'):
        w.admit("CREATE", missing, user=me)


def test_the_garbage_collector_may_touch_a_role_it_could_not_write():
    w = world()
    old = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "rules": [GRANT],
        "metadata": {"name": "r", "namespace": "team", "finalizers": ["foregroundDeletion"]},
    }
    new = old | {"metadata": {"name": "r", "namespace": "team"}}
    assert w.admit("UPDATE", new, old=old, user=User("collector"))[0] == new


def test_a_role_that_is_put_as_it_was_read_changes_nothing_and_one_out_of_a_file_is_asked_about():
    with Cluster(exec_mode="none") as cluster:
        rights = {"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["get", "update"]}
        kept = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "kept", "namespace": "default"}}
        held = kept | {"metadata": {"name": "editor", "namespace": "default"}, "rules": [rights]}
        bound = {"subjects": [{"kind": "User", "name": "jane"}], "roleRef": {"kind": "Role", "name": "editor"}}
        binding = held | {"kind": "RoleBinding"} | bound
        del binding["rules"]
        cluster.load([kept | {"rules": [GRANT]}, held, binding])
        path, jane = f"/apis/{RBAC}/v1/namespaces/default/roles/kept", User("jane", ("system:authenticated",))
        read = cluster.server.handle(Request("GET", path, user=jane)).body
        answers = [
            cluster.server.handle(Request("PUT", path, body=body, user=jane)).status
            for body in (read, kept | {"rules": [GRANT]})
        ]
        assert answers == [200, 403]
