"""Tokens that the API server will not take."""

from __future__ import annotations

import re
from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import Executor, World

from killcheck.kube.objects import dig
from killcheck.text import lazy_re

__all__ = ["DeadToken"]


class DeadToken(Probe):
    """Not mounted, for another audience, a legacy Secret, or read once by a process that outlives it."""

    id = "dead-token"
    claim = "The executor has a token, of the right audience, that lives when it is used."
    remedy = "Use the mounted token of its ServiceAccount (default audience), and read it again before each call."
    failures = (17, 18, 19)
    sources = (
        "citizensadvice/kube-schedule-scaler#8",
        "doriordan/skuber#350",
        "kubernetes/enhancements#2799",
        "recording 26",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """How executors get their token."""
        for one in world.layer_executors:
            if one.reading.calls:
                yield from self._not_mounted(world, one)
                yield from self._legacy(world, one)
                yield from self._read_once(world, one)

    def _not_mounted(self, world: World, one: Executor) -> Iterable[Finding]:
        account = world.find("ServiceAccount", one.namespace, one.account) or {}
        said = one.spec.get("automountServiceAccountToken")
        off = said is False or (said is None and account.get("automountServiceAccountToken") is False)
        projected = [
            (i, source["serviceAccountToken"])
            for i, volume in enumerate(one.spec.get("volumes") or ())
            for source in dig(volume, "projected", "sources", default=[])
            if source.get("serviceAccountToken")
        ]
        path = (*one.path, "automountServiceAccountToken")
        if off and not projected and not _kubeconfig(one):
            message = "calls the API, and no token is mounted: every call is a 401 or 403"
            yield self.finding(world, one.owner, path, message)
        for index, token in projected:
            if off and token.get("audience") and "kubernetes" not in str(token["audience"]):
                message = f"its only token is for audience {token['audience']}: the API server answers 401"
                yield self.finding(world, one.owner, (*one.path, "volumes", index), message)

    def _legacy(self, world: World, one: Executor) -> Iterable[Finding]:
        for index, volume in enumerate(one.spec.get("volumes") or ()):
            name = str(dig(volume, "secret", "secretName", default=""))
            secret = world.find("Secret", one.namespace, name) or {}
            if secret.get("type") == "kubernetes.io/service-account-token" or re.search(r"-token-\w{5}$", name):
                message = f"uses the legacy token Secret {name}, which is invalidated when it was not used for a year"
                yield self.finding(world, one.owner, (*one.path, "volumes", index), message, severity="warning")

    def _read_once(self, world: World, one: Executor) -> Iterable[Finding]:
        if one.owner.get("kind") == "CronJob":
            return
        read, loop = _READ.search(one.text), _LOOP.search(one.text)
        if read and loop and read.start() < loop.start() and not _READ.search(one.text, loop.start()):
            message = "reads its token once, before its loop: after an hour (or a day) every call is a 401"
            yield self.finding(world, one.owner, command_path(one), message)


def _kubeconfig(one: Executor) -> bool:
    return "KUBECONFIG" in str(one.spec) or "--kubeconfig" in one.text


_READ = lazy_re.compile(r"/var/run/secrets/kubernetes\.io/serviceaccount/token")
_LOOP = lazy_re.compile(r"\b(while\s+(true|:|True|1)|for\s*\(\(;;|until false)")
