import json

import pytest

from killcheck.fence import Account, Ceiling, evaluate
from killcheck.fence.authority import moved_by
from killcheck.fence.rights import grants

ONE = Ceiling(max_devices_per_node=1)
ROLE = "arn:aws:iam::111122223333:role/karpenter"
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu"},
    "spec": {
        "limits": {"nvidia.com/gpu": "8"},
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5", "p5"]}
                ],
            }
        },
    },
}
CONTROLLER = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "karpenter", "namespace": "kube-system", "annotations": {"eks.amazonaws.com/role-arn": ROLE}},
}


def role(name, *rules, **meta):
    return {"kind": "ClusterRole", "metadata": {"name": name, **meta}, "rules": list(rules)}


def rule(resources, verbs, groups=("karpenter.sh",), **more):
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs), **more}


def binding(to, *subjects, kind="ClusterRole"):
    return {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"b-{to}"},
        "roleRef": {"kind": kind, "name": to},
        "subjects": [dict(zip(("kind", "name", "namespace"), one, strict=False)) for one in subjects],
    }


RBAC = "rbac.authorization.k8s.io"
HOME = {"name": "b", "namespace": "kube-system"}
SELECTED = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["ml"]}]}
BOT = ("ServiceAccount", "bot", "ci")


@pytest.mark.parametrize(
    ("objects", "found"),
    [
        ([role("r", rule(["nodeclaims"], ["create"])), binding("r", BOT)], ["create nodeclaims"]),
        (
            [role("r", rule(["*"], ["*"])), binding("r", BOT)],
            [
                "create nodeclaims",
                "create nodepools",
                "update nodepools",
                "patch nodepools",
                "create nodeoverlays",
                "update nodeoverlays",
                "patch nodeoverlays",
            ],
        ),
        ([role("r", rule(["nodepools"], ["get", "patch"])), binding("r", BOT)], ["patch nodepools"]),
        ([role("r", rule(["nodeclaims"], ["get", "list"])), binding("r", BOT)], []),
        ([role("r", rule(["nodeclaims"], ["create"], resourceNames=["x"])), binding("r", BOT)], []),
        # A pool's name keeps nobody from widening that pool.
        (
            [role("r", rule(["nodepools"], ["create", "update", "patch"], resourceNames=["burst"])), binding("r", BOT)],
            ["update nodepools", "patch nodepools"],
        ),
        ([role("r", rule(["nodeclaims"], ["create"], groups=["apps"])), binding("r", BOT)], []),
        (
            [role("r", rule(["nodeclaims"], ["create"])), binding("r", ("ServiceAccount", "karpenter", "kube-system"))],
            [],
        ),
        ([role("r", rule(["nodeclaims"], ["create"])), binding("r", ("Group", "system:masters"))], []),
        (
            [role("r", rule(["nodeclaims"], ["create"])), binding("r", ("Group", "system:authenticated"))],
            ["create nodeclaims"],
        ),
        ([role("sum", aggregationRule={}), binding("sum", BOT)], []),
        # Whose name only begins as Karpenter's does, and whoever has what Kubernetes' own roles take in.
        (
            [role("r", rule(["nodeclaims"], ["create"])), binding("r", ("ServiceAccount", "karpenter-x", "team-a"))],
            ["create nodeclaims"],
        ),
        (
            [
                role(
                    "leaf",
                    rule(["nodeclaims"], ["create"]),
                    labels={"rbac.authorization.k8s.io/aggregate-to-edit": "true"},
                ),
                binding("admin", BOT),
            ],
            ["create nodeclaims"],
        ),
        (
            [
                {**role("sum"), "aggregationRule": {"clusterRoleSelectors": [SELECTED]}},
                role("leaf", rule(["nodeclaims"], ["create"]), labels={"team": "ml"}),
                binding("sum", BOT),
            ],
            ["create nodeclaims"],
        ),
        # Who may become somebody else; where there is nothing of Karpenter's, that launches nothing.
        (
            [POOL, role("r", rule(["serviceaccounts"], ["impersonate"], groups=[""])), binding("r", BOT)],
            ["impersonate serviceaccounts"],
        ),
        ([role("r", rule(["serviceaccounts"], ["impersonate"], groups=[""])), binding("r", BOT)], []),
        (
            [POOL, role("r", rule(["users"], ["impersonate"], groups=[""], resourceNames=["x"])), binding("r", BOT)],
            [],
        ),
        ([POOL, role("r", rule(["clusterroles"], ["bind"], groups=[RBAC])), binding("r", BOT)], ["bind clusterroles"]),
        # In Karpenter's namespace a pod is as good as its account.
        (
            [POOL, CONTROLLER, {**binding("edit", BOT), "kind": "RoleBinding", "metadata": HOME}],
            ["create pods"],
        ),
        ([POOL, {**binding("edit", BOT), "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "x"}}], []),
    ],
)
def test_who_may_write_what_launches(objects, found):
    assert [f"{grant.verb} {grant.resource}" for grant in grants(objects)] == found


def test_the_control_planes_own_controllers_are_nobodys_way_round():
    # As a v1.36.2 API server makes them: the garbage collector may patch anything, and create nothing.
    verbs = ["delete", "get", "list", "patch", "update", "watch"]
    name = "system:controller:generic-garbage-collector"
    objects = [
        role(name, rule(["*"], verbs, groups=["*"])),
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "generic-garbage-collector", "namespace": "kube-system"}],
        },
    ]
    assert grants(objects) == []
    other = grants([objects[0], binding(name, BOT)])
    assert {grant.verb for grant in other} == {"patch", "update"}
    assert not any(grant.everything for grant in other)  # it may not do anything: it may not create


def test_aggregated_roles_grant_what_their_parts_do():
    whole = {
        "kind": "ClusterRole",
        "metadata": {"name": "sum"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "admin"}}]},
    }
    part = role("part", rule(["nodeclaims"], ["create"]), labels={"to": "admin"})
    assert [grant.verb for grant in grants([whole, part, binding("sum", BOT)])] == ["create"]


def test_the_right_to_create_node_claims_is_a_door_past_every_pool():
    small = json.loads(json.dumps(POOL))
    small["spec"]["template"]["spec"]["requirements"][0] = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": ["g5.xlarge"],
    }
    report = evaluate([small, role("r", rule(["nodeclaims"], ["create"])), binding("r", BOT)], ONE)
    assert report.of("NodePool/gpu").verdict == "safe"
    door = report.of("RBAC/ServiceAccount ci/bot/create-nodeclaims")
    assert door.verdict == "exposed"
    assert "may create a NodeClaim past every pool" in door.door
    assert door.remedy == "take create on nodeclaims out of what b-r grants"
    assert report.verdict == "exposed"


def test_those_who_may_do_anything_are_noted():
    report = evaluate([role("root", rule(["*"], ["*"], groups=["*"])), binding("root", BOT)], ONE)
    assert report.notes == ("ServiceAccount ci/bot may do anything in the cluster (b-root), NodeClaims included",)
    assert not report.results


def account(*statements, scps=(), boundary=None):
    document = {
        "RoleDetailList": [
            {
                "RoleName": "karpenter",
                "Path": "/",
                "RolePolicyList": [{"PolicyName": "p", "PolicyDocument": {"Statement": list(statements)}}],
                "AttachedManagedPolicies": [],
            }
            | ({"PermissionsBoundary": {"PermissionsBoundaryArn": "arn:aws:iam::1:policy/b"}} if boundary else {})
        ],
        "Policies": [
            {
                "Arn": "arn:aws:iam::1:policy/b",
                "PolicyVersionList": [{"IsDefaultVersion": True, "Document": {"Statement": [boundary]}}],
            }
        ]
        if boundary
        else [],
    }
    policies = (
        [
            {
                "Policy": {
                    "PolicySummary": {"Type": "SERVICE_CONTROL_POLICY"},
                    "Content": json.dumps({"Statement": [ANY, *scps]}),
                }
            }
        ]
        if scps
        else []
    )
    return Account.of([document, *policies])


ANY = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def denies(*patterns, operator="StringLike"):
    return {
        "Effect": "Deny",
        "Action": "ec2:RunInstances",
        "Resource": "arn:aws:ec2:*:*:instance/*",
        "Condition": {operator: {"ec2:InstanceType": list(patterns)}},
    }


@pytest.mark.parametrize(
    ("given", "verdict", "worst"),
    [
        (account(ANY), "exposed", "p5.48xlarge"),
        (account(ANY, denies("p*", "g5.?8*", "g5.[24]*")), "exposed", "g5.24xlarge"),
        (account(ANY, denies("p5*", "g5.12xlarge", "g5.24xlarge", "g5.48xlarge")), "safe", "g5.16xlarge"),
        (account(ANY, scps=[denies("p5*", "g5.12xlarge", "g5.24xlarge", "g5.48xlarge")]), "safe", "g5.16xlarge"),
        (account(ANY, boundary={"Effect": "Allow", "Action": "s3:*", "Resource": "*"}), "safe", ""),
        (account(ANY, denies("p5*", operator="StringLikeOrSo")), "unproven", "p5.48xlarge"),
    ],
)
def test_what_karpenters_role_may_launch_narrows_its_pools(given, verdict, worst):
    report = evaluate([POOL, CONTROLLER], ONE, account=given)
    result = report.of("NodePool/gpu")
    assert (result.verdict, result.worst_instance) == (verdict, worst), result


def test_a_role_whose_policies_were_not_exported_narrows_nothing():
    other = account(ANY, denies("p5*", "g5*"))
    someone = evaluate([POOL], ONE, account=other, role="arn:aws:iam::1:role/someone")
    assert someone.of("NodePool/gpu").verdict == "exposed"
    unread = Account.of(
        [
            {
                "RoleDetailList": [
                    {
                        "RoleName": "karpenter",
                        "AttachedManagedPolicies": [{"PolicyArn": "arn:aws:iam::1:policy/unread"}],
                    }
                ]
            }
        ]
    )
    result = evaluate([POOL, CONTROLLER], ONE, account=unread).of("NodePool/gpu")
    assert result.verdict == "exposed"


def test_a_service_control_policy_does_not_reach_node_groups():
    given = account(ANY, scps=[denies("p5*")])
    given.node_groups.append(
        {"nodegroupName": "gpu", "instanceTypes": ["p5.48xlarge"], "scalingConfig": {"maxSize": 1}}
    )
    result = evaluate([CONTROLLER], ONE, account=given).of("EKSNodegroup/gpu")
    assert result.verdict == "exposed"
    assert any("service control policies do not bind" in note for note in result.notes)


def test_a_denial_that_blocks_every_subnet_blocks_every_type():
    given = account(
        ANY,
        {
            "Effect": "Deny",
            "Action": "ec2:RunInstances",
            "Resource": "*",
            "Condition": {"StringNotLike": {"ec2:InstanceType": ["t3.*"]}},
        },
    )
    report = evaluate([POOL, CONTROLLER], ONE, account=given)
    assert report.of("NodePool/gpu").type_count == 0
    assert f"{ROLE} may not launch" in report.notes[0]


def owned(manager, time, *paths):
    """An entry of managedFields."""
    fields = {}
    for path in paths:
        at = fields
        for step in path.split("."):
            at = at.setdefault(f"f:{step}", {})
    return {"manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields}


CLASS = "spec.template.spec.nodeClassRef"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], []),
        ([owned("argocd", "2026-11-01T00:00:00Z", CLASS, "spec.limits", "spec.template.spec.requirements")], []),
        (
            [
                owned("argocd", "2026-11-01T00:00:00Z", CLASS, "spec.limits.nvidia\\.com/gpu"),
                owned("kubectl-edit", "2026-11-20T03:12:00Z", "spec.limits.cpu"),
            ],
            [
                "NodePool/burst: spec.limits was last written by kubectl-edit at 2026-11-20T03:12:00Z; argocd keeps the rest"
            ],
        ),
        (
            [
                owned("helm", "2026-11-01T00:00:00Z", CLASS, "spec.limits"),
                owned("night-bot", "2026-11-20T03:12:00Z", "spec.template.spec.requirements"),
            ],
            [
                "NodePool/burst: spec.template.spec.requirements was last written by night-bot at 2026-11-20T03:12:00Z; "
                "helm keeps the rest"
            ],
        ),
    ],
    ids=["no record", "one hand", "limits", "requirements"],
)
def test_who_moved_a_pools_bounds(entries, said):
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "burst", "managedFields": entries},
    }
    assert moved_by([pool, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}]) == said
