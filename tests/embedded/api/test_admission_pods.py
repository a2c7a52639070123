"""Admission of pods: accounts, priorities, tolerations, namespaces. Texts from recordings 01 and 11."""

import pytest
from access_world import START, executor, world

from killcheck.embedded.api.status import StatusError
from killcheck.kube.objects import copy


def create(w, pod=None, **spec):
    return w.admit("CREATE", pod or executor(**spec))[0]


def refusal(w, pod=None, **spec):
    with pytest.raises(StatusError) as refused:
        create(w, pod, **spec)
    return refused.value


def account(w, name, **fields):
    w.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, **fields})


def test_an_account_that_does_not_exist_is_refused_before_the_pod_has_a_name():
    error = refusal(world(), serviceAccountName="gpu-off-deleted")
    assert str(error) == (
        'pods "gpu-off-drill-" is forbidden: error looking up service account team/gpu-off-deleted: serviceaccount '
        '"gpu-off-deleted" not found'
    )
    assert (error.code, error.status["reason"], error.status["details"]) == (
        403,
        "Forbidden",
        {"name": "gpu-off-drill-", "kind": "pods"},
    )


def test_an_admitted_pod_looks_as_recorded():
    pod = create(world())
    volume = pod["spec"]["volumes"][0]["name"]
    assert volume.startswith("kube-api-access-")
    assert len(volume) == len("kube-api-access-wznvr")
    assert pod["spec"] == {
        "serviceAccountName": "gpu-off",
        "serviceAccount": "gpu-off",
        "restartPolicy": "Never",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "volumes": [
            {
                "name": volume,
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {
                                        "path": "namespace",
                                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                                    }
                                ]
                            }
                        },
                    ],
                },
            }
        ],
        "containers": [
            {
                "name": "executor",
                "image": "localhost:5000/rec/executor:1",
                "volumeMounts": [
                    {"name": volume, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
                ],
            }
        ],
        "tolerations": [
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
        ],
    }


def test_without_an_account_it_is_default():
    pod = executor()
    del pod["spec"]["serviceAccountName"]
    assert create(world(), pod)["spec"]["serviceAccountName"] == "default"


@pytest.mark.parametrize(
    ("pods", "accounts", "mounted"),
    [
        (None, None, True),
        (False, None, False),
        (True, False, True),
        (None, False, False),
        (False, True, False),
    ],
)
def test_the_pods_word_on_its_token_goes_before_the_accounts(pods, accounts, mounted):
    w = world()
    account(w, "careful", **({} if accounts is None else {"automountServiceAccountToken": accounts}))
    said = {} if pods is None else {"automountServiceAccountToken": pods}
    spec = create(w, serviceAccountName="careful", **said)["spec"]
    assert ("volumes" in spec, "volumeMounts" in spec["containers"][0]) == (mounted, mounted)


def test_a_container_with_something_of_its_own_at_that_path_keeps_it():
    own = {"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    spec = create(world(), containers=[{"name": "a", "volumeMounts": [own]}, {"name": "b"}])["spec"]
    assert spec["containers"][0]["volumeMounts"] == [own]
    assert spec["containers"][1]["volumeMounts"][0]["name"] == spec["volumes"][0]["name"]


def test_pull_secrets_come_from_the_account_unless_the_pod_has_some():
    w = world()
    account(w, "puller", imagePullSecrets=[{"name": "registry"}])
    assert create(w, serviceAccountName="puller")["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    own = [{"name": "mine"}]
    assert create(w, serviceAccountName="puller", imagePullSecrets=own)["spec"]["imagePullSecrets"] == own


def test_an_account_may_limit_the_secrets_of_its_pods():
    w = world()
    w.put(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "secrets": [{"name": "known"}],
            "metadata": {"name": "strict", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        }
    )
    volumes = [{"name": "v", "secret": {"secretName": "known"}}]
    assert create(w, serviceAccountName="strict", volumes=copy({"v": volumes})["v"])["spec"]["volumes"][0] == volumes[0]
    volumes[0]["secret"]["secretName"] = "other"
    assert str(refusal(w, serviceAccountName="strict", volumes=volumes)).endswith(
        'volume with secret.secretName="other" is not allowed because service account strict does not reference that '
        "secret"
    )
    env = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}]
    assert "container c with envVar X referencing" in str(
        refusal(w, serviceAccountName="strict", containers=[{"name": "c", "env": env}])
    )


def test_the_default_account_of_a_new_namespace_is_waited_for_two_seconds():
    w = world()
    w.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}})
    pod = executor(serviceAccountName="default")
    pod["metadata"]["namespace"] = "new"
    assert create(w, copy(pod))["spec"]["volumes"]
    w.loop.sleep(2)
    assert 'serviceaccount "default" not found' in str(refusal(w, pod))


def priority_class(w, name, value, **more):
    w.put(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            **more,
        }
    )


def test_a_priority_class_becomes_a_priority():
    w = world()
    priority_class(w, "off", 7, preemptionPolicy="Never")
    spec = create(w, priorityClassName="off")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    assert create(w, priorityClassName="system-node-critical")["spec"]["priority"] == 2_000_001_000


def test_a_default_priority_class_is_named_on_the_pod():
    w = world()
    priority_class(w, "batch", -5, globalDefault=True)
    spec = create(w)["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("batch", -5)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 3},
            (
                "the integer value of priority (3) must not be provided in pod spec; priority admission controller computed 0 "
                "from the given PriorityClass name"
            ),
        ),
        (
            {"preemptionPolicy": "Never"},
            (
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller "
                "computed PreemptLowerPriority from the given PriorityClass name"
            ),
        ),
    ],
)
def test_priorities_that_are_refused(spec, message):
    assert str(refusal(world(), **spec)) == f'pods "gpu-off-drill-" is forbidden: {message}'


def test_there_is_one_default_priority_class():
    w = world()
    priority_class(w, "batch", -5, globalDefault=True)
    second = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "b"},
        "value": 1,
        "globalDefault": True,
    }
    with pytest.raises(StatusError, match=r"PriorityClass batch is already marked as default\. Only one default can"):
        w.admit("CREATE", second)


@pytest.mark.parametrize(
    ("mine", "added"),
    [
        ([], 2),
        ([{"operator": "Exists"}], 0),
        ([{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}], 1),
        ([{"operator": "Exists", "effect": "NoSchedule"}], 2),
        (
            [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 9,
                }
            ],
            1,
        ),
    ],
)
def test_tolerations_are_added_where_nothing_of_the_pod_covers_them(mine, added):
    spec = create(world(), tolerations=list(mine))["spec"]
    assert spec["tolerations"][: len(mine)] == mine
    assert [t["tolerationSeconds"] for t in spec["tolerations"][len(mine) :]] == [300] * added


def test_nothing_is_created_in_a_namespace_that_is_going():
    w = world()
    w.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "status": {"phase": "Terminating"}})
    error = refusal(w)
    assert str(error) == (
        'pods "gpu-off-drill-" is forbidden: unable to create new content in namespace team because it is being '
        "terminated"
    )
    assert error.status["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace team is being terminated",
            "field": "metadata.namespace",
        }
    ]


def test_what_is_there_may_still_change_and_go():
    w = world()
    pod = create(w)
    w.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "status": {"phase": "Terminating"}})
    assert w.admit("UPDATE", copy(pod), old=pod)[0] == pod
    assert w.admit("DELETE", None, old=pod)[0] == pod


def test_a_namespace_that_is_not_there():
    pod = executor()
    pod["metadata"]["namespace"] = "nowhere"
    error = refusal(world(), pod)
    assert (error.code, str(error)) == (404, 'namespaces "nowhere" not found')


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_the_first_namespaces_may_not_be_deleted(name):
    w = world()
    namespace = w.store.get(("", "namespaces"), ("", name))
    with pytest.raises(StatusError, match=f'namespaces "{name}" is forbidden: this namespace may not be deleted'):
        w.admit("DELETE", None, old=namespace)


def test_a_new_node_is_tainted_until_it_is_ready():
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "gpu-1"},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
    }
    assert world().admit("CREATE", node)[0]["spec"]["taints"] == [
        {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]


def test_a_status_write_changes_nothing_else():
    w = world()
    pod = create(w)
    new = copy(pod) | {"status": {"phase": "Running", "startTime": START.isoformat()}}
    before = copy(new)
    assert w.admit("UPDATE", new, old=pod, subresource="status")[0] == before


def runtime_class(w, **fields):
    w.put(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "gvisor"},
            "handler": "runsc",
            **fields,
        }
    )


def test_a_runtime_class_that_does_not_exist_is_refused():
    assert str(refusal(world(), runtimeClassName="nope")) == (
        'pods "gpu-off-drill-" is forbidden: pod rejected: RuntimeClass "nope" not found'
    )


def test_a_runtime_class_says_what_a_pod_costs_besides_and_where_it_runs():
    w = world()
    only = {"key": "runtime", "operator": "Exists"}
    runtime_class(
        w,
        overhead={"podFixed": {"memory": "64Mi"}},
        scheduling={"nodeSelector": {"runtime": "gvisor"}, "tolerations": [only]},
    )
    spec = create(w, runtimeClassName="gvisor", nodeSelector={"a": "b"})["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"memory": "64Mi"}, {"a": "b", "runtime": "gvisor"})
    assert only in spec["tolerations"]
    assert "conflict: runtimeClass.scheduling.nodeSelector[runtime] = gvisor; pod.spec.nodeSelector" in str(
        refusal(w, runtimeClassName="gvisor", nodeSelector={"runtime": "x"})
    )
    assert "Pod's Overhead doesn't match" in str(refusal(w, runtimeClassName="gvisor", overhead={"memory": "1Mi"}))
