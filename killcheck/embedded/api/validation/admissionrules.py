"""What of requests a webhook or an admission policy is about: operations, groups, versions, resources, scope.

Source: ``validateRule`` and ``validateResources`` in pkg/apis/admissionregistration/validation of Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.api.validation.fields import Causes, at, invalid, not_supported, required
from killcheck.kube.objects import Obj

__all__ = ["rule"]

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")


def rule(rule: Obj, path: str) -> Causes:
    """What of requests a webhook or a policy is about."""
    causes: Causes = []
    operations = rule.get("operations") or []
    if not operations:
        causes.append(required(f"{path}.operations"))
    causes += [
        not_supported(f"{path}.operations[{i}]", name, _OPERATIONS)
        for i, name in enumerate(operations)
        if name not in _OPERATIONS
    ]
    if len(operations) > 1 and "*" in operations:
        causes.append(invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations"))
    causes += [
        required(f"{path}.{field}") for field in ("apiGroups", "apiVersions", "resources") if not rule.get(field)
    ]
    causes += _resources(rule.get("resources") or [], f"{path}.resources")
    return causes + _scope(rule, path)


def _resources(resources: list[str], path: str) -> Causes:
    """``validateResources``: what an asterisk says already is not said again."""
    causes: Causes = []
    whole, of_all = set(), set()
    plain = False
    for i, name in enumerate(resources):
        resource, slash, sub = name.partition("/")
        if not name:
            causes.append(required(at(path, i)))
        elif not slash:
            plain = name != "*"
        else:
            if resource in whole:
                causes.append(invalid(at(path, i), name, f"if '{resource}/*' is present, must not specify {name}"))
            if sub in of_all:
                causes.append(invalid(at(path, i), name, f"if '*/{sub}' is present, must not specify {name}"))
            whole |= {resource} if sub == "*" else set()
            of_all |= {sub} if resource == "*" else set()
    if len(resources) > 1 and "*/*" in resources:
        words = "if '*/*' is present, must not specify other resources"
        causes.append(invalid(path, resources, words))
    if "*" in resources and plain:
        words = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid(path, resources, words))
    return causes


def _scope(rule: Obj, path: str) -> Causes:
    scope = rule.get("scope")
    return [] if scope in (None, *_SCOPES) else [not_supported(f"{path}.scope", scope, _SCOPES)]
