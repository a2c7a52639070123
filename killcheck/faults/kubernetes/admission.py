"""The executor's pod is not admitted: no quota left, a webhook that does not answer, a stricter profile, no room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from killcheck.faults.base import Evidence, Plan
from killcheck.faults.kubernetes.executor import COPY, ExecutorFault, containers, identity, label_pods, refused
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Forbidden
from killcheck.kube.objects import Obj, condition, dig, name_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry

__all__ = ["NoRoom", "PodSecurity", "QuotaExhausted", "WebhookDown"]


class QuotaExhausted(ExecutorFault):
    """Reproduces row 11: as many pods as there are, and not one more."""

    name = "quota-exhausted"
    costs = "nothing else can start in the namespace meanwhile"
    simulates = "the executor's namespace has used up its quota of pods"
    family = "admission"
    failures = (11,)
    shows = Evidence.OTHERS

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A ResourceQuota of our own: while it is there nothing else can start in the namespace either."""
        namespace, _ = identity(layer)
        verbs = [Permission(v, "", "resourcequotas", namespace=namespace) for v in ("get", "create", "delete")]
        return Plan(
            (f"a ResourceQuota in {namespace} that allows no further pod - of anybody - for the length of the drill",),
            namespaces=(namespace,),
            permissions=(*verbs, Permission("list", "", "pods", namespace=namespace)),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Allow as many pods as there are."""
        namespace, _ = identity(layer)
        pods = retry(stage.cluster.loop, lambda: stage.cluster.kube.list(r.PODS, namespace)).items
        used = sum(dig(pod, "status", "phase") not in ("Succeeded", "Failed") for pod in pods)
        stage.journal.create(
            r.RESOURCEQUOTAS,
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": self._name(stage), "namespace": namespace},
                "spec": {"hard": {"pods": str(used)}},
            },
        )
        return [f"created ResourceQuota {namespace}/{self._name(stage)}: pods {used}"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The Job controller was refused in our quota's name."""
        return refused(stage, "exceeded quota", self._name(stage))

    def _name(self, stage: Stage) -> str:
        return f"killcheck-quota-{stage.run[-6:]}"


class WebhookDown(ExecutorFault):
    """Reproduces rows 11 and 26: a policy server with failurePolicy Fail, and nobody at home."""

    name = "webhook-down"
    simulates = "an admission webhook that fails closed does not answer"
    family = "admission"
    failures = (11, 26)
    shows = Evidence.OTHERS
    bars = True

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A webhook configuration of our own that selects the drill's own pods alone."""
        namespace, _ = identity(layer)
        verbs = [
            Permission(v, "admissionregistration.k8s.io", "validatingwebhookconfigurations")
            for v in ("get", "create", "delete")
        ]
        return Plan(
            (f"a ValidatingWebhookConfiguration that nobody serves, for the drill's own pods in {namespace}",),
            permissions=tuple(verbs),
            edits=(f"{COPY}.webhook",),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Create it, and label the drill's pods for it."""
        namespace, _ = identity(layer)
        name = self._name(stage)
        hook = {
            "name": f"{name}.killcheck.dev",
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "killcheck-nobody", "namespace": namespace, "path": "/"}},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                    "scope": "Namespaced",
                }
            ],
            "objectSelector": {"matchLabels": label_pods(stage)},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        }
        stage.journal.create(
            r.VALIDATINGWEBHOOKS,
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": name},
                "webhooks": [hook],
            },
        )
        return [f"created ValidatingWebhookConfiguration {name}"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The Job controller was told that our webhook could not be called."""
        return refused(stage, "failed calling webhook", self._name(stage))

    def _name(self, stage: Stage) -> str:
        return f"killcheck-webhook-{stage.run[-6:]}"


class PodSecurity(ExecutorFault):
    """Reproduces row 11: the namespace is put under the strictest Pod Security profile."""

    name = "podsecurity"
    costs = "pods that do not comply cannot start in the namespace meanwhile"
    simulates = "the executor's namespace now enforces the restricted Pod Security profile"
    family = "admission"
    failures = (11,)
    shows = Evidence.TRIED

    _LABEL = "pod-security.kubernetes.io/enforce"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A label of the namespace: pods that are there stay, new ones - of anybody - must comply."""
        namespace, _ = identity(layer)
        verbs = [Permission(v, "", "namespaces", name=namespace) for v in ("get", "patch")]
        return Plan(
            (f"namespace {namespace} enforces the restricted profile for the length of the drill",),
            namespaces=(namespace,),
            permissions=(*verbs, Permission("create", "", "pods", namespace=namespace)),
            edits=(f"Namespace/{namespace}.labels",),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Set the label, then see whether a pod that does not comply is refused (a dry run)."""
        namespace, _ = identity(layer)
        what = f"namespace {namespace} enforces the restricted profile"
        stage.journal.merge(r.NAMESPACES, namespace, None, {"metadata": {"labels": {self._LABEL: "restricted"}}}, what)
        return [what]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Our own executor was refused; or, where it complies, a pod that does not is (asked once, as a dry run)."""
        said = refused(stage, 'violates PodSecurity "restricted')
        self.bars = bool(said)  # the same template is refused as often as it is tried
        if said or stage.observations.pods:
            return said or self._probe(stage, layer)
        return None

    @staticmethod
    def _probe(stage: Stage, layer: LayerRun) -> str | None:
        namespace, _ = identity(layer)
        probe: Obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "killcheck-probe", "namespace": namespace},
            "spec": {"containers": [{"name": "probe", "image": "killcheck.invalid/probe"}]},
        }
        try:
            stage.cluster.kube.create(r.PODS, probe, dry_run=True)
        except Forbidden as error:
            return (
                f"a pod that does not comply is refused: {error.message[:200]}"
                if ('PodSecurity "restricted' in error.message)
                else ""
            )
        except ApiError:
            return None
        return None


class NoRoom(ExecutorFault):
    """Reproduces row 12: the CPU pool is full, and stays full."""

    name = "no-room"
    simulates = "no node has room for the executor's pod"
    family = "admission"
    failures = (12,)
    shows = Evidence.OTHERS
    bars = True

    #: More cores than any machine has, so that no autoscaler buys one for it.
    asks_for_cpus: ClassVar[int] = 100_000

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Nothing that exists is changed."""
        return Plan(
            (f"the drill's own copy of the Job asks for {self.asks_for_cpus} CPUs",), edits=(f"{COPY}.resources",)
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Let the drill's Job ask for what nobody has."""

        def rewrite(template: Obj) -> None:
            for container in containers(template):
                resources = container.setdefault("resources", {})
                resources.setdefault("requests", {})["cpu"] = str(self.asks_for_cpus)
                resources.get("limits", {}).pop("cpu", None)

        stage.rewrites.append(rewrite)
        return [f"the drill's copy of the Job asks for {self.asks_for_cpus} CPUs"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The scheduler said so of this very pod."""
        for pod in stage.observations.pods.values():
            scheduled = condition(pod, "PodScheduled")
            if scheduled and scheduled.get("reason") == "Unschedulable":
                return f"{name_of(pod)}: Unschedulable: {scheduled.get('message', '')}"
        return refused(stage, "cpu")
