"""Asks the registries themselves whether the executors' images are there; only where the user said so."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from killcheck.probes.base import Finding, Probe
from killcheck.probes.oci import Answer, Registries, credentials_for
from killcheck.probes.pulls import ARCH, arches_of_nodes, pull_secrets
from killcheck.probes.world import Executor, World

from killcheck.images.reference import InvalidReference, parse
from killcheck.kube.objects import Obj, dig
from killcheck.text.jsontext import from_text
from killcheck.text.yamlfile import Path

__all__ = ["ImageMissing"]


class ImageMissing(Probe):
    """The manifest, asked for as the kubelet asks, with the pod's own pull secret, for the nodes' own platform.

    Asked of by ``lint --pull-check`` alone: it goes to the network, uses the pod's credentials, and on Docker Hub each
    answer with platforms counts as a pull.
    """

    id = "image-missing"
    on_request = True
    claim = "Every executor's image is in its registry, its pull secret opens it, and it runs on the executor's nodes."
    remedy = "Push the tag again, name one that exists, or renew the pull secret; then pin by digest."
    failures = (1, 2, 3, 4, 6)
    sources = ("opencontainers/distribution-spec: pull", "bitnami/containers#83267")

    def ask(self, world: World) -> Iterable[Finding]:
        """One question to its registry for each image and pull secret."""
        registries = Registries()
        answers: dict[tuple[str, str | None], Answer] = {}
        try:
            for one in world.layer_executors:
                for path, container in one.containers:
                    image = str(container.get("image", ""))
                    try:
                        reference = parse(image)
                    except InvalidReference:
                        continue
                    basic = credentials_for(reference.host, reference.path, _configs(world, one))
                    key = (image, basic)
                    if key not in answers:
                        answers[key] = registries.ask(reference, basic)
                    yield from self._about(world, one, (*path, "image"), answers[key], authenticated=basic is not None)
        finally:
            registries.close()

    def _about(
        self,
        world: World,
        one: Executor,
        path: Path,
        answer: Answer,
        *,
        authenticated: bool,
    ) -> Iterable[Finding]:
        image = str(dig(one.owner, *path))
        names = pull_secrets(world, one)
        unread = [name for name in names if _secret(world, one, name) is None]
        if answer.state == "there":
            yield from self._platforms(world, one, path, answer)
        elif answer.state == "no-tag":
            yield self.finding(world, one.owner, path, f"{image} is not in its registry: no such tag or digest")
        elif answer.state == "no-repository":
            yield self.finding(world, one.owner, path, f"{image} is not in its registry: no such repository")
        elif answer.state in ("unauthorized", "denied") and unread and not authenticated:
            message = f"whether {image} exists: its pull secret {unread[0]} cannot be read from here"
            yield self.unproven(world, one.owner, message)
        elif answer.state == "unauthorized":
            why = "a login is wanted, and none is given"
            why = f"pull secret {', '.join(names)} is refused" if authenticated else why
            yield self.finding(world, one.owner, path, f"{image}: its registry answers 401: {why}")
        elif answer.state == "denied":
            yield self.finding(world, one.owner, path, f"{image}: its registry answers 403: no access to this image")
        elif answer.state == "limited":
            yield self.finding(
                world,
                one.owner,
                path,
                f"{image}: its registry answers 429, toomanyrequests",
                severity="warning",
                remedy="Pull from a registry of your own, or with a login that has a quota of its own.",
            )
        else:
            yield self.unproven(world, one.owner, f"whether {image} exists: {answer.detail}")

    def _platforms(
        self,
        world: World,
        one: Executor,
        path: Path,
        answer: Answer,
    ) -> Iterable[Finding]:
        image = str(dig(one.owner, *path))
        wanted = {f"linux/{arch}" for arch in arches_of_nodes(world, one)}
        missing = sorted(wanted - set(answer.platforms))
        if answer.platforms and missing:
            message = (
                f"{image} is for {', '.join(answer.platforms)}, and its pod may run on {', '.join(missing)}: "
                "exec format error"
            )
            yield self.finding(
                world,
                one.owner,
                path,
                message,
                severity="error" if len(missing) == len(wanted) else "warning",
                remedy=f"Build it for {', '.join(missing)} too, or select nodes by {ARCH}.",
            )


def _secret(world: World, one: Executor, name: str) -> Obj | None:
    return world.find("Secret", one.namespace, name) or world.answers.pull_secrets.get((one.namespace, name))


def _configs(world: World, one: Executor) -> Iterator[Mapping[str, Any]]:
    """The docker configs in the pod's pull secrets, those that can be read."""
    for name in pull_secrets(world, one):
        secret = _secret(world, one, name) or {}
        text = dig(secret, "stringData", ".dockerconfigjson", default="")
        encoded = dig(secret, "data", ".dockerconfigjson", default="")
        try:
            found = from_text(text or base64.b64decode(encoded) or b"{}")
        except (ValueError, binascii.Error):
            continue
        if isinstance(found, dict):
            yield found
