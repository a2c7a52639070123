"""What faults read off an executor, and how they change the drill's own copy of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from killcheck.executor.refusals import matching
from killcheck.faults.base import COPY, Fault
from killcheck.kube import resources as r
from killcheck.kube.errors import Forbidden
from killcheck.kube.objects import Obj, copy, dig, name_of, ref_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.changes import LABEL
from killcheck.safety.undo import retry
from killcheck.spec.killpath import Layer
from killcheck.text import lazy_re

__all__ = [
    "ACCOUNT_PATH",
    "COPY",
    "ExecutorFault",
    "SilencingFault",
    "admitted",
    "asks_for_no_name",
    "containers",
    "identity",
    "label_pods",
    "log_line",
    "path_of",
    "pod_spec",
    "refused",
    "replace_token",
    "spared",
    "statuses",
    "without_token",
]

#: Clients that find the API server by the address that the kubelet gives every pod, and what asks for a name.
_BY_ADDRESS = lazy_re.compile(r"\bkubectl\b|load_incluster_config|load_config\(|InClusterConfig")
_NAMES = lazy_re.compile(
    r"https?://|\.svc\b|kubernetes\.default|\b(curl|wget|aws|gcloud|az|nslookup|dig|ping|getent)\b|"
    r"\b(requests|urllib|http\.client|socket|aiohttp|httpx|boto3)\b|--server|--kubeconfig|KUBECONFIG"
)
#: Where a pod finds its ServiceAccount's token, CA and namespace.
ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


class ExecutorFault(Fault):
    """A fault of something that a Job's pod depends on."""

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where an executor's pod is made from a CronJob's template."""
        return None if layer.cron_job else "the layer runs no Job of its own"


class SilencingFault(ExecutorFault):
    """A fault under which an executor may wait for an answer that never comes, and say nothing."""

    _hung = False

    def waits(self, stage: Stage) -> str | None:
        """An executor that does so, as far as can be seen: whoever works in silence looks the same."""
        found = _hung(stage)
        self._hung = found is not None
        return found

    def belied(self, layer: LayerRun) -> str | None:
        """It was silent, and did its work."""
        return "its executor said nothing, and turned the GPUs off all the same" if self._hung else None


def cron_job_of(layer: LayerRun) -> Obj:
    """The layer's CronJob as read before the drill; empty where it has none."""
    return layer.cron_job


def admitted(cron_job: Obj, account: Obj) -> Obj:
    """A CronJob whose template has what the ServiceAccount brings to its pods; without one it brings nothing.

    Source: plugin/pkg/admission/serviceaccount (imagePullSecrets where the pod names none; the pod's own
    automountServiceAccountToken goes before the account's).
    """
    found: Obj = copy(cron_job)
    spec = dig(found, "spec", "jobTemplate", "spec", "template", "spec", default=None)
    if spec is None:
        return found
    if not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = list(account.get("imagePullSecrets") or [])
    if "automountServiceAccountToken" not in spec and "automountServiceAccountToken" in account:
        spec["automountServiceAccountToken"] = account["automountServiceAccountToken"]
    return found


def path_of(obj: Obj, field: str) -> str:
    """A field of an object, as the path of an edit."""
    return f"{ref_of(obj)}.{field}"


def pod_spec(layer: LayerRun) -> Obj:
    """The pod spec of the executor's template."""
    return dig(cron_job_of(layer), "spec", "jobTemplate", "spec", "template", "spec", default={})  # type: ignore[no-any-return]


def said_by(template: Obj) -> str:
    """All that a template says as one text; a line's first word begins there, too."""
    return str(template).replace("\\n", " ")


def containers(template: Obj) -> Iterator[Obj]:
    """Every container of a pod template."""
    for group in ("initContainers", "containers"):
        yield from dig(template, "spec", group, default=[])


def images(layer: LayerRun) -> list[str]:
    """The images of the executor, each once."""
    found = (c["image"] for c in containers({"spec": pod_spec(layer)}) if c.get("image"))
    return list(dict.fromkeys(found))


def spared(stage: Stage, layer: LayerRun, fault: str) -> list[str]:
    """Of a fault of the image on the drill's own copy: other layers that run it, and keep it, a sentence each."""
    return [
        f"{fault}: {other} runs the same image, and keeps it here; what becomes of an image becomes of it for both "
        f"(--under {fault}+{fault}@{other} takes it from both)"
        for other in _same_image(stage, layer)
    ]


def _same_image(stage: Stage, layer: LayerRun) -> list[str]:
    """Other layers whose executors have an image of this one's."""
    own, found = set(images(layer)), []
    for other in stage.kill_path.layers:
        if other.cron_job is None or other.name == layer.layer.name:
            continue
        read = partial(stage.cluster.kube.find, r.CRONJOBS, other.cron_job.name, other.cron_job.namespace)
        cron_job = retry(stage.cluster.loop, read) or {}
        spec = dig(cron_job, "spec", "jobTemplate", "spec", "template", "spec", default={})
        if own & {container.get("image") for container in containers({"spec": spec})}:
            found.append(other.name)
    return found


def identity(layer: LayerRun) -> tuple[str, str]:
    """(namespace, ServiceAccount) of the executor."""
    namespace = dig(cron_job_of(layer), "metadata", "namespace", default="")
    return namespace, pod_spec(layer).get("serviceAccountName") or "default"


def account_of(stage: Stage, layer: LayerRun) -> Obj | None:
    """The executor's ServiceAccount (empty: there is none); None where it may not be read. Raises KubeError.

    A plan that depends on it asks for :func:`reads_account`, so that who may not is told before anything is changed.
    """
    namespace, account = identity(layer)
    kube = stage.cluster.kube
    try:
        return retry(stage.cluster.loop, lambda: kube.find(r.SERVICEACCOUNTS, account, namespace)) or {}
    except Forbidden:
        return None


def reads_account(layer: LayerRun) -> Permission:
    """The right that :func:`account_of` takes."""
    namespace, account = identity(layer)
    return Permission("get", "", "serviceaccounts", "", namespace, account)


def label_pods(stage: Stage) -> dict[str, str]:
    """Make the pods of the drill's Job carry the run's label; returns it as a selector."""

    def rewrite(template: Obj) -> None:
        """Put the label on a pod template."""
        template.setdefault("metadata", {}).setdefault("labels", {})[LABEL] = stage.run

    stage.rewrites.append(rewrite)
    return {LABEL: stage.run}


def replace_token(stage: Stage, source: Obj) -> None:
    """Let the drill's Job find another token where its ServiceAccount's would be; ``source``: of a projected volume."""

    def rewrite(template: Obj) -> None:
        """Mount the source where each container looks, in place of the account's own token."""
        spec = template["spec"]
        spec["automountServiceAccountToken"] = False
        name = "killcheck-token"
        sources = [
            source,
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]
        spec["volumes"] = [*spec.get("volumes", []), {"name": name, "projected": {"sources": sources}}]
        for container in containers(template):
            mounts = [m for m in container.get("volumeMounts", []) if m.get("mountPath") != ACCOUNT_PATH]
            container["volumeMounts"] = [*mounts, {"name": name, "mountPath": ACCOUNT_PATH, "readOnly": True}]

    stage.rewrites.append(rewrite)


def without_token(layer_name: str, cron_job: Obj) -> str | None:
    """Why no token of an executor's can be no good: its pod gets none; None where it has one, or may have."""
    spec = dig(cron_job, "spec", "jobTemplate", "spec", "template", "spec", default={})
    if spec.get("automountServiceAccountToken") is not False or _PROJECTED in str(spec.get("volumes")):
        return None
    return f"the pod of {layer_name}'s executor gets no ServiceAccount token (automountServiceAccountToken: false)"


#: A volume's source that brings a token of one's own choice.
_PROJECTED = "serviceAccountToken"


def asks_for_no_name(layer_name: str, cron_job: Obj) -> str | None:
    """Why names do not matter to an executor; None: they do, or nobody can tell.

    kubectl and clients with the in-cluster configuration go to KUBERNETES_SERVICE_HOST, which is an address.
    """
    spec = dig(cron_job, "spec", "jobTemplate", "spec", "template", "spec", default={})
    mounted = any("configMap" in volume or "secret" in volume for volume in spec.get("volumes") or ())
    told = [str((c.get("command"), c.get("args"), c.get("env"))) for c in containers({"spec": spec})]
    if mounted or not told or any(_NAMES.search(text) or not _BY_ADDRESS.search(text) for text in told):
        return None
    return (
        f"the executor of {layer_name} reaches the API server by its address (KUBERNETES_SERVICE_HOST), and "
        "asks DNS for nothing"
    )


# -- evidence ----------------------------------------------------------------------------------------------
def statuses(stage: Stage) -> Iterator[tuple[Obj, Obj]]:
    """(pod, container status) of the drill's executor."""
    for pod in stage.observations.pods.values():
        for group in ("initContainerStatuses", "containerStatuses"):
            for status in dig(pod, "status", group, default=[]):
                yield pod, status


def log_line(stage: Stage, pattern: str, unless: Callable[[str], bool] = lambda line: False) -> str | None:
    """The first line of the executor's logs that matches a regular expression (case ignored), with its pod."""
    for (pod, _), text in stage.observations.logs.items():
        for line in matching(text, pattern):
            if not unless(line):
                return f"{pod}: {line[:300]}"
    return None


def _hung(stage: Stage) -> str | None:
    """An executor that still runs when it should have ended, and has not said a word: it waits for an answer."""
    seen, timeline = stage.observations, stage.timeline
    due_s = timeline.deadline_s("executor_finished") if timeline is not None else None
    if timeline is None or due_s is None or seen.unread or any(seen.logs.values()):
        return None
    if (stage.cluster.loop.now() - timeline.start).total_seconds() < due_s:
        return None
    for pod, status in statuses(stage):
        since = dig(status, "state", "running", "startedAt")
        if since and "deletionTimestamp" not in pod["metadata"]:
            return f"{name_of(pod)} runs since {since}, should have ended by now, and has not said a word"
    return None


def refused(stage: Stage, *marks: str) -> str | None:
    """What the Job controller was told when it could not create the executor's pod, if it names all ``marks``."""
    for event in stage.observations.events.values():
        message = str(event.get("message", ""))
        if event.get("reason") == "FailedCreate" and all(mark in message for mark in marks):
            return f"FailedCreate: {message[:400]}"
    return None
