"""More parts of whole folders (:mod:`parts`): what serves models, what queues work, claims, windows, and strangers' objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beside import HARMLESS, UNKNOWN, Aim
from composed import Obj, account
from parts import BESIDE, NS, OFF, ON, SOUND, STARTS, SWITCHES, TARGETS, Scene, cron, deployment, made, pod
from parts import UNKNOWN as NOBODY_KNOWS

SERVING = "serving.kserve.io"


def inference_service(scene: Scene) -> None:
    """KServe's Standard mode: the annotation ``stop`` deletes what it made; zero by hand an HPA leaves alone."""
    predictor = {"minReplicas": 1, "containers": pod()["containers"]}
    notes = {f"{SERVING}/deploymentMode": "RawDeployment"}
    scene.objects.append(
        made(f"{SERVING}/v1beta1", "InferenceService", scene.name, {"predictor": predictor}, annotations=notes)
    )
    scene.ways = {
        "delete": (OFF, f"kubectl -n {NS} delete inferenceservice {scene.name} --wait=false"),
        "stop": (OFF, f"kubectl -n {NS} annotate isvc {scene.name} {SERVING}/stop=true --overwrite"),
        "its Deployment": (OFF, f"kubectl -n {NS} scale deploy/{scene.name}-predictor --replicas=0"),
        "no Deployment": (ON, f"kubectl -n {NS} delete deploy/{scene.name}-predictor --wait=false"),
        "minimum": (
            ON,
            f'kubectl -n {NS} patch isvc {scene.name} --type merge -p \'{{"spec":{{"predictor":{{"minReplicas":0}}}}}}\'',
        ),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l {SERVING}/inferenceservice={scene.name} --wait=false"),
    }


def knative_service(scene: Scene) -> None:
    """kpa/scaler.go: never below min-scale, whoever scales the revision's Deployment; that one is made again."""
    notes = {"autoscaling.knative.dev/min-scale": "1"}
    template = {"metadata": {"annotations": notes}, "spec": {"containers": pod()["containers"]}}
    scene.objects.append(made("serving.knative.dev/v1", "Service", scene.name, {"template": template}))
    label = f"serving.knative.dev/service={scene.name}"
    scene.ways = {
        "delete": (OFF, f"kubectl -n {NS} delete services.serving.knative.dev {scene.name} --wait=false"),
        "its Deployment": (ON, f"kubectl -n {NS} scale deploy -l {label} --replicas=0"),
        "no Deployment": (ON, f"kubectl -n {NS} delete deploy -l {label} --wait=false"),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l {label} --wait=false"),
    }


def queued_job(scene: Scene) -> None:
    """Kueue's reconciler starts an admitted Job again whoever suspends it; HoldAndDrain evicts, Hold does not."""
    spec = {"backoffLimit": 4, "suspend": True, "template": {"spec": pod(restartPolicy="OnFailure")}}
    for one in (spec["template"]["spec"]["containers"][0],):  # type: ignore[index]
        one["resources"]["requests"] = {"nvidia.com/gpu": 1}
    labels = {"kueue.x-k8s.io/queue-name": "gpus"}
    api = "kueue.x-k8s.io/v1beta1"
    flavor = {"name": "any", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 4}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}]
    scene.objects += [
        made("batch/v1", "Job", scene.name, spec, labels=labels),
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}},
        {
            "apiVersion": api,
            "kind": "ClusterQueue",
            "metadata": {"name": "gpus"},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups},
        },
        made(api, "LocalQueue", "gpus", {"clusterQueue": "gpus"}),
    ]
    hold = f"kubectl -n {NS} patch localqueue gpus --type merge -p"
    drain = '{"spec":{"stopPolicy":"HoldAndDrain"}}'
    scene.ways = {
        "delete": (OFF, f"kubectl -n {NS} delete job {scene.name} --wait=false"),
        "drain": (OFF, f"{hold} '{drain}'"),
        "drain, without the right": (ON, f"kubectl patch clusterqueue gpus --type merge -p '{drain}'"),
        "hold": (ON, f'{hold} \'{{"spec":{{"stopPolicy":"Hold"}}}}\''),
        "suspend": (ON, f'kubectl -n {NS} patch job {scene.name} -p \'{{"spec":{{"suspend":true}}}}\''),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l job-name={scene.name} --wait=false"),
        # reconciler.go: a workload that is not active is evicted, and its Job suspended; Kueue gives it its name
        "its Workload": (OFF, f"{_EACH_WORKLOAD}{_INACTIVE}; done"),
        "its Workload, by a name that it has not": (ON, f"w=job-{scene.name}; {_INACTIVE} || true"),
    }


_EACH_WORKLOAD = (
    f"for w in $(kubectl -n {NS} get workloads.kueue.x-k8s.io -o jsonpath='{{.items[*].metadata.name}}'); do "
)
_INACTIVE = f'kubectl -n {NS} patch workloads.kueue.x-k8s.io $w --type merge -p \'{{"spec":{{"active":false}}}}\''


def claimed(scene: Scene) -> None:
    """By a ResourceClaimTemplate of a class that is here: off as any other is."""
    deployment(scene)
    spec = scene.objects[-1]["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "card", "resourceClaimTemplateName": "card"}]
    spec["containers"][0]["resources"] = {"claims": [{"name": "card"}]}
    asked = {"name": "card", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    api = "resource.k8s.io/v1"
    selector = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
    scene.objects += [
        made(api, "ResourceClaimTemplate", "card", {"spec": {"devices": {"requests": [asked]}}}),
        {
            "apiVersion": api,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.nvidia.com"},
            "spec": {"selectors": [selector]},
        },
    ]


def cloneset(scene: Scene) -> None:
    """OpenKruise's sync/cloneset_scale.go: as many active pods as it says, whoever deletes some."""
    labels = {"app": scene.name}
    template = {"metadata": {"labels": labels}, "spec": pod()}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    scene.objects.append(made("apps.kruise.io/v1alpha1", "CloneSet", scene.name, spec))
    scene.ways = {
        "delete": (OFF, f"kubectl -n {NS} delete cloneset {scene.name} --wait=false"),
        "scale": (OFF, f"kubectl -n {NS} scale cloneset/{scene.name} --replicas=0"),
        "scale to one": (ON, f"kubectl -n {NS} scale cloneset/{scene.name} --replicas=1"),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l app={scene.name} --wait=false"),
    }


def nim_service(scene: Scene) -> None:
    """NVIDIA's operator puts its Deployment's replicas back (nimservice.go, deploymentSpecReplicasOutOfSync)."""
    image = {"repository": "nvcr.io/nim/meta/llama-3.1-8b-instruct", "tag": "1.8.4"}
    spec = {"image": image, "replicas": 1, "resources": pod()["containers"][0]["resources"]}
    scene.objects.append(made("apps.nvidia.com/v1alpha1", "NIMService", scene.name, spec))
    patch = f"kubectl -n {NS} patch nimservice {scene.name} --type merge -p"
    scene.ways = {
        "delete": (OFF, f"kubectl -n {NS} delete nimservice {scene.name} --wait=false"),
        "replicas": (OFF, f'{patch} \'{{"spec":{{"replicas":0}}}}\''),
        "its Deployment": (ON, f"kubectl -n {NS} scale deploy/{scene.name} --replicas=0"),
        "no Deployment": (ON, f"kubectl -n {NS} delete deploy/{scene.name} --wait=false"),
        "pods alone": (ON, f"kubectl -n {NS} delete pods -l app={scene.name} --wait=false"),
    }


def nim_service_that_is_scaled(scene: Scene) -> None:
    """With ``scale`` an autoscaler has the replicas, which leaves zero alone; ``replicas`` beside it is refused."""
    nim_service(scene)
    spec = scene.objects[-1]["spec"]
    del spec["replicas"]
    use = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    spec["scale"] = {"enabled": True, "hpa": {"minReplicas": 1, "maxReplicas": 2, "metrics": [use]}}
    scene.ways["replicas"] = (ON, scene.ways["replicas"][1])
    scene.ways["its Deployment"] = (OFF, scene.ways["its Deployment"][1])


TARGETS |= {
    "a CloneSet": cloneset,
    "a NIMService": nim_service,
    "a NIMService that is scaled": nim_service_that_is_scaled,
    "an InferenceService": inference_service,
    "a Knative Service": knative_service,
    "a Job in a queue": queued_job,
    "a claim with its class": claimed,
}
SOUND += [
    "a CloneSet",
    "a NIMService",
    "an InferenceService",
    "a Knative Service",
    "a Job in a queue",
    "a claim with its class",
]


# -- what turns them off ------------------------------------------------------------------------------------------
def monitor(truth: str, path: str = ".data.result[0].value[1]") -> Callable[[Scene, str], None]:
    """Each hour it asks Prometheus how much there was to do, and acts on nothing: what the answer is nobody here knows."""

    def part(scene: Scene, line: str) -> None:
        ask = "curl -fsS -m 5 -G http://prometheus.monitoring:9090/api/v1/query --data-urlencode"
        cron(
            scene,
            f"v=$({ask} 'query=sum(rate(requests[30m]))' | jq -r '{path}')\n"
            f'[ -n "$v" ]\nif [ "$v" = 0 ]; then\n{line}\nfi',
        )
        scene.objects[-1]["spec"]["schedule"] = "15 * * * *"
        scene.truths["switch"] = truth

    return part


SWITCHES |= {
    "a monitor that asks Prometheus": monitor(NOBODY_KNOWS),
    "a monitor that reads the wrong field": monitor(ON, path=".data.results[0].value[1]?"),
}


# -- beside them --------------------------------------------------------------------------------------------------
def _scheduled(name: str, when: str, line: str) -> Obj:
    container = {"name": "main", "image": "alpine/k8s:1.32.0", "command": ["/bin/sh", "-ec", line]}
    template = {"spec": {"serviceAccountName": name, "restartPolicy": "Never", "containers": [container]}}
    return made("batch/v1", "CronJob", name, {"schedule": when, "jobTemplate": {"spec": {"template": template}}})


_ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "patch", "update"]}]


def _starts(when: str, truth: str, line: str = "", before: str = "") -> Callable[[Scene, str], None]:
    """A CronJob that puts what can be scaled to one."""

    def part(scene: Scene, style: str) -> None:
        kind = scene.objects[0]["kind"].lower()
        run = line or f"{before}kubectl -n {NS} scale {kind}/{scene.name} --replicas=1"
        scene.objects += [*account("warm", NS, _ALL), _scheduled("warm", when, run)]
        if style != "delete":
            scene.truths["start"] = truth

    return part


def window(start: str, end: str, truth: str) -> Callable[[Scene, str], None]:
    """KEDA's cron trigger, open on some nights alone."""

    def part(scene: Scene, style: str) -> None:
        kind = scene.objects[0]["kind"]
        ref = {"apiVersion": scene.objects[0]["apiVersion"], "kind": kind, "name": scene.name}
        said = {"timezone": "Etc/UTC", "start": start, "end": end, "desiredReplicas": "1"}
        spec = {"scaleTargetRef": ref, "minReplicaCount": 0, "triggers": [{"type": "cron", "metadata": said}]}
        scene.objects.append(made("keda.sh/v1alpha1", "ScaledObject", "llm", spec))
        if style != "delete":
            scene.truths["window"] = truth

    return part


def argo_that_ignores(respected: bool = False, **rule: Any) -> Callable[[Scene, str], None]:
    """``ignoreDifferences`` of one object alone, or by jq, or of who wrote it (util/argo/diff, normalizers)."""

    def part(scene: Scene, style: str) -> None:
        obj = scene.objects[0]
        group = obj["apiVersion"].rpartition("/")[0]
        said = {"group": group, "kind": obj["kind"], "jsonPointers": ["/spec/replicas"]} | rule
        sync: Obj = {"automated": {"selfHeal": True, "prune": True}}
        if respected:
            sync["syncOptions"] = ["RespectIgnoreDifferences=true"]
        spec = {
            "project": "default",
            "source": {"repoURL": "https://git.example.net/gpu.git", "path": "apps", "targetRevision": "HEAD"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": NS},
            "syncPolicy": sync,
            "ignoreDifferences": [said],
        }
        meta = {"name": "gpu", "namespace": "argocd"}
        scene.objects.append(
            {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": meta, "spec": spec}
        )
        left = said.get("name") in (None, scene.name) and said.get("kind") == obj["kind"]
        field = style in ("scale", "patch") and "replicas" in obj["spec"]
        healed = style in ("delete", "its StatefulSet") or (field and not left) or style == "workers to zero"
        scene.truths["argo"] = ON if healed else OFF

    return part


def spot_handler(scene: Scene, style: str) -> None:
    """It cordons and drains what is announced, and lights nothing."""
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch", "update"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"apiGroups": ["", "apps"], "resources": ["pods", "daemonsets"], "verbs": ["get", "list"]},
    ]
    labels = {"app": "nth"}
    container = {"name": "nth", "image": "public.ecr.aws/aws-ec2/aws-node-termination-handler:v1.25.0"}
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "nth", "containers": [container]}}
    scene.objects += [
        *account("nth", NS, rules, cluster=True),
        made("apps/v1", "DaemonSet", "nth", {"selector": {"matchLabels": labels}, "template": template}),
    ]


def _of_a_stranger(objects: Callable[[Aim], list[Obj]], truth: str) -> Callable[[Scene, str], None]:
    def part(scene: Scene, style: str) -> None:
        obj = scene.objects[0]
        labels = dict(obj["metadata"].get("labels") or {})
        aim = Aim(obj["apiVersion"], obj["kind"], NS, scene.name, labels)
        scene.objects += [one for one in objects(aim) if one not in scene.objects]
        if truth != OFF:
            scene.truths["stranger"] = truth

    return part


_ASKS = "n=$(curl -fsS 'http://prometheus.monitoring:9090/api/v1/query?query=load'); test -n \"$n\"; "
#: These need a target that has a scale.
OF_WHAT_SCALES: dict[str, Callable[[Scene, str], None]] = {
    "a start at one": _starts("0 1 * * *", ON),
    "a start in the morning": _starts("0 7 * * *", OFF),
    "a start on Sundays' nights": _starts("0 23 * * 0", ON),
    "a start by a live Prometheus": _starts("15 * * * *", NOBODY_KNOWS, before=_ASKS),
    "a start by the day of the month": _starts("0 23 * * *", ON, before='[ "$(date +%d)" = 28 ] || exit 0; '),
    "a window at two": window("0 2 * * *", "0 4 * * *", ON),
    "a window on Sundays": window("0 22 * * 0", "0 23 * * 0", ON),
}
FURTHER: dict[str, Callable[[Scene, str], None]] = {
    "Argo CD that ignores its replicas": argo_that_ignores(),
    "Argo CD that ignores another's": argo_that_ignores(name="another"),
    "Argo CD that ignores them by jq": argo_that_ignores(jsonPointers=[], jqPathExpressions=[".spec.replicas"]),
    "Argo CD that respects that": argo_that_ignores(respected=True),
    "a spot handler": spot_handler,
    **{f"of a stranger: {name}": _of_a_stranger(UNKNOWN[name], NOBODY_KNOWS) for name in UNKNOWN},
    **{f"furniture: {name}": _of_a_stranger(HARMLESS[name], OFF) for name in HARMLESS},
}
BESIDE |= OF_WHAT_SCALES | FURTHER
STARTS += list(OF_WHAT_SCALES)
MORE = [*OF_WHAT_SCALES, *FURTHER]
