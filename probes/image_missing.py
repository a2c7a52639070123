"""Asks the registries themselves whether the executors' images are there; only where the user said so."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from killcheck.probes.base import Finding, Probe
from killcheck.probes.pulls import pull_secrets
from killcheck.probes.world import Executor, World

from killcheck.embedded.nodes.reference import InvalidReference, Reference, parse
from killcheck.kube.objects import dig

if TYPE_CHECKING:
    import urllib3

__all__ = ["ImageMissing"]

#: Seconds for each of the (at most three) requests about an image.
TIMEOUT_S = 10.0
_ACCEPT = ", ".join((
    "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json"))
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class ImageMissing(Probe):
    """A HEAD for the manifest, as the kubelet sends it, with the pod's own pull secret where that can be read.

    Source of the protocol: OCI distribution-spec v1.1 ('pull'), distribution's token authentication.
    """

    id = "image-missing"
    claim = "Every executor's image is in its registry, and its pull secret opens it."
    remedy = "Push the tag again, name one that exists, or renew the pull secret; then pin by digest."
    failures = (1, 2, 3, 4, 6)
    sources = ("opencontainers/distribution-spec: pull", "bitnami/containers#83267")

    def ask(self, world: World) -> Iterable[Finding]:
        """One question to its registry for each image."""
        import urllib3

        pool = urllib3.PoolManager(timeout=urllib3.Timeout(total=TIMEOUT_S), retries=False)
        try:
            for one in world.layer_executors:
                for path, container in one.containers:
                    image = str(container.get("image", ""))
                    try:
                        reference = parse(image)
                    except InvalidReference:
                        continue
                    yield from self._about(world, one, (*path, "image"), image, _status(pool, reference, world, one))
        finally:
            pool.clear()

    def _about(
        self, world: World, one: Executor, path: tuple[str | int, ...], image: str, answer: int | str,
    ) -> Iterable[Finding]:
        if answer == 200:
            return
        if answer == 404:
            yield self.finding(world, one.owner, path, f"{image} is not in its registry")
        elif answer in (401, 403) and pull_secrets(world, one) and not _credentials(world, one, parse(image).host):
            yield self.unproven(world, one.owner, f"whether {image} exists: its pull secret cannot be read from here")
        elif answer in (401, 403):
            yield self.finding(world, one.owner, path, f"{image}: its registry refuses (HTTP {answer})")
        elif answer == 429:
            yield self.finding(
                world, one.owner, path, f"{image}: its registry answers 429, toomanyrequests", severity="warning")
        else:
            yield self.unproven(world, one.owner, f"whether {image} exists: {answer}")


def _status(pool: urllib3.PoolManager, reference: Reference, world: World, one: Executor) -> int | str:
    """The registry's status for the manifest; text where it did not answer."""
    import urllib3

    host = "registry-1.docker.io" if reference.host == "docker.io" else reference.host
    url = f"https://{host}/v2/{reference.path}/manifests/{reference.version}"
    basic = _credentials(world, one, reference.host)
    try:
        answer = pool.request("HEAD", url, headers={"Accept": _ACCEPT})
        if answer.status == 401:
            token = _authorization(pool, answer.headers.get("WWW-Authenticate", ""), reference, basic)
            if token:
                answer = pool.request("HEAD", url, headers={"Accept": _ACCEPT, "Authorization": token})
        return answer.status if answer.status < 500 else f"the registry answers {answer.status}"
    except urllib3.exceptions.HTTPError as error:
        return f"{host} did not answer ({type(error).__name__})"


def _authorization(pool: urllib3.PoolManager, challenge: str, reference: Reference, basic: str) -> str:
    """The Authorization header that a challenge asks for; empty where it cannot be had."""
    kind, _, rest = challenge.partition(" ")
    if kind.lower() == "basic":
        return f"Basic {basic}" if basic else ""
    said: Mapping[str, str] = dict(_CHALLENGE.findall(rest))
    if not said.get("realm", "").startswith("https://"):
        return ""
    query = {"service": said.get("service", ""), "scope": said.get("scope", f"repository:{reference.path}:pull")}
    headers = {"Authorization": f"Basic {basic}"} if basic else {}
    answer = pool.request("GET", f"{said['realm']}?{urlencode(query)}", headers=headers)
    if answer.status != 200:
        return ""
    try:
        body: dict[str, Any] = json.loads(answer.data)
    except ValueError:
        return ""
    token = body.get("token") or body.get("access_token")
    return f"Bearer {token}" if token else ""


def _credentials(world: World, one: Executor, host: str) -> str:
    """base64 of user:password for a host, from the pod's pull secrets; never shown anywhere."""
    for name in pull_secrets(world, one):
        secret = world.find("Secret", one.namespace, name)
        text = dig(secret, "data", ".dockerconfigjson", default="") if secret else ""
        try:
            auths = json.loads(base64.b64decode(text)).get("auths", {}) if text else {}
        except (ValueError, binascii.Error):
            continue
        for registry, entry in auths.items():
            if host in registry or (host == "docker.io" and "docker.io" in registry):
                return str(entry.get("auth", ""))
    return ""
