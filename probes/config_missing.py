"""ConfigMaps and claims that the executor's pod waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import Executor, World

from killcheck.kube.objects import name_of
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
            there = [name_of(o) for o in world.in_namespace("ConfigMap", one.namespace)]
            for path, name in _needed(one):
                if name in there:
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


def _needed(one: Executor) -> Iterator[tuple[Path, str]]:
    """(path, name) of every reference that is not optional; kube-root-ca.crt is every namespace's own."""
    for path, reference in _references(one):
        name = str(reference.get("name", ""))
        if name and not reference.get("optional") and name != "kube-root-ca.crt":
            yield path, name


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
