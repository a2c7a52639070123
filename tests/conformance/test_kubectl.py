"""kubectl's everyday verbs against the embedded cluster over TLS, and sessions of two Python clients."""

import json
import shutil

import pytest

kubectl_only = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm, namespace: default, labels: {app: vllm}}
spec:
  replicas: 1
  selector: {matchLabels: {app: vllm}}
  template:
    metadata: {labels: {app: vllm}}
    spec:
      containers:
      - {name: vllm, image: "vllm/vllm-openai:v1", resources: {limits: {nvidia.com/gpu: "1"}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: default}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: "curlimages/curl:8.5.0", command: ["true"]}]
"""


@pytest.fixture(scope="module")
def applied(kubectl):
    kubectl("apply -f -", MANIFEST)
    kubectl("wait --for=condition=Available deployment/vllm --timeout=120s")


@kubectl_only
def test_apply_says_what_it_did_and_diff_what_it_would(kubectl, applied):
    assert "deployment.apps/vllm unchanged" in kubectl("apply -f -", MANIFEST)
    other = MANIFEST.replace("0 3 * * *", "0 4 * * *")
    assert "+  schedule: 0 4 * * *" in kubectl("diff -f -", other, rc=1)
    assert "cronjob.batch/nightly serverside-applied" in kubectl("apply --server-side --force-conflicts -f -", MANIFEST)


@kubectl_only
@pytest.mark.parametrize(
    ("output", "part"),
    [
        ("", "vllm   1/1     1            1"),
        ("-o wide", "vllm/vllm-openai:v1   app=vllm"),
        ("-o name", "deployment.apps/vllm"),
        ("-o yaml", "kind: Deployment"),
        ("-o json", '"kind": "Deployment"'),
        ("-o jsonpath={.spec.replicas}", "1"),
        ("-o custom-columns=N:.metadata.name,R:.spec.replicas", "N      R\nvllm   1"),
        ("--show-labels", "app=vllm"),
    ],
)
def test_get_in_every_output(kubectl, applied, output, part):
    assert part in kubectl(f"get deployment vllm {output}")


@kubectl_only
def test_reading_verbs(kubectl, applied):
    assert "StrategyType:           RollingUpdate" in kubectl("describe deployment vllm")
    assert "nvidia.com/gpu" in kubectl("describe node gpu-1")
    assert "The number of desired pods" in " ".join(kubectl("explain deployment.spec.replicas").split()) or (
        "Number of desired pods" in kubectl("explain deployment.spec.replicas")
    )
    assert "ScalingReplicaSet" in kubectl("events --for deployment/vllm")
    assert "deployments" in kubectl("api-resources --api-group=apps")
    assert "resource.k8s.io/v1" in kubectl("api-versions")
    assert "v1.36.2" in kubectl("version")
    assert "yes" in kubectl("auth can-i create deployments")
    assert "no" in kubectl("auth can-i create deployments --as=system:serviceaccount:default:default", rc=1)
    assert "kubernetes-admin" in kubectl("auth whoami")


@kubectl_only
def test_writing_verbs(kubectl, applied):
    assert "labeled" in kubectl("label deployment vllm team=ml")
    assert "annotated" in kubectl("annotate deployment vllm note=x")
    assert "patched" in kubectl("""patch deployment vllm --type=merge -p '{"spec":{"revisionHistoryLimit":5}}'""")
    assert "patched" in kubectl(
        """patch deployment vllm --type=json -p '[{"op":"replace","path":"/spec/revisionHistoryLimit","value":6}]'"""
    )
    assert "patched" in kubectl("""patch deployment vllm -p '{"spec":{"revisionHistoryLimit":7}}'""")
    assert "scaled" in kubectl("scale deployment vllm --replicas=0")
    kubectl("wait --for=jsonpath={.status.observedGeneration} deployment/vllm --timeout=60s")
    assert "scaled" in kubectl("scale deployment vllm --replicas=1")
    assert kubectl("create token default").count(".") == 2
    assert "job.batch/drill created" in kubectl("create job drill --from=cronjob/nightly")
    assert 'job.batch "drill" deleted' in kubectl("delete job drill")


@kubectl_only
def test_rollouts(kubectl, applied):
    kubectl("create deployment web --image=nginx:1")
    assert "successfully rolled out" in kubectl("rollout status deployment/web --timeout=120s")
    kubectl("set image deployment/web nginx=nginx:2")
    assert "successfully rolled out" in kubectl("rollout status deployment/web --timeout=120s")
    assert "REVISION" in kubectl("rollout history deployment/web")
    assert "rolled back" in kubectl("rollout undo deployment/web")
    assert "deleted" in kubectl("delete deployment web --cascade=foreground --timeout=100s")


@kubectl_only
@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_with_every_cascade(kubectl, applied, cascade):
    kubectl(f"create deployment {cascade} --image=nginx:1 --replicas=1")
    kubectl(f"rollout status deployment/{cascade} --timeout=120s")
    kubectl(f"delete deployment {cascade} --cascade={cascade} --timeout=100s")
    if cascade == "background":
        kubectl("wait --for=delete replicasets -l app=background --timeout=60s", rc=None)
    left = kubectl(f"get replicasets -l app={cascade} -o name")
    assert ("replicaset" in left) == (cascade == "orphan")


@kubectl_only
def test_a_node_is_cordoned_drained_and_taken_back(kubectl, applied):
    assert "cordoned" in kubectl("cordon cpu-1")
    assert "SchedulingDisabled" in kubectl("get node cpu-1")
    assert "drained" in kubectl("drain cpu-1 --ignore-daemonsets --force --delete-emptydir-data --timeout=100s")
    assert "uncordoned" in kubectl("uncordon cpu-1")


@kubectl_only
def test_refusals_are_kubernetes_own(kubectl, applied):
    assert 'Error from server (NotFound): deployments.apps "nope" not found' in kubectl("get deployment nope", rc=1)
    assert 'error: the server doesn\'t have a resource type "nopes"' in kubectl("get nopes", rc=1)
    assert 'unknown field "spec.replicaz"' in kubectl("apply -f -", MANIFEST.replace("replicas:", "replicaz:"), rc=1)


def test_a_session_of_the_kubernetes_package(cluster, kubeconfig):
    client = pytest.importorskip("kubernetes").client
    from kubernetes import config, watch

    api = config.new_client_from_config(str(kubeconfig))
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map("default", {"metadata": {"name": "typed"}, "data": {"a": "1"}})
    core.patch_namespaced_config_map("typed", "default", {"data": {"b": "2"}})
    assert core.read_namespaced_config_map("typed", "default").data == {"a": "1", "b": "2"}
    seen = [
        event["object"].metadata.name
        for event in watch.Watch().stream(
            core.list_namespaced_config_map, "default", field_selector="metadata.name=typed", timeout_seconds=1
        )
    ]
    assert seen == ["typed"]
    core.delete_namespaced_config_map("typed", "default")
    with pytest.raises(client.ApiException) as caught:
        core.read_namespaced_config_map("typed", "default")
    assert json.loads(caught.value.body)["reason"] == "NotFound"
    api.close()


@pytest.mark.filterwarnings(
    "ignore:Kubernetes version:UserWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
def test_a_session_of_kr8s(cluster, kubeconfig):
    kr8s = pytest.importorskip("kr8s")
    from kr8s.objects import ConfigMap

    api = kr8s.api(kubeconfig=str(kubeconfig))
    made = ConfigMap({"metadata": {"name": "other", "namespace": "default"}, "data": {"a": "1"}}, api=api)
    made.create()
    made.patch({"data": {"b": "2"}})
    (found,) = [m for m in api.get("configmaps", namespace="default") if m.name == "other"]
    assert dict(found.data) == {"a": "1", "b": "2"}
    made.delete()
    assert not made.exists()
