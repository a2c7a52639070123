"""LimitRange: defaults for containers that ask for nothing, and bounds on those that ask.

Source: plugin/pkg/admission/limitranger/admission.go; recording 13. Bounds are checked in the order of their names
(there it is the order of a Go map, that is none).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.pod_resources import ZERO, Quantity, pod_resources, quantity
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig

__all__ = ["LimitRanger"]

LIMIT_RANGES = ("", "limitranges")
PODS = ("", "pods")
CLAIMS = ("", "persistentvolumeclaims")
ANNOTATION = "kubernetes.io/limit-ranger"

Amounts = Mapping[str, Quantity]
#: (type, resource name, bound, requests, limits) -> what is wrong, None if nothing.
Check = Callable[[str, str, Quantity, Amounts, Amounts], str | None]


class LimitRanger:
    """LimitRanger admission of pods and claims."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def mutate(self, request: AdmissionRequest) -> None:
        """Fill in what the containers of a new pod leave open."""
        if request.resource != PODS or not self._concerns(request):
            return
        for _, limit_range in self.store.items(LIMIT_RANGES, request.namespace):
            _fill(request.obj or {}, dig(limit_range, "spec", "limits", default=[]))

    def validate(self, request: AdmissionRequest) -> list[str]:
        """Refuse what is out of bounds."""
        if not self._concerns(request):
            return []
        for _, limit_range in self.store.items(LIMIT_RANGES, request.namespace):
            found: list[str] = []
            for limit in dig(limit_range, "spec", "limits", default=[]):
                for requests, limits in _subjects(request, limit.get("type", "")):
                    found += _problems(limit, requests, limits)
            texts = list(dict.fromkeys(found))
            if texts:
                raise request.forbidden(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        return []

    @staticmethod
    def _concerns(request: AdmissionRequest) -> bool:
        if request.subresource or request.obj is None or dig(request.old, "metadata", "deletionTimestamp"):
            return False
        return request.operation == "CREATE" or (request.operation == "UPDATE" and request.resource == CLAIMS)


def _subjects(request: AdmissionRequest, kind: str) -> Iterator[tuple[Amounts, Amounts]]:
    """(requests, limits) of everything that a limit of this type bounds."""
    obj: Obj = request.obj or {}
    if request.resource == CLAIMS:
        if kind == "PersistentVolumeClaim":
            yield _amounts(dig(obj, "spec", "resources", "requests", default={})), {}
        return
    if kind == "Container":
        for key in ("containers", "initContainers"):
            for container in dig(obj, "spec", key, default=[]):
                resources: Obj = container.get("resources") or {}
                yield _amounts(resources.get("requests") or {}), _amounts(resources.get("limits") or {})
    if kind == "Pod":
        yield pod_resources(obj, "requests"), pod_resources(obj, "limits")


def _problems(limit: Obj, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = limit.get("type", "")
    maximum = _maximum_request if kind == "PersistentVolumeClaim" else _maximum
    checks: tuple[tuple[str, Check], ...] = (("min", _minimum), ("max", maximum), ("maxLimitRequestRatio", _ratio))
    for key, check in checks:
        for name, bound in sorted((limit.get(key) or {}).items()):
            problem = check(kind, name, quantity(bound), requests, limits)
            if problem:
                yield problem


def _minimum(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> str | None:
    said = f"minimum {name} usage per {kind} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if request is None:
        return f"{said}.  No request is specified"
    if request < bound:
        return f"{said}, but request is {request}"
    return f"{said}, but limit is {limit}" if limit is not None and limit < bound else None


def _maximum(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> str | None:
    said = f"maximum {name} usage per {kind} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if limit is None:
        return f"{said}.  No limit is specified"
    if bound < limit:
        return f"{said}, but limit is {limit}"
    return f"{said}, but request is {request}" if request is not None and bound < request else None


def _maximum_request(kind: str, name: str, bound: Quantity, requests: Amounts, _limits: Amounts) -> str | None:
    said = f"maximum {name} usage per {kind} is {bound}"
    request = requests.get(name)
    if request is None:
        return f"{said}.  No request is specified"
    return f"{said}, but request is {request}" if bound < request else None


def _ratio(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> str | None:
    said = f"{name} max limit to request ratio per {kind} is {bound}"
    request, limit = requests.get(name, ZERO), limits.get(name, ZERO)
    if not request.value:
        return f"{said}, but no request is specified or request is 0"
    if not limit.value:
        return f"{said}, but no limit is specified or limit is 0"
    ratio = limit.value / request.value
    return f"{said}, but provided ratio is {float(ratio):f}" if ratio > bound.value else None


def _amounts(values: Mapping[str, object]) -> dict[str, Quantity]:
    return {name: quantity(value) for name, value in values.items()}


def _fill(pod: Obj, limits: list[Obj]) -> None:
    """Give containers the defaults of a LimitRange, and note on the pod what was given."""
    default, default_request = _defaults(limits)
    notes = []
    for what, key in (("container", "containers"), ("init container", "initContainers")):
        for container in dig(pod, "spec", key, default=[]):
            for word, values, part in (("request", default_request, "requests"), ("limit", default, "limits")):
                given = _give(container, part, values)
                if given:
                    notes.append(f"{', '.join(given)} {word} for {what} {container.get('name', '')}")
    if notes:
        annotations = pod.setdefault("metadata", {}).setdefault("annotations", {})
        annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def _defaults(limits: list[Obj]) -> tuple[dict[str, str], dict[str, str]]:
    """(limits, requests) for containers; what a LimitRange leaves open follows from its bounds, as it is defaulted."""
    default: dict[str, str] = {}
    request: dict[str, str] = {}
    for limit in limits:
        if limit.get("type") == "Container":
            default |= (limit.get("max") or {}) | (limit.get("default") or {})
            fallback = (limit.get("min") or {}) | (limit.get("max") or {}) | (limit.get("default") or {})
            request |= fallback | (limit.get("defaultRequest") or {})
    return default, request


def _give(container: Obj, part: str, values: Mapping[str, str]) -> list[str]:
    resources = container.get("resources") or {}
    present: Obj = resources.get(part) or {}
    given = sorted(name for name in values if name not in present)
    if given:
        container["resources"] = resources | {part: present | {name: values[name] for name in given}}
    return given
