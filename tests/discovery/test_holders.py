"""Who holds GPUs: any vendor's devices, slices and shares, DRA claims, any kind of workload, up to its root."""

from typing import Any

import pytest

from killcheck import discover
from killcheck.kube import gpus, manifests
from killcheck.kube.gpus import Hold
from killcheck.kube.objects import Obj, ref_of
from killcheck.kube.pod_glance import glance
from killcheck.kube.workloads import devices_of, templates
from killcheck.text.jsontext import packed


def spec(count: object = 1, resource: str = "nvidia.com/gpu", **more: Any) -> Obj:
    return {"containers": [{"name": "c", "resources": {"limits": {resource: count}}}], **more}


def obj(kind: str, spec: Obj, name: str = "x", version: str = "v1", **metadata: Any) -> Obj:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "n", **metadata}, "spec": spec}


def devices_in(pod: Obj, claims: gpus.Claims | None = None) -> int:
    """How many a pod asks for: at a glance, too."""
    found = gpus.devices(pod, claims)
    assert gpus.devices(glance(packed(pod)), claims) == found
    return found


@pytest.mark.parametrize(
    ("resource", "count", "devices"),
    [
        ("nvidia.com/gpu", 8, 8),
        ("nvidia.com/gpu", "8", 8),
        ("nvidia.com/gpu.shared", "2", 2),
        ("nvidia.com/gpu", 0, 0),
        ("nvidia.com/mig-1g.5gb", 3, 3),
        ("nvidia.com/mig-3g.20gb.shared", 1, 1),
        ("nvidia.com/GH100_H100_SXM5_80GB", 1, 1),
        ("amd.com/gpu", 4, 4),
        ("gpu.intel.com/i915", 1, 1),
        ("gpu.intel.com/xe", 2, 2),
        ("aws.amazon.com/neuron", 16, 16),
        ("aws.amazon.com/neuroncore", 4, 1),
        ("google.com/tpu", 4, 4),
        ("habana.ai/gaudi", 8, 8),
        ("qualcomm.com/qaic", 1, 1),
        ("huawei.com/Ascend910", 8, 8),
        ("aliyun.com/gpu-mem", "12", 1),
        ("example.com/gpu", 1, 1),
        ("nvidia.com/gpu", "1k", 1000),
        ("nvidia.com/gpu", "what", 1),
        ("deviceclass.resource.kubernetes.io/gpu.nvidia.com", 2, 2),
        ("cpu", 64, 0),
        ("memory", "8Gi", 0),
        ("vpc.amazonaws.com/efa", 4, 0),
        ("nvidia.com/hostdev", 1, 0),
        ("nvidia.com/mlnxnics", 1, 0),
        ("gpu.intel.com/i915_monitoring", 1, 0),
        ("rdma/hca_shared", 1, 0),
        ("smarter-devices/fuse", 1, 0),
        ("devices.kubevirt.io/kvm", 1, 0),
        ("hugepages-2Mi", "1Gi", 0),
        ("sophgo.com/bm1684", 2, 2),
        ("chips.example.org/wafer", 1, 1),
        ("openshift.io/mlxnics", 2, 0),
        ("sgx.intel.com/epc", 1, 0),
        ("dlb.intel.com/pf", 1, 0),
        ("kubernetes.io/batch-cpu", 1000, 0),
        ("squat.ai/serial", 1, 0),
        ("k8s.amazonaws.com/private-ipv4address", 1, 0),
    ],
)
def test_devices_of_every_vendor(resource: str, count: object, devices: int):
    assert devices_in(obj("Pod", spec(count, resource))) == devices


@pytest.mark.parametrize(
    ("annotations", "devices"),
    [
        ({"gpu-fraction": "0.5"}, 1),
        ({"gpu-memory": "4000"}, 1),
        ({"gpu-fraction": "0"}, 0),
        ({"gpu-fraction": "0.25", "gpu-fraction-num-devices": "3"}, 3),
        ({"nvidia.com/mig-1g.5gb": "1"}, 1),
        ({"nvidia.com/mig-1g.5gb": "0"}, 0),
        ({"nvidia.com/mig.config": "all-disabled"}, 0),
        ({"fraction": "0.5"}, 0),
    ],
)
def test_a_share_by_annotation_is_held(annotations: dict[str, str], devices: int):
    plain = {"containers": [{"name": "c"}]}
    assert devices_in(obj("Pod", plain, annotations=annotations)) == devices
    template = {"metadata": {"annotations": annotations}, "spec": plain}
    assert devices_of(obj("Deployment", {"replicas": 2, "template": template}, version="apps/v1")) == 2 * devices


@pytest.mark.parametrize(
    ("spec", "reached"),
    [
        ({"containers": [{"name": "c", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}, True),
        ({"containers": [{"name": "c", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}]}, False),
        ({"containers": [{"name": "c", "securityContext": {"privileged": True}}]}, False),
        (
            {
                "containers": [{"name": "c", "securityContext": {"privileged": True}}],
                "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"},
            },
            True,
        ),
        (
            {
                "containers": [{"name": "c", "securityContext": {"privileged": True}}],
                "nodeSelector": {"nvidia.com/gpu.present": "false"},
            },
            False,
        ),
        ({"containers": [{"name": "c"}], "nodeSelector": {"pool": "gpu"}}, False),
    ],
)
def test_devices_reached_past_all_accounting_make_a_holder(spec: Obj, reached: bool):
    deployment = obj("Deployment", {"replicas": 1, "template": {"spec": spec}}, version="apps/v1")
    assert bool(discover.holders([deployment])) is reached


def container(count: int, **more: Any) -> Obj:
    return {"name": "c", "resources": {"requests": {"nvidia.com/gpu": count}}, **more}


def test_init_containers_and_sidecars_count_as_the_scheduler_counts_them():
    sidecar, init = container(1, restartPolicy="Always"), container(6)
    assert gpus.spec_devices({"containers": [container(2), container(2)], "initContainers": [init]}) == 6
    assert gpus.spec_devices({"containers": [container(2), container(2)], "initContainers": [sidecar, init]}) == 7
    assert gpus.spec_devices({"containers": [container(2)], "initContainers": [init, sidecar]}) == 6
    assert gpus.spec_devices({"containers": [], "initContainers": [container(1)]}) == 1
    assert gpus.spec_devices({"containers": [{"name": "c"}], "resources": {"limits": {"nvidia.com/gpu": 2}}}) == 2


def claim(name: str, *requests: Obj, kind: str = "ResourceClaimTemplate", **status: Any) -> Obj:
    inner: Obj = {"devices": {"requests": list(requests)}}
    whole = {"spec": inner} if kind == "ResourceClaimTemplate" else inner
    return obj(kind, whole, name, "resource.k8s.io/v1") | ({"status": status} if status else {})


def test_dra_claims_count_what_they_ask_for():
    claims = gpus.claims_of(
        [
            claim("four", {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 4}}),
            claim("beta", {"name": "r", "deviceClassName": "gpu.nvidia.com", "count": 2}),
            claim("nic", {"name": "r", "exactly": {"deviceClassName": "dranet.io"}}),
            claim(
                "either",
                {
                    "name": "r",
                    "firstAvailable": [{"deviceClassName": "a.gpu", "count": 1}, {"deviceClassName": "b", "count": 3}],
                },
            ),
            claim("peek", {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}}),
            claim(
                "shared",
                {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}},
                kind="ResourceClaim",
                allocation={"devices": {"results": [{"request": "r"}] * 7}},
            ),
        ]
    )

    def holds(**entry: str) -> int:
        return devices_in(obj("Pod", {"containers": [], "resourceClaims": [{"name": "g", **entry}]}), claims)

    found = [holds(resourceClaimTemplateName=name) for name in ("four", "beta", "nic", "either", "peek")]
    assert found == [4, 2, 0, 3, 0]
    assert holds(resourceClaimName="shared") == 7
    assert holds(resourceClaimName="nobody-knows") == 1  # what is in doubt holds


def test_a_pod_holds_until_its_object_is_gone():
    running = {"status": {"phase": "Running"}}
    assert gpus.hold(obj("Pod", spec())) is Hold.WAITING
    assert gpus.hold(obj("Pod", spec(nodeName="n1")) | running) is Hold.RUNNING
    assert (
        gpus.hold(obj("Pod", spec(nodeName="n1"), deletionTimestamp="2026-11-21T00:00:00Z") | running)
        is Hold.TERMINATING
    )
    failed: Obj = obj("Pod", spec(nodeName="n1")) | {"status": {"phase": "Failed"}}
    assert gpus.hold(failed) is Hold.FINISHED
    failed["status"]["containerStatuses"] = [{"name": "c", "state": {"running": {}}}]
    assert gpus.hold(failed) is Hold.RUNNING
    held_by_a_finalizer = obj("Pod", spec(nodeName="n1"), deletionTimestamp="t") | {"status": {"phase": "Failed"}}
    assert gpus.hold(held_by_a_finalizer) is Hold.TERMINATING


def test_nodes_count_their_devices_once():
    def node(**capacity: str) -> Obj:
        return {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": capacity}}

    assert gpus.node_devices(node(**{"nvidia.com/gpu": "8", "cpu": "96"})) == 8
    assert gpus.node_devices(node(**{"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "7"})) == 7
    assert (
        gpus.node_devices(
            node(
                **{
                    "aws.amazon.com/neuron": "16",
                    "aws.amazon.com/neuroncore": "32",
                    "aws.amazon.com/neurondevice": "16",
                }
            )
        )
        == 16
    )
    assert gpus.node_devices({"kind": "Node", "metadata": {"name": "n"}}) == 0


def test_gpus_that_are_used_without_being_asked_for():
    sneaky: Obj = {"containers": [{"name": "c", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}
    assert "NVIDIA_VISIBLE_DEVICES=all" in gpus.unaccounted(sneaky)
    mounted: Obj = {"containers": [], "volumes": [{"name": "v", "hostPath": {"path": "/dev/nvidia0"}}]}
    assert "/dev/nvidia0" in gpus.unaccounted(mounted)
    honest = {**spec(), "volumes": mounted["volumes"]}
    assert not gpus.unaccounted(honest)
    assert not gpus.unaccounted(
        {"containers": [{"name": "c", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}]}
    )


WORKLOADS = [
    (obj("Pod", spec(2)), 2),
    (obj("Deployment", {"template": {"spec": spec(8)}}), 8),
    (obj("Deployment", {"replicas": 3, "template": {"spec": spec(8)}}), 24),
    (obj("StatefulSet", {"replicas": 2, "template": {"spec": spec(1)}}), 2),
    (obj("Job", {"parallelism": 4, "template": {"spec": spec(2)}}), 8),
    (obj("Job", {"suspend": True, "parallelism": 4, "template": {"spec": spec(2)}}), 0),
    (obj("CronJob", {"suspend": True, "jobTemplate": {"spec": {"parallelism": 2, "template": {"spec": spec(1)}}}}), 2),
    (
        obj(
            "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": {"spec": spec(8)}}}
        ),
        64,
    ),
    (
        obj(
            "LeaderWorkerSet",
            {
                "replicas": 2,
                "leaderWorkerTemplate": {
                    "size": 4,
                    "leaderTemplate": {"spec": spec(1)},
                    "workerTemplate": {"spec": spec(8)},
                },
            },
        ),
        2 * (1 + 3 * 8),
    ),
    (
        obj(
            "RayCluster",
            {
                "headGroupSpec": {"template": {"spec": spec(0)}},
                "workerGroupSpecs": [{"replicas": 3, "minReplicas": 0, "numOfHosts": 2, "template": {"spec": spec(1)}}],
            },
        ),
        6,
    ),
    (obj("RayJob", {"rayClusterSpec": {"workerGroupSpecs": [{"replicas": 2, "template": {"spec": spec(4)}}]}}), 8),
    (
        obj(
            "InferenceService",
            {"predictor": {"minReplicas": 2, "model": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}},
        ),
        2,
    ),
    (obj("InferenceService", {"predictor": spec(2)}), 2),
    (obj("Notebook", {"template": {"spec": spec(1)}}), 1),
    (obj("Notebook", {"template": {"spec": spec(1)}}, annotations={"kubeflow-resource-stopped": "2026"}), 0),
    (obj("Rollout", {"replicas": 2, "template": {"spec": spec(1)}}), 2),
    (obj("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": {"spec": spec(8)}}}}), 32),
    (
        obj(
            "JobSet",
            {
                "replicatedJobs": [
                    {"replicas": 2, "template": {"spec": {"parallelism": 2, "template": {"spec": spec(4)}}}}
                ]
            },
        ),
        16,
    ),
    (obj("NIMService", {"replicas": 2, "resources": {"limits": {"nvidia.com/gpu": 2}}}), 4),
    (obj("SomethingNew", {"groups": [{"replicas": 2, "podTemplate": {"spec": spec(3)}}]}), 6),
    (obj("ConfigMap", {}), 0),
]


@pytest.mark.parametrize(("workload", "devices"), WORKLOADS, ids=lambda x: x["kind"] if isinstance(x, dict) else "")
def test_workloads_of_every_kind(workload: Obj, devices: int):
    assert devices_of(workload) == devices


def test_template_paths_lead_to_the_pod_spec():
    for workload, _ in WORKLOADS:
        for template in templates(workload):
            found: Any = workload
            for step in template.path:
                found = found[step]
            assert isinstance(found, dict)


def owned(kind: str, name: str, uid: str) -> list[Obj]:
    return [{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": True}]


def test_holders_are_roots_whatever_owns_the_pods():
    live = [
        obj("Deployment", {"replicas": 1, "template": {"spec": spec(8)}}, "vllm", "apps/v1", uid="d"),
        obj(
            "ReplicaSet",
            {"replicas": 1, "template": {"spec": spec(8)}},
            "vllm-1",
            "apps/v1",
            uid="r",
            ownerReferences=owned("Deployment", "vllm", "d"),
        ),
        obj("Pod", spec(8, nodeName="n"), "vllm-1-x", uid="p", ownerReferences=owned("ReplicaSet", "vllm-1", "r")),
        obj("Pod", spec(1, nodeName="n"), "worker-0", uid="q", ownerReferences=owned("Mystery", "train", "gone")),
        obj("Pod", spec(1, nodeName="n"), "bare", uid="b"),
        obj("Pod", spec(1, nodeName="n"), "dcgm-x", uid="s", ownerReferences=owned("DaemonSet", "dcgm", "ds")),
        obj("DaemonSet", {"template": {"spec": spec(1)}}, "dcgm", "apps/v1", uid="ds"),
        obj("CronJob", {"jobTemplate": {"spec": {"template": {"spec": spec(1)}}}}, "eval", "batch/v1", uid="c"),
        obj(
            "Job",
            {"template": {"spec": spec(1)}},
            "eval-1",
            "batch/v1",
            uid="j",
            ownerReferences=owned("CronJob", "eval", "c"),
        ),
        obj("Job", {"template": {"spec": spec(1)}}, "eval-0", "batch/v1", uid="i")
        | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        obj("Pod", spec(1, nodeName="n"), "done") | {"status": {"phase": "Succeeded"}},
    ]
    found = {ref_of(holder.obj): holder.devices for holder in discover.holders(live)}
    assert found == {"Deployment/n/vllm": 8, "Mystery/n/train": 1, "Pod/n/bare": 1, "Job/n/eval-1": 1}


GENERATED = """\
apiVersion: batch/v1
kind: Job
metadata: {generateName: GENERATED, namespace: ml, labels: LABELS}
spec: {template: {spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 2}}}]}}}
---
"""


def generated(*rows: tuple[str, str]) -> str:
    """Jobs whose names the API server makes, each with its beginning and its labels."""
    return "".join(GENERATED.replace("GENERATED", name).replace("LABELS", labels) for name, labels in rows)


def test_every_holder_whose_name_is_generated_counts():
    rows = ("small-", "{app: a}"), ("large-", "{app: b}"), ("other-", "{app: b}"), ("bare-", "{}"), ("bare-", "{}")
    objects = manifests.loads(generated(*rows)).objects
    assert [holder.devices for holder in discover.holders(objects)] == [2, 4, 2, 2]  # b's are one target
    discovery = discover.from_objects(objects, complete=False)
    assert [target.selector for target in discovery.kill_path.targets] == ["app=a", "app=b"]
    assert sum("bare-... holds GPUs and has neither a name nor labels" in note for note in discovery.notes) == 1


@pytest.mark.parametrize(
    ("reaches", "said"),
    [
        ("resources: {limits: {nvidia.com/gpu: 2}}", "asks for GPUs on each node"),
        (
            "env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]",
            "may use the GPUs of each node and asks for none (contai",
        ),
    ],
)
def test_a_daemonset_that_holds_gpus_is_told_beside_targets(reaches, said):
    daemon = (
        GENERATED.replace("Job", "DaemonSet")
        .replace("batch/v1", "apps/v1")
        .replace("generateName: GENERATED", "name: d")
        .replace("resources: {limits: {nvidia.com/gpu: 2}}", reaches)
    )
    discovery = discover.from_objects(
        manifests.loads(generated(("a-", "{app: a}")) + daemon.replace("LABELS", "{}")).objects, complete=False
    )
    [note] = [note for note in discovery.notes if note.startswith(f"DaemonSet/ml/d {said}")]
    assert note.endswith(", and is no target: name it if it is to go off")
