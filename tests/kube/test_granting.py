"""What would grant what an API server refused."""

import pytest

from killcheck.kube.preflight import granting

ME = 'User "system:serviceaccount:killcheck:killcheck"'


@pytest.mark.parametrize(
    ("refusal", "rule"),
    [
        (
            f'daemonsets.apps is forbidden: {ME} cannot list resource "daemonsets" in API group "apps" at the cluster scope',
            '{apiGroups: ["apps"], resources: [daemonsets], verbs: [list]} in a ClusterRole',
        ),
        (
            f'deployments.apps "llm" is forbidden: {ME} cannot patch resource "deployments/scale" in API group "apps" '
            'in the namespace "ml"',
            '{apiGroups: ["apps"], resources: [deployments/scale], verbs: [patch]} in a Role of namespace ml',
        ),
        ('pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1', None),
    ],
)
def test_a_rule_is_said(refusal, rule):
    assert granting(refusal) == rule
