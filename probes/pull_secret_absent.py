"""Executors without the pull secret that others need for the same registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from killcheck.probes.base import Finding, Probe
from killcheck.probes.pulls import pull_secrets
from killcheck.probes.world import Executor, World, namespace_or_default

from killcheck.images.reference import InvalidReference, parse
from killcheck.kube.objects import Obj, annotations_of, dig, mappings, name_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.text.suggestions import did_you_mean

__all__ = ["PullSecretAbsent"]


class PullSecretAbsent(Probe):
    """The servers pull with a secret, the switch beside them without: ImagePullBackOff, on the night that counts."""

    id = "pull-secret-absent"
    claim = "Every executor has a pull secret for a registry that others pull from with one."
    remedy = "Give its pod (or its ServiceAccount) imagePullSecrets of its own namespace."
    severity = "warning"
    failures = (3,)
    sources = ("kubernetes.io/docs: pull an image from a private registry", "recording 02c")

    def ask(self, world: World) -> Iterable[Finding]:
        """By the host of the registry; Docker Hub is open to everybody and left out."""
        closed = dict(_opened_with_secrets(world))
        for one in world.layer_executors:
            if own := pull_secrets(world, one):
                yield from self._dangling(world, one, own)
                continue
            for path, container in one.containers:
                host = _host(str(container.get("image", "")))
                if host in closed:
                    obj, name = closed[host]
                    message = f"has no pull secret for {host}: {ref_of(obj)} pulls from there with {name}"
                    yield self.finding(world, one.owner, (*path, "image"), message, also=[(obj, ("metadata", "name"))])

    def _dangling(self, world: World, one: Executor, names: list[str]) -> Iterator[Finding]:
        """Names of pull secrets that are not there, where others of the namespace are: the kubelet passes over them."""
        there = {name_of(obj) for obj in world.objects if namespace_or_default(obj) == one.namespace and _makes(obj)}
        for name in names:
            homes = sorted({namespace_or_default(o) for o in world.objects if _makes(o) and name_of(o) == name})
            if _copied(world, name):
                continue
            if not there and homes:
                message = f"names pull secret {name}, which is in namespace {homes[0]} and not in {one.namespace}"
                yield self.finding(world, one.owner, (*one.path, "imagePullSecrets"), f"{message}: it pulls without")
            if there and name not in there:
                near = did_you_mean(name, sorted(there))
                message = f"names pull secret {name}, which is not in namespace {one.namespace}{near}: it pulls without"
                yield self.finding(world, one.owner, (*one.path, "imagePullSecrets"), message)


def _copied(world: World, name: str) -> bool:
    """Whether something makes a Secret of that name in other namespaces: a replicator, by its mark, or a policy."""
    made = [obj for obj in world.objects if _makes(obj) and name_of(obj) == name]
    marked = any(key.startswith(_REPLICATORS) for obj in made for key in annotations_of(obj))
    rules = (rule for one in world.of("ClusterPolicy") for rule in mappings(dig(one, "spec", "rules")))
    return (
        marked
        or any(str(obj.get("kind")).startswith("Cluster") for obj in made)
        or any(name in str(rule["generate"]) for rule in rules if rule.get("generate"))
    )


#: What marks Secrets that are copied: emberstack's reflector, mittwald's replicator, AppsCode's config-syncer (kubed).
_REPLICATORS = ("reflector.v1.k8s.emberstack.com/", "replicator.v1.mittwald.de/", "kubed.appscode.com/")


def _makes(obj: Obj) -> bool:
    """Whether it is a pull secret, or what one is made from."""
    kind = str(obj.get("kind"))
    pull = str(obj.get("type", "")).startswith("kubernetes.io/dockerc")
    return (kind == "Secret" and pull) or (kind != "Secret" and kind.endswith("Secret"))


def _opened_with_secrets(world: World) -> Iterator[tuple[str, tuple[Obj, str]]]:
    """(registry host, (the object, its secret)) of everything that pulls with a secret of its own."""
    for obj in world.objects:
        for template in templates(obj):
            secrets = [str(entry.get("name")) for entry in template.spec.get("imagePullSecrets") or ()]
            account = world.find(
                "ServiceAccount", namespace_or_default(obj), str(template.spec.get("serviceAccountName") or "default")
            )
            secrets += [str(entry.get("name")) for entry in dig(account, "imagePullSecrets", default=[])]
            for container in dig(template.spec, "containers", default=[]) if secrets else ():
                host = _host(str(container.get("image", "")))
                if host is not None and host != "docker.io":
                    yield host, (obj, secrets[0])


def _host(image: str) -> str | None:
    try:
        return parse(image).host
    except InvalidReference:
        return None
