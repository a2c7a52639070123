"""What a real v1.36.2 refuses when it is written: expressions that do not compile, and what decides by being empty.

The words were answers of kube-apiserver v1.36.2 to these same requests.
"""

from __future__ import annotations

import pytest

from killcheck.embedded import Cluster

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


@pytest.fixture(scope="module")
def cluster():
    with Cluster(exec_mode="none") as made:
        yield made


@pytest.fixture
def ask(cluster):
    """The causes of a refusal, as (field, message); empty: it was taken."""

    def causes(path, body):
        answer = cluster.kube.transport.request("POST", path, {"dryRun": "All"}, body, {})
        details = answer.body.get("details") or {}
        return [(one["field"], one["message"]) for one in details.get("causes", ())] if answer.status >= 400 else []

    return causes


def policy(validations, **spec):
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations} | spec
    return {"metadata": {"name": "v"}, "spec": spec}


def pointed(text, column, why):
    return f"compilation failed: ERROR: <input>:1:{column}: {why}\n | {text}\n | {'.' * (column - 1)}^"


@pytest.mark.parametrize(
    ("text", "column", "why"),
    [
        ("object.spec.replicas ==", 24, f"Syntax error: mismatched input '<EOF>' expecting {OPERAND}"),
        ("object.spec.replicas == 0 &&", 29, f"Syntax error: mismatched input '<EOF>' expecting {OPERAND}"),
        ("size(object.spec", 17, "Syntax error: missing ')' at '<EOF>'"),
        ("true ? 1", 9, "Syntax error: mismatched input '<EOF>' expecting ':'"),
        ("obj.spec == 1", 1, "undeclared reference to 'obj' (in container '')"),
        ("variables.x == 1", 1, "undeclared reference to 'variables' (in container '')"),
        ("request.nothing == 1", 8, "undefined field 'nothing'"),
        ("request.", 9, "Syntax error: no viable alternative at input '.'"),
        ("request.kind.nope == 'a'", 13, "undefined field 'nope'"),
        ("authorizer.x()", 13, "undeclared reference to 'x' (in container '')"),
        ("object.all(x, x.y.z())", 20, "undeclared reference to 'z' (in container '')"),
        ("1 + 'a' == 2", 3, "found no matching overload for '_+_' applied to '(int, string)'"),
        ("has(request)", 5, "invalid argument to has() macro"),
    ],
)
def test_a_policy_whose_expression_does_not_compile_is_refused(ask, text, column, why):
    said = f'Invalid value: "{text}": {pointed(text, column, why)}'
    assert ask(POLICIES, policy([{"expression": text}])) == [("spec.validations[0].expression", said)]


@pytest.mark.parametrize(
    "text",
    [
        "object.spec.replicas == 0",
        pytest.param(" && ".join(["true"] * 900), id="longer than can be followed"),
        "object.spec.template.spec.containers.all(c, c.image.startsWith('a:') && c.name != request.name)",
        "!has(object.spec.paused) || object.metadata.?labels['a'].orValue('') == 'b'",
        "request.userInfo.groups.exists(g, g == 'system:masters')",
        "variables.big > 1 || sets.contains([1], [1])",
        "object.metadata.name == '(' || quantity('1').isLessThan(quantity('2'))",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "oldObject == null ? true : object.spec == oldObject.spec",
    ],
)
def test_one_that_compiles_is_taken(ask, text):
    spec = {"variables": [{"name": "big", "expression": "object.spec.replicas"}]}
    assert ask(POLICIES, policy([{"expression": text}], **spec)) == []


def test_a_result_of_another_type_is_refused(ask):
    for text, kind in (("object.spec.replicas", "dyn"), ("'a'", "string"), ("size(object)", "int")):
        said = f'Invalid value: "{text}": must evaluate to bool but got {kind}'
        assert ask(POLICIES, policy([{"expression": text}])) == [("spec.validations[0].expression", said)]
    said = 'Invalid value: "device.driver": must evaluate to bool or the unknown type, not string'
    chosen = {"metadata": {"name": "v"}, "spec": {"selectors": [{"cel": {"expression": "device.driver"}}]}}
    assert ask(CLASSES, chosen) == [("spec.selectors[0].cel.expression", said)]


def test_what_policies_and_bindings_may_say(ask):
    supported = 'supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"'
    wanted = [("spec.validations[0].reason", f'Unsupported value: "": {supported}')]
    assert ask(POLICIES, policy([{"expression": "true", "reason": ""}])) == wanted
    wanted = [("spec.validations[0].expression", "Required value: expression is not specified")]
    assert ask(POLICIES, policy([{"expression": ""}])) == wanted
    assert [field for field, _ in ask(POLICIES, policy([]))] == ["spec.validations", "spec.auditAnnotations"]
    bound = {"metadata": {"name": "v"}, "spec": {"policyName": "${x}", "validationActions": ["Deny", "Deny"]}}
    found = ask(BINDINGS, bound)
    assert [field for field, _ in found] == ["spec.policyName", "spec.validationActions[1]"]
    assert found[1][1] == 'Duplicate value: "Deny"'


def test_empty_lists_and_maps_that_decide(ask):
    autoscaler = {
        "metadata": {"name": "v"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "maxReplicas": 3,
            "behavior": {"scaleDown": {"policies": []}},
        },
    }
    wanted = [("spec.behavior.scaleDown.policies", "Required value: must specify at least one Policy")]
    assert ask("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", autoscaler) == wanted


def test_an_empty_overhead_refuses_a_pod_and_no_template(cluster):
    def answer(path, spec):
        body = {"metadata": {"name": "p"}, "spec": spec}
        return cluster.kube.transport.request("POST", path, {"dryRun": "All"}, body, {})

    pod = {"containers": [{"name": "c", "image": "a"}], "overhead": {}}
    refused = answer("/api/v1/namespaces/default/pods", pod)
    assert refused.body["message"] == (
        'pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead'
    )
    labels = {"app": "p"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    taken = answer("/apis/apps/v1/namespaces/default/deployments", spec)
    assert (taken.status, "overhead" in taken.body["spec"]["template"]["spec"]) == (201, False)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"volumeBindingMode": "Recreate"}, "volumeBindingMode"),
        ({"reclaimPolicy": "Recycle"}, "reclaimPolicy"),
        ({"provisioner": ""}, "provisioner"),
        ({"parameters": {"": "x"}}, "parameters"),
        ({}, None),
    ],
)
def test_storage_classes(ask, change, field):
    found = ask("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "v"}, "provisioner": "a.b/p"} | change)
    assert [one for one, _ in found] == ([field] if field else [])


def test_a_scale_of_another_type_shows_the_whole_scale(cluster):
    labels = {"app": "q"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "a"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    cluster.kube.transport.request("POST", path, {}, {"metadata": {"name": "q"}, "spec": spec}, {})
    for kind, begins in (("merge", '"{\\"apiVersion\\":\\"autoscaling/v1\\"'), ("strategic-merge", '"map[spec:')):
        headers = {"content-type": f"application/{kind}-patch+json"}
        answer = cluster.kube.transport.request("PATCH", f"{path}/q/scale", {}, {"spec": {"replicas": "0"}}, headers)
        assert answer.status == 422
        assert answer.body["message"].startswith(f' "" is invalid: patch: Invalid value: {begins}')
