"""Pools that may buy more than anyone wants to pay for."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.instances.launchable import KARPENTER_AZURE
from killcheck.kube.objects import Obj, dig
from killcheck.text import lazy_re

__all__ = ["OpenFence"]


class OpenFence(Probe):
    """The fence that is left when every layer fails: without limits a misfire buys whatever the cloud has."""

    id = "open-fence"
    claim = "Every GPU pool is bounded by limits, and its requirements name labels that Karpenter knows."
    remedy = "Set spec.limits (devices of every vendor, cpu), name instance types, and see 'killcheck fence'."
    severity = "warning"
    failures = (58,)
    sources = (
        "KP#3093",
        "KP#745",
        "KA#6098",
        "karpenter.sh/docs: scheduling, well-known labels",
        "Azure/skewer vmsize.go",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """The kill path's NodePools."""
        for pool in world.gpu_pools:
            if not dig(pool, "spec", "limits"):
                yield self.finding(world, pool, ("spec",), "no limits: nothing bounds how many GPU nodes it may launch")
            for index, requirement in enumerate(dig(pool, "spec", "template", "spec", "requirements", default=[])):
                key = str(requirement.get("key", ""))
                if key.rpartition("/")[2] in _KEYS and not key.startswith(("karpenter.k8s.", "eks.amazonaws.com/")):
                    path = ("spec", "template", "spec", "requirements", index, "key")
                    message = f"{key} is no label that Karpenter knows: the requirement restricts nothing"
                    yield self.finding(
                        world,
                        pool,
                        path,
                        message,
                        severity="error",
                        remedy=f"Write karpenter.k8s.aws/{key.rpartition('/')[2]}.",
                    )
            yield from self._families(world, pool)
            yield from self._accelerators(world, pool)

    def _families(self, world: World, pool: Obj) -> Iterable[Finding]:
        """Families of Azure's sizes that are none: nothing launches, and nobody is told."""
        for index, requirement in enumerate(dig(pool, "spec", "template", "spec", "requirements", default=[])):
            if requirement.get("key") == f"{KARPENTER_AZURE}/sku-family" and requirement.get("operator") == "In":
                wrong = [str(value) for value in requirement.get("values") or () if len(str(value)) > 1]
                if wrong:
                    path = ("spec", "template", "spec", "requirements", index, "values")
                    message = (
                        f"sku-family {', '.join(wrong)} is no family of Azure's: that is the first letter of a size"
                    )
                    remedy = (
                        f'Write values: ["{wrong[0][:1]}"], in quotes, and narrow it by sku-series or sku-gpu-name.'
                    )
                    yield self.finding(world, pool, path, message, severity="error", remedy=remedy)

    def _accelerators(self, world: World, pool: Obj) -> Iterable[Finding]:
        """Neuron and Gaudi devices are accelerators, not GPUs: a bound on GPUs does not bound them."""
        limits = dig(pool, "spec", "limits", default={})
        requirements = dig(pool, "spec", "template", "spec", "requirements", default=[])
        admits = [
            v
            for r in requirements
            if r.get("operator") == "In"
            for v in r.get("values") or ()
            if _ACCELERATORS.fullmatch(str(v))
        ]
        keys = {str(r.get("key", "")).rpartition("/")[2]: i for i, r in enumerate(requirements)}
        if limits and admits and not any(_NOT_GPUS.match(name) for name in limits) and "cpu" not in limits:
            message = f"admits {admits[0]}, whose devices none of its limits ({', '.join(limits)}) counts"
            yield self.finding(
                world, pool, ("spec", "limits"), message, remedy="Set a limit on aws.amazon.com/neuron (or cpu) too."
            )
        if "instance-gpu-count" in keys and admits and "instance-accelerator-count" not in keys:
            path = ("spec", "template", "spec", "requirements", keys["instance-gpu-count"])
            message = f"bounds GPUs, and {admits[0]} has accelerators: trn1.32xlarge, of 16, has no GPU"
            yield self.finding(
                world, pool, path, message, remedy="Bound karpenter.k8s.aws/instance-accelerator-count, or name types."
            )


#: Categories, families and types of EC2 with Neuron, Gaudi or Qualcomm devices.
_ACCELERATORS = lazy_re.compile(r"(trn|inf|dl)(\d\w*)?(\.\w+)?")
_NOT_GPUS = lazy_re.compile(r"aws\.amazon\.com/neuron|habana\.ai/|qualcomm\.com/")
_KEYS = frozenset(
    """
    instance-category instance-family instance-generation instance-size instance-cpu instance-memory instance-gpu-name
    instance-gpu-manufacturer instance-gpu-count instance-gpu-memory instance-accelerator-name
    instance-accelerator-manufacturer instance-accelerator-count instance-hypervisor instance-local-nvme
""".split()
)
