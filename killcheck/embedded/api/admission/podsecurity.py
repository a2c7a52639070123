"""Pod Security: a namespace's labels say what pods may ask for (``enforce``), and what is warned of (``warn``).

Source: k8s.io/pod-security-admission/admission; recording 14. ``audit`` has no effect: nothing here is audited.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from killcheck.embedded.api import status
from killcheck.embedded.api.admission.podsecurity_checks import Problem, problems
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, controller_of, dig, labels_of, name_of
from killcheck.text import lazy_re

__all__ = ["PodSecurity"]

NAMESPACES = ("", "namespaces")
PODS = ("", "pods")
PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")
#: The minor version that ``latest`` stands for.
LATEST = 36
#: Where other kinds keep the pods that they are going to make.
TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
}
_VERSION = lazy_re.compile(r"v1\.(0|[1-9]\d*)")
#: At most so many existing pods are looked at when a namespace is made stricter.
MAX_PODS = 3000


class Policy(Struct, frozen=True):
    """A level at a version of the standards."""

    level: str = "privileged"
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def problems(self, pod: Obj) -> list[Problem]:
        """What of a pod (or pod template) the policy forbids."""
        if self.level == "privileged":
            return []
        minor = LATEST if self.version == "latest" else min(LATEST, int(self.version.partition(".")[2]))
        return problems(pod, restricted=self.level == "restricted", minor=minor)

    def stricter_than(self, other: Policy) -> bool:
        """Whether pods that ``other`` lets pass may fail here."""
        if self == other or self.level == "privileged":
            return False
        return self.version != other.version or LEVELS.index(self.level) > LEVELS.index(other.level)


class PodSecurity:
    """PodSecurity admission, with the default configuration: everything is privileged unless labelled."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def validate(self, request: AdmissionRequest) -> list[str]:
        """Refuse pods that violate ``enforce``; warn of pods and templates that violate ``warn``."""
        if request.subresource or request.obj is None or request.operation not in ("CREATE", "UPDATE"):
            return []
        if request.resource == NAMESPACES:
            return self._namespace(request)
        namespace = self.store.get(NAMESPACES, ("", request.namespace))
        labels = labels_of(namespace) if namespace else {}
        if not any(label.startswith(PREFIX) for label in labels):
            return []
        if request.resource == PODS:
            return self._pod(request, labels)
        template = dig(request.obj, *TEMPLATES[request.resource])
        return _warnings(template, labels) if template else []

    @staticmethod
    def _pod(request: AdmissionRequest, labels: Mapping[str, str]) -> list[str]:
        pod: Obj = request.obj or {}
        if request.operation == "UPDATE" and not _significant(pod, request.old or {}):
            return []
        enforced = _policy(labels, "enforce")
        found = enforced.problems(pod)
        if found:
            raise request.forbidden(f'violates PodSecurity "{enforced}": {_detail(found)}')
        return _warnings(pod, labels)

    def _namespace(self, request: AdmissionRequest) -> list[str]:
        """Labels must parse; making a namespace stricter warns of the pods that are already there."""
        labels = labels_of(request.obj or {})
        before = labels_of(request.old) if request.old else {}
        causes = _causes(labels)
        if causes and causes != _causes(before):
            raise status.invalid("Namespace", "", request.name or name_of(request.obj or {}), causes)
        enforced = _policy(labels, "enforce")
        if request.operation == "CREATE" or not enforced.stricter_than(_policy(before, "enforce")):
            return []
        return self._existing(request.name, enforced)

    def _existing(self, namespace: str, enforced: Policy) -> list[str]:
        pods = [pod for _, pod in self.store.items(PODS, namespace)]
        seen: set[str] = set()
        first: list[Obj] = []
        more: list[Obj] = []
        for pod in pods:
            owner = (controller_of(pod) or {}).get("uid", "")
            (more if owner and owner in seen else first).append(pod)
            seen.add(owner)
        checked = (first + more)[:MAX_PODS]
        by_reason: dict[str, list[str]] = {}
        for pod in checked:
            found = enforced.problems(pod)
            if found:
                by_reason.setdefault(", ".join(problem.reason for problem in found), []).append(name_of(pod))
        warnings = []
        if len(checked) < len(pods):
            warnings.append(
                f"new PodSecurity enforce level only checked against the first {len(checked)} of {len(pods)} existing "
                "pods"
            )
        if by_reason:
            warnings.append(
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforced}"'
            )
        return warnings + sorted(_decorated(reason, names) for reason, names in by_reason.items())


def _decorated(reason: str, names: list[str]) -> str:
    others = len(names) - 1
    tail = "" if not others else " (and 1 other pod)" if others == 1 else f" (and {others} other pods)"
    return f"{min(names)}{tail}: {reason}"


def _warnings(pod: Obj, labels: Mapping[str, str]) -> list[str]:
    policy = _policy(labels, "warn")
    found = policy.problems(pod)
    return [f'would violate PodSecurity "{policy}": {_detail(found)}'] if found else []


def _detail(found: list[Problem]) -> str:
    return ", ".join(f"{problem.reason} ({problem.detail})" if problem.detail else problem.reason for problem in found)


def _policy(labels: Mapping[str, str], mode: str) -> Policy:
    """The policy of a mode. ``enforce`` reads a level it does not know as restricted, ``warn`` as privileged."""
    level, version = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version")
    if mode == "warn" and level is None:
        # Unless it is said, one is warned of what is enforced: of templates, whose pods will be refused.
        enforced = labels.get(PREFIX + "enforce")
        level = enforced if enforced in LEVELS else None
        version = labels.get(PREFIX + "enforce-version") if version is None else version
    unknown = "restricted" if mode == "enforce" else "privileged"
    parsed = "privileged" if level is None else level if level in LEVELS else unknown
    return Policy(parsed, version if version and _VERSION.fullmatch(version) else "latest")


def _causes(labels: Mapping[str, str]) -> list[Obj]:
    causes = []
    for mode in ("enforce", "audit", "warn"):
        level, version = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version")
        if level is not None and level not in LEVELS:
            causes.append(_invalid(PREFIX + mode, level, f"must be one of {', '.join(LEVELS)}"))
        if version not in (None, "latest") and not _VERSION.fullmatch(version or ""):
            causes.append(_invalid(f"{PREFIX}{mode}-version", version or "", 'must be "latest" or "v1.x"'))
    return causes


def _invalid(label: str, value: str, why: str) -> Obj:
    return {
        "reason": "FieldValueInvalid",
        "message": f'Invalid value: "{value}": {why}',
        "field": f"metadata.labels[{label}]",
    }


def _significant(new: Obj, old: Obj) -> bool:
    """Whether an update of a pod can change the verdict: another image, another ephemeral container."""
    return _images(new) != _images(old)


def _images(pod: Obj) -> list[tuple[str, str, str]]:
    keys = ("containers", "initContainers", "ephemeralContainers")
    return [(key, c.get("name", ""), c.get("image", "")) for key in keys for c in dig(pod, "spec", key, default=[])]
