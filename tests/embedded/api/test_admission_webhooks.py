"""Admission webhooks: recordings 15 and 15b, and models of webhook servers."""

import base64
import json
import socket

import pytest
from access_world import executor, kind_of, world

from killcheck.embedded.api.admission.webhook_calls import CallFailed
from killcheck.embedded.api.status import StatusError
from killcheck.kube.objects import copy, dig

SCALE = {"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]}
PODS = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
NOT_FOUND = (
    'failed calling webhook "pods.rec.example": failed to call webhook: Post '
    '"https://policy.team.svc:443/validate?timeout=5s": service "policy" not found'
)


def response_to(review, *, allowed, message="", code=0):
    """The answer of a modelled webhook to a review: for writing backends."""
    answer = {"uid": dig(review, "request", "uid", default=""), "allowed": allowed}
    if message or code:
        answer["status"] = {key: value for key, value in (("message", message), ("code", code)) if value}
    return {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": answer}


def webhook(rule=PODS, *, name="pods.rec.example", **fields):
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team"}},
        "rules": [rule],
        "clientConfig": {"service": {"namespace": "team", "name": "policy", "path": "/validate"}},
    } | fields


def configure(w, *hooks, kind="ValidatingWebhookConfiguration", name="rec"):
    w.put(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": list(hooks),
        }
    )


def service(w, *, ready=True, port=443):
    w.put(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "policy"},
            "spec": {"type": "ClusterIP", "ports": [{"port": port}]},
        }
    )
    w.put(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "metadata": {"name": "policy-x", "labels": {"kubernetes.io/service-name": "policy"}},
            "ports": [{"port": 8443}],
            "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": ready}}],
        }
    )


def served(w, answer):
    service(w)
    w.chain.caller.backends["team", "policy"] = answer


def scale(w, replicas=0, **how):
    def of(n):
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "vllm", "namespace": "team"},
            "spec": {"replicas": n},
        }

    kind = kind_of({"apiVersion": "apps/v1", "kind": "Deployment"})
    return w.admit("UPDATE", of(replicas), old=of(1), subresource="scale", kind=kind, **how)


def refusal(call):
    with pytest.raises(StatusError) as refused:
        call()
    return refused.value


def test_a_webhook_without_its_service_refuses_pods_as_recorded():
    w = world()
    configure(w, webhook())
    error = refusal(lambda: w.admit("CREATE", executor()))
    assert error.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {NOT_FOUND}",
        "reason": "InternalError",
        "details": {"causes": [{"message": NOT_FOUND}]},
        "code": 500,
    }
    w.remove("validatingwebhookconfigurations", "rec", "", "admissionregistration.k8s.io")
    assert w.admit("CREATE", executor())


@pytest.mark.parametrize("dry_run", [False, True])
def test_and_on_the_scale_subresource_it_refuses_the_kill_itself(dry_run):
    w = world()
    configure(w, webhook(SCALE))
    assert str(refusal(lambda: scale(w, dry_run=dry_run))) == f"Internal error occurred: {NOT_FOUND}"


def test_it_does_not_cover_the_main_resource_nor_other_namespaces():
    w = world()
    configure(w, webhook(SCALE))
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "vllm", "namespace": "team"}}
    assert w.admit("UPDATE", copy(deployment), old=deployment)[0] == deployment
    configure(w, webhook(SCALE, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "default"}}))
    assert scale(w)


def test_failure_policy_ignore_lets_it_pass():
    w = world()
    configure(w, webhook(SCALE, failurePolicy="Ignore"))
    assert scale(w)[0]["spec"] == {"replicas": 0}


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda w: service(w, ready=False), 'no endpoints available for service "policy"'),
        (lambda w: service(w, port=80), 'no service port 443 found for service "policy"'),
        (service, "dial tcp 10.0.0.9:8443: connect: connection refused"),
    ],
)
def test_a_service_that_does_not_answer(prepare, message):
    w = world()
    configure(w, webhook())
    prepare(w)
    assert str(refusal(lambda: w.admit("CREATE", executor()))).endswith(f'/validate?timeout=5s": {message}')


def test_a_model_answers_for_a_service_and_sees_the_review():
    w = world()
    seen = []
    served(w, lambda review: seen.append(review) or response_to(review, allowed=True))
    configure(w, webhook(SCALE))
    scale(w)
    request = seen[0]["request"]
    assert {key: request[key] for key in ("kind", "resource", "subResource", "name", "namespace", "operation")} == {
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "subResource": "scale",
        "name": "vllm",
        "namespace": "team",
        "operation": "UPDATE",
    }
    assert (request["object"]["spec"], request["oldObject"]["spec"]) == ({"replicas": 0}, {"replicas": 1})
    assert request["userInfo"]["username"] == "kubernetes-admin"


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ({"message": "not tonight", "code": 403}, 403, "denied the request: not tonight"),
        ({"message": "no"}, 400, "denied the request: no"),
        ({}, 400, "denied the request without explanation"),
    ],
)
def test_a_refusal_is_worded_as_kubernetes_does(said, code, message):
    w = world()
    served(w, lambda review: response_to(review, allowed=False, **said))
    configure(w, webhook(failurePolicy="Ignore"))
    error = refusal(lambda: w.admit("CREATE", executor()))
    assert (error.code, str(error)) == (code, f'admission webhook "pods.rec.example" {message}')


def test_a_model_may_fail_as_networks_do():
    def slow(review):
        raise CallFailed("context deadline exceeded")

    w = world()
    served(w, slow)
    configure(w, webhook())
    assert str(refusal(lambda: w.admit("CREATE", executor()))).endswith(
        'Post "https://policy.team.svc:443/validate?timeout=5s": context deadline exceeded'
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"response": None}, "webhook response was absent"),
        (
            {"apiVersion": "admission.k8s.io/v1beta1"},
            (
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1beta1, "
                "Kind=AdmissionReview"
            ),
        ),
        ({"response": {"uid": "another", "allowed": True}}, 'got "another"'),
    ],
)
def test_an_answer_that_is_none_counts_as_a_failure(change, problem):
    w = world()
    served(w, lambda review: response_to(review, allowed=True) | change)
    configure(w, webhook())
    text = str(refusal(lambda: w.admit("CREATE", executor())))
    assert text.startswith('Internal error occurred: failed calling webhook "pods.rec.example": received invalid')
    assert text.endswith(problem)


def test_warnings_reach_the_client():
    w = world()

    def warn(review):
        answer = response_to(review, allowed=True)
        answer["response"]["warnings"] = ["mind the gap"]
        return answer

    served(w, warn)
    configure(w, webhook())
    assert w.admit("CREATE", executor())[1] == ["mind the gap"]


def test_a_webhook_with_side_effects_refuses_a_dry_run():
    w = world()
    configure(w, webhook(sideEffects="Some", failurePolicy="Ignore"))
    error = refusal(lambda: w.admit("CREATE", executor(), dry_run=True))
    assert (error.code, str(error)) == (400, 'admission webhook "pods.rec.example" does not support dry run')


def patching(*operations):
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()

    def answer(review):
        found = response_to(review, allowed=True)
        found["response"] |= {"patch": encoded, "patchType": "JSONPatch"}
        return found

    return answer


def test_a_mutating_webhook_changes_the_pod_before_it_is_judged():
    w = world()
    served(
        w,
        patching(
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "proxy", "image": "mesh"}},
            {"op": "add", "path": "/metadata/labels", "value": {"mesh": "yes"}},
        ),
    )
    configure(w, webhook(), kind="MutatingWebhookConfiguration")
    pod = w.admit("CREATE", executor())[0]
    assert pod["metadata"]["labels"] == {"mesh": "yes"}
    names = [mount["name"] for container in pod["spec"]["containers"] for mount in container["volumeMounts"]]
    assert names == [pod["spec"]["volumes"][0]["name"]] * 2, "the sidecar gets the account's token, too"


def test_a_sidecar_that_asks_for_nothing_breaks_an_executor_under_quota():
    w = world()
    served(w, patching({"op": "add", "path": "/spec/containers/-", "value": {"name": "proxy", "image": "mesh"}}))
    configure(w, webhook(), kind="MutatingWebhookConfiguration")
    w.put({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"cpu": "4"}}})
    containers = [{"name": "executor", "resources": {"requests": {"cpu": "1"}}}]
    error = refusal(lambda: w.admit("CREATE", executor(containers=containers)))
    assert str(error).endswith("failed quota: q: must specify cpu for: proxy")


def test_if_needed_is_asked_again_after_others_have_changed_the_pod():
    w = world()
    asked = []

    def answer(review):
        asked.append(len(review["request"]["object"]["spec"]["containers"]))
        containers = {"op": "add", "path": "/spec/containers/-", "value": {"name": "proxy"}}
        return (patching(containers) if len(asked) == 2 else patching())(review)

    served(w, answer)
    configure(
        w, webhook(reinvocationPolicy="IfNeeded"), webhook(name="late.rec.example"), kind="MutatingWebhookConfiguration"
    )
    w.admit("CREATE", executor())
    assert asked == [1, 1, 2]


@pytest.mark.parametrize(
    ("rule", "called"),
    [
        ({**PODS, "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}, True),
        ({**PODS, "resources": ["*/*"]}, True),
        ({**PODS, "resources": ["pods/*"]}, True),
        ({**PODS, "resources": ["pods/status"]}, False),
        ({**PODS, "operations": ["DELETE"]}, False),
        ({**PODS, "apiVersions": ["v2"]}, False),
        ({**PODS, "scope": "Cluster"}, False),
        ({**PODS, "scope": "Namespaced"}, True),
    ],
)
def test_which_rules_match_the_creation_of_a_pod(rule, called):
    w = world()
    configure(w, webhook(rule))
    if called:
        assert NOT_FOUND in str(refusal(lambda: w.admit("CREATE", executor())))
    else:
        assert w.admit("CREATE", executor())


@pytest.mark.parametrize(
    ("selector", "called"),
    [
        ({"matchLabels": {"killcheck": "drill"}}, True),
        ({"matchExpressions": [{"key": "killcheck", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_objects_are_selected_by_label(selector, called):
    w = world()
    configure(w, webhook(objectSelector=selector))
    pod = executor()
    pod["metadata"]["labels"] = {"killcheck": "drill"}
    if called:
        assert NOT_FOUND in str(refusal(lambda: w.admit("CREATE", pod)))
    else:
        assert w.admit("CREATE", pod)


def test_match_conditions_are_expressions():
    w = world()
    conditions = [{"name": "gpu", "expression": "object.spec.serviceAccountName == 'gpu-off'"}]
    configure(w, webhook(matchConditions=conditions))
    assert NOT_FOUND in str(refusal(lambda: w.admit("CREATE", executor())))
    assert w.admit("CREATE", executor(serviceAccountName="default"))


def test_nobody_can_be_locked_out_of_the_configuration_itself():
    w = world()
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    configure(w, webhook(everything, namespaceSelector={}))
    old = w.store.get(("admissionregistration.k8s.io", "validatingwebhookconfigurations"), ("", "rec"))
    assert w.admit("DELETE", None, old=old)


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team"}}


MAPS = {**PODS, "resources": ["configmaps"]}


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}", "[::1]:{}", "policy.example.com"])
def test_no_url_is_called(host):
    """A stranger's manifest names what listens on this host: nobody there hears of it, whatever the port."""
    w = world()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        url = f"https://{host.format(listening.getsockname()[1])}/check"
        configure(w, webhook(MAPS, clientConfig={"url": url}))
        assert "calls no URL" in str(refusal(lambda: w.admit("CREATE", config_map("good"))))
        with pytest.raises(BlockingIOError):
            listening.accept()
