"""Layers that fall together."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.discover import independence
from killcheck.kube.objects import ref_of

__all__ = ["SharedFate"]


#: What pairs are asked about one by one.
_OF_PAIRS = frozenset({"identity", "image"})


class SharedFate(Probe):
    """Two layers with one identity, or one image, are one layer the night that it goes; so are all that share one
    registry, network, controller or host."""

    id = "shared-fate"
    claim = "No two layers for a target share their identity or their image, and not all of them anything else."
    remedy = "Give the second layer a ServiceAccount, an image and a place to run of its own."
    severity = "note"
    failures = (57,)
    sources = ("seed 3",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Pairs of layers' executors."""
        for one, other in combinations(world.layer_executors, 2):
            covers = set(one.layer.covers) & set(other.layer.covers) if one.layer and other.layer else set()
            if not covers:
                continue
            shared = []
            if (one.namespace, one.account) == (other.namespace, other.account):
                shared.append(f"ServiceAccount {one.account}")
            images = [{str(c.get("image")) for _, c in e.containers} for e in (one, other)]
            shared += sorted(images[0] & images[1])
            if shared:
                message = f"shares {', '.join(shared)} with {ref_of(one.owner)}: both are gone the same night"
                yield self.finding(world, other.owner, (*other.path, "serviceAccountName"), message)
        yield from self._leaning(world)

    def _leaning(self, world: World) -> Iterable[Finding]:
        """What every layer of a target depends on."""
        for found in independence.shared(world.kill_path, world.objects):
            refs = [world.kill_path.layer(name).ref for name in found.layers]
            owners = [world.find(ref.kind, ref.namespace, ref.name) for ref in refs if ref]
            owner = next((obj for obj in owners if obj is not None), None)
            if owner is not None and found.dependency.kind not in _OF_PAIRS:
                remedy = f"{found.remedy[:1].upper()}{found.remedy[1:]}."
                yield self.finding(world, owner, ("metadata", "name"), found.message, remedy=remedy)
