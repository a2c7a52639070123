"""Certificates in the kill path that end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from killcheck.probes.base import Evidence, Finding, Probe, Severity
from killcheck.probes.webhooks import on_the_way
from killcheck.probes.world import Executor, World

from killcheck.kube.certificates import decoded, in_kubeconfig, not_after, signed_in
from killcheck.kube.objects import Obj, dig
from killcheck.machine import logins
from killcheck.text.yamlfile import Path

__all__ = ["CertificateExpiry"]


class CertificateExpiry(Probe):
    """kubeadm's client certificates live a year; a switch with one in its kubeconfig is a switch for a year."""

    id = "certificate-expiry"
    claim = "No certificate that the kill path needs has ended, or is about to."
    remedy = "Renew it, and better: use the ServiceAccount's token, which renews itself."
    failures = (22,)
    sources = ("apache/cloudstack#9418", "siderolabs/talos#7369", "KK#124022", "kubeadm: certificates live one year")

    def ask(self, world: World) -> Iterable[Finding]:
        """Kubeconfigs and TLS Secrets that executors mount or machines keep; the CA bundles of webhooks on the way."""
        for one in world.layer_executors:
            for obj in _mounted(world, one):
                for path, what, pem in _certificates(obj):
                    yield from self._judge(world, obj, path, what, pem)
        for config in world.of("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
            for index, hook in enumerate(config.get("webhooks") or ()):
                bundle = decoded(dig(hook, "clientConfig", "caBundle"))
                if bundle and hook.get("failurePolicy", "Fail") == "Fail" and on_the_way(hook):
                    place: Path = ("webhooks", index, "clientConfig", "caBundle")
                    yield from self._judge(world, config, place, f"the CA of webhook {hook.get('name')}", bundle)
        yield from self._of_machines(world)

    def _of_machines(self, world: World) -> Iterable[Finding]:
        """Kubeconfigs that the spec's own programs name, or that lie where kubectl looks for one."""
        for layer in world.kill_path.layers:
            for path, file in logins.kept(layer.commands, world.kill_path.folder):
                user, pem = signed_in(file) or ("", b"")
                until = not_after(pem)
                if until is None or until - world.now >= _SOON:
                    continue
                over = until <= world.now
                what = f"the client-certificate of user {user} in {path}"
                message = f"{what} {'ended' if over else 'ends'} on {until:%Y-%m-%d}"
                message += ": the API server answers 401" if over else f", in {(until - world.now).days} days"
                at = Evidence(f"Layer/{layer.name}", "command", path)
                severity: Severity = "error" if over else "warning"
                yield Finding(
                    self.id, severity, at.object, message, self.remedy, (at,), file=str(file), failures=self.failures
                )

    def _judge(self, world: World, obj: Obj, path: Path, what: str, pem: bytes) -> Iterable[Finding]:
        until = not_after(pem)
        if until is None:
            yield self.unproven(world, obj, f"until when {what} is valid: it is no certificate that can be read")
        elif until <= world.now:
            yield self.finding(world, obj, path, f"{what} ended on {until:%Y-%m-%d}: whatever needs it is refused")
        elif until - world.now < _SOON:
            days = (until - world.now).days
            message = f"{what} ends on {until:%Y-%m-%d}, in {days} days"
            yield self.finding(world, obj, path, message, severity="warning")


def _mounted(world: World, one: Executor) -> Iterator[Obj]:
    """The Secrets and ConfigMaps that its pod mounts and that are here (from a cluster, Secrets are not read)."""
    for volume in one.spec.get("volumes") or ():
        for source in (volume, *dig(volume, "projected", "sources", default=[])):
            name = dig(source, "secret", "secretName") or dig(source, "secret", "name")
            found = world.find("Secret", one.namespace, str(name)) if name else None
            name = dig(source, "configMap", "name")
            found = found or (world.find("ConfigMap", one.namespace, str(name)) if name else None)
            if found:
                yield found


def _certificates(obj: Obj) -> Iterator[tuple[Path, str, bytes]]:
    """(path, what, PEM) of the certificates in an object's data: by themselves, or in a kubeconfig."""
    encoded = obj.get("kind") == "Secret"
    texts = {("data", k): decoded(v) if encoded else str(v).encode() for k, v in (obj.get("data") or {}).items()}
    texts |= {("stringData", k): str(v).encode() for k, v in (obj.get("stringData") or {}).items()}
    for path, text in texts.items():
        if b"BEGIN CERTIFICATE" in text:
            yield path, f"the certificate {path[1]}", text
        elif b"clusters:" in text and b"users:" in text:
            for what, pem in in_kubeconfig(text.decode("utf-8", "replace")):
                yield path, f"{what} in {path[1]}", pem


#: As long as a renewal may be forgotten.
_SOON = timedelta(days=30)
