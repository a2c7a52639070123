"""From a body to an object of the right type: kind and version, unknown and repeated fields, in Go's words."""

from __future__ import annotations

from functools import cache

from killcheck.embedded.api import type_dispatch
from killcheck.embedded.api.body import Parsed
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.kinds import builtin
from killcheck.embedded.api.status import StatusError, bad_request, invalid
from killcheck.kube.objects import Obj, copy, dig

__all__ = ["SCHEME", "check_name", "decode_object", "registered", "say_strict", "strict_problems"]

#: What Kubernetes' own types are looked up in.
SCHEME = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"


def strict_problems(duplicates: list[str], unknown: list[str]) -> list[str]:
    """The words of strict decoding."""
    return [f'duplicate field "{path}"' for path in duplicates] + [f'unknown field "{path}"' for path in unknown]


def say_strict(call: Call, problems: list[str]) -> str | None:
    """Warn of what strict decoding finds; or, under ``fieldValidation=Strict``, the words to refuse it with."""
    mode = call.validation
    if not problems or mode == "Ignore":
        return None
    if mode == "Strict":
        return "strict decoding error: " + ", ".join(problems)
    for problem in problems:
        call.warn(problem)
    return None


def decode_object(
    call: Call,
    parsed: Parsed,
    *,
    kind_name: str = "",
    api_version: str = "",
    schema: str | None = None,
    former: str = "",
) -> Obj:
    """A private copy of a POSTed or PUT object of the call's type (or of the one named). Raises StatusError 400.

    ``former``: a version of it that nothing serves and that is read all the same.
    """
    resource = call.kind.resource
    want_kind, want_version = kind_name or resource.kind, api_version or resource.api_version
    obj: Obj = parsed.value
    got_kind, got_version = str(obj.get("kind") or want_kind), str(obj.get("apiVersion") or want_version)
    version = want_version.rpartition("/")[2]
    if former and (got_kind, got_version) == (want_kind, former):
        got_version, version = want_version, former.rpartition("/")[2]
    if call.kind.crd is not None and schema is None:
        _check_custom(got_kind, got_version, call, obj)
    elif (got_kind, got_version) != (want_kind, want_version) and not registered(got_kind, got_version):
        raise bad_request(
            f'{got_kind} in version "{got_version.rpartition("/")[2]}" cannot be handled as a {want_kind}: no kind '
            f'"{got_kind}" is registered for version "{got_version}" in scheme '
            f'"{SCHEME}"'
        )
    if got_kind != want_kind:
        raise _wrong_kind(str(got_kind), str(got_version), want_kind, want_version)
    if got_version != want_version:
        raise bad_request(
            f"the API version in the data ({got_version}) does not match the expected API version ({want_version})"
        )
    prefix = f'{want_kind} in version "{version}" cannot be handled as a {want_kind}: '
    try:
        clean, unknown = type_dispatch.decode(call.kind, obj, schema)
    except StatusError as error:
        if error.code != 400 or str(error).startswith(prefix):
            raise
        raise bad_request(prefix + str(error)) from error
    refused = say_strict(call, strict_problems(parsed.duplicates, unknown))
    if refused:
        raise bad_request(prefix + refused)
    if call.kind.crd is not None or not (schema or call.kind.schema):
        clean = copy(clean)  # what a schema has read is new already
    meta = clean.get("metadata")
    ordered: Obj = {"kind": want_kind, "apiVersion": want_version, "metadata": meta if isinstance(meta, dict) else {}}
    return ordered | {k: v for k, v in clean.items() if k not in ordered and (v is not None or call.kind.crd is None)}


#: Versions that the scheme still knows, though nothing serves them (k8s.io/api v0.36).
_FORMER = frozenset(
    {
        "admissionregistration.k8s.io/v1beta1",
        "apps/v1beta1",
        "apps/v1beta2",
        "authentication.k8s.io/v1beta1",
        "authorization.k8s.io/v1beta1",
        "batch/v1beta1",
        "coordination.k8s.io/v1beta1",
        "discovery.k8s.io/v1beta1",
        "events.k8s.io/v1beta1",
        "networking.k8s.io/v1beta1",
        "node.k8s.io/v1beta1",
        "policy/v1beta1",
        "rbac.authorization.k8s.io/v1beta1",
        "resource.k8s.io/v1beta1",
        "resource.k8s.io/v1beta2",
        "scheduling.k8s.io/v1beta1",
        "storage.k8s.io/v1beta1",
    }
)


@cache
def _builtin() -> frozenset[tuple[str, str]]:
    return frozenset((kind.resource.kind, kind.resource.api_version) for kind in builtin())


def registered(kind: str, api_version: str) -> bool:
    """Whether the server's scheme has such a type."""
    if (kind, api_version) in _builtin():
        return True
    return api_version in _FORMER and (kind, f"{api_version.partition('/')[0]}/v1") in _builtin()


def _check_custom(kind: str, api_version: str, call: Call, obj: Obj) -> None:
    """Custom resources have no scheme: their type is compared, and the kind counts as a value."""
    resource = call.kind.resource
    if api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind != resource.kind:
        message = f'Invalid value: "{kind}": must be {resource.kind}'
        causes = [{"reason": "FieldValueInvalid", "message": message, "field": "kind"}]
        raise invalid(resource.kind, resource.group, str(dig(obj, "metadata", "name", default="")), causes)


def _wrong_kind(kind: str, api_version: str, want_kind: str, want_version: str) -> StatusError:
    version = api_version.rpartition("/")[2]
    want = want_version.rpartition("/")[0].partition(".")[0] or "core"  # decoding ends in the internal type
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {want_kind}: converting ({version}.{kind}) to '
        f"({want}.{want_kind}): unknown conversion"
    )


def check_name(call: Call, obj: Obj) -> None:
    """A PUT's name and namespace must be the URL's. Raises StatusError 400."""
    check_namespace(call, obj)
    meta = obj["metadata"]
    name = meta.get("name")
    if not name:
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def check_namespace(call: Call, obj: Obj) -> None:
    """The object's namespace is the URL's, or is filled in from it. Raises StatusError 400."""
    namespace = dig(obj, "metadata", "namespace", default="")
    if not call.kind.resource.namespaced:
        obj["metadata"].pop("namespace", None)
        return
    if namespace and namespace != call.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    obj["metadata"]["namespace"] = call.namespace
