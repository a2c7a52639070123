"""Webhooks that refuse everything when they are down."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.webhooks import on_the_way
from killcheck.probes.world import World, selected

from killcheck.kube.objects import Obj, dig, labels_of, ref_of

__all__ = ["WebhookDown"]


class WebhookDown(Probe):
    """failurePolicy Fail and a backend that is gone: no pod is made, no Deployment scaled, no pod evicted."""

    id = "webhook-down"
    claim = "No webhook that is down stands between the trigger and the GPUs."
    remedy = "Bring its backend back, exclude the namespace, or set failurePolicy: Ignore."
    failures = (11, 26)
    sources = ("deckhouse/deckhouse#23007", "recordings 15 and 15b")
    needs = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")

    def ask(self, world: World) -> Iterable[Finding]:
        """Webhooks on what the kill path does, whose Service is not there or has nothing behind it."""
        for config in world.of("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
            for index, hook in enumerate(config.get("webhooks") or ()):
                if hook.get("failurePolicy", "Fail") != "Fail" or not on_the_way(hook):
                    continue
                why = self._down(world, dig(hook, "clientConfig", "service", default={}))
                if why and any(_asked(world, hook, name) for name in _namespaces(world)):
                    message = f"{hook.get('name')}: {why}, and failurePolicy is Fail: {_what(hook)}"
                    yield self.finding(world, config, ("webhooks", index, "clientConfig"), message)

    @staticmethod
    def _down(world: World, service: Obj) -> str | None:
        """Why a backend is down; None where it is up, or nobody can tell."""
        name, namespace = str(service.get("name", "")), str(service.get("namespace", ""))
        if not name:
            return None
        found = world.find("Service", namespace, name)
        if found is None:
            here = world.knows("Service") or any(world.in_namespace("Deployment", namespace))
            return f"Service {namespace}/{name} does not exist" if here else None
        selector = dig(found, "spec", "selector", default={})
        behind = [
            obj
            for obj in world.in_namespace("Deployment", namespace)
            if selector and selector.items() <= dig(obj, "spec", "template", "metadata", "labels", default={}).items()
        ]
        if behind and all(dig(obj, "spec", "replicas") == 0 for obj in behind):
            return f"{ref_of(behind[0])} behind it is scaled to 0"
        if world.live and behind and not any(dig(obj, "status", "readyReplicas") for obj in behind):
            return f"no pod of {ref_of(behind[0])} behind it is ready"
        return None


def _what(hook: Obj) -> str:
    resources = on_the_way(hook)
    if "pods/eviction" in resources:
        return "no drain gets any further"
    return "no pod of an executor is made" if {"pods", "jobs"} & set(resources) else "no scale to zero is taken"


def _namespaces(world: World) -> set[str]:
    return {one.namespace for one in world.layer_executors} | set(world.kill_path.namespaces)


def _asked(world: World, hook: Obj, namespace: str) -> bool:
    labels = {"kubernetes.io/metadata.name": namespace} | labels_of(world.find("Namespace", "", namespace) or {})
    return selected(hook.get("namespaceSelector"), labels)
