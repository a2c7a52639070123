"""What a pod, or its namespace, asks an injector for: containers that a webhook adds and that no manifest shows.

Sources: istio.io, Installing the Sidecar (labels ``istio-injection``, ``istio.io/rev``, ``sidecar.istio.io/inject``);
linkerd.io, Automatic Proxy Injection; developer.hashicorp.com, Vault Agent Injector annotations, Consul connect-inject;
docs.dapr.io, annotations; kuma.io, Data plane on Kubernetes; opentelemetry.io, Operator: sidecar injection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from killcheck.kube.objects import Obj

__all__ = ["asked_for"]

_OFF = frozenset({"", "0", "disable", "disabled", "false", "n", "no", "none", "off"})
#: Keys that say it in their own words; the name of any other has "inject" in it.
_KEYS = frozenset({"dapr.io/enabled", "istio.io/rev"})
#: Parts of keys that do not say whose they are.
_COMMON = frozenset(
    "com enabled inject injection injector instrumentation io net org rev sidecar sidecars connect agent config".split()
)


def asked_for(pod: Mapping[str, Any], namespace: Obj) -> str | None:
    """``key=value`` of the label or annotation by which an injector is asked for; None: none is.

    ``pod``: the metadata of a pod or its template, which goes before that of its namespace.
    """
    own = _marks(pod)
    wanted = next((f"{key}={value}" for key, value in own.items() if _wanted(value)), None)
    if wanted is not None:
        return wanted
    refused = {word for key, value in own.items() if not _wanted(value) for word in _whose(key)}
    for key, value in _marks(namespace.get("metadata") or {}).items():
        if _wanted(value) and not refused & _whose(key):
            return f"{key}={value} of its namespace"
    return None


def _marks(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The labels and annotations that ask an injector, or refuse it; not those that set up what is injected."""
    found = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    return {str(key): str(value) for key, value in found.items() if key in _KEYS or _asks(str(key))}


def _asks(key: str) -> bool:
    """``vault.hashicorp.com/agent-inject`` does; ``…/agent-inject-secret-key`` says what is put where."""
    name = key.rpartition("/")[2].lower()
    return "inject" in name and not re.search(
        r"inject-(secret|template|file|status|perms|mode|command|containers)", name
    )


def _wanted(value: str) -> bool:
    return value.strip().lower() not in _OFF


def _whose(key: str) -> set[str]:
    """The words of a key that say whose injector it is."""
    return set(re.findall(r"[a-z]+", key.lower())) - _COMMON
