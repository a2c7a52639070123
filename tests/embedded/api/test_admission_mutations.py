"""MutatingAdmissionPolicies beyond what the recorded answers of a real server cover."""

import re
import sys

import pytest
from access_world import executor, world

from killcheck.embedded.api import celobjects
from killcheck.embedded.api.admission import expressions
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.cluster import Cluster
from killcheck.kube import resources as r

API = "admissionregistration.k8s.io/v1"
MIRROR = (
    '[JSONPatch{op: "replace", path: "/spec/containers/0/image", '
    'value: object.spec.containers[0].image.replace("localhost:5000/", "mirror.example/")}]'
)
LABEL = 'Object{metadata: Object.metadata{labels: {"seen": %s}}}'


def objects(expression, name="x", **spec):
    field = "jsonPatch" if expression.startswith("[") else "applyConfiguration"
    kind = "JSONPatch" if expression.startswith("[") else "ApplyConfiguration"
    yield {
        "apiVersion": API,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "operations": ["CREATE", "UPDATE"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                    }
                ]
            },
            "mutations": [{"patchType": kind, field: {"expression": expression}}],
            "reinvocationPolicy": "Never",
            **spec,
        },
    }
    yield {
        "apiVersion": API,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name},
    }


def policed(*policies):
    made = world()
    for policy in policies:
        for obj in policy:
            made.put(obj)
    return made


def test_an_object_written_as_another_type_than_its_fields_is_refused():
    made = policed(objects('Object{metadata: Object.spec{labels: {"a": "b"}}}'))
    with pytest.raises(StatusError) as refused:
        made.admit("CREATE", executor())
    assert str(refused.value) == (
        "policy 'x' with binding 'x' denied request: type mismatch: unexpected type name \"Object.spec\", expected "
        '"Object.metadata", which matches field name path from root Object type'
    )
    assert refused.value.status["reason"] == "Invalid"


def test_every_failure_is_told_and_those_of_policies_that_ignore_them_are_not():
    made = policed(
        *(objects(LABEL % "object.nope", name) for name in "ab"),
        objects(LABEL % "object.nope", "c", failurePolicy="Ignore"),
    )
    with pytest.raises(StatusError) as refused:
        made.admit("CREATE", executor())
    causes = [cause["message"] for cause in refused.value.status["details"]["causes"]]
    assert [cause.partition(" denied")[0] for cause in causes] == [
        f"policy '{name}' with binding '{name}'" for name in "ab"
    ]


def test_a_policy_that_wants_to_sees_what_came_after_it():
    count = LABEL % 'has(object.metadata.annotations) ? "twice" : "once"'
    later = 'Object{metadata: Object.metadata{annotations: {"a": "b"}}}'
    for again, seen in (("Never", "once"), ("IfNeeded", "twice")):
        made = policed(objects(count, "a", reinvocationPolicy=again), objects(later, "b"))
        pod, _ = made.admit("CREATE", executor())
        assert pod["metadata"]["labels"] == {"seen": seen}


def test_without_a_cel_evaluator_a_policy_in_force_refuses(monkeypatch):
    monkeypatch.setitem(sys.modules, "celpy", None)
    expressions._compiled.cache_clear()
    with pytest.raises(StatusError, match=r"cannot evaluate CEL: install killcheck\[dra\]"):
        policed(objects(LABEL % "'1'")).admit("CREATE", executor())
    expressions._compiled.cache_clear()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Object{}", '{"@type": "Object"}'),
        (
            "Object{spec: Object.spec{a: x.b, c: [f(d: 1, {e: 2})]}}",
            '{"@type": "Object", "spec": {"@type": "Object.spec", "a": x.b, "c": [f(d: 1, {e: 2})]}}',
        ),
        (
            'y ? Object{a: "Object{b: 1}"} : Object{}',
            'y ? {"@type": "Object", "a": "Object{b: 1}"} : {"@type": "Object"}',
        ),
        (
            '[JSONPatch{op: "add", path: "/a/" + jsonpatch.escapeKey("b/c"), value: {"d": 1}}]',
            '[{"@type": "JSONPatch", "op": "add", "path": "/a/" + jsonpatch_escapeKey("b/c"), "value": {"d": 1}}]',
        ),
        ("Object{a: p ? q : r, b: s}", '{"@type": "Object", "a": p ? q : r, "b": s}'),
        ("myObject.Object{a: 1}", "myObject.Object{a: 1}"),
        ("Object{ }", '{"@type": "Object" }'),
        ("Object{a: 1, // why\n b: [2], }", '{"@type": "Object", "a": 1, // why\n "b": [2] }'),
        ("true // Object{a: 1} :) :)", "true // Object{a: 1} :) :)"),
        (")) == 1", ")) == 1"),
        ("}", "}"),
        ("Object{a: [1]]}}", '{"@type": "Object", "a": [1]]}}'),
    ],
)
def test_typed_objects_are_read_as_maps(written, read):
    assert celobjects.readable(written) == read


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("[1]", "JSONPatchType.expression should evaluate to array of JSONPatch"),
        (
            '[JSONPatch{op: "add", path: "/metadata", value: Object.spec.template.metadata{labels: Object.wrong{a: "b"}}}]',
            'unexpected type name "Object.wrong", expected "Object.spec.template.metadata.labels"',
        ),
        ("[)", "compilation failed"),
    ],
)
def test_what_is_no_patch_is_refused(expression, why):
    with pytest.raises(StatusError, match=re.escape(why)):
        policed(objects(expression)).admit("CREATE", executor())


def test_a_test_that_fails_leaves_a_subresource_as_it_was():
    """On the scale of a Deployment: nobody is scaled to zero by a policy that does not apply."""
    policy, binding = objects('[JSONPatch{op: "test", path: "/spec/replicas", value: 99}]')
    policy["spec"]["matchConstraints"] = {
        "resourceRules": [
            {"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]}
        ]
    }
    cluster = Cluster(exec_mode="none")
    try:
        labels = {"app": "web"}
        cluster.load(
            [
                policy,
                binding,
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": "web", "namespace": "default"},
                    "spec": {
                        "replicas": 1,
                        "selector": {"matchLabels": labels},
                        "template": {
                            "metadata": {"labels": labels},
                            "spec": executor()["spec"] | {"serviceAccountName": "default", "restartPolicy": "Always"},
                        },
                    },
                },
            ]
        )
        cluster.kube.patch(r.DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, "default", subresource="scale")
        assert cluster.kube.get(r.DEPLOYMENTS, "web", "default")["spec"]["replicas"] == 5
    finally:
        cluster.close()


@pytest.mark.parametrize("asked", ["object.metadata.nope", "object.metadata['nope']"])
def test_what_is_missing_is_named_however_it_is_asked_for(asked):
    with pytest.raises(StatusError, match="resulted in error: no such key: nope"):
        policed(objects(LABEL % asked)).admit("CREATE", executor())


def test_a_variable_that_has_no_value_fails_for_who_asks_for_it():
    unset = [{"name": "v", "expression": "object.nope"}]
    asks = LABEL % 'has(object.nope) ? variables.v : "no"'
    pod, _ = policed(objects(asks, variables=unset)).admit("CREATE", executor())
    assert pod["metadata"]["labels"] == {"seen": "no"}
    with pytest.raises(StatusError, match=r"expression 'object\.nope' resulted in error: no such key: nope"):
        policed(objects(LABEL % "variables.v", variables=unset)).admit("CREATE", executor())


def test_which_policies_there_are_for_it_is_decided_before_any_has_changed_it():
    asks = objects('Object{metadata: Object.metadata{annotations: {"a": "b"}}}', "b")
    policy, binding = asks
    policy["spec"]["matchConstraints"]["objectSelector"] = {"matchLabels": {"seen": "yes"}}
    pod, _ = policed(objects(LABEL % "'yes'", "a"), (policy, binding)).admit("CREATE", executor())
    assert "annotations" not in pod["metadata"]


def test_an_executor_pulls_from_where_a_policy_sends_it():
    cluster = Cluster(exec_mode="none")
    try:
        cluster.load(
            [
                *objects(MIRROR),
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": "off", "namespace": "default"},
                    "spec": {"template": {"spec": executor()["spec"] | {"serviceAccountName": "default"}}},
                },
            ]
        )
        cluster.loop.sleep(3)
        (pod,) = cluster.kube.list(r.PODS, "default").items
        assert pod["spec"]["containers"][0]["image"] == "mirror.example/rec/executor:1"
        (job,) = cluster.kube.list(r.JOBS, "default").items
        assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "localhost:5000/rec/executor:1"
    finally:
        cluster.close()
