"""Proxies that a container's environment names, and what goes past them: the way a client takes to the API server.

Sources: golang.org/x/net/http/httpproxy (Config.useProxy; kubectl, client-go, helm); curl's manual, ENVIRONMENT (the
lower-case names go before the others); Python's urllib.request.getproxies_environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

__all__ = ["API_NAMES", "host_of", "named", "passes", "proxy_for"]

#: Under which names a pod finds the API server.
API_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_PAST = ("no_proxy", "NO_PROXY")


def named(env: Mapping[str, str]) -> tuple[str, str] | None:
    """(variable, proxy) that requests by HTTPS are sent to; None: none is."""
    return next(((name, env[name]) for name in _PROXIES if env.get(name, "").strip()), None)


def passes(env: Mapping[str, str], host: str) -> bool:
    """Whether a request to ``host`` (a name, or an address) goes past the proxy, by the list of those that do."""
    listed = next((env[name] for name in _PAST if env.get(name)), "")
    return any(_covers(entry.strip().lower(), host.lower().rstrip(".")) for entry in listed.split(","))


def proxy_for(env: Mapping[str, str], host: str) -> str | None:
    """The host of the proxy that a request to ``host`` is sent to; None: it is sent to ``host`` itself."""
    found = named(env)
    return None if found is None or passes(env, host) else host_of(found[1])


def host_of(proxy: str) -> str:
    """The host of a proxy as variables have it, with or without a scheme."""
    try:
        return urlsplit(proxy if "://" in proxy else f"http://{proxy}").hostname or proxy
    except ValueError:  # no URL: http://[$PROXY]
        return proxy


def _covers(entry: str, host: str) -> bool:
    """One entry: a star, an address, a network, or a domain, whose names end with it."""
    if entry == "*":
        return True
    with suppress(ValueError):
        return ip_address(host) in ip_network(entry, strict=False)
    name = entry.rpartition(":")[0] if ":" in entry else entry
    bare = name.removeprefix("*").removeprefix(".")
    return bool(bare) and (host.endswith(f".{bare}") or (host == bare and not name.startswith((".", "*"))))
