"""ConfigMaps and claims that the executor's pod waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import Executor, World

from killcheck.kube.objects import Obj, dig, name_of
from killcheck.text.suggestions import did_you_mean
from killcheck.text.yamlfile import Path

__all__ = ["ConfigMissing"]


class ConfigMissing(Probe):
    """A volume or a variable from a ConfigMap that is not there: ContainerCreating, or CreateContainerConfigError."""

    id = "config-missing"
    claim = "Every ConfigMap that an executor's pod needs to start is there."
    remedy = "Bring it back, name the one that is there, or mark the reference optional."
    failures = (11,)
    sources = ("recording 33: a pod whose ConfigMap or Secret is missing", "kubectl.docs: kustomize configMapGenerator")
    needs = ("ConfigMap",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Volumes, envFrom and env of each layer's pods. Of Secrets nothing is asked: they are not read."""
        for one in world.layer_executors:
            maps = {name_of(o): o for o in world.in_namespace("ConfigMap", one.namespace)}
            there = list(maps)
            for path, name, keys in _needed(one):
                if name in there:
                    yield from self._keys(world, one, path, maps[name], keys)
                    continue
                near = did_you_mean(name, there)
                message = f"needs ConfigMap {one.namespace}/{name}, which is not there{near}: its pod never starts"
                if world.knows("ConfigMap") or there:
                    yield self.finding(world, one.owner, path, message)
                else:
                    yield self.unproven(
                        world,
                        one.owner,
                        f"whether ConfigMap {one.namespace}/{name} exists: it is not among these manifests",
                    )

    def _keys(self, world: World, one: Executor, path: Path, found: Obj, keys: Sequence[str]) -> Iterable[Finding]:
        """Keys that are named of a ConfigMap which is there, and that it has not."""
        has = [*dig(found, "data", default={}), *dig(found, "binaryData", default={})]
        for key in keys if one.seen is None else ():  # fails-when-fired has seen it
            if key not in has:
                where = f"ConfigMap {one.namespace}/{name_of(found)}"
                message = f"needs the key {key} of {where}, which it has not{did_you_mean(key, has)}"
                yield self.finding(world, one.owner, path, f"{message}: its pod never starts")


def _needed(one: Executor) -> Iterator[tuple[Path, str, Sequence[str]]]:
    """(path, name, its keys) of every reference that is not optional; kube-root-ca.crt is every namespace's own."""
    for path, reference in _references(one):
        name = str(reference.get("name", ""))
        if name and not reference.get("optional") and name != "kube-root-ca.crt":
            items = reference.get("items")
            named = [item.get("key") for item in items] if isinstance(items, list) else [reference.get("key")]
            yield path, name, [str(key) for key in named if key]


def _references(one: Executor) -> Iterator[tuple[Path, dict[str, object]]]:
    for i, volume in enumerate(one.spec.get("volumes") or ()):
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            if source.get("configMap"):
                yield (*one.path, "volumes", i), source["configMap"]
    for path, container in one.containers:
        for i, source in enumerate(container.get("envFrom") or ()):
            if source.get("configMapRef"):
                yield (*path, "envFrom", i), source["configMapRef"]
        for i, entry in enumerate(container.get("env") or ()):
            reference = (entry.get("valueFrom") or {}).get("configMapKeyRef")
            if reference:
                yield (*path, "env", i), reference
