"""Webhook configurations, MutatingAdmissionPolicies and CustomResourceDefinitions.

Source: pkg/apis/admissionregistration/validation of Kubernetes v1.36 and ``ValidateCustomResourceDefinition`` of
apiextensions-apiserver: what is needed for either to work at all; schemas are in ``crdstructure``. Whether an
expression is CEL is found when it is evaluated.
"""

from __future__ import annotations

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import admissionrules, meta, names
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    duplicate,
    immutable,
    invalid,
    not_supported,
    required,
)
from killcheck.kube.objects import Obj

__all__ = ["create", "update"]

_MUTATED = ("*", "CONNECT", "CREATE", "UPDATE")


def create(kind: Kind, new: Obj) -> Causes:
    """A new object."""
    return meta.create(new["metadata"], names.dns_subdomain, core=meta.core(kind)) + _body(kind, new)


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed object."""
    causes = meta.update(
        new["metadata"], old["metadata"], core=meta.core(kind), rule=meta.again(kind.resource.kind)
    ) + _body(kind, new)
    if kind.resource.kind == "CustomResourceDefinition":
        ours, theirs = new.get("spec") or {}, old.get("spec") or {}
        causes += immutable("spec.group", ours.get("group"), theirs.get("group"))
        causes += immutable("spec.scope", ours.get("scope"), theirs.get("scope"))
        for field in ("plural", "kind"):
            causes += immutable(
                f"spec.names.{field}", (ours.get("names") or {}).get(field), (theirs.get("names") or {}).get(field)
            )
    return causes


def _body(kind: Kind, new: Obj) -> Causes:
    if kind.resource.kind == "CustomResourceDefinition":
        return _definition(new)
    if kind.resource.kind == "MutatingAdmissionPolicy":
        return _mutating_policy(new.get("spec") or {})
    if kind.resource.kind == "MutatingAdmissionPolicyBinding":
        return [] if (new.get("spec") or {}).get("policyName") else [required("spec.policyName")]
    causes: Causes = []
    seen: set[str] = set()
    for i, hook in enumerate(new.get("webhooks") or []):
        path, name = at("webhooks", i), hook.get("name", "")
        causes += _webhook(hook, path)
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
    return causes


# -- policies --------------------------------------------------------------------------------------------------
def _mutating_policy(spec: Obj) -> Causes:
    causes = _one_of(spec, "spec", "failurePolicy", ("Fail", "Ignore"))
    constraints = spec.get("matchConstraints")
    if constraints is None:
        causes.append(required("spec.matchConstraints"))
    else:
        rules = constraints.get("resourceRules") or []
        for i, rule in enumerate(rules):
            causes += admissionrules.rule(rule, f"spec.matchConstraints.resourceRules[{i}]")
        if not rules:
            causes.append(required("spec.matchConstraints.resourceRules"))
        causes += [
            not_supported("spec.matchConstraints.resourceRules.operations", operation, _MUTATED)
            for rule in rules
            for operation in rule.get("operations") or ()
            if operation not in _MUTATED
        ]
    if not spec.get("mutations"):
        causes.append(required("spec.mutations", "mutations must contain at least one item"))
    for i, mutation in enumerate(spec.get("mutations") or ()):
        causes += _mutation(mutation, f"spec.mutations[{i}]")
    if not spec.get("reinvocationPolicy"):
        return [*causes, required("spec.reinvocationPolicy")]
    return causes + _one_of(spec, "spec", "reinvocationPolicy", ("IfNeeded", "Never"))


def _one_of(obj: Obj, path: str, field: str, known: tuple[str, ...]) -> Causes:
    return [] if obj.get(field) in (None, *known) else [not_supported(f"{path}.{field}", obj[field], known)]


def _mutation(mutation: Obj, path: str) -> Causes:
    kind = mutation.get("patchType")
    fields = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
    if not kind:
        return [required(f"{path}.patchType")]
    if kind not in fields:
        return [not_supported(f"{path}.patchType", kind, tuple(fields))]
    own = fields[kind]
    causes: Causes = []
    if mutation.get(own) is None:
        causes.append(required(f"{path}.{own}", f"must be specified when patchType is {kind}"))
    elif not str(mutation[own].get("expression") or "").strip():
        causes.append(required(f"{path}.{own}.expression"))
    return causes + [
        invalid(f"{path}.{other}", f"{{{other}}}", f"must not be specified when patchType is {kind}")
        for other in fields.values()
        if other != own and mutation.get(other) is not None
    ]


# -- webhooks --------------------------------------------------------------------------------------------------
def _webhook(hook: Obj, path: str) -> Causes:
    name = hook.get("name", "")
    causes: Causes = []
    if not name:
        causes.append(required(f"{path}.name"))
    elif names.dns_subdomain(name):
        causes.append(invalid(f"{path}.name", name, ",".join(names.dns_subdomain(name))))
    elif len(name.split(".")) < 3:
        words = "should be a domain with at least three segments separated by dots"
        causes.append(invalid(f"{path}.name", name, words))
    for i, rule in enumerate(hook.get("rules") or []):
        causes += admissionrules.rule(rule, f"{path}.rules[{i}]")
    for field, known in (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))):
        if hook.get(field) not in (None, *known):
            causes.append(not_supported(f"{path}.{field}", hook[field], known))
    if hook.get("sideEffects") is None:
        causes.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    elif hook["sideEffects"] not in ("None", "NoneOnDryRun"):
        causes.append(not_supported(f"{path}.sideEffects", hook["sideEffects"], ("None", "NoneOnDryRun")))
    if not hook.get("admissionReviewVersions"):
        causes.append(required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1"))
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        causes.append(invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds"))
    for field in ("namespaceSelector", "objectSelector"):
        causes += meta.selector(hook.get(field), f"{path}.{field}")
    causes += _one_of(hook, path, "reinvocationPolicy", ("IfNeeded", "Never"))
    causes += _client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    return causes + _conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")


def _conditions(given: list[Obj], path: str) -> Causes:
    if not given:
        return []
    from killcheck.embedded.api.validation import expressions  # which compiles

    return expressions.match_conditions(given, path)


def _client(config: Obj, path: str) -> Causes:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        if not str(url).startswith("https://"):
            scheme = str(url).partition("://")[0]
            words = f"'https' is the only allowed URL scheme; desired format: https://host[/path], got {scheme!r}"
            return [invalid(f"{path}.url", scheme, words)]
        return []
    named: Obj = service or {}
    # As v1.36.2 was seen to say it: each of the two is told under the other's name.
    causes: Causes = [
        required(f"{path}.service.{told}")
        for told, field in (("name", "namespace"), ("namespace", "name"))
        if not named.get(field)
    ]
    port = named.get("port", 443)
    if not 1 <= port <= 65535:
        causes.append(
            invalid(f"{path}.service.port", port, "port is not valid: must be between 1 and 65535, inclusive")
        )
    where = named.get("path")
    if where is not None and not where.startswith("/"):
        causes.append(invalid(f"{path}.service.path", where, "must start with a '/'"))
    return causes


# -- custom resources ------------------------------------------------------------------------------------------
def _definition(new: Obj) -> Causes:
    spec = new.get("spec") or {}
    given, group = spec.get("names") or {}, spec.get("group", "")
    causes: Causes = []
    if new["metadata"].get("name") != f"{given.get('plural', '')}.{group}":
        causes.append(
            invalid("metadata.name", new["metadata"].get("name", ""), 'must be spec.names.plural+"."+spec.group')
        )
    if not group:
        causes.append(required("spec.group"))
    else:
        causes += names.dns_subdomain_cause("spec.group", group)
        if "." not in group:
            causes.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        causes.append(not_supported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced")))
    causes += _names(given)
    return causes + _versions(spec.get("versions") or [])


def _names(given: Obj) -> Causes:
    causes: Causes = []
    for field in ("plural", "singular", "kind", "listKind"):
        value = given.get(field, "")
        path = f"spec.names.{field}"
        if not value:
            causes.append(required(path))
            continue
        wrong = names.service_name(value.lower() if field in ("kind", "listKind") else value)
        causes += [invalid(path, value, words) for words in wrong]
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        causes.append(invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same"))
    return causes


def _versions(versions: list[Obj]) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, version in enumerate(versions):
        path, name = at("spec.versions", i), version.get("name", "")
        if name in seen:
            causes.append(invalid(path, version, "must contain unique version names"))
        seen.add(name)
        if names.service_name(name):
            causes.append(invalid(f"{path}.name", name, ",".join(names.service_name(name))))
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            causes.append(required(f"{path}.schema.openAPIV3Schema"))
        if version.get("deprecationWarning") is not None and not version.get("deprecated"):
            words = "can only be set for deprecated versions"
            causes.append(invalid(f"{path}.deprecationWarning", version["deprecationWarning"], words))
    if sum(1 for version in versions if version.get("storage")) != 1:
        causes.append(
            invalid(
                "spec.versions",
                [version.get("name") for version in versions],
                "must have exactly one version marked as storage version",
            )
        )
    return causes
