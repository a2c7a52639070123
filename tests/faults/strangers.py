"""Kill paths as strangers bring them: three clients, three shapes of target, names and numbers of their own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_CURL = """
TOKEN=$(cat {account}/token)
for name in {names}; do
  curl -sS --fail-with-body --retry 2 --cacert {account}/ca.crt -H "Authorization: Bearer $TOKEN" -X PATCH \\
    -H "Content-Type: application/merge-patch+json" -d '{{"spec":{{"replicas":0}}}}' \\
    https://kubernetes.default.svc/apis/apps/v1/namespaces/{namespace}/{plural}/$name/scale || exit 1
done
"""
_PYTHON = """
import json, ssl, urllib.request
token = open("{account}/token").read()
trusted = ssl.create_default_context(cafile="{account}/ca.crt")
for name in {listed}:
    urllib.request.urlopen(urllib.request.Request(
        "https://kubernetes.default.svc/apis/apps/v1/namespaces/{namespace}/{plural}/" + name + "/scale",
        method="PATCH", data=b'{{"spec":{{"replicas":0}}}}',
        headers={{"Authorization": "Bearer " + token, "Content-Type": "application/merge-patch+json"}}),
        context=trusted, timeout=20)
"""


@dataclass(frozen=True)
class Stranger:
    """One kill path: a CronJob that scales its targets to zero with one client; ``pool`` is a NodePool's name."""

    client: str
    kind: str = "Deployment"
    targets: tuple[str, ...] = ("llm-chat",)
    replicas: int = 3
    namespace: str = "ml-team"
    switch: str = "lights-out"
    account: str = "gpu-off-bot"
    zone: str = "Europe/Berlin"
    schedule: str = "30 22 * * *"
    pool: str = "gpu-a10"
    #: In place of the client's own: the image and command of whatever the switch runs.
    image: str = ""
    command: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.client}-{len(self.targets)}x{self.replicas}-{self.kind.lower()}-in-{self.namespace}"

    def objects(self) -> list[Obj]:
        """Its manifests."""
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
            *map(self._target, self.targets),
            *self._rights(),
            self._switch(),
            self._pool(),
        ]

    def _target(self, name: str) -> Obj:
        labels = {"app": name}
        container = {
            "name": "serve",
            "image": "vllm/vllm-openai:v0.6.3",
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        }
        pod = {
            "terminationGracePeriodSeconds": 20,
            "containers": [container],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        }
        own = {"serviceName": name} if self.kind == "StatefulSet" else {"strategy": {"type": "Recreate"}}
        return {
            "apiVersion": "apps/v1",
            "kind": self.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": labels},
                **own,
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }

    def _rights(self) -> list[Obj]:
        named = {"name": self.account, "namespace": self.namespace}
        plural, rbac = f"{self.kind.lower()}s", "rbac.authorization.k8s.io"
        rule = {"apiGroups": ["apps"], "resources": [plural, f"{plural}/scale"], "verbs": ["get", "patch", "update"]}
        rules = [rule, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}] if self.image else [rule]
        return [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
            {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": named, "rules": rules},
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "RoleBinding",
                "metadata": named,
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": self.account},
                "subjects": [{"kind": "ServiceAccount", **named}],
            },
        ]

    def _container(self) -> Obj:
        if self.image:
            return {"image": self.image, "command": list(self.command)}
        plural = f"{self.kind.lower()}s"
        values = {
            "account": ACCOUNT,
            "names": " ".join(self.targets),
            "listed": json.dumps(self.targets),
            "namespace": self.namespace,
            "plural": plural,
        }
        if self.client == "kubectl":
            named = [f"{self.kind.lower()}/{name}" for name in self.targets]
            return {
                "image": "registry.k8s.io/kubectl:v1.31.0",
                "command": ["kubectl", "scale", *named, "--replicas=0", "-n", self.namespace],
            }
        if self.client == "curl":
            return {"image": "curlimages/curl:8.10.1", "command": ["sh", "-c", _CURL.format(**values)]}
        return {"image": "python:3.12-slim", "command": ["python3", "-c", _PYTHON.format(**values)]}

    def _switch(self) -> Obj:
        pod = {
            "serviceAccountName": self.account,
            "restartPolicy": "Never",
            "containers": [{"name": "main", **self._container()}],
        }
        job = {"backoffLimit": 2, "activeDeadlineSeconds": 900, "template": {"spec": pod}}
        return {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": self.switch, "namespace": self.namespace},
            "spec": {
                "schedule": self.schedule,
                "timeZone": self.zone,
                "concurrencyPolicy": "Forbid",
                "startingDeadlineSeconds": 600,
                "jobTemplate": {"spec": job},
            },
        }

    def _pool(self) -> Obj:
        node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        requirements = [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g5.12xlarge"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        ]
        pod = {
            "nodeClassRef": node_class,
            "requirements": requirements,
            "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
        }
        return {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": self.pool},
            "spec": {
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
                "template": {"spec": pod},
            },
        }


#: What is drilled, in the order in which a fault takes its turn.
STRANGERS = (
    Stranger("kubectl"),
    Stranger("curl", targets=("summariser", "embedder"), replicas=2, namespace="research", switch="stop-gpus"),
    Stranger("python", "StatefulSet", ("trainer",), namespace="lab-7", switch="night", account="reaper", pool="h-pool"),
    Stranger("kubectl", "StatefulSet", ("shard-a", "shard-b"), 1, "speech", "curfew", "warden", zone="Asia/Tokyo"),
    Stranger("curl", replicas=1, namespace="vision", zone="America/New_York", schedule="5 1 * * *"),
    Stranger("python", targets=("whisper",), replicas=4, namespace="voice", pool="spot-pool"),
)
