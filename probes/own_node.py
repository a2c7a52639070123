"""Executors that may run on the node they turn off."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.objects import dig

__all__ = ["OwnNode"]


class OwnNode(Probe):
    """It then keeps the node busy that it empties, and starts only while a GPU node is on."""

    id = "own-node"
    claim = "The executor never runs on a GPU node."
    remedy = "Take the GPU toleration and node selector away; pin it to the CPU pool."
    failures = (13,)
    sources = ("inferred from the scheduler's rules; recording 16c",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Tolerations and node selectors of executors."""
        chosen = {
            (key, value)
            for _, template in world.target_templates
            for key, value in dig(template.spec, "nodeSelector", default={}).items()
            if not key.startswith("kubernetes.io/")
        }
        for one in world.layer_executors:
            selector = dig(one.spec, "nodeSelector", default={})
            shared = [key for key, value in selector.items() if (key, value) in chosen]
            if shared:
                message = f"runs only on the GPU nodes ({shared[0]}: {selector[shared[0]]}) that it turns off"
                yield self.finding(world, one.owner, (*one.path, "nodeSelector", shared[0]), message)
                continue
            for index, entry in enumerate(one.spec.get("tolerations") or ()):
                everything = not entry.get("key") and entry.get("operator") == "Exists"
                if everything or str(entry.get("key", "")) in _TAINTS:
                    message = f"tolerates {'every taint' if everything else entry['key']}: it may run on a GPU node"
                    yield self.finding(world, one.owner, (*one.path, "tolerations", index), message, severity="warning")


_TAINTS = frozenset({"nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "google.com/tpu", "habana.ai/gaudi"})
