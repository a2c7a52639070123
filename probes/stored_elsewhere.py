"""Credentials that a store of secrets must hand out, or keep fresh, for the switch to work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import Executor, World, namespace_or_default

from killcheck.kube import secret_text
from killcheck.kube.objects import Obj, dig, ref_of
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path

__all__ = ["StoredElsewhere"]


class StoredElsewhere(Probe):
    """A sealed store leaves yesterday's token in the Secret, and nobody hears of it; its volumes are not mounted."""

    id = "stored-elsewhere"
    claim = "What turns GPUs off starts and is let in without a store of secrets."
    remedy = "Use its ServiceAccount's own token, which the kubelet renews; take what is not needed at night out."
    severity = "warning"
    failures = (17, 22)
    sources = (
        "external-secrets/kubernetes-external-secrets#296 (the old value stays)",
        "hashicorp/vault-csi-provider#168 (sealed: the mount fails)",
        "hashicorp/vault-k8s#206 (Init:0/1)",
        "cert-manager.io: Certificate, renewBefore",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """Secrets that a layer's program is let in with and that somebody renews; volumes and agents of a store."""
        for one in world.layer_executors:
            keepers = {
                name: obj
                for obj in world.of(*secret_text.KEEPERS)
                if (name := secret_text.kept(obj)) and namespace_or_default(obj) == one.namespace
            }
            for name, path, how in _let_in_with(one):
                if name in keepers:
                    yield self._renewed(world, one, keepers[name], path, f"Secret {name} ({how})")
            for index, volume in enumerate(one.spec.get("volumes") or ()):
                if dig(volume, "csi", "driver") == _DRIVER:
                    message = f"volume {volume.get('name')} comes from a store: sealed or away, its pod never starts"
                    yield self.finding(world, one.owner, (*one.path, "volumes", index), message)
            if str((one.template.metadata.get("annotations") or {}).get(_AGENT)) == "true":
                message = "Vault's agent comes before its program: with Vault sealed or away, its pod stays in Init"
                path = (*one.path[:-1], "metadata", "annotations", _AGENT)
                yield self.finding(world, one.owner, path, message)

    def _renewed(self, world: World, one: Executor, keeper: Obj, path: Path, secret: str) -> Finding:
        often = dig(keeper, "spec", "refreshInterval") or dig(keeper, "spec", "refreshAfter")
        every = f" each {often}" if often else ""
        message = (
            f"it is let in with {secret}, which {ref_of(keeper)} renews{every}: when that stops, the old one stays"
        )
        return self.finding(world, one.owner, path, message, also=[(keeper, ("spec",))])


_DRIVER = "secrets-store.csi.k8s.io"
_AGENT = "vault.hashicorp.com/agent-inject"
#: Where a program says who it is: a header, kubectl's and curl's flags, a cloud's key.
_LOGIN = r"Authorization|Bearer|--token|--kubeconfig|KUBECONFIG|--client-(certificate|key)|--cert\b|--key\b"
#: Variables by which a client is let in, without its program naming them.
_KEYS = lazy_re.compile(r"KUBECONFIG|AWS_(SECRET_)?ACCESS_KEY\w*|GOOGLE_APPLICATION_CREDENTIALS|AZURE_CLIENT_\w+")


def _let_in_with(one: Executor) -> Iterator[tuple[str, Path, str]]:
    """(Secret, where it is named, as what it is read) of those that a program's calls bring along."""
    for path, container in one.containers:
        for index, entry in enumerate(container.get("env") or ()):
            name, variable = dig(entry, "valueFrom", "secretKeyRef", "name"), str(entry.get("name"))
            if name and (_KEYS.fullmatch(variable) or _near_a_login(one.text, variable)):
                yield str(name), (*path, "env", index), variable
        mounts = {str(mount.get("name")): str(mount.get("mountPath")) for mount in container.get("volumeMounts") or ()}
        for index, volume in enumerate(one.spec.get("volumes") or ()):
            name, place = dig(volume, "secret", "secretName"), mounts.get(str(volume.get("name")))
            if name and place and (_near_a_login(one.text, place) or place in str(container.get("env"))):
                yield str(name), (*one.path, "volumes", index), place


def _near_a_login(text: str, word: str) -> bool:
    """Whether a line names it beside what lets a client in; a program in Python may do so two lines apart."""
    named = re.compile(rf"(?<![\w/]){re.escape(word)}(?!\w)")
    scripted = "environ" in text and bool(re.search(_LOGIN, text))
    before = ""
    for line in text.splitlines():
        flag = re.fullmatch(_LOGIN, before.strip())  # an argument vector has a word a line
        if named.search(line) and (flag or re.search(_LOGIN, line) or (scripted and "environ" in line)):
            return True
        before = line
    return False
