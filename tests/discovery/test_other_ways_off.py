"""Programs that turn off in other ways are layers; what is not drilled is named; a starter is no switch."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from killcheck import discover
from killcheck.discover import DiscoveryError
from killcheck.discover.other_scalers import who_may_turn_off
from killcheck.kube import manifests
from killcheck.kube.objects import Obj
from killcheck.lint import asking
from killcheck.spec.killpath import Target

NOW = datetime(2026, 1, 15, 9, tzinfo=UTC)
TARGET = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: serving, labels: {{app.kubernetes.io/instance: {name}}}{more}}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      nodeSelector: {selector}
      containers:
        - {{name: c, image: i, envFrom: [{{configMapRef: {{name: {name}-env}}}}],
            resources: {{limits: {{nvidia.com/gpu: 2}}}}}}
---
"""
JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {{name: evening, namespace: ops}}
spec:
  schedule: "0 19 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          serviceAccountName: ops
          containers: [{{name: x, image: tools, command: [sh, -c, {command}]}}]
---
"""
#: All rights: so nothing is decided by them.
RIGHTS = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ops}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: all}
subjects: [{kind: ServiceAccount, name: ops, namespace: ops}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
"""
BOTH = ("chat", "rank")


def found(
    command: str = "", *, more: str = "", extra: str = "", rights: str = "", selects: str = ""
) -> discover.Discovery:
    """``selects``: the label of nodes that both targets select, each its own value of ``GROUPS``."""
    selectors = {name: json.dumps({selects: GROUPS[name]} if selects else {}) for name in BOTH}
    text = "".join(TARGET.format(name=name, more=more, selector=selectors[name]) for name in BOTH)
    job = JOB.format(command=json.dumps(command)) if command else ""
    return discover.from_objects(manifests.loads(text + job + rights + extra), complete=False)


def both(labels: str = "") -> str:
    """Both targets, with more ``labels``."""
    texts = (TARGET.format(name=name, more="", selector="{}") for name in BOTH)
    return "".join(text.replace("}}", f"{labels}}}}}", 1) if labels else text for text in texts)


WAYS = [
    ("kubectl drain -l gpu=true --ignore-daemonsets", BOTH),
    ("kubectl delete nodes -l gpu=true", BOTH),
    ("kubectl delete pods -n serving -l app=chat", ("chat",)),
    ("kubectl delete pods --all -n serving", BOTH),
    ("kubectl delete deployment chat -n serving", ("chat",)),
    ("kubectl delete namespace serving", BOTH),
    ("kubectl scale deployment chat -n serving --replicas=1", ("chat",)),
    ("kubectl scale deployment --all -n serving --replicas=0", BOTH),
    ("kubectl rollout undo deployment/rank -n serving", ("rank",)),
    ("helm upgrade chat ./chart --set replicaCount=0", ("chat",)),
    ("helm uninstall rank -n serving", ("rank",)),
    ("kubectl patch configmap chat-env -n serving -p '{}'", ("chat",)),
    ('kubectl patch nodepool gpu --type merge -p \'{"spec":{"limits":{"nvidia.com/gpu":"0"}}}\'', BOTH),
    ('kubectl patch machineset gpu -n m --type merge -p \'{"spec":{"replicas":0}}\'', BOTH),
    ("kubectl taint nodes -l gpu=true off=true:NoExecute", BOTH),
    ("oc scale machineset gpu -n openshift-machine-api --replicas=0", BOTH),
    ("for m in $(oc get machinesets -n m -o name | grep gpu); do oc scale $m -n m --replicas=0; done", BOTH),
    ("S=$(oc get machineset -n m -l t=gpu -o name); for m in $S; do oc scale $m -n m --replicas=0; done", BOTH),
    ("oc scale $(oc get machineset -n m -o name | grep gpu) --replicas=0 -n m", BOTH),
    ("oc adm drain -l gpu=true --force", BOTH),
    ("aws eks update-nodegroup-config --nodegroup-name gpu --scaling-config minSize=0,desiredSize=0", BOTH),
    ("gcloud container clusters resize c --node-pool gpu --num-nodes 0 -q", BOTH),
    ("az aks nodepool scale -g g --cluster-name c -n gpu --node-count 0", BOTH),
]


@pytest.mark.parametrize(("command", "covers"), WAYS, ids=[" ".join(way[0].split()[:3]) for way in WAYS])
def test_a_program_that_turns_off_in_another_way_is_a_layer(command: str, covers: tuple[str, ...]):
    [layer] = found(command).kill_path.layers
    assert (layer.name, layer.covers) == ("evening", covers)


@pytest.mark.parametrize(
    "command",
    [
        "kubectl scale deployment chat -n serving --replicas=3",
        "kubectl scale deployment chat -n serving --replicas=8",
        "kubectl scale deployment chat -n serving --replicas=4; helm list",
    ],
)
def test_a_program_that_sets_no_fewer_than_there_are_is_a_starter_whatever_it_may_do(command: str):
    discovery = found(command, rights=RIGHTS)
    assert not any("chat" in layer.covers for layer in discovery.kill_path.layers)
    assert any("it starts what others stop" in note for note in discovery.notes)


@pytest.mark.parametrize(
    "command", ["kubectl taint nodes -l gpu=true off=true:NoSchedule", "kubectl label nodepool gpu checked=yes"]
)
def test_a_program_that_takes_nothing_away_is_no_layer(command: str):
    discovery = found(command)
    assert not discovery.kill_path.layers
    assert any("touches no target" in note for note in discovery.notes)


#: Machines in namespace m whose nodes are of pool a, and of pool b.
POOLS = "".join(
    f"apiVersion: machine.openshift.io/v1beta1\nkind: MachineSet\nmetadata: {{name: gpu-{pool}, namespace: m}}\n"
    f"spec: {{replicas: 2, template: {{spec: {{metadata: {{labels: {{pool: {pool}}}}}}}}}}}\n---\n"
    for pool in "ab"
)
GROUPS = {"chat": "a", "rank": "b"}


@pytest.mark.parametrize(
    ("selected", "command", "covers"),
    [
        ("pool", "oc scale machineset gpu-a -n m --replicas=0", ("chat",)),
        ("pool", "oc scale machineset gpu-b -n m --replicas=0", ("rank",)),
        ("pool", "oc scale machineset gpu-c -n m --replicas=0", BOTH),
        ("other", "oc scale machineset gpu-a -n m --replicas=0", BOTH),
        (
            "eks.amazonaws.com/nodegroup",
            "aws eks update-nodegroup-config --cluster-name c --nodegroup-name b --scaling-config desiredSize=0",
            ("rank",),
        ),
        ("eks.amazonaws.com/nodegroup", "eksctl scale nodegroup --cluster c --name=a --nodes=0", ("chat",)),
        (
            "cloud.google.com/gke-nodepool",
            "gcloud container clusters resize c --node-pool a --num-nodes=0 -q",
            ("chat",),
        ),
        (
            "kubernetes.azure.com/agentpool",
            "az aks nodepool scale -g g --cluster-name c -n b --node-count 0",
            ("rank",),
        ),
        ("karpenter.sh/nodepool", "kubectl delete nodepool b", BOTH),
    ],
)
def test_machines_that_go_take_with_them_what_may_land_there(selected: str, command: str, covers: tuple[str, ...]):
    discovery = found(command, extra=POOLS, selects=selected)
    [layer] = discovery.kill_path.layers
    assert layer.covers == covers


def _tainted(key: str, effect: str = "NoSchedule") -> str:
    """Machines whose nodes have a taint, of MachineSet gpu-t, and a node of the group t."""
    taints = f"taints: [{{key: {key}, value: chat, effect: {effect}}}]"
    return (
        "apiVersion: machine.openshift.io/v1beta1\nkind: MachineSet\nmetadata: {name: gpu-t, namespace: m}\n"
        f"spec: {{replicas: 2, template: {{spec: {{{taints}}}}}}}\n---\n"
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {eks.amazonaws.com/nodegroup: t}}\n"
        f"spec: {{{taints}}}\n---\n"
    )


TAKES_MACHINES = [
    "oc scale machineset gpu-t -n m --replicas=0",
    "kubectl delete node n1",
    "aws eks update-nodegroup-config --cluster-name c --nodegroup-name t --scaling-config desiredSize=0",
]


@pytest.mark.parametrize("command", TAKES_MACHINES, ids=["machines", "node", "group"])
@pytest.mark.parametrize(
    ("taint", "effect", "covers"),
    [
        ("dedicated", "NoSchedule", ("chat",)),
        ("dedicated", "NoExecute", ("chat",)),
        ("dedicated", "PreferNoSchedule", BOTH),
        ("nvidia.com/gpu", "NoSchedule", BOTH),
        ("node.kubernetes.io/unschedulable", "NoSchedule", BOTH),
    ],
)
def test_machines_that_go_take_with_them_what_tolerates_their_taints(command: str, taint: str, effect: str, covers):
    text = _tainted(taint, effect) + JOB.format(command=json.dumps(command)) + RIGHTS
    objects = [dict(obj) for obj in manifests.loads(both() + text).objects]
    chat = next(obj for obj in objects if obj["metadata"]["name"] == "chat")
    chat["spec"]["template"]["spec"]["tolerations"] = [{"key": "dedicated", "value": "chat"}]
    [layer] = discover.from_objects(objects).kill_path.layers
    assert layer.covers == covers


def test_what_kueue_admits_gets_its_tolerations_from_the_flavor():
    text = _tainted("dedicated") + JOB.format(command=json.dumps(TAKES_MACHINES[0])) + RIGHTS
    objects = manifests.loads(both(labels=", kueue.x-k8s.io/queue-name: q") + text).objects
    [layer] = discover.from_objects(objects).kill_path.layers
    assert layer.covers == BOTH


MAKER = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ops}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: maker}
subjects: [{kind: ServiceAccount, name: ops, namespace: ops}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: maker}
rules:
  - {apiGroups: [apps], resources: [deployments], verbs: [VERBS]}
  - {apiGroups: [kubeflow.org], resources: [mpijobs], verbs: ["*"]}
---
"""


@pytest.mark.parametrize(
    ("verbs", "command", "covers"),
    [
        ("get, create, delete", "kubectl delete mpijob old; /opt/check.sh", None),
        ("get, create, delete", "/opt/check.sh", BOTH),
        ("get, delete", "kubectl delete mpijob old; /opt/check.sh", BOTH),
        ('"*"', "kubectl delete mpijob old; /opt/check.sh", BOTH),
        (
            "get, create, delete",
            "kubectl delete mpijob old; /opt/check.sh; kubectl delete deploy chat -n serving",
            ("chat",),
        ),
    ],
)
def test_who_looks_after_what_it_makes_is_no_switch_by_its_rights_alone(verbs: str, command: str, covers):
    discovery = found(command, rights=MAKER.replace("VERBS", verbs))
    assert [layer.covers for layer in discovery.kill_path.layers] == ([covers] if covers else [])
    if covers is None:
        assert any("may turn off chat, rank by its rights" in line for line in discovery.not_understood)


def test_a_command_that_asks_for_machines_is_no_switch():
    where = "--project some-company-inference-production --zone europe-west4-a --quiet"
    command = f"gcloud container clusters resize inference --node-pool a {where} --num-nodes 4"
    discovery = found(command, rights=RIGHTS)
    assert not discovery.kill_path.layers
    assert any("it asks for machines, and turns none off" in note for note in discovery.notes)


def test_a_restart_is_no_switch_and_is_told():
    discovery = found("kubectl rollout restart deployment/chat -n serving")
    assert not discovery.kill_path.layers
    assert any("restarts Deployment/serving/chat: as many pods are on" in note for note in discovery.notes)


def test_an_edit_of_a_scaler_is_about_what_it_scales():
    scaler = (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h, namespace: serving}\n"
        "spec: {minReplicas: 1, maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: rank}}\n"
    )
    [layer] = found("kubectl patch hpa h -n serving -p '{}'", extra=scaler).kill_path.layers
    assert layer.covers == ("rank",)


@pytest.mark.parametrize("kind", ["NodePool", "ResourceQuota"])
def test_gpus_that_are_named_for_workloads_elsewhere_are_told(kind: str):
    text = (
        f"apiVersion: x.io/v1\nkind: {kind}\nmetadata: {{name: gpu, namespace: a}}\n"
        "spec: {limits: {nvidia.com/gpu: 4}}\n"
    )
    with pytest.raises(DiscoveryError, match=f"(?s)elsewhere; add those with --manifests.*{kind}/.*gpu names GPUs"):
        discover.from_objects(manifests.loads(text))


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("scheduling.k8s.io/v1alpha1", "Workload"),
        ("grove.example.com/v1", "Gang"),
        ("gateway.networking.k8s.io/v1", "R"),
    ],
)
def test_what_schedules_a_target_or_leads_to_it_is_no_scaler(version: str, kind: str):
    field = "controllerRef" if kind != "R" else "backendRef"
    ref = "{apiGroup: apps, kind: Deployment, name: rank}"
    other = (
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: s, namespace: serving}}\nspec: {{{field}: {ref}}}\n"
    )
    assert found(extra=other).not_understood == ()


def test_a_sleep_info_says_what_it_leaves_alone():
    sleep = (
        "apiVersion: kube-green.com/v1alpha1\nkind: SleepInfo\nmetadata: {name: s, namespace: serving}\n"
        "spec: {excludeRef: [{apiVersion: apps/v1, kind: Deployment, name: chat}]}\n"
    )
    (layer,) = found(extra=sleep).kill_path.layers
    assert (layer.type, layer.covers, str(layer.workload)) == ("dead-man", ("rank",), "SleepInfo/serving/s")


def test_one_sentence_for_all_the_targets_of_a_namespace():
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: many, annotations: {downscaler/uptime: never}}\n---\n"
    text += "---\n".join(
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d{i}, namespace: many}}\nspec: {{template: {{spec: "
        "{containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}}\n"
        for i in range(9)
    )
    (said,) = discover.from_objects(manifests.loads(text), complete=False).not_understood
    assert said.endswith("scales Deployment/many/d0, Deployment/many/d1, Deployment/many/d2 and 6 more, not understood")


OFF = "kubectl scale deployment chat -n serving --replicas=0"
#: Programs that something else fires, as Argo Workflows and Tekton have them, and one whose code is in its image.
FIRED_ELSEWHERE = [
    (
        "apiVersion: argoproj.io/v1alpha1\nkind: CronWorkflow\nmetadata: {name: w, namespace: ops}\n"
        "spec: {workflowSpec: {templates: [{name: a, container: {image: k, command: [sh, -c, "
        f"'{OFF}']}}}}]}}}}\n",
        "CronWorkflow/ops/w turns off chat (patch deployments/scale.apps serving/chat): what fires it",
    ),
    (
        "apiVersion: argoproj.io/v1alpha1\nkind: WorkflowTemplate\nmetadata: {name: w, namespace: ops}\n"
        f"spec: {{templates: [{{name: a, script: {{image: k, command: [bash], source: '{OFF}'}}}}]}}\n",
        "WorkflowTemplate/ops/w turns off chat",
    ),
    (
        "apiVersion: argoproj.io/v1alpha1\nkind: CronWorkflow\nmetadata: {name: w, namespace: serving}\n"
        "spec:\n  workflowSpec:\n    templates:\n      - name: a\n        resource:\n          action: patch\n"
        "          manifest: |\n            {apiVersion: apps/v1, kind: Deployment, metadata: {name: rank}, "
        "spec: {replicas: 0}}\n",
        "CronWorkflow/serving/w turns off rank (patch deployments.apps serving/rank)",
    ),
    (
        "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: t, namespace: ops}\n"
        f"spec: {{steps: [{{name: a, image: k, script: '{OFF}'}}]}}\n",
        "Task/ops/t turns off chat",
    ),
    (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: ops}\n"
        "spec: {template: {spec: {containers: [{name: a, image: k, command: [sh, -c, "
        f"'{OFF}']}}]}}}}}}\n",
        "Job/ops/j turns off chat",
    ),
    (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: downscaler, namespace: ops}\n"
        "spec: {template: {spec: {serviceAccountName: ops, containers: [{name: a, image: acme/downscaler}]}}}\n"
        "---\n" + RIGHTS,
        "their rights allow them to turn targets off: Deployment/ops/downscaler",
    ),
    (
        "apiVersion: cronschedules.elbazi.co/v1\nkind: CronJobScaleDown\nmetadata: {name: s, namespace: ops}\n"
        "spec: {targetRef: {name: chat, namespace: serving, kind: Deployment, apiVersion: apps/v1}}\n",
        "CronJobScaleDown/ops/s scales Deployment/serving/chat",
    ),
]


@pytest.mark.parametrize(("extra", "said"), FIRED_ELSEWHERE, ids=[row[1].split()[0] for row in FIRED_ELSEWHERE])
def test_a_program_that_something_else_fires_is_named(extra: str, said: str):
    discovery = found(extra=extra)
    assert any(said in line for line in discovery.not_understood), discovery.not_understood
    assert not any("nothing here turns off" in note for note in discovery.notes)


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        (
            "batch/v1:Job",
            "template: {spec: {activeDeadlineSeconds: 60, %s}}",
            "spec.template.spec.activeDeadlineSeconds",
        ),
        (
            "jobset.x-k8s.io/v1alpha2:JobSet",
            "replicatedJobs: [{name: w, template: {spec: {activeDeadlineSeconds: 60, template: {spec: {%s}}}}}]",
            "spec.replicatedJobs[0].template.spec.activeDeadlineSeconds",
        ),
        ("a.b/v1:Anything", "group: {minReplicas: 0, template: {spec: {%s}}}", "spec.group.minReplicas (0)"),
    ],
)
def test_a_field_by_which_a_target_ends_is_named_wherever_it_is(kind: str, spec: str, said: str):
    version, _, name = kind.partition(":")
    containers = "containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]"
    text = f"apiVersion: {version}\nkind: {name}\nmetadata: {{name: t}}\nspec: {{{spec % containers}}}\n"
    discovery = discover.from_objects(manifests.loads(text), complete=False)
    assert any(said in line for line in discovery.not_understood), discovery.not_understood


MACHINES = """\
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: p4, namespace: m}
spec: {replicas: 1, template: {spec: {providerSpec: {value: {instanceType: p4d.24xlarge}}}}}
"""
MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
OTHERS = [
    ("", ", annotations: {downscaler/uptime: Mon-Fri 08:00-20:00}", "downscaler/uptime"),
    ("", ", annotations: {acme.dev/sleep-after: 2h}", "acme.dev/sleep-after"),
    (
        "apiVersion: autoscaling.alibabacloud.com/v1beta1\nkind: CronHorizontalPodAutoscaler\n"
        "metadata: {name: s, namespace: serving}\nspec: {scaleTargetRef: {kind: Deployment, name: chat}}\n",
        "",
        "CronHorizontalPodAutoscaler/serving/s scales Deployment/serving/chat, not understood",
    ),
    (
        "apiVersion: never.heard.of/v1\nkind: Curfew\nmetadata: {name: s, namespace: serving}\n"
        "spec: {targetRef: {kind: Deployment, name: rank}}\n",
        "",
        "Curfew/serving/s scales Deployment/serving/rank",
    ),
    (
        MACHINES + "---\napiVersion: autoscaling.openshift.io/v1beta1\nkind: MachineAutoscaler\n"
        "metadata: {name: a, namespace: m}\n"
        "spec: {minReplicas: 0, maxReplicas: 2, scaleTargetRef: {kind: MachineSet, name: p4}}\n",
        "",
        "MachineAutoscaler/m/a lets MachineSet/p4 go to 0 machines once no pod needs them: it turns no pod off",
    ),
    (
        "apiVersion: autoscaling.openshift.io/v1beta1\nkind: MachineAutoscaler\n"
        "metadata: {name: a, namespace: m}\n"
        "spec: {minReplicas: 2, scaleTargetRef: {kind: MachineSet, name: elsewhere}}\n",
        "",
        "MachineAutoscaler/m/a keeps 2 or more of MachineSet/elsewhere: these bill with no pod on them",
    ),
    (
        MACHINES.replace("name: p4,", f"name: p4, annotations: {{{MIN_SIZE}: '0'}},"),
        "",
        "lets MachineSet/m/p4 go to 0 machines",
    ),
    (
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: serving, annotations: {downscaler/downtime: always}}\n",
        "",
        "Namespace/serving: its annotation downscaler/downtime",
    ),
]


@pytest.mark.parametrize(("extra", "more", "said"), OTHERS, ids=[row[2][:24] for row in OTHERS])
def test_what_scales_a_target_and_is_not_drilled_is_named(extra: str, more: str, said: str):
    discovery = found(extra=extra, more=more)
    assert any(said in line for line in discovery.not_understood), discovery.not_understood
    loaded = manifests.loads("".join(TARGET.format(name=name, more=more, selector="{}") for name in BOTH) + extra)
    with pytest.raises(DiscoveryError, match="no layer found") as caught:
        discover.from_objects(loaded)
    assert said in str(caught.value)


@pytest.mark.parametrize(("extra", "more", "said"), [row for row in OTHERS if "Machine" not in str(row)])
def test_nobody_says_that_nothing_turns_off_what_something_unknown_may(extra: str, more: str, said: str):
    text = TARGET.format(name="chat", more=more, selector="{}") + extra.replace("name: rank", "name: chat")
    world, _ = asking.world_of([one.obj for one in manifests.loads(text).manifests], NOW)
    [gap] = [finding for finding in asking.lint(world).findings if finding.probe == "coverage-gap"]
    assert gap.unproven
    assert said.split(" scales")[0] in gap.message


@pytest.mark.parametrize("field", ["ttlSecondsAfterFinished: 60", "shutdownAfterJobFinishes: true"])
def test_what_only_clears_away_turns_nothing_off(field: str):
    containers = "containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]"
    text = (
        f"apiVersion: a.b/v1\nkind: T\nmetadata: {{name: t}}\nspec: {{{field}, template: {{spec: {{{containers}}}}}}}\n"
    )
    world, _ = asking.world_of([one.obj for one in manifests.loads(text).manifests], NOW)
    [gap] = [finding for finding in asking.lint(world).findings if finding.probe == "coverage-gap"]
    assert (gap.severity, gap.unproven) == ("error", False)


def test_consent_names_every_namespace_that_a_drill_writes_to():
    assert found("kubectl delete deployment chat -n serving").kill_path.consent.namespaces == ("serving", "ops")


def test_a_kill_path_without_layers_says_what_was_looked_at_and_what_to_do():
    spec = found("echo hello").spec
    assert "layers: []" in spec
    assert "CronJob/ops/evening touches no target" in spec
    assert "then run killcheck lint" in spec


def ray(**spec: object) -> Obj:
    group = {
        "replicas": 2,
        "template": {"spec": {"containers": [{"name": "w", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}},
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "r", "namespace": "ml"},
        "spec": {"workerGroupSpecs": [group], **spec},
    }


def test_ends_that_a_workload_sets_itself_are_named():
    discovery = discover.from_objects([ray(enableInTreeAutoscaling=True)], complete=False)
    assert any("Ray's own autoscaler" in line for line in discovery.not_understood)
    assert not discover.from_objects([ray()], complete=False).not_understood


def test_machines_that_are_not_modelled_are_named_where_nodes_are_not_judged():
    said = "nodes are not judged, only pods: what makes these nodes is not modelled (MachineSet/m/p4)"
    assert any(note.startswith(said) for note in found(extra=MACHINES).notes)
    assert any("no node pool is in the manifests" in note for note in found().notes)


@pytest.mark.parametrize(
    ("on_template", "idles"),
    [
        ({}, True),
        ({"autoscaling.knative.dev/min-scale": "0"}, True),
        ({"autoscaling.knative.dev/min-scale": "2"}, False),
        ({"autoscaling.knative.dev/minScale": "1"}, False),
        ({"autoscaling.knative.dev/class": "hpa.autoscaling.knative.dev"}, False),
    ],
)
def test_knative_takes_to_zero_what_does_not_say_otherwise(on_template: dict[str, str], idles: bool):
    server = {"image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    service: Obj = {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {"name": "llm", "namespace": "serving"},
        "spec": {"template": {"metadata": {"annotations": on_template}, "spec": {"containers": [server]}}},
    }
    target = Target("llm", "serving.knative.dev/v1", "Service", "serving", "llm")
    said = who_may_turn_off([service], target, service)
    told = "Knative scales it to zero when idle (no min-scale), not drilled"
    assert said == (told if idles else None)
