"""Which answers of the API server are ours alone: a real one would serve what was asked for, or might.

The types and paths of Kubernetes itself are all here, so a path of a built-in group that is not found would not be
found anywhere. Beside them a real cluster has what was installed in it (custom resources, aggregated APIs), a kubelet
behind ``proxy`` and containers in its pods.
"""

from __future__ import annotations

from collections.abc import Collection

from killcheck.embedded.api.call import Route, route
from killcheck.embedded.api.http import Request, Response, User
from killcheck.embedded.api.kinds import Registry
from killcheck.embedded.api.resourcemetrics import is_figure
from killcheck.embedded.limits import DRILL_IT
from killcheck.text import lazy_re

__all__ = ["limit_of", "who"]

#: What a real API server answers beside its resources (k8s.io/apiserver/pkg/server/routes).
_PAGES = ("metrics", "logs", "debug", "configz", "flagz", "statusz")
_NO_SERVICE = lazy_re.compile(r'failed calling webhook "(?P<name>[^"]+)".*service "(?P<service>[^"]+)" not found')
_POD = "authentication.kubernetes.io/pod-name"


def who(user: User) -> str:
    """A client in words: the pod, where its token says which."""
    account = user.name.removeprefix("system:serviceaccount:").replace(":", "/")
    pod = next(iter(user.extra.get(_POD, ())), "")
    return f"Pod/{account.partition('/')[0]}/{pod}" if pod else f"ServiceAccount {account}"


def limit_of(kinds: Registry, builtin: Collection[str], request: Request, response: Response) -> tuple[str, str] | None:
    """(what only this cluster answers, what to do); None: anybody's answer. ``builtin``: Kubernetes' own groups."""
    asked = f"{request.method} {request.path}"
    if response.status == 501:
        message = response.body.get("message", "") if isinstance(response.body, dict) else ""
        tried = f"{request.method} " if route(request.path).subresource == "proxy" else ""
        return f"{tried}{request.path}: {message}", DRILL_IT  # others are tried over WebSocket (GET) and SPDY (POST)
    if response.status == 200 and is_figure(request.path):
        return f"{asked}: its figures are what containers ask for, and none was measured", DRILL_IT
    if response.status == 500 and (unanswered := _webhook_without_service(response)):
        return f"{asked}: {unanswered}", f"add the webhook's Service and what answers there, or {DRILL_IT}"
    missing = _not_served(kinds, builtin, request.path, route(request.path)) if response.status == 404 else None
    return None if missing is None else (f"{asked}: {missing[0]}", missing[1])


def _webhook_without_service(response: Response) -> str | None:
    """What a webhook of the manifests could not be asked, its Service being in none of them; None: that was not it."""
    message = str(response.body.get("message", "")) if isinstance(response.body, dict) else ""
    found = _NO_SERVICE.search(message)
    if found is None or found["name"].endswith(".killcheck.dev"):  # a fault's own: meant to have none
        return None
    return f"webhook {found['name']} is asked, and its Service {found['service']} is in no manifest"


def _not_served(kinds: Registry, builtin: Collection[str], path: str, at: Route) -> tuple[str, str] | None:
    """(what is missing here, what to do) of a path that was not found; None: it would be found nowhere.

    What can be installed has a dot in its group (apiextensions' validation): ``extensions`` is gone everywhere.
    """
    if not at.plural:
        first, *rest = path.strip("/").split("/")
        if first in _PAGES:
            return "it is not served here", DRILL_IT
        if first != "apis" or not rest or rest[0] in builtin or "." not in rest[0] or kinds.serves_group(rest[0]):
            return None
        return f"API group {rest[0]} is not served here", _install(rest[0])
    if at.subresource == "proxy" and not at.group:  # what is behind it may have come another way than by a manifest
        return f"nothing answers {at.plural} through the API server's proxy here", DRILL_IT
    if at.group in builtin or "." not in at.group or kinds.of_resource(at.group, at.plural) is not None:
        return None
    return f"{at.plural}.{at.group} is not served here", _install(at.group)


def _install(group: str) -> str:
    if group == "metrics.k8s.io" or group.endswith(".metrics.k8s.io"):
        return f"no metrics are measured here: {DRILL_IT}"
    return f"add its CustomResourceDefinition to the manifests, or {DRILL_IT}"
