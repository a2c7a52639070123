"""Requests to the API server that are sent to a proxy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_network

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import calls_by_name, command_path
from killcheck.probes.world import Executor, World

from killcheck.executor import proxies
from killcheck.kube.objects import Obj, dig
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path

__all__ = ["Proxied"]

#: How a pod names the API server where it goes by address: what the kubelet gives it is filled in at run time.
_BY_ADDRESS = "$KUBERNETES_SERVICE_HOST"
#: A proxy for HTTPS that a script sets, or gives curl (curl(1): -x, --proxy), and what lets the API server past it.
_IN_SCRIPT = lazy_re.compile(
    r"(?m)(?P<how>\b(?:https|all)_proxy(?==)|\b(?:HTTPS|ALL)_PROXY(?==)|\s(?:-x|--proxy)(?=[ =]))[= ]"
    r"[\"']?(?P<proxy>(?:\w+://)?[\w.-]+(?::\d+)?)"
)
_PAST = r"(?i)\bno_proxy=|--noproxy\b|\bunset\s+[^\n]*https_proxy"


class Proxied(Probe):
    """A proxy for the way out gets the request to the API server too; it knows no Service, and hangs or refuses."""

    id = "proxied"
    claim = "The executor's requests to the API server go past the proxy that its environment names."
    remedy = "Add .svc and the Services' network (or $(KUBERNETES_SERVICE_HOST)) to NO_PROXY, or drop the proxy."
    severity = "error"
    failures = (23,)
    sources = (
        "golang.org/x/net/http/httpproxy (kubectl, client-go)",
        "curl.se/docs/manpage.html, ENVIRONMENT",
        "kubernetes.io/docs: Services, environment variables",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """HTTPS_PROXY and NO_PROXY of the containers of executors that call the API server."""
        for one in world.layer_executors:
            if not one.reading.calls and not calls_by_name(one):
                continue
            for path, container in one.containers:
                yield from self._judge(world, one, path, container)
            yield from self._in_script(world, one)

    def _in_script(self, world: World, one: Executor) -> Iterable[Finding]:
        """A proxy that its script names itself: a variable that it sets, or an option of curl."""
        found = _IN_SCRIPT.search(one.text)
        if found and calls_by_name(one) and not re.search(_PAST, one.text):
            host = proxies.host_of(found["proxy"])
            message = f"{found['how'].strip()}: its requests to the API server are sent to {host}"
            yield self.finding(world, one.owner, command_path(one), message)

    def _judge(self, world: World, one: Executor, path: Path, container: Obj) -> Iterable[Finding]:
        env, places, unseen = _environment(world, one, path, container)
        found = proxies.named(env)
        if found is None:
            return
        name, proxy = found
        where = places[name]
        by_name = calls_by_name(one)
        if by_name and not proxies.passes(env, proxies.API_NAMES[2]):
            message = f"{name}: its requests to the API server are sent to {proxies.host_of(proxy)}"
            yield self.finding(world, one.owner, where, message)
        elif not by_name and not _may_pass(env):
            message = f"{name}: its requests to the API server's address are sent to {proxies.host_of(proxy)}"
            yield self.finding(world, one.owner, where, message)
        elif not by_name and not _passes_address(env):
            networks = env.get("no_proxy") or env.get("NO_PROXY", "")
            yield self.unproven(world, one.owner, f"whether the API server's address is in NO_PROXY ({networks})")
        elif unseen:
            yield self.unproven(world, one.owner, f"what {unseen} says of proxies: it is not among what was read")


def _may_pass(env: dict[str, str]) -> bool:
    """Whether an address could be in the list of what goes past the proxy."""
    listed = env.get("no_proxy") or env.get("NO_PROXY", "")
    return _passes_address(env) or any(_is_elsewhere(entry.strip()) for entry in listed.split(","))


def _is_elsewhere(entry: str) -> bool:
    """An address, or a network, of other machines than one's own."""
    with suppress(ValueError):
        return not ip_network(entry, strict=False).is_loopback
    return False


def _passes_address(env: dict[str, str]) -> bool:
    listed = env.get("no_proxy") or env.get("NO_PROXY", "")
    return any(entry.strip() in ("*", _BY_ADDRESS) for entry in listed.split(","))


def _environment(
    world: World, one: Executor, path: Path, container: Obj
) -> tuple[dict[str, str], dict[str, Path], str | None]:
    """A container's variables as the kubelet makes them, where each is from, and a ConfigMap that is not here."""
    env: dict[str, str] = {}
    places: dict[str, Path] = {}
    unseen: str | None = None
    for index, source in enumerate(container.get("envFrom") or ()):
        name = str(dig(source, "configMapRef", "name", default=""))
        found = world.find("ConfigMap", one.namespace, name) if name else None
        if name and found is None:
            unseen = f"ConfigMap {one.namespace}/{name}"
        for key, value in dig(found or {}, "data", default={}).items():
            env[f"{source.get('prefix', '')}{key}"] = str(value)
            places[f"{source.get('prefix', '')}{key}"] = (*path, "envFrom", index)
    for index, (name, value) in enumerate(_said(world, one, container)):
        env[name] = value.replace("$(KUBERNETES_SERVICE_HOST)", _BY_ADDRESS)
        places[name] = (*path, "env", index)
    return env, places, unseen


def _said(world: World, one: Executor, container: Obj) -> Iterator[tuple[str, str]]:
    for entry in container.get("env") or ():
        ref = dig(entry, "valueFrom", "configMapKeyRef", default={})
        found = world.find("ConfigMap", one.namespace, str(ref.get("name"))) if ref else None
        yield str(entry.get("name")), str(entry.get("value") or dig(found or {}, "data", ref.get("key"), default=""))
