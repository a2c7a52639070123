"""Security contexts and DNS settings of pods and containers.

Source: ``ValidateSecurityContext``, ``validatePodSpecSecurityContext`` and ``validatePodDNSConfig`` in
pkg/apis/core/validation/validation.go, Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.api.validation import internalpod, names
from killcheck.embedded.api.validation.fields import Causes, at, forbidden, invalid, not_supported, required
from killcheck.kube.objects import Obj

__all__ = ["container", "dns", "host_users", "pod"]

_MAX_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_MOST_NAMESERVERS, _MOST_SEARCHES, _MOST_SEARCH_CHARS = 3, 32, 2048
_PRIVILEGED = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
_SYS_ADMIN = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"


def _ids(context: Obj, fields: tuple[str, ...], path: str) -> Causes:
    return [
        invalid(f"{path}.{field}", context[field], f"must be between 0 and {_MAX_ID}, inclusive")
        for field in fields
        if context.get(field) is not None and not 0 <= context[field] <= _MAX_ID
    ]


def container(context: Obj | None, path: str, *, host_users: bool = True) -> Causes:
    """A container's security context."""
    if not context:
        return []
    causes = _ids(context, ("runAsUser", "runAsGroup"), path)
    causes += _choice(context, "procMount", ("Default", "Unmasked"), path)
    if host_users and context.get("procMount") == "Unmasked":
        causes.append(invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`"))
    causes += _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            causes.append(invalid(path, internalpod.context_inside(context), _PRIVILEGED))
        added = (context.get("capabilities") or {}).get("add") or []
        causes += [
            invalid(path, internalpod.context_inside(context), _SYS_ADMIN) for name in added if name == "CAP_SYS_ADMIN"
        ]
    return causes + _app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def host_users(spec: Obj, path: str) -> Causes:
    """Users of a pod's own go with no other namespace of the host; two of the three are named as Go names them."""
    if spec.get("hostUsers") is not False:
        return []
    others = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
    return [forbidden(f"{path}.{told}", "when `hostUsers` is false") for name, told in others.items() if spec.get(name)]


def host_process(spec: Obj, path: str) -> Causes:
    """Windows' containers that are processes of their host (``validateWindowsHostProcessPod``)."""
    own = _host_process(spec.get("securityContext"))
    causes: Causes = []
    seen: list[bool] = []
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for i, one in enumerate(spec.get(field) or []):
            given = _host_process(one.get("securityContext"))
            if None not in (own, given) and own != given:
                words = f"pod hostProcess value must be identical if both are specified, was {str(own).lower()}"
                here = f"{path}.{field}[{i}].securityContext.windowsOptions.hostProcess"
                causes.append(invalid(here, given, words))
            seen.append(bool(own if given is None else given))
    if not any(seen):
        return causes
    if not all(seen):
        words = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        causes.append(invalid(path, "", words))
    if not spec.get("hostNetwork"):
        words = "hostNetwork must be true if pod contains any hostProcess containers"
        causes.append(invalid(f"{path}.hostNetwork", False, words))
    return causes


def _host_process(context: Obj | None) -> bool | None:
    return ((context or {}).get("windowsOptions") or {}).get("hostProcess")


def pod(spec: Obj, path: str) -> Causes:
    """A pod's security context, at ``path``."""
    context = spec.get("securityContext")
    if not context:
        return []
    causes = _ids(context, ("fsGroup", "runAsUser", "runAsGroup"), path)
    for i, group in enumerate(context.get("supplementalGroups") or []):
        causes += _ids({f"supplementalGroups[{i}]": group}, (f"supplementalGroups[{i}]",), path)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        words = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.append(invalid(f"{path}.shareProcessNamespace", True, words))
    causes += _choice(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), path)
    causes += _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    causes += _app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")
    return causes + _choice(context, "supplementalGroupsPolicy", ("Merge", "Strict"), path)


def _choice(context: Obj, field: str, known: tuple[str, ...], path: str) -> Causes:
    value = context.get(field)
    return [] if value is None or value in known else [not_supported(f"{path}.{field}", value, known)]


def _seccomp(profile: Obj | None, path: str) -> Causes:
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    causes: Causes = []
    if not kind:
        causes.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        causes.append(not_supported(f"{path}.type", kind, _PROFILES))
    if kind == "Localhost" and local is None:
        causes.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
    elif kind != "Localhost" and local is not None:
        words = "can only be set when seccomp type is Localhost"
        causes.append(invalid(f"{path}.localhostProfile", {"Type": kind, "LocalhostProfile": local}, words))
    return causes


def _app_armor(profile: Obj | None, path: str) -> Causes:
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [not_supported(f"{path}.type", kind, _PROFILES)]
    if kind != "Localhost":
        words = "can only be set when AppArmor type is Localhost"
        return [invalid(f"{path}.localhostProfile", local, words)] if local is not None else []
    if local is None or (local == local.strip() and not local):
        return [required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost")]
    if local != local.strip():
        return [invalid(f"{path}.localhostProfile", local, "must not be padded with whitespace")]
    return []


def dns(spec: Obj, path: str) -> Causes:
    """A pod's ``dnsConfig``, at ``path``: ``dnsPolicy: None`` cannot do without one."""
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            words = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", words)]
    if config is None:
        return []
    causes: Causes = []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _MOST_NAMESERVERS:
        words = f"must not have more than {_MOST_NAMESERVERS} nameservers"
        causes.append(invalid(f"{path}.nameservers", servers, words))
    causes += [
        invalid(at(f"{path}.nameservers", i), server, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        for i, server in enumerate(servers)
        if not names.is_address(server)
    ]
    if len(searches) > _MOST_SEARCHES:
        causes.append(invalid(f"{path}.searches", searches, f"must not have more than {_MOST_SEARCHES} search paths"))
    if len(" ".join(searches)) > _MOST_SEARCH_CHARS:
        words = f"must not have more than {_MOST_SEARCH_CHARS} characters (including spaces) in the search list"
        causes.append(invalid(f"{path}.searches", searches, words))
    for i, search in enumerate(searches):
        bare = search.removesuffix(".")
        if bare and names.dns_subdomain(bare.replace("_", "a")):  # underscores are welcome here
            causes += names.dns_subdomain_cause(at(f"{path}.searches", i), bare)
    return causes + [
        required(at(f"{path}.options", i), "must not be empty")
        for i, option in enumerate(config.get("options") or [])
        if not option.get("name")
    ]
