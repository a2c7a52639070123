"""What a container has printed, as it may be shown: its end, without what the Secrets hold that its pod is given.

Values are hidden for good, for what a program is given comes out in more places than its log. A Secret that the account
may not read stays unread: what of it is printed goes by its look alone (:mod:`killcheck.text.redaction`).
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.kube.resources import Resource
from killcheck.text.redaction import hide_secrets, redact

__all__ = ["given_to", "hide_given", "read"]

#: So many lines are asked for at most: of a log that never ends its end is enough.
LINES = 5_000
#: Looked through for each character that is kept: redacting makes a text shorter.
_MARGIN = 4
_REFERENCES: tuple[tuple[str, str, Resource], ...] = (
    ("secretRef", "secretKeyRef", r.SECRETS),
    ("configMapRef", "configMapKeyRef", r.CONFIGMAPS),
)


def read(kube: Kube, pod: Obj, *, container: str = "", kept: int) -> str:
    """The last ``kept`` characters of a container's log, without secrets. Raises KubeError, as :meth:`Kube.logs`."""
    text = kube.logs(name_of(pod), namespace_of(pod), container=container, tail_lines=LINES)
    hide_given(kube, pod)
    end = text[-kept * _MARGIN :]
    if len(end) < len(text):  # what was cut through would not be known any more
        end = end.partition("\n")[2] or "[one line, too long to be shown]"
    return redact(end)[-kept:]


def hide_given(kube: Kube, pod: Obj) -> None:
    """From now on take what a pod is given out of every text: its own variables, and what may be read of the rest."""
    found = [_readable(kube, resource, name, namespace_of(pod)) for resource, name in sorted(given_to(pod), key=str)]
    hide_secrets([pod, *(obj for obj in found if obj is not None)])


def given_to(pod: Obj) -> set[tuple[Resource, str]]:
    """The Secrets and ConfigMaps whose values a pod is given: variables, files, and what it pulls images with."""
    return {(resource, str(name)) for resource, name in _named(dig(pod, "spec", default={})) if name}


def _named(spec: Obj) -> Iterator[tuple[Resource, object]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            for whole, one, resource in _REFERENCES:
                for source in container.get("envFrom") or ():
                    yield resource, dig(source, whole, "name")
                for variable in container.get("env") or ():
                    yield resource, dig(variable, "valueFrom", one, "name")
    for volume in spec.get("volumes") or ():
        for source in (volume, *(dig(volume, "projected", "sources", default=()))):
            yield r.SECRETS, dig(source, "secret", "secretName") or dig(source, "secret", "name")
            yield r.CONFIGMAPS, dig(source, "configMap", "name")
    for secret in spec.get("imagePullSecrets") or ():
        yield r.SECRETS, secret.get("name")


def _readable(kube: Kube, resource: Resource, name: str, namespace: str) -> Obj | None:
    """An object, where the account may read it: nobody is asked to let it."""
    try:
        may = kube.may("get", resource.plural, name=name, namespace=namespace)
        return kube.find(resource, name, namespace) if may else None
    except KubeError:
        return None
