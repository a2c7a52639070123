"""ValidatingAdmissionPolicies, with and without a CEL evaluator."""

import sys

import pytest
from access_world import executor, world

from killcheck.embedded.api.admission import expressions
from killcheck.embedded.api.status import StatusError

API = "admissionregistration.k8s.io/v1"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def policy(w, expression, *, actions=("Deny",), binding=None, validation=None, **spec):
    w.put(
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "x"},
            "spec": {
                "matchConstraints": {"resourceRules": [RULE]},
                "validations": [{"expression": expression, **(validation or {})}],
                **spec,
            },
        }
    )
    w.put(
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "y"},
            "spec": {"policyName": "x", "validationActions": list(actions), **(binding or {})},
        }
    )
    return w


def refusal(w):
    with pytest.raises(StatusError) as refused:
        w.admit("CREATE", executor())
    return refused.value


def test_a_denial_is_worded_as_kubernetes_does():
    w = policy(world(), "object.spec.restartPolicy != 'Never'", validation={"message": "no executors"})
    error = refusal(w)
    message = "ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no executors"
    assert error.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'pods "gpu-off-drill-gf697" is forbidden: {message}',
        "reason": "Invalid",
        "details": {"name": "gpu-off-drill-gf697", "kind": "pods", "causes": [{"message": message}]},
        "code": 422,
    }


@pytest.mark.parametrize(
    ("asked", "holds"),
    [
        ("authorizer.group('').resource('pods').namespace('team').name('x').check('delete').allowed()", True),
        (
            "authorizer.requestResource.check('create').allowed() && authorizer.path('/version').check('get').allowed()",
            True,
        ),
        ("authorizer.serviceAccount('team', 'x').group('').resource('pods').check('get').denied()", None),
        (
            "authorizer.serviceAccount('team', 'x').group('apps').resource('deployments').check('patch').allowed()",
            False,
        ),
        ("authorizer.serviceAccount('team', 'x').requestResource.check('get').allowed()", None),
    ],
)
def test_a_policy_asks_the_authorizer_who_may_do_what(asked, holds):
    w = policy(world(), asked)
    if holds:
        w.admit("CREATE", executor())  # as an administrator
        return
    said = str(refusal(w))
    assert (f"failed expression: {asked}" in said) is (holds is False)


@pytest.mark.parametrize(
    ("validation", "code", "message"),
    [
        ({}, 422, "failed expression: has(object.spec.nope)"),
        ({"reason": "Forbidden", "message": " spaced "}, 403, "spaced"),
        ({"messageExpression": "'pod ' + object.metadata.name", "message": "plain"}, 422, "pod gpu-off-drill-gf697"),
        ({"messageExpression": "object.metadata.nope", "message": "plain"}, 422, "plain"),
    ],
)
def test_messages_and_reasons(validation, code, message):
    error = refusal(policy(world(), "has(object.spec.nope)", validation=validation))
    assert error.code == code
    assert str(error).endswith(f"denied request: {message}")


def test_what_satisfies_the_policy_comes_in():
    w = policy(
        world(),
        "variables.accounts.exists(a, a == object.spec.serviceAccountName)",
        variables=[{"name": "accounts", "expression": "['gpu-off']"}],
    )
    assert w.admit("CREATE", executor())[1] == []
    with pytest.raises(StatusError, match="failed expression"):
        w.admit("CREATE", executor(serviceAccountName="default"))


def test_a_binding_that_only_warns():
    w = policy(world(), "false", actions=("Warn",), validation={"message": "mind"})
    assert w.admit("CREATE", executor())[1] == [
        "Validation failed for ValidatingAdmissionPolicy 'x' with binding 'y': mind"
    ]


@pytest.mark.parametrize(
    "narrowed",
    [
        {"binding": {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}},
        {"matchConditions": [{"name": "n", "expression": "request.userInfo.username == 'jane'"}]},
        {"matchConstraints": {"resourceRules": [RULE], "objectSelector": {"matchLabels": {"a": "b"}}}},
        {"matchConstraints": {"resourceRules": [RULE], "excludeResourceRules": [RULE]}},
        {"matchConstraints": {"resourceRules": [{**RULE, "resources": ["services"]}]}},
    ],
)
def test_it_does_not_concern_what_it_does_not_match(narrowed):
    assert policy(world(), "false", **narrowed).admit("CREATE", executor())


def test_params_come_from_the_binding():
    w = policy(
        world(),
        "int(params.data.containers) >= size(object.spec.containers)",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        binding={"paramRef": {"name": "limit", "namespace": "team", "parameterNotFoundAction": "Deny"}},
    )
    assert "no params found" in str(refusal(w))
    w.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limit"}, "data": {"containers": "1"}})
    assert w.admit("CREATE", executor())
    with pytest.raises(StatusError, match="failed expression"):
        w.admit("CREATE", executor(containers=[{"name": "a"}, {"name": "b"}]))


@pytest.mark.parametrize("expression", ["object.spec.nope == 1", "object.spec. =="])
def test_an_expression_that_fails_follows_the_failure_policy(expression):
    assert "denied request" in str(refusal(policy(world(), expression)))
    assert policy(world(), expression, failurePolicy="Ignore").admit("CREATE", executor())


def test_without_an_evaluator_a_policy_in_force_refuses_and_says_why(monkeypatch):
    monkeypatch.setitem(sys.modules, "celpy", None)
    expressions._compiled.cache_clear()
    assert "install killcheck[dra]" in str(refusal(policy(world(), "true")))
    assert policy(world(), "true", failurePolicy="Ignore").admit("CREATE", executor())


@pytest.mark.parametrize("sign", [" && ", " || "])
def test_of_many_terms_that_fail_the_first_is_told(sign):
    """What a policy of all operations meets with every deletion; it took memory without an end."""
    text = sign.join(f"object.metadata.name != 'x{number}'" for number in range(40))
    with pytest.raises(expressions.ExpressionError, match="resulted in error: no such overload") as raised:
        expressions.evaluate(text, {"object": None})
    assert len(str(raised.value)) < 2 * len(text)
