"""The executor's pull secret has expired: the registry refuses who asks."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence

from killcheck.capabilities.offered import Capability, present
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes.executor import (
    COPY,
    ExecutorFault,
    account_of,
    containers,
    identity,
    images,
    pod_spec,
    reads_account,
    spared,
)
from killcheck.faults.kubernetes.registries import host_of, pull_failure
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, dig
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.standins.ecr import USER as ECR_USER
from killcheck.standins.ecr import registry_of
from killcheck.text import lazy_re

__all__ = ["PullSecretExpired", "is_refusal"]

USER = "killcheck"
#: How registries refuse a login, as kubelets pass it on.
_REFUSED = lazy_re.compile(
    r"\b(401 Unauthorized|403 Forbidden)\b|\bunauthorized\b|\bdenied\b|no basic auth|authentication|authorization",
    re.IGNORECASE,
)
#: ECR calls a token that it cannot read a bad request, not an unknown one (docker login there: "400 Bad Request").
_UNREADABLE = lazy_re.compile(r"\b400 Bad Request\b")
#: What a message quotes: names of images and addresses, in which anything can stand.
_QUOTED = lazy_re.compile(r'"[^"]*"|\bhttps?://\S+?(?=:?\s|$)')


def is_refusal(told: str, *, ecr: bool) -> bool:
    """Whether a kubelet was told that its login is no good; ``ecr``: by a private registry of ECR."""
    said = _QUOTED.sub("", told)
    return bool(_REFUSED.search(said) or (ecr and _UNREADABLE.search(said)))


class PullSecretExpired(ExecutorFault):
    """Reproduces row 6: a token of twelve hours (ECR) whose refresher stopped; the image must be pulled anew."""

    name = "pull-secret-expired"
    simulates = "the executor's pull secret has expired, and its node has no copy of the image"
    family = "image"
    failures = (6,)
    shows = Evidence.OTHERS

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Only where there is one: its own or, as far as that was read, its ServiceAccount's."""
        spec = dig(cron_job, "spec", "jobTemplate", "spec", "template", "spec", default={})
        return _without_secret(layer_name) if spec.get("imagePullSecrets") == [] else None

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """A Secret of our own with credentials that are no good. Raises FaultError where none is pulled with."""
        namespace, _ = identity(layer)
        found = account_of(stage, layer)
        if found is not None and not (pod_spec(layer).get("imagePullSecrets") or found.get("imagePullSecrets")):
            raise FaultError(f"{self.name}: {_without_secret(layer.layer.name)}")
        verbs = tuple(Permission(v, "", "secrets", namespace=namespace) for v in ("get", "create", "delete"))
        return Plan(
            (
                f"a Secret with expired registry credentials in {namespace}; the drill's own copy of the Job "
                "pulls with it",
            ),
            permissions=(*verbs, reads_account(layer)),
            edits=(f"{COPY}.imagePullSecrets", f"{COPY}.imagePullPolicy"),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Create the Secret and let the drill's Job pull with it, and only with it."""
        namespace, _ = identity(layer)
        name = f"killcheck-expired-{stage.run[-6:]}"
        hosts = sorted({host_of(image) for image in images(layer)})
        logins = {
            ("https://index.docker.io/v1/" if host == "docker.io" else host): {
                "username": ECR_USER if registry_of(host) else USER,
                "password": "expired",
            }
            for host in hosts
        }
        text = json.dumps({"auths": logins})
        stage.journal.create(
            r.SECRETS,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/dockerconfigjson",
                "metadata": {"name": name, "namespace": namespace},
                "data": {".dockerconfigjson": base64.b64encode(text.encode()).decode()},
            },
        )
        if stage.cluster.capabilities.registry is not None:
            self._close(stage, layer)

        def rewrite(template: Obj) -> None:
            template["spec"]["imagePullSecrets"] = [{"name": name}]
            for container in containers(template):
                container["imagePullPolicy"] = "Always"

        stage.rewrites.append(rewrite)
        return [f"created Secret {namespace}/{name} with expired credentials for {', '.join(hosts)}"]

    def spares(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Who runs the same image."""
        return spared(stage, layer, self.name)

    @staticmethod
    def _close(stage: Stage, layer: LayerRun) -> None:
        """On the embedded cluster the repository is open: close it to everybody but a user whose time is over."""
        registry = present(stage.cluster.capabilities.registry)
        for image in images(layer):
            host = registry.host(host_of(image))
            before = (set(host.private), dict(host.users))
            what = f"registry {host.name}: {image} asks for credentials"
            now = stage.cluster.loop.now()
            stage.journal.call(
                Capability.REGISTRY,
                what,
                ("make_private", image, USER, "expired", now),
                ("set_access", host.name, *before),
            )

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The kubelet was refused by the registry."""
        said = pull_failure(stage, "")  # a short name says no host
        refused = said is not None and is_refusal(said, ecr=any(map(registry_of, images(layer))))
        return said if refused else None


def _without_secret(layer_name: str) -> str:
    return f"the executor of {layer_name} pulls without a secret, its own or its ServiceAccount's: none can expire"
