"""Questions that are put to the API server as objects: may this user, who am I, is this token good.

Source: pkg/registry/authorization and pkg/apis/authorization/validation of Kubernetes v1.36; recordings 26 and 27.
"""

from __future__ import annotations

import json

from killcheck.embedded.api import status
from killcheck.embedded.api.http import User
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.rbac import MASTERS, Attributes, Authorizer
from killcheck.embedded.api.tokens import Issuer, user_info
from killcheck.kube.objects import Obj, dig, format_time

__all__ = ["create"]

GROUP = "authorization.k8s.io"
#: The order in which the API server writes the fields of ``spec.resourceAttributes``.
_FIELDS = ("namespace", "verb", "group", "version", "resource", "subresource", "name", "fieldSelector", "labelSelector")


def create(kind: Kind, obj: Obj, user: User, authorizer: Authorizer, issuer: Issuer) -> Obj:
    """Answer a review object of ``kind``; nothing is stored.

    Raises StatusError: 422 where the question is not well put, 400 where it cannot be answered.
    """
    what = kind.resource.kind
    if what == "TokenReview":
        return issuer.review(obj)
    if what == "SelfSubjectReview":
        meta = {"creationTimestamp": format_time(issuer.loop.now())}
        return _answer(kind, {"metadata": meta, "status": {"userInfo": user_info(user)}})
    if what == "SelfSubjectRulesReview":
        return _rules_review(kind, obj, user, authorizer)
    spec: Obj = dig(obj, "spec", default={})
    causes = _causes(what, spec, obj)
    if causes:
        # The real server leaves the kind out here: its own copy of the object has none.
        raise status.invalid("", GROUP, "", causes)
    if what == "SelfSubjectAccessReview":
        asked = user
    else:
        extra: dict[str, list[str]] = spec.get("extra") or {}
        asked = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
    decision = authorizer.decide(asked, _attributes(spec))
    answer: Obj = {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})
    return _answer(kind, {"metadata": _metadata(obj), "spec": _ordered(spec), "status": answer})


def _answer(kind: Kind, rest: Obj) -> Obj:
    return {"kind": kind.resource.kind, "apiVersion": kind.resource.api_version, **rest}


def _metadata(obj: Obj) -> Obj:
    namespace = dig(obj, "metadata", "namespace")
    return {"namespace": namespace} if namespace else {}


def _ordered(spec: Obj) -> Obj:
    ordered: Obj = {}
    attributes = spec.get("resourceAttributes")
    if attributes is not None:
        ordered["resourceAttributes"] = {key: attributes[key] for key in _FIELDS if attributes.get(key)}
    for key in ("nonResourceAttributes", "user", "groups", "extra", "uid"):
        if spec.get(key):
            ordered[key] = spec[key]
    return ordered


def _attributes(spec: Obj) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(path.get("verb") or "", path=path.get("path") or "/")
    wanted: Obj = spec.get("resourceAttributes") or {}
    fields = ("verb", "group", "resource", "subresource", "name", "namespace")
    return Attributes(**{key: wanted.get(key) or "" for key in fields})


def _causes(what: str, spec: Obj, obj: Obj) -> list[Obj]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    causes = []
    if resource is not None and path is not None:
        value = json.dumps({"Path": path.get("path") or "", "Verb": path.get("verb") or ""}, separators=(",", ":"))
        causes.append(
            _invalid("spec.nonResourceAttributes", value, "cannot be specified in combination with resourceAttributes")
        )
    if resource is None and path is None:
        causes.append(
            _invalid(
                "spec.resourceAttributes",
                "null",
                ("exactly one of nonResourceAttributes or resourceAttributes must be specified"),
            )
        )
    if what != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        causes.append(_invalid("spec.user", '""', "at least one of user or group must be specified"))
    if what == "LocalSubjectAccessReview":
        theirs = (resource or {}).get("namespace") or ""
        if resource is not None and theirs != (dig(obj, "metadata", "namespace") or ""):
            causes.append(
                _invalid("spec.resourceAttributes.namespace", json.dumps(theirs), "must match metadata.namespace")
            )
        if path is not None:
            value = json.dumps({"Path": path.get("path") or "", "Verb": path.get("verb") or ""}, separators=(",", ":"))
            causes.append(_invalid("spec.nonResourceAttributes", value, "disallowed on this kind of request"))
    return causes


def _invalid(field: str, value: str, why: str) -> Obj:
    return {"reason": "FieldValueInvalid", "message": f"Invalid value: {value}: {why}", "field": field}


def _rules_review(kind: Kind, obj: Obj, user: User, authorizer: Authorizer) -> Obj:
    namespace = dig(obj, "spec", "namespace", default="")
    if not namespace:
        raise status.bad_request("no namespace on request")
    rules, error = authorizer.rules_for(user, namespace)
    resources = [
        _picked(rule, "verbs", "apiGroups", "resources", "resourceNames") for rule in rules if rule.get("resources")
    ]
    paths = [_picked(rule, "verbs", "nonResourceURLs") for rule in rules if rule.get("nonResourceURLs")]
    if MASTERS in user.groups:
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        resources, paths = [everything, *resources], [{"verbs": ["*"], "nonResourceURLs": ["*"]}, *paths]
    answer: Obj = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    if error:
        answer["evaluationError"] = error
    return _answer(kind, {"metadata": {}, "spec": {}, "status": answer})


def _picked(rule: Obj, *keys: str) -> Obj:
    return {key: rule[key] for key in keys if rule.get(key)}
