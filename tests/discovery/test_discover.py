"""The kill path found in manifests and in a live listing: layers by what executors do and may do, pools, deadlines."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from killcheck import discover, fixtures
from killcheck.discover import Discovery, DiscoveryError
from killcheck.kube import manifests
from killcheck.kube.client import Answer, Closer, Kube, Transport
from killcheck.kube.errors import Forbidden, KubeError
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.kube.permissions import Permissions
from killcheck.spec import specfile
from killcheck.spec.deadlines import Deadlines
from killcheck.spec.killpath import Layer, LayerType, NodePool, Target

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm, namespace: inference}
spec:
  replicas: 1
  selector: {matchLabels: {app: vllm}}
  template:
    metadata: {labels: {app: vllm}}
    spec:
      containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: 8}}}]
"""


def found(*texts: str) -> Discovery:
    return discover.from_objects(manifests.loads("\n---\n".join(texts)))


def cron_job(script: str, name: str = "nightly", schedule: str = "0 3 * * *", extra: str = "") -> str:
    return f"""
apiVersion: batch/v1
kind: CronJob
metadata: {{name: {name}, namespace: inference}}
spec:
  schedule: "{schedule}"
{extra}  jobTemplate:
    spec:
      template:
        spec:
          serviceAccountName: killer
          restartPolicy: Never
          containers:
            - name: executor
              image: i
              command: [sh, -c]
              args:
                - |
                  {script}
"""


KILL = cron_job("kubectl scale deploy/vllm --replicas=0")


def only_layer(discovery: Discovery) -> Layer:
    assert len(discovery.kill_path.layers) == 1
    return discovery.kill_path.layers[0]


def test_the_founding_kill_path_is_found_without_a_spec():
    discovery = discover.from_objects(manifests.load(fixtures.path("dead-man")))
    path = discovery.kill_path
    assert path.targets == (Target("vllm", "apps/v1", "Deployment", "inference", "vllm"),)
    assert [(layer.type, layer.covers) for layer in path.layers] == [(LayerType.DEAD_MAN, ("vllm",))]
    assert path.nodes == (NodePool("gpu", node_pool="gpu"),)
    assert (path.consent.namespaces, path.consent.pools, path.consent.contexts) == (("inference",), ("gpu",), ())
    assert not discovery.notes
    assert not discovery.not_understood
    assert not discovery.uncovered


@pytest.mark.parametrize(
    "name", [name for name in fixtures.names() if name not in ("single-controller", "worker-fleet")]
)
def test_every_reference_path_is_found_as_its_spec_has_it(name: str):
    discovery = discover.from_objects(manifests.load(fixtures.path(name)))
    written = specfile.load(fixtures.spec(name))

    def gist(layer: Layer) -> object:
        return layer.type, layer.covers, layer.cron_job or layer.scaler

    assert {target.ref for target in discovery.kill_path.targets} == {target.ref for target in written.targets}
    assert {gist(layer) for layer in discovery.kill_path.layers} == {gist(layer) for layer in written.layers}
    assert specfile.loads(discovery.spec) == discovery.kill_path


# -- dead-man CronJobs -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "script",
    [
        "kubectl scale deploy/vllm --replicas=0",
        "kubectl scale deploy --all --replicas=0 -n inference",
        "kubectl scale deploy/$WHATEVER --replicas=0",
        "kubectl delete deploy vllm",
        "kubectl delete nodeclaims --all",
        "curl -f -X PATCH $API/apis/apps/v1/namespaces/inference/deployments/vllm/scale -d @body.json",
    ],
)
def test_executors_that_turn_a_target_off_are_layers(script: str):
    layer = only_layer(found(DEPLOYMENT, cron_job(script)))
    assert (layer.type, layer.covers) == (LayerType.DEAD_MAN, ("vllm",))


@pytest.mark.parametrize(
    ("script", "nearest"),
    [
        (
            "kubectl scale deploy/other --replicas=0",
            "touches no target: it does patch deployments/scale.apps inference/other",
        ),
        ("kubectl scale sts/vllm --replicas=0", "it does patch statefulsets/scale.apps inference/vllm"),
        ("kubectl scale deploy/vllm --replicas=0 -n elsewhere", "it does patch deployments/scale.apps elsewhere/vllm"),
        ("kubectl scale deploy/vllm --replicas=0 --dry-run=client", "no call to the Kubernetes API was found in it"),
        ("kubectl scale deploy/vllm --replicas=2", "scales Deployment/inference/vllm to 2: it starts what others stop"),
        ("kubectl create job vllm --dry-run=client -o yaml", "no call to the Kubernetes API was found in it"),
        ("kubectl delete deployments.example.com vllm", "it does delete deployments.example.com inference/vllm"),
        ("kubectl get deploy vllm", "no call to the Kubernetes API was found in it"),
        ("/opt/off.sh", "a script that is in the image"),
    ],
)
def test_executors_that_do_not_are_the_nearest_in_the_error(script: str, nearest: str):
    with pytest.raises(DiscoveryError, match="no layer found") as caught:
        found(DEPLOYMENT, cron_job("sh " + script if script.startswith("/") else script))
    assert nearest in str(caught.value)


def test_an_executor_that_cannot_be_read_is_a_layer_by_what_it_may_do():
    rbac = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: killer, namespace: inference}
rules: [{apiGroups: [apps], resources: [deployments/scale], resourceNames: [vllm], verbs: [patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: killer, namespace: inference}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: killer}
subjects: [{kind: ServiceAccount, name: killer}]
"""
    discovery = found(DEPLOYMENT, rbac, cron_job("sh /opt/off.sh"))
    assert only_layer(discovery).covers == ("vllm",)
    assert "by what its ServiceAccount may do" in discovery.notes[0]


def test_a_schedule_of_minutes_is_a_monitor_and_a_suspended_one_is_said():
    discovery = found(DEPLOYMENT, cron_job("kubectl scale deploy/vllm --replicas=0", schedule="*/5 * * * *"))
    assert only_layer(discovery).type is LayerType.IDLE_MONITOR
    discovery = found(DEPLOYMENT, cron_job("kubectl scale deploy/vllm --replicas=0", extra="  suspend: true\n"))
    assert "CronJob/inference/nightly is suspended: it will not fire" in discovery.notes


def test_a_cloud_command_is_taken_to_turn_everything_off_and_said_so():
    discovery = found(DEPLOYMENT, cron_job("aws autoscaling set-desired-capacity --desired-capacity 0"))
    assert only_layer(discovery).covers == ("vllm",)
    assert "acts outside Kubernetes" in discovery.notes[0]


def test_ways_to_hide_failure_are_notes():
    discovery = found(DEPLOYMENT, cron_job("kubectl scale deploy/vllm --replicas=0 || true"))
    assert any("its failure is swallowed" in note for note in discovery.notes)


# -- scalers, controllers, workers ---------------------------------------------------------------------------
def scaled_object(extra: str) -> str:
    return f"""
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{name: vllm, namespace: inference}}
spec: {{scaleTargetRef: {{name: vllm}}, triggers: []{extra}}}
"""


def test_scaled_objects_that_reach_zero_are_layers_with_their_cooldown():
    layer = only_layer(found(DEPLOYMENT, scaled_object("")))
    assert (layer.type, layer.idle_s) == (LayerType.SCALE_TO_ZERO, 300)
    assert layer.deadlines is not None
    assert layer.deadlines.pods_gone_s > 300 + 30
    layer = only_layer(
        found(DEPLOYMENT, scaled_object(", minReplicaCount: 1, idleReplicaCount: 0, cooldownPeriod: 60"))
    )
    assert layer.idle_s == 60


def test_a_scaler_with_a_floor_is_no_layer_but_a_rival():
    discovery = found(DEPLOYMENT, KILL, scaled_object(", minReplicaCount: 1"))
    assert only_layer(discovery).type is LayerType.DEAD_MAN
    assert any("keeps at least 1" in note and "undoes a scale to zero" in note for note in discovery.notes)


def test_an_hpa_with_a_floor_leaves_a_scale_to_zero_alone():
    hpa = (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h, namespace: inference}\n"
        "spec: {minReplicas: 2, maxReplicas: 4, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: vllm}}\n"
    )
    notes = found(DEPLOYMENT, KILL, hpa).notes
    assert any("keeps at least 2" in note and "leaves a scale to zero alone" in note for note in notes), notes


def test_termination_handlers_and_controllers():
    daemon = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nth, namespace: kube-system}
spec:
  template: {spec: {containers: [{name: nth, image: public.ecr.aws/aws-ec2/aws-node-termination-handler:v1.25.0}]}}
"""
    watcher = DEPLOYMENT.replace("name: vllm, namespace", "name: reaper, namespace").replace(
        "containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: 8}}}]",
        "containers: [{name: r, image: i, command: [sh, -c, while sleep 9; do kubectl delete deploy vllm; done]}]",
    )
    timed = watcher.replace("image: i,", 'image: i, env: [{name: IDLE_AFTER_MINUTES, value: "20"}],')
    layers = found(DEPLOYMENT, daemon, timed).kill_path.layers
    assert [(layer.name, layer.type, layer.idle_s) for layer in layers] == [
        ("nth", LayerType.SPOT_HANDLER, None),
        ("reaper", LayerType.IDLE_MONITOR, 1200.0),
    ]
    untimed = found(DEPLOYMENT, KILL, watcher)
    assert [(layer.name, layer.idle_s) for layer in untimed.kill_path.layers] == [("nightly", None), ("reaper", None)]
    assert [layer["name"] for layer in yaml.safe_load(untimed.spec)["layers"]] == ["nightly"]  # no spec could say so
    assert any("Deployment/inference/reaper turns off vllm" in said for said in untimed.not_understood)


@pytest.mark.parametrize(
    "script",
    [
        "kubectl annotate deployment vllm held-",
        """kubectl patch deployment vllm --type=json -p '[{"op":"remove","path":"/spec/template/spec/nodeSelector"}]'""",
        """kubectl patch deployment vllm --type=merge -p '{"metadata":{"annotations":{"held":null}}}'""",
        "kubectl scale deployment vllm --replicas=1",
    ],
)
def test_what_takes_back_or_starts_is_no_layer_beside_a_switch(script: str):
    assert only_layer(found(DEPLOYMENT, KILL, cron_job(script, "morning", "0 6 * * *"))).name == "nightly"


@pytest.mark.parametrize(("env", "idle_s"), [("IDLE_MINUTES", 600), ("IDLE_TIMEOUT_MS", 0.01)])
def test_a_watcher_begins_to_count_when_its_targets_are_idle(env: str, idle_s: float):
    watcher = DEPLOYMENT.replace("name: vllm, namespace", "name: reaper, namespace").replace(
        "containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: 8}}}]",
        f'containers: [{{name: r, image: i, env: [{{name: {env}, value: "10"}}], '
        "command: [sh, -c, while sleep 9; do kubectl delete deploy vllm; done]}]",
    )
    layer = only_layer(found(DEPLOYMENT, watcher))
    assert (layer.type, layer.idle_s) == (LayerType.IDLE_MONITOR, idle_s)


def test_a_worker_that_exits_under_a_deployment_is_started_again():
    idle = DEPLOYMENT.replace("image: vllm,", 'image: vllm, env: [{name: MAX_IDLE_MINUTES, value: "10"}],')
    discovery = found(idle, KILL)
    assert only_layer(discovery).type is LayerType.DEAD_MAN
    assert any("starts its pods again after exit 0" in note for note in discovery.notes)


# -- the rest of the path ------------------------------------------------------------------------------------
def test_what_no_layer_turns_off_is_named():
    other = DEPLOYMENT.replace("name: vllm, namespace: inference", "name: notebook, namespace: research")
    discovery = found(DEPLOYMENT, other, KILL)
    assert discovery.uncovered == ("notebook",)
    assert "no layer turns Deployment/research/notebook off" in discovery.notes


def test_names_are_told_apart_by_namespace_and_kind():
    twin = DEPLOYMENT.replace("namespace: inference", "namespace: b")
    stateful = DEPLOYMENT.replace("kind: Deployment", "kind: StatefulSet")
    assert [target.name for target in found(DEPLOYMENT, twin, stateful, KILL).kill_path.targets] == [
        "deployment-inference-vllm",
        "b-vllm",
        "statefulset-inference-vllm",
    ]


def node_pool(name: str, rest: str) -> str:
    return f"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {rest}\n"


def requiring(instance_type: str) -> str:
    requirement = f"{{key: node.kubernetes.io/instance-type, operator: In, values: [{instance_type}]}}"
    return f"{{template: {{spec: {{requirements: [{requirement}]}}}}}}"


def gpu_node(name: str, labels: str) -> str:
    return f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {labels}}}
status: {{capacity: {{nvidia.com/gpu: "8"}}}}
"""


@pytest.mark.parametrize(
    ("texts", "pools"),
    [
        (
            [node_pool("cpu", "{}"), node_pool("gpu", "{limits: {nvidia.com/gpu: 8}}")],
            [("gpu", "karpenter.sh/nodepool=gpu")],
        ),
        (
            [
                node_pool(
                    "g",
                    requiring("p5.48xlarge"),
                )
            ],
            [("g", "karpenter.sh/nodepool=g")],
        ),
        (
            [
                node_pool(
                    "c",
                    requiring("c7i.large"),
                )
            ],
            [],
        ),
        (
            [gpu_node("a", "{eks.amazonaws.com/nodegroup: big}"), gpu_node("b", "{eks.amazonaws.com/nodegroup: big}")],
            [("big", "eks.amazonaws.com/nodegroup=big")],
        ),
        ([gpu_node("a", "{karpenter.sh/nodepool: gpu}")], [("gpu", "karpenter.sh/nodepool=gpu")]),
        ([gpu_node("a", "{}")], [("gpu-nodes", "kubernetes.io/hostname in (a)")]),
        ([], []),
    ],
)
def test_pools_are_recognised(texts: list[str], pools: list[tuple[str, str]]):
    assert [(pool.name, pool.node_selector) for pool in found(DEPLOYMENT, KILL, *texts).kill_path.nodes] == pools


def test_pools_by_what_the_targets_select():
    selecting = DEPLOYMENT.replace(
        "      containers", "      nodeSelector: {pool: a100, kubernetes.io/arch: amd64}\n      containers"
    )
    assert found(selecting, KILL).kill_path.nodes == (NodePool("a100", selector="pool=a100"),)
    marked = selecting.replace("pool: a100", "team/gpu-pool: 'true'")  # a yes is no name
    assert found(marked, KILL).kill_path.nodes == (NodePool("gpu-pool", selector="team/gpu-pool=true"),)


def test_deadlines_do_not_grow_with_what_they_are_there_to_find():
    slow = DEPLOYMENT.replace("      containers", "      terminationGracePeriodSeconds: 600\n      containers")
    pool = node_pool("gpu", "{limits: {nvidia.com/gpu: 8}, disruption: {consolidateAfter: 30m}}")

    def times(*texts: str) -> Deadlines:
        return found(KILL, *texts).kill_path.deadlines

    fast, long = times(DEPLOYMENT), times(slow)
    assert long == fast
    assert times(DEPLOYMENT, pool) == times(DEPLOYMENT, pool.replace("30m", "0s"))
    assert "30s of grace (vllm)" in found(KILL, slow).spec


@pytest.mark.parametrize(
    ("annotation", "pods_s", "nodes_s"),
    [
        ("example.com/gpu-off-within: 20m", 420, 1200),
        ("off-deadline: PT4M", 240, 240),
        ("max-shutdown-seconds: '90'", 90, 90),
        ("acme.io/pods-gone-by: 3m", 180, None),
        ("killcheck.dev/node-gone: 15m", 420, 900),
        ("killcheck.dev/pods-gone: 40m", 2400, 2400 + 600 + 300),
        ("killcheck.dev/scale-written: 8m", 480, None),
        ("keda.sh/scale-down-after: 30s", 420, None),
        ("gpu-off-within: tomorrow", 420, None),
        ("idle-shutdown-within: 5s", 420, None),
    ],
)
@pytest.mark.parametrize("of", ["workload", "namespace"])
def test_a_deadline_that_an_annotation_states_counts(annotation: str, pods_s: float, nodes_s: float | None, of: str):
    name, value = annotation.split(": ")
    noted = f"metadata: {{annotations: {{{name}: {value}}}, "
    home = "apiVersion: v1\nkind: Namespace\nmetadata: {name: inference}\n"
    texts = [KILL, DEPLOYMENT, home, node_pool("gpu", "{limits: {nvidia.com/gpu: 8}}")]
    changed = 1 if of == "workload" else 2
    texts[changed] = texts[changed].replace("metadata: {", noted, 1)
    assert noted in texts[changed]
    plain = found(KILL, DEPLOYMENT, home, texts[3]).kill_path.deadlines
    deadlines = found(*texts).kill_path.deadlines
    assert deadlines.pods_gone_s == pods_s
    assert deadlines.node_gone_s == (nodes_s or plain.node_gone_s)


def test_an_ordered_stateful_set_stops_one_pod_after_the_other():
    stateful = DEPLOYMENT.replace("kind: Deployment", "kind: StatefulSet").replace("replicas: 1", "replicas: 4")
    kill = cron_job("kubectl scale sts/vllm --replicas=0")
    one = found(stateful.replace("replicas: 4", "replicas: 1"), kill).kill_path.deadlines.pods_gone_s
    assert found(stateful, kill).kill_path.deadlines.pods_gone_s - one == 90


def test_no_target_says_what_was_looked_at():
    with pytest.raises(DiscoveryError, match=r"no target found: nothing here asks for a GPU \(looked at 1 CronJob\)"):
        found(KILL)
    each = "{containers: [{name: a, image: a, resources: {limits: {aws.amazon.com/neuron: 1}}}]}"
    daemon = f"""
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: edge, namespace: far}}
spec: {{selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {each}}}}}
"""
    with pytest.raises(DiscoveryError) as told:
        found(daemon)
    assert str(told.value).count("DaemonSet/far/edge") == 1
    assert str(told.value).endswith("next: name under targets, in a killcheck.yaml, what is to go off")


# -- a live cluster ------------------------------------------------------------------------------------------
class Listed(Transport):
    """A transport that serves lists of objects and nothing else, and counts what it is asked."""

    def __init__(self, objects: list[Obj], forbidden: str = "") -> None:
        self.objects = objects
        self.forbidden = forbidden
        self.asked: list[str] = []

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
    ) -> Answer:
        self.asked.append(path)
        plural = path.rpartition("/")[2]
        if plural == self.forbidden:
            return Answer(403, {"reason": "Forbidden", "message": f"{plural} is forbidden"})
        if path == "/apis/ray.io/v1":
            return Answer(200, {"resources": [{"name": "rayclusters", "kind": "RayCluster", "namespaced": True}]})
        if plural.startswith(("scaledobjects", "httpscaled")):
            return Answer(404, {"reason": "NotFound", "message": "the server could not find the requested resource"})
        items = [obj for obj in self.objects if str(obj["kind"]).lower() + "s" == plural]
        return Answer(200, {"items": items, "metadata": {"resourceVersion": "1"}})

    def watch(
        self,
        path: str,
        query: Mapping[str, str],
        on_event: Callable[[Obj], None],
        on_end: Callable[[KubeError | None], None],
    ) -> Closer:
        raise AssertionError("discovery does not watch")


def owner(kind: str, name: str, version: str = "apps/v1") -> dict[str, Any]:
    return {
        "ownerReferences": [
            {"apiVersion": version, "kind": kind, "name": name, "uid": f"{kind}/{name}", "controller": True}
        ]
    }


def live_objects(pods: int = 1) -> list[Obj]:
    objects = manifests.loads(DEPLOYMENT + "---" + KILL).objects
    spec = {"nodeName": "n1", **objects[0]["spec"]["template"]["spec"]}
    for i in range(pods):
        of_ray = {"name": f"ray-{i}", "namespace": "train", **owner("RayCluster", "ray", "ray.io/v1")}
        objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": of_ray, "spec": spec})
    objects.append({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray", "namespace": "train"}})
    for obj in objects:
        obj["metadata"]["uid"] = f"{obj['kind']}/{name_of(obj)}"
    return objects


def test_a_live_cluster_is_found_with_one_list_a_kind():
    small, large = Listed(live_objects(1)), Listed(live_objects(300))
    path = discover.from_cluster(Kube(small)).kill_path
    assert {str(target) for target in path.targets} == {"Deployment/inference/vllm", "RayCluster/train/ray"}
    discover.from_cluster(Kube(large))
    assert len(small.asked) == len(large.asked)


def test_what_could_not_be_listed_is_said_and_never_nothing():
    discovery = discover.from_cluster(Kube(Listed(live_objects(), forbidden="configmaps")))
    assert any("ConfigMaps could not be listed" in line for line in discovery.not_understood)
    with pytest.raises(Forbidden):
        discover.from_cluster(Kube(Listed(live_objects(), forbidden="pods")))


# -- permissions ---------------------------------------------------------------------------------------------
def role(kind: str, *rules: Obj, name: str = "r", namespace: str = "ns") -> Obj:
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace if kind == "Role" else ""},
        "rules": list(rules),
    }


def binding(kind: str, role_kind: str, subject: Obj) -> Obj:
    return {
        "kind": kind,
        "metadata": {"name": "b", "namespace": "ns" if kind == "RoleBinding" else ""},
        "roleRef": {"kind": role_kind, "name": "r"},
        "subjects": [subject],
    }


SCALE = {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"], "resourceNames": ["vllm"]}
KILLER = {"kind": "ServiceAccount", "name": "killer", "namespace": "ns"}


@pytest.mark.parametrize(
    ("objects", "allowed"),
    [
        ([role("Role", SCALE), binding("RoleBinding", "Role", KILLER)], True),
        ([role("Role", SCALE)], False),
        ([role("Role", SCALE, namespace="other"), binding("RoleBinding", "Role", KILLER)], False),
        ([role("Role", SCALE), binding("RoleBinding", "Role", {**KILLER, "namespace": "other"})], False),
        ([role("Role", SCALE), binding("RoleBinding", "Role", {**KILLER, "name": "other"})], False),
        ([role("ClusterRole", SCALE), binding("RoleBinding", "ClusterRole", KILLER)], True),
        ([role("ClusterRole", SCALE), binding("ClusterRoleBinding", "ClusterRole", KILLER)], True),
        ([role("Role", {**SCALE, "resources": ["deployments"]}), binding("RoleBinding", "Role", KILLER)], False),
        ([role("Role", {**SCALE, "resources": ["*/scale"]}), binding("RoleBinding", "Role", KILLER)], True),
        ([role("Role", {**SCALE, "verbs": ["get"]}), binding("RoleBinding", "Role", KILLER)], False),
        (
            [
                role("Role", {**SCALE, "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                binding("RoleBinding", "Role", KILLER),
            ],
            True,
        ),
        ([role("Role", {**SCALE, "resourceNames": ["other"]}), binding("RoleBinding", "Role", KILLER)], False),
        ([role("Role", {**SCALE, "apiGroups": [""]}), binding("RoleBinding", "Role", KILLER)], False),
        (
            [
                role("Role", SCALE),
                binding("RoleBinding", "Role", {"kind": "Group", "name": "system:serviceaccounts:ns"}),
            ],
            True,
        ),
        (
            [
                role("Role", SCALE),
                binding("RoleBinding", "Role", {"kind": "User", "name": "system:serviceaccount:ns:killer"}),
            ],
            True,
        ),
    ],
)
def test_permissions_are_read_as_the_authorizer_reads_them(objects: list[Obj], allowed: bool):
    assert (
        Permissions(objects).allows(
            "killer",
            "ns",
            verb="patch",
            group="apps",
            resource="deployments",
            subresource="scale",
            name="vllm",
            namespace="ns",
        )
        is allowed
    )


def test_a_role_binding_holds_in_its_own_namespace_only():
    permissions = Permissions([role("ClusterRole", SCALE), binding("RoleBinding", "ClusterRole", KILLER)])
    assert not permissions.allows(
        "killer", "ns", verb="patch", group="apps", resource="deployments", subresource="scale", namespace="other"
    )
    assert dig(SCALE, "verbs") == ["patch"]
    assert namespace_of(role("ClusterRole")) == ""
