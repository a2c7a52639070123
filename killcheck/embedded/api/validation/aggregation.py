"""APIServices.

Source: kube-aggregator/pkg/apis/apiregistration/validation/validation.go of Kubernetes v1.36.
"""

from __future__ import annotations

from base64 import b64decode

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import meta, names
from killcheck.embedded.api.validation.fields import Causes, invalid, required
from killcheck.kube.objects import Obj

__all__ = ["create", "update"]

_GROUP_MOST, _VERSION_MOST, _PORT_MOST = 20_000, 1_000, 65_535


def create(_kind: Kind, new: Obj) -> Causes:
    """A new APIService."""
    spec = new.get("spec") or {}
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"

    def rule(name: str) -> list[str]:
        other = [] if name == wanted else [f'must be `spec.version+"."+spec.group`: "{wanted}"']
        return meta.path_segment(name) or other

    return meta.create(new["metadata"], rule, core=False) + _spec(spec)


def update(_kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed APIService."""
    return meta.update(new["metadata"], old["metadata"], core=False) + _spec(new.get("spec") or {})


def _spec(spec: Obj) -> Causes:
    group, version = str(spec.get("group", "")), str(spec.get("version", ""))
    causes: Causes = []
    if not group and version != "v1":
        causes.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
    if group:
        causes += [invalid("spec.group", group, words) for words in names.dns_subdomain(group)]
    causes += [invalid("spec.version", version, words) for words in names.service_name(version)]
    for field, most in (("groupPriorityMinimum", _GROUP_MOST), ("versionPriority", _VERSION_MOST)):
        value = spec.get(field, 0)
        if not 0 < value <= most:
            causes.append(invalid(f"spec.{field}", value, f"must be positive and less than {most}"))
    return causes + (_elsewhere(spec) if spec.get("service") is not None else _local(spec))


def _local(spec: Obj) -> Causes:
    causes: Causes = []
    if spec.get("caBundle"):
        size = f"{len(b64decode(spec['caBundle']))} bytes"
        causes.append(invalid("spec.caBundle", size, "local APIServices may not have a caBundle"))
    if spec.get("insecureSkipTLSVerify"):
        causes.append(
            invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify")
        )
    return causes


def _elsewhere(spec: Obj) -> Causes:
    service = spec["service"]
    causes = [required(f"spec.service.{field}", "") for field in ("namespace", "name") if not service.get(field)]
    port = service.get("port", 0)
    if not 0 < port <= _PORT_MOST:
        words = f"port is not valid: must be between 1 and {_PORT_MOST}, inclusive"
        causes.append(invalid("spec.service.port", port, words))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        causes.append(invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return causes
