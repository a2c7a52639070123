"""The steady state is whole before anything is pulled: every pod of every target, of whatever kind, in any company."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace

import pytest
import yaml

from killcheck.drill import deciding
from killcheck.embedded import Cluster
from killcheck.layers.sentinel import SentinelLayer
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import DrillResult
from killcheck.watch import steady

NS = "atelier"
GPU = {"limits": {"nvidia.com/gpu": 2}}


def pod(resources: object = GPU, **more: object) -> dict:
    return {"containers": [{"name": "server", "image": "ghcr.io/acme/server:3", "resources": resources}], **more}


def workload(kind: str, spec: dict, version: str = "apps/v1", name: str = "loom") -> dict:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": spec}


def replicated(
    kind: str = "Deployment",
    replicas: int = 3,
    name: str = "loom",
    meta: dict | None = None,
    **pods: object,
) -> dict:
    labels = {"matchLabels": {"app": name}}
    extra = {"serviceName": name} if kind == "StatefulSet" else {}
    template = {"metadata": {"labels": {"app": name}, **(meta or {})}, "spec": pod(**pods)}
    return workload(kind, {"replicas": replicas, "selector": labels, "template": template, **extra}, name=name)


def switch(
    *args: str,
    name: str = "lights-out",
    groups: tuple[str, ...] = ("apps",),
    identity: bool = True,
) -> list[dict]:
    rules = [{"apiGroups": list(groups), "resources": ["*"], "verbs": ["get", "list", "patch", "update", "delete"]}]
    role = "rbac.authorization.k8s.io"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NS}}
    kubectl = {"name": "kubectl", "image": "registry.k8s.io/kubectl:v1.33.1", "command": ["kubectl", *args]}
    template = {"spec": {"serviceAccountName": name, "restartPolicy": "Never", "containers": [kubectl]}}
    return [
        *([account] if identity else []),
        {"apiVersion": f"{role}/v1", "kind": "Role", "metadata": {"name": name, "namespace": NS}, "rules": rules},
        {
            "apiVersion": f"{role}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": NS},
            "roleRef": {"apiGroup": role, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NS}],
        },
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": name, "namespace": NS},
            "spec": {
                "schedule": "40 22 * * *",
                "timeZone": "America/Bogota",
                "jobTemplate": {"spec": {"template": template}},
            },
        },
    ]


def scaled(what: str, **more: object) -> list[dict]:
    return switch("scale", what, "-n", NS, "--replicas=0", **more)


def drilled(tmp_path: Path, *objects: dict, spec: str = "", layer: str = "lights-out") -> DrillResult:
    deploy = tmp_path / "deploy"
    deploy.mkdir()
    (deploy / "all.yaml").write_text(yaml.safe_dump_all(objects))
    if spec:
        (tmp_path / "killcheck.yaml").write_text(spec)
    session = Session(spec=tmp_path / "killcheck.yaml" if spec else None, manifests=[deploy], exec_mode="host")
    (drill,) = Run(session, [PlannedDrill(layer)], folder=tmp_path / "state").execute().drills
    return drill


ONCE = {"spec": pod(restartPolicy="Never")}
JOB = workload("Job", {"parallelism": 3, "completions": 3, "template": ONCE}, "batch/v1")
LWS = workload(
    "LeaderWorkerSet",
    {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": pod()}}},
    "leaderworkerset.x-k8s.io/v1",
)
RAY = workload(
    "RayCluster",
    {
        "headGroupSpec": {"template": {"spec": pod({})}},
        "workerGroupSpecs": [
            {"groupName": "w", "replicas": 2, "minReplicas": 0, "maxReplicas": 4, "template": {"spec": pod()}}
        ],
    },
    "ray.io/v1alpha1",
)
JOB_SET = workload(
    "JobSet",
    {
        "replicatedJobs": [
            {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2, "template": ONCE}}}
        ]
    },
    "jobset.x-k8s.io/v1alpha2",
)
NOTEBOOK = workload("Notebook", {"template": {"spec": pod()}}, "kubeflow.org/v1beta1")
KSERVE = "serving.kserve.io"
SERVED = workload("InferenceService", {"predictor": pod()}, f"{KSERVE}/v1beta1")
SERVED["metadata"]["annotations"] = {f"{KSERVE}/deploymentMode": "Standard"}
SUSPEND = '{"spec":{"suspend":true}}'


@pytest.mark.parametrize(
    ("objects", "pods"),
    [
        ([replicated("StatefulSet"), *scaled("statefulset/loom")], 3),
        (
            [
                {**replicated("Rollout"), "apiVersion": "argoproj.io/v1alpha1"},
                *scaled("ro/loom", groups=("argoproj.io",)),
            ],
            3,
        ),
        ([replicated(replicas=0), *scaled("deployment/loom")], 1),
        ([JOB, *switch("delete", "job", "loom", "-n", NS, groups=("batch",))], 3),
        ([LWS, *scaled("leaderworkersets.leaderworkerset.x-k8s.io/loom", groups=("leaderworkerset.x-k8s.io",))], 4),
        (
            [
                RAY,
                *switch(
                    "patch", "rayclusters.ray.io", "loom", "-n", NS, "--type=merge", "-p", SUSPEND, groups=("ray.io",)
                ),
            ],
            2,
        ),
        (
            [
                JOB_SET,
                *switch(
                    "patch",
                    "jobsets.jobset.x-k8s.io",
                    "loom",
                    "-n",
                    NS,
                    "--type=merge",
                    "-p",
                    SUSPEND,
                    groups=("jobset.x-k8s.io",),
                ),
            ],
            4,
        ),
        (
            [
                NOTEBOOK,
                *switch(
                    "annotate",
                    "notebooks.kubeflow.org",
                    "loom",
                    "-n",
                    NS,
                    "kubeflow-resource-stopped=now",
                    groups=("kubeflow.org",),
                ),
            ],
            1,
        ),
        ([SERVED, *switch("annotate", "isvc", "--all", "-n", NS, f"{KSERVE}/stop=true", groups=(KSERVE,))], 1),
    ],
    ids=["StatefulSet", "Rollout", "asleep", "Job", "LeaderWorkerSet", "RayCluster", "JobSet", "Notebook", "KServe"],
)
@pytest.mark.one_in(2)
def test_all_pods_of_every_kind_are_on_before_the_trigger_and_after_it(tmp_path, objects, pods):
    from killcheck import events

    seen: list[events.Event] = []
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(objects))
    session = Session(manifests=[tmp_path / "all.yaml"], exec_mode="host")
    result = Run(session, [PlannedDrill("lights-out")], sinks=[seen.append], folder=tmp_path / "state").execute()
    steady = [event for event in seen if isinstance(event, events.SteadyState)]
    assert [len(event.gpu_pods) for event in steady] == [pods], result.drills[0].why
    assert (result.verdict, result.exit_code) == ("survived", 0), result.drills[0].why
    assert [event.steady_again for event in seen if isinstance(event, events.Healed)] == [True]


def test_a_ray_group_never_goes_below_its_minimum(tmp_path):
    ray = yaml.safe_load(yaml.safe_dump(RAY))
    ray["spec"]["workerGroupSpecs"][0]["minReplicas"] = 1
    zero = '[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":0}]'
    found = drilled(
        tmp_path,
        ray,
        *switch("patch", "rayclusters.ray.io", "loom", "-n", NS, "--type=json", "-p", zero, groups=("ray.io",)),
    )
    assert str(found.verdict) == "exposed"


ZERO = '[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":0}]'


@pytest.mark.parametrize(
    ("autoscaled", "patch", "verdict"),
    [(True, ZERO, "inconclusive"), (True, SUSPEND, "survived"), (False, ZERO, "survived")],
    ids=["emptied", "suspended", "no-autoscaler"],
)
@pytest.mark.one_in(3)
def test_a_ray_group_that_its_own_autoscaler_may_fill_again_is_not_off(tmp_path, autoscaled, patch, verdict):
    """Its load is in no manifest; a suspended cluster has no head, and so no autoscaler."""
    ray = workload("RayCluster", {**RAY["spec"], "enableInTreeAutoscaling": autoscaled}, "ray.io/v1")
    how = "--type=json" if patch == ZERO else "--type=merge"
    found = drilled(
        tmp_path, ray, *switch("patch", "rayclusters.ray.io", "loom", "-n", NS, how, "-p", patch, groups=("ray.io",))
    )
    assert str(found.verdict) == verdict, found.why
    assert ("enableInTreeAutoscaling" in found.why) is (verdict == "inconclusive")


NAMED = {
    "serviceAccountName": "weaver",
    "runtimeClassName": "nvidia",
    "priorityClassName": "urgent",
    "schedulerName": "kai-scheduler",
    "nodeSelector": {"pool": "looms"},
    "volumes": [
        {"name": "w", "persistentVolumeClaim": {"claimName": "yarn"}},
        {"name": "c", "configMap": {"name": "patterns"}},
        {"name": "s", "secret": {"secretName": "dye"}},
    ],
}


def test_what_a_holder_names_and_no_manifest_shows_is_assumed_and_told(tmp_path):
    found = drilled(tmp_path, replicated(**NAMED), *scaled("deployment/loom"))
    assert str(found.verdict) == "survived", found.why
    told = "\n".join(found.notes)
    for name in (
        "ServiceAccount atelier/weaver",
        "RuntimeClass nvidia",
        "PriorityClass urgent",
        "Secret atelier/dye",
        "ConfigMap atelier/patterns",
        "PersistentVolumeClaim atelier/yarn",
    ):
        assert f"{name} is in no manifest: assumed" in told
    assert "scheduler kai-scheduler is not modelled" in told
    assert "no node pool is in the manifests: 3 node(s) with GPUs are assumed" in told


def test_what_is_there_without_a_namespace_is_not_assumed_and_what_can_be_no_name_is_told():
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "yarn"}, "spec": spec}
    named = [{"name": n.lower()[:1], "persistentVolumeClaim": {"claimName": n}} for n in ("yarn", "V_ZONE")]
    holder = replicated(volumes=named)
    del holder["metadata"]["namespace"]
    with Cluster() as cluster:
        cluster.load([holder, claim])
        assert not any("PersistentVolumeClaim default/yarn" in note for note in cluster.notes)
        assert any(
            note.startswith("could not be assumed: PersistentVolume/assumed-default-V_ZONE") for note in cluster.notes
        )


def test_assumed_nodes_have_whatever_else_a_holder_asks_for(tmp_path):
    """Huge pages and network interfaces are no accelerators; a node that lacks them would take no pod of it."""
    wants = {"limits": {"habana.ai/gaudi": 8, "hugepages-2Mi": "4Gi", "vpc.amazonaws.com/efa": 4, "memory": "8Gi"}}
    own = [{"name": "server", "image": "ghcr.io/acme/server:3", "resources": wants}]
    found = drilled(tmp_path, replicated(replicas=2, containers=own), *scaled("deployment/loom"))
    assert str(found.verdict) == "survived", found.why


def test_what_an_executor_names_is_never_made_for_it(tmp_path):
    found = drilled(tmp_path, replicated(serviceAccountName="lights-out"), *scaled("deployment/loom", identity=False))
    assert str(found.verdict) == "inconclusive"
    assert 'error looking up service account atelier/lights-out: serviceaccount "lights-out" not found' in found.why
    assert "add ServiceAccount" in found.why


def test_an_executors_absent_secret_is_asked_for(tmp_path):
    objects = scaled("deployment/loom")
    pods = objects[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pods["containers"][0]["envFrom"] = [{"secretRef": {"name": "cluster-login"}}]
    found = drilled(tmp_path, replicated(), *objects)
    assert (str(found.verdict), "cluster-login" in found.why) == ("inconclusive", True)


def test_two_targets_with_a_switch_each_are_each_judged_alone(tmp_path):
    both = [
        replicated(name="warp", replicas=2),
        replicated(name="weft"),
        *scaled("deployment/warp", name="warp-off"),
        *scaled("deployment/weft", name="weft-off"),
    ]
    found = drilled(tmp_path, *both, layer="weft-off")
    assert (str(found.verdict), found.off_by) == ("survived", "weft-off"), found.why


SPEC = f"""
apiVersion: killcheck/v1
kind: KillPath
name: looms
targets:
  - {{name: loom, kind: Deployment, namespace: {NS}, object: loom}}
layers:
  - name: lights-out
    type: dead-man
    covers: [loom]
    cronJob: {{namespace: {NS}, name: lights-out}}
"""


def spec(nodes: str = "", proof: str = "") -> str:
    return SPEC + (f"nodes:\n{indent(nodes, '  ')}\n" if nodes else "") + (f"proof: {proof}\n" if proof else "")


@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        (spec(), "survived", "nodes are not judged, only pods"),
        (spec(proof="[P1, P2, P4]"), "inconclusive", "nodes are not judged, only pods"),
        (spec("- {name: gpu, selector: pool=gpu}", "[P1, P2, P4]"), "inconclusive", "removedBy"),
        (
            spec("- {name: gpu, removedBy: cluster-autoscaler, removedAfter: 5m}", "[P1, P2, P4]"),
            "survived",
            "cluster-autoscaler takes an empty one away after 300 s",
        ),
        (spec("- {name: gpu, removedBy: cluster-autoscaler, removedAfter: 2h}", "[P1, P2, P4]"), "exposed", ""),
        (
            spec("- {name: gpu, removedBy: somebody, removedAfter: 5m, floor: 3}", "[P1, P2, P4]"),
            "inconclusive",
            "P2 asks for nodes to go and floor 3 of gpu lets all of them stay",
        ),
        (
            spec("- {name: gpu, removedBy: somebody, removedAfter: 5m, floor: 1}", "[P1, P2, P4]"),
            "survived",
            "1 node(s) of gpu may stay on by the spec (floor 1): $",
        ),
    ],
    ids=["unsaid", "P2", "selector", "removed", "removed-late", "floor-of-all", "floor-of-one"],
)
@pytest.mark.one_in(2)
def test_nodes_nobody_described_are_judged_by_what_the_spec_says(tmp_path, text, verdict, said):
    found = drilled(tmp_path, replicated(), *scaled("deployment/loom"), spec=text)
    assert str(found.verdict) == verdict, found.why
    assert said in "\n".join([found.why, *found.notes])
    if verdict == "survived" and "removedAfter" not in text:
        assert not {"node_cordoned", "node_drained", "node_gone"} & {phase["phase"] for phase in found.phases}


def test_pool_that_has_no_room_for_all_is_named(tmp_path):
    """What the scheduler says of the nodes that are there is no news: the pool's own limits keep the next from coming."""
    needs = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.12xlarge"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "looms"},
        "spec": {
            "limits": {"nvidia.com/gpu": 4},
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "looms"},
                    "requirements": needs,
                }
            },
        },
    }
    result = drilled(tmp_path, replicated(), pool, *scaled("deployment/loom"))
    assert "2 of 3 GPU pods of Deployment/atelier/loom run" in result.why
    assert "all available instance types exceed limits for nodepool (NodePool=looms)" in result.why
    assert "raise the limits of NodePool looms, or ask for less" in result.why


AN_H100 = "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*h100.*$')"
ABOVE = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('%s')) >= 0"


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        ({"deviceClassName": "gpu.nvidia.com"}, "survived"),
        ({"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": ABOVE % "40Gi"}}]}, "survived"),
        ({"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": AN_H100}}]}, "survived"),
        ({"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": ABOVE % "1Ti"}}]}, "inconclusive"),
        ({"deviceClassName": "fpga.example.com"}, "inconclusive"),
    ],
)
@pytest.mark.one_in(2)
def test_devices_that_no_manifest_shows_are_assumed_as_claims_ask_for_them(tmp_path, asked, verdict):
    """A class that a driver's chart brings, too; what would satisfy another is asked for."""
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}}}
    claim = workload("ResourceClaimTemplate", spec, "resource.k8s.io/v1", name="gpu")
    server = pod({"claims": [{"name": "gpu"}]}, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    target = replicated()
    target["spec"]["template"]["spec"] = server
    drill = drilled(tmp_path, claim, target, *scaled("deployment/loom"))
    assert str(drill.verdict) == verdict, drill.why
    if verdict == "survived":
        assert [note for note in drill.notes if "device(s) of gpu.nvidia.com are assumed" in note]
    else:
        assert "ResourceSlices and Nodes of its driver" in drill.why


SCALED_JOB = workload(
    "ScaledJob",
    {
        "jobTargetRef": {"template": ONCE},
        "triggers": [{"type": "rabbitmq", "metadata": {"queueName": "q", "value": "1"}}],
    },
    "keda.sh/v1alpha1",
)
PAUSE = ("annotate", "scaledjob", "loom", "-n", NS, "autoscaling.keda.sh/paused=true", "--overwrite")
NO_MORE = ("patch", "scaledjob", "loom", "-n", NS, "--type=merge", "-p", '{"spec":{"maxReplicaCount":0}}')


@pytest.mark.parametrize(
    ("args", "verdict"),
    [(PAUSE, "exposed"), (NO_MORE, "exposed"), (("delete", "scaledjob", "loom", "-n", NS), "survived")],
    ids=["pause", "no-more", "delete"],
)
@pytest.mark.one_in(3)
def test_scaled_job_is_off_when_its_jobs_are(tmp_path, args, verdict):
    drill = drilled(tmp_path, SCALED_JOB, *switch(*args, groups=("keda.sh",)))
    assert str(drill.verdict) == verdict, drill.why


@pytest.mark.parametrize(
    ("kind", "status", "real", "over"),
    [
        ("Job", {"conditions": [{"type": "Complete", "status": "True"}]}, True, True),
        ("Job", {"conditions": [{"type": "Complete", "status": "True"}]}, False, False),  # there time costs nothing
        ("Job", {"conditions": [{"type": "Complete", "status": "False"}]}, True, False),
        ("Pod", {"phase": "Failed"}, True, True),
        ("Deployment", {"conditions": [{"type": "Failed", "status": "True"}]}, True, False),
    ],
)
def test_what_has_ended_by_itself_is_not_waited_for(kind, status, real, over):
    objects = [{"kind": kind, "status": status}]
    scene = SimpleNamespace(cluster=SimpleNamespace(real=real), objects_of=lambda _: objects)
    path = SimpleNamespace(covered_by=lambda _: [SimpleNamespace(kind=kind)])
    assert steady.never_again(scene, path, None) is over


def test_a_sentinel_beside_a_switch_keeps_nobody_watching():
    timeline = SimpleNamespace(start=datetime(2026, 1, 15, 3, tzinfo=UTC))
    progress = SimpleNamespace(timeline=timeline, last_s=lambda: 60.0)
    hold = SimpleNamespace(acts_unasked=SentinelLayer.acts_unasked, next_chance=lambda _: None, cron_job={})
    other = SimpleNamespace(acts_unasked=True, next_chance=lambda _: None, cron_job={})
    assert deciding._alone(progress, SimpleNamespace(runs={"hold": hold}, blind=[]), timeline.start)
    assert not deciding._alone(progress, SimpleNamespace(runs={"hold": hold, "x": other}, blind=[]), timeline.start)
