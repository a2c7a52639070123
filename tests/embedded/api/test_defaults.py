"""What is filled in: against what a real server made of the same manifests, and single rules beyond them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from killcheck.embedded.api import defaults, schemas
from killcheck.embedded.api.kinds import Registry
from killcheck.embedded.api.poddefaults import pull_policy
from killcheck.embedded.api.strategy import as_read_back, prepare_for_create
from killcheck.kube.objects import Obj, copy, dig, key_of

RECORDINGS = Path(__file__).parents[2] / "conformance" / "recordings"
NOW = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
REGISTRY = Registry()
#: What the server (service addresses), admission or controllers put there, or a later request of the recording changed.
LATER = {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "nodeName", "priority", "preemptionPolicy"}


def admitted(obj: Obj) -> Obj:
    """As it is stored right after creation, but for admission."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = REGISTRY.by_kind(group, obj["kind"], version)
    assert kind is not None
    assert kind.schema is not None
    decoded = schemas.decode(kind.schema, obj)
    new = decoded.obj
    new["metadata"].setdefault("uid", "00000000-0000-0000-0000-000000000000")
    defaults.apply(kind, new, NOW)
    prepare_for_create(kind, new, NOW)
    as_read_back(kind, new)
    return new


def pairs() -> Iterator[object]:
    """(manifest, object as recorded) of everything whose generation shows that nobody changed it since."""
    for path in sorted(RECORDINGS.glob("*.json")):
        recording = json.loads(path.read_text("utf-8"))
        final = {(o["kind"], *key_of(o)): o for o in [*recording["objects"], *recording.get("deleted_objects", [])]}
        for manifest in recording["setup"]:
            found = final.get((manifest["kind"], *key_of(manifest)))
            # A Node's spec is its controllers': podCIDR, and the taints of its condition.
            untouched = found is not None and manifest["kind"] != "Node"
            if untouched and found["metadata"].get("generation", 1) == 1:
                yield pytest.param(manifest, found, id=f"{path.stem}-{manifest['kind']}-{key_of(manifest)[1]}")
        for exchange in recording.get("http", []):
            if exchange["status"] == 201 and isinstance(exchange.get("request_body"), dict):
                body, answer = exchange["request_body"], exchange["body"]
                alike = body.get("kind") == answer.get("kind") and "spec" in answer
                if alike and body["kind"] not in ("Eviction", "TokenRequest"):
                    yield pytest.param(body, answer, id=f"{path.stem}-{exchange.get('at_s')}-{body['kind']}")


def comparable(obj: Obj) -> Obj:
    spec = {k: v for k, v in copy(obj.get("spec", {})).items() if k not in LATER}
    if obj["kind"] == "Job":  # both hold the Job's uid
        spec.pop("selector", None)
        dig(spec, "template", "metadata", default={}).pop("labels", None)
    if obj["kind"] == "Pod":
        _without_admission(spec)
    rest = {k: v for k, v in obj.items() if k not in ("metadata", "status", "spec")}
    return rest | {"spec": spec}


def _without_admission(spec: Obj) -> None:
    """The ServiceAccount's token and the tolerations for a lost node."""
    spec["volumes"] = [v for v in spec.get("volumes", []) if not v["name"].startswith("kube-api-access")]
    spec["tolerations"] = [t for t in spec.get("tolerations", []) if not t["key"].startswith("node.kubernetes.io/")]
    for container in spec["containers"]:
        container["volumeMounts"] = [
            m for m in container.get("volumeMounts", []) if not m["name"].startswith("kube-api-access")
        ]
    for field in ("serviceAccount", "serviceAccountName"):
        if spec.get(field) == "default":
            del spec[field]


@pytest.mark.parametrize(("manifest", "recorded"), list(pairs()))
def test_a_manifest_becomes_what_a_real_server_made_of_it(manifest: Obj, recorded: Obj) -> None:
    assert comparable(admitted(manifest)) == comparable(recorded)


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("vllm", "Always"),
        ("vllm:latest", "Always"),
        ("vllm:1", "IfNotPresent"),
        ("localhost:5000/rec/vllm", "Always"),
        ("localhost:5000/rec/vllm:1", "IfNotPresent"),
        ("ghcr.io/a/b@sha256:" + "0" * 64, "IfNotPresent"),
        ("ghcr.io/a/b:latest@sha256:" + "0" * 64, "Always"),
        ("rec/Executor", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_the_recordings_have_what_is_to_be_compared() -> None:
    kinds = {param.values[0]["kind"] for param in pairs()}  # type: ignore[attr-defined]
    assert {"Deployment", "Job", "CronJob", "Pod", "HorizontalPodAutoscaler", "PodDisruptionBudget"} <= kinds


def pod(**spec: object) -> Obj:
    return admitted(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "x", "namespace": "gpu"},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]} | spec,
        }
    )


def test_requests_follow_limits_in_pods_but_not_in_templates() -> None:
    container = {"name": "c", "image": "i:1", "resources": {"limits": {"nvidia.com/gpu": 8, "cpu": "0.0001"}}}
    made = pod(containers=[container])
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"nvidia.com/gpu": "8", "cpu": "1m"},
        "requests": {"nvidia.com/gpu": "8", "cpu": "1m"},
    }
    template = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    job = admitted({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": template})
    assert "requests" not in dig(job, "spec", "template", "spec", "containers", 0, "resources")


def test_volumes_probes_ports_and_references() -> None:
    made = pod(
        hostNetwork=True,
        volumes=[
            {"name": "none"},
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "h", "hostPath": {"path": "/"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
        containers=[
            {
                "name": "c",
                "image": "i:1",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "readinessProbe": {"httpGet": {"port": 80}},
                "lifecycle": {"preStop": {"httpGet": {"port": "http"}}},
            }
        ],
    )["spec"]
    assert made["volumes"][0] == {"name": "none", "emptyDir": {}}
    assert made["volumes"][1]["secret"]["defaultMode"] == 0o644
    assert made["volumes"][2]["hostPath"] == {"path": "/", "type": ""}
    assert made["volumes"][3]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] == 3600
    container = made["containers"][0]
    assert container["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    assert container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert container["readinessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert container["lifecycle"]["preStop"]["httpGet"] == {"port": "http", "path": "/", "scheme": "HTTP"}


@pytest.mark.parametrize(
    ("api_version", "kind", "given", "path", "expected"),
    [
        (
            "apps/v1",
            "StatefulSet",
            {"spec": {"serviceName": "s"}},
            ("spec", "updateStrategy"),
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        ),
        (
            "apps/v1",
            "StatefulSet",
            {"spec": {}},
            ("spec", "persistentVolumeClaimRetentionPolicy"),
            {"whenDeleted": "Retain", "whenScaled": "Retain"},
        ),
        (
            "apps/v1",
            "DaemonSet",
            {"spec": {}},
            ("spec", "updateStrategy"),
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        ),
        (
            "apps/v1",
            "Deployment",
            {"spec": {"strategy": {"type": "Recreate"}}},
            ("spec", "strategy"),
            {"type": "Recreate"},
        ),
        ("apps/v1", "Deployment", {"spec": {"replicas": 0}}, ("spec", "replicas"), 0),
        ("batch/v1", "Job", {"spec": {"parallelism": 3}}, ("spec", "completions"), None),
        ("batch/v1", "Job", {"spec": {"backoffLimitPerIndex": 1}}, ("spec", "backoffLimit"), 2**31 - 1),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {"spec": {"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}},
            ("spec", "behavior", "scaleDown"),
            {"selectPolicy": "Disabled", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
        ),
        ("v1", "Secret", {"stringData": {"token": "t"}}, ("data",), {"token": "dA=="}),
        ("v1", "Secret", {}, ("type",), "Opaque"),
        (
            "v1",
            "Namespace",
            {"metadata": {"name": "gpu"}},
            ("metadata", "labels"),
            {"kubernetes.io/metadata.name": "gpu"},
        ),
        (
            "v1",
            "Node",
            {"status": {"capacity": {"nvidia.com/gpu": 8}}},
            ("status", "allocatable"),
            {"nvidia.com/gpu": "8"},
        ),
        (
            "v1",
            "LimitRange",
            {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "0.1"}}]}},
            ("spec", "limits", 0, "defaultRequest"),
            {"cpu": "1"},
        ),
        (
            "v1",
            "Service",
            {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
            ("spec",),
            {
                "type": "LoadBalancer",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster",
                "allocateLoadBalancerNodePorts": True,
            },
        ),
        ("v1", "PersistentVolumeClaim", {"spec": {}}, ("spec", "volumeMode"), "Filesystem"),
        (
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]},
            ("subjects", 0),
            {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
        ),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            {"spec": {"egress": [{}]}},
            ("spec", "policyTypes"),
            ["Ingress", "Egress"],
        ),
        ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1}, ("preemptionPolicy",), "PreemptLowerPriority"),
        (
            "resource.k8s.io/v1",
            "ResourceClaim",
            {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
            ("spec", "devices", "requests", 0, "exactly"),
            {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
        ),
        (
            "resource.k8s.io/v1",
            "ResourceSlice",
            {"spec": {"devices": [{"name": "d", "taints": [{"key": "k"}]}]}},
            ("spec", "devices", 0, "taints", 0, "timeAdded"),
            "2026-11-21T02:00:00Z",
        ),
        (
            "admissionregistration.k8s.io/v1",
            "MutatingWebhookConfiguration",
            {"webhooks": [{"name": "w", "clientConfig": {}}]},
            ("webhooks", 0, "reinvocationPolicy"),
            "Never",
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            {"spec": {"names": {"kind": "NodePool"}, "versions": [{"name": "v1", "storage": True}]}},
            ("spec", "names"),
            {"kind": "NodePool", "plural": "", "singular": "nodepool", "listKind": "NodePoolList"},
        ),
    ],
)
def test_single_rules(api_version: str, kind: str, given: Obj, path: tuple[str | int, ...], expected: object) -> None:
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}} | given
    assert dig(admitted(obj), *path) == expected


def test_defaults_are_filled_in_once() -> None:
    first = pod()
    again = copy(first)
    kind = REGISTRY.by_kind("", "Pod")
    assert kind is not None
    defaults.apply(kind, again, NOW)
    assert again == first
