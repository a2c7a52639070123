"""The checks of the Pod Security Standards, in the order and the words in which violations are reported.

Source: k8s.io/pod-security-admission/policy (v1.36); the older versions of a check are followed where they differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from killcheck.kube.objects import Obj, annotations_of, dig

__all__ = ["Problem", "problems"]


class Problem(NamedTuple):
    """Why a pod is forbidden, and which parts of it."""

    reason: str
    detail: str = ""


Check = Callable[[Obj, int], Problem | None]

CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
#: (since which minor version, names)
SYSCTLS: tuple[tuple[int, frozenset[str]], ...] = (
    (
        0,
        frozenset(
            {
                "kernel.shm_rmid_forced",
                "net.ipv4.ip_local_port_range",
                "net.ipv4.tcp_syncookies",
                "net.ipv4.ping_group_range",
                "net.ipv4.ip_unprivileged_port_start",
            }
        ),
    ),
    (27, frozenset({"net.ipv4.ip_local_reserved_ports"})),
    (
        29,
        frozenset(
            {
                "net.ipv4.tcp_keepalive_time",
                "net.ipv4.tcp_fin_timeout",
                "net.ipv4.tcp_keepalive_intvl",
                "net.ipv4.tcp_keepalive_probes",
            }
        ),
    ),
    (32, frozenset({"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"})),
)
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_TYPES = ("RuntimeDefault", "Localhost")


def problems(pod: Obj, *, restricted: bool, minor: int) -> list[Problem]:
    """What a pod or pod template violates of baseline, or of restricted, at v1.``minor``."""
    checks: Iterable[Check] = (*_shared(minor), *RESTRICTED) if restricted else BASELINE
    return [problem for problem in (check(pod, minor) for check in checks) if problem]


def _shared(minor: int) -> Iterator[Check]:
    """Baseline checks that restricted does not replace with stricter ones."""
    for check in BASELINE:
        if check not in (_capabilities, _host_path, _seccomp) and not (check is _proc_mount and minor >= 35):
            yield check


def _containers(pod: Obj) -> Iterator[tuple[str, Obj]]:
    """(name, container) of every container, in the order in which Kubernetes visits them."""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for container in dig(pod, "spec", key, default=[]):
            yield container.get("name", ""), container


def _contexts(pod: Obj) -> Iterator[tuple[str, Obj]]:
    for name, container in _containers(pod):
        yield name, container.get("securityContext") or {}


def _pod_context(pod: Obj) -> Obj:
    return dig(pod, "spec", "securityContext", default={})  # type: ignore[no-any-return]


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _plural(word: str, items: Iterable[object]) -> str:
    return word if len(list(items)) == 1 else word + "s"


def _named(names: list[str]) -> str:
    return f"{_plural('container', names)} {_quoted(names)}"


def _setters(on_pod: bool, names: list[str]) -> str:
    """Who set something: the pod, containers, or both; empty if nobody."""
    return " and ".join([*(["pod"] if on_pod else []), *([_named(names)] if names else [])])


def _windows(pod: Obj) -> bool:
    return bool(dig(pod, "spec", "os", "name") == "windows")


def _user_namespace(pod: Obj, minor: int) -> bool:
    return minor >= 35 and dig(pod, "spec", "hostUsers") is False


# -- baseline ----------------------------------------------------------------------------------------------
def _app_armor(pod: Obj, _minor: int) -> Problem | None:
    def bad(context: Obj) -> str:
        profile = context.get("appArmorProfile")
        kind = (profile or {}).get("type", "")
        return "" if profile is None or kind in SECCOMP_TYPES else kind

    on_pod = bad(_pod_context(pod))
    found = [(name, bad(context)) for name, context in _contexts(pod) if bad(context)]
    values = sorted({kind for kind in (on_pod, *(kind for _, kind in found)) if kind})
    annotations = sorted(
        f"{key}={json.dumps(value)}"
        for key, value in annotations_of(pod).items()
        if key.startswith(APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    who = [_setters(bool(on_pod), [name for name, _ in found])] if values else []
    who += [_plural("annotation", annotations)] if annotations else []
    values += annotations
    if not values:
        return None
    return Problem(
        _plural("forbidden AppArmor profile", values),
        f"{' and '.join(who)} must not set AppArmor profile type to {_quoted(values)}",
    )


def _capabilities(pod: Obj, _minor: int) -> Problem | None:
    found = {
        name: set(dig(context, "capabilities", "add", default=[])) - CAPABILITIES for name, context in _contexts(pod)
    }
    names = [name for name, added in found.items() if added]
    added = sorted(set().union(*found.values())) if found else []
    if not names:
        return None
    return Problem(
        "non-default capabilities",
        (f"{_named(names)} must not include {_quoted(added)} in securityContext.capabilities.add"),
    )


def _host_namespaces(pod: Obj, _minor: int) -> Problem | None:
    used = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if dig(pod, "spec", key)]
    return Problem("host namespaces", ", ".join(used)) if used else None


def _host_path(pod: Obj, _minor: int) -> Problem | None:
    names = [volume["name"] for volume in dig(pod, "spec", "volumes", default=[]) if volume.get("hostPath")]
    return Problem("hostPath volumes", f"{_plural('volume', names)} {_quoted(names)}") if names else None


def _host_ports(pod: Obj, _minor: int) -> Problem | None:
    found = {
        name: [str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")]
        for name, container in _containers(pod)
    }
    names = [name for name, ports in found.items() if ports]
    ports = sorted({port for used in found.values() for port in used})
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    return Problem("hostPort", f"{_named(names)} {verb} {_plural('hostPort', ports)} {', '.join(ports)}")


def _host_probes(pod: Obj, minor: int) -> Problem | None:
    if minor < 34:
        return None
    found = {name: set(_handler_hosts(container)) for name, container in _containers(pod)}
    names = sorted(name for name, hosts in found.items() if hosts)
    hosts = sorted({host for used in found.values() for host in used})
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    what = _plural("probe or lifecycle host", hosts)
    return Problem("probe or lifecycle host", f"{_named(names)} {verb} {what} {_quoted(hosts)}")


def _handler_hosts(container: Obj) -> Iterator[str]:
    handlers = [container.get(key) for key in ("livenessProbe", "readinessProbe", "startupProbe")]
    handlers += [dig(container, "lifecycle", key) for key in ("postStart", "preStop")]
    for handler in handlers:
        for action in ("httpGet", "tcpSocket"):
            host = dig(handler, action, "host")
            if host:
                yield host


def _privileged(pod: Obj, _minor: int) -> Problem | None:
    names = [name for name, context in _contexts(pod) if context.get("privileged")]
    return Problem("privileged", f"{_named(names)} must not set securityContext.privileged=true") if names else None


def _proc_mount(pod: Obj, minor: int) -> Problem | None:
    return None if _user_namespace(pod, minor) else _masked_proc(pod, minor)


def _masked_proc(pod: Obj, _minor: int) -> Problem | None:
    found = [
        (name, context["procMount"])
        for name, context in _contexts(pod)
        if context.get("procMount") not in (None, "Default")
    ]
    if not found:
        return None
    values = _quoted(sorted({kind for _, kind in found}))
    return Problem(
        "procMount", f"{_named([name for name, _ in found])} must not set securityContext.procMount to {values}"
    )


def _selinux(pod: Obj, minor: int) -> Problem | None:
    allowed = {"", "container_t", "container_init_t", "container_kvm_t"}
    allowed |= {"container_engine_t"} if minor >= 31 else set()

    def bad(context: Obj) -> bool:
        options = context.get("seLinuxOptions") or {}
        return bool(options.get("user") or options.get("role") or (options.get("type") or "") not in allowed)

    contexts = [("", _pod_context(pod)), *_contexts(pod)]
    options = [context.get("seLinuxOptions") or {} for _, context in contexts]
    who = _setters(bad(contexts[0][1]), [name for name, context in contexts[1:] if bad(context)])
    if not who:
        return None
    types = sorted({o.get("type") or "" for o in options} - allowed)
    data = [f"{_plural('type', types)} {_quoted(types)}"] if types else []
    data += [f"{key} may not be set" for key in ("user", "role") if any(o.get(key) for o in options)]
    return Problem("seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}")


def _seccomp(pod: Obj, minor: int) -> Problem | None:
    return _bad_seccomp(pod) if minor >= 19 else None


def _bad_seccomp(pod: Obj) -> Problem | None:
    def bad(context: Obj) -> str:
        profile = context.get("seccompProfile")
        return "" if profile is None or profile.get("type") in SECCOMP_TYPES else profile.get("type", "")

    on_pod = bad(_pod_context(pod))
    found = [(name, bad(context)) for name, context in _contexts(pod) if bad(context)]
    if not on_pod and not found:
        return None
    values = sorted({kind for kind in (on_pod, *(kind for _, kind in found)) if kind})
    who = _setters(bool(on_pod), [name for name, _ in found])
    return Problem("seccompProfile", f"{who} must not set securityContext.seccompProfile.type to {_quoted(values)}")


def _sysctls(pod: Obj, minor: int) -> Problem | None:
    allowed = {name for since, names in SYSCTLS if minor >= since for name in names}
    names = [s.get("name", "") for s in _pod_context(pod).get("sysctls") or () if s.get("name") not in allowed]
    return Problem("forbidden sysctls", ", ".join(names)) if names else None


def _host_process(pod: Obj, _minor: int) -> Problem | None:
    on_pod = bool(dig(_pod_context(pod), "windowsOptions", "hostProcess"))
    who = _setters(on_pod, [n for n, context in _contexts(pod) if dig(context, "windowsOptions", "hostProcess")])
    detail = f"{who} must not set securityContext.windowsOptions.hostProcess=true"
    return Problem("hostProcess", detail) if who else None


# -- restricted --------------------------------------------------------------------------------------------
def _escalation(pod: Obj, minor: int) -> Problem | None:
    if minor < 8 or (minor >= 25 and _windows(pod)):
        return None
    names = [name for name, context in _contexts(pod) if context.get("allowPrivilegeEscalation") is not False]
    if not names:
        return None
    return Problem(
        "allowPrivilegeEscalation != false",
        (f"{_named(names)} must set securityContext.allowPrivilegeEscalation=false"),
    )


def _all_capabilities(pod: Obj, minor: int) -> Problem | None:
    if minor < 22:
        return _capabilities(pod, minor)
    if minor >= 25 and _windows(pod):
        return None
    contexts = list(_contexts(pod))
    keeping = [n for n, context in contexts if "ALL" not in dig(context, "capabilities", "drop", default=[])]
    added = {n: set(dig(context, "capabilities", "add", default=[])) - {"NET_BIND_SERVICE"} for n, context in contexts}
    adding = [name for name, caps in added.items() if caps]
    details = [f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if adding:
        caps = _quoted(sorted(set().union(*added.values())))
        details.append(f"{_named(adding)} must not include {caps} in securityContext.capabilities.add")
    return Problem("unrestricted capabilities", "; ".join(details)) if details else None


def _volume_types(pod: Obj, _minor: int) -> Problem | None:
    bad = [
        (volume.get("name", ""), next((key for key in volume if key != "name" and volume[key] is not None), "unknown"))
        for volume in dig(pod, "spec", "volumes", default=[])
        if not any(volume.get(kind) is not None for kind in VOLUMES)
    ]
    if not bad:
        return None
    names, kinds = [name for name, _ in bad], sorted({kind for _, kind in bad})
    verb = "uses" if len(names) == 1 else "use"
    what = _plural("restricted volume type", kinds)
    return Problem(
        "restricted volume types", (f"{_plural('volume', names)} {_quoted(names)} {verb} {what} {_quoted(kinds)}")
    )


def _non_root(pod: Obj, minor: int) -> Problem | None:
    if _user_namespace(pod, minor):
        return None
    on_pod = _pod_context(pod).get("runAsNonRoot")
    contexts = list(_contexts(pod))
    who = _setters(on_pod is False, [name for name, context in contexts if context.get("runAsNonRoot") is False])
    if who:
        return Problem("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    silent = [name for name, context in contexts if context.get("runAsNonRoot") is None and not on_pod]
    if not silent:
        return None
    return Problem("runAsNonRoot != true", f"pod or {_named(silent)} must set securityContext.runAsNonRoot=true")


def _root_user(pod: Obj, minor: int) -> Problem | None:
    if minor < 23 or _user_namespace(pod, minor):
        return None
    on_pod = _pod_context(pod).get("runAsUser") == 0
    who = _setters(on_pod, [name for name, context in _contexts(pod) if context.get("runAsUser") == 0])
    return Problem("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def _seccomp_set(pod: Obj, minor: int) -> Problem | None:
    if minor < 19 or (minor >= 25 and _windows(pod)):
        return None
    bad = _bad_seccomp(pod)
    if bad:
        return bad
    on_pod = _pod_context(pod).get("seccompProfile") is not None
    silent = [name for name, context in _contexts(pod) if context.get("seccompProfile") is None and not on_pod]
    if not silent:
        return None
    return Problem(
        "seccompProfile",
        (f'pod or {_named(silent)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'),
    )


def _masked_proc_restricted(pod: Obj, minor: int) -> Problem | None:
    return _masked_proc(pod, minor) if minor >= 35 else None


#: Sorted by the checks' names in Kubernetes, which is the order of its messages.
BASELINE: tuple[Check, ...] = (
    _app_armor,
    _capabilities,
    _host_namespaces,
    _host_path,
    _host_ports,
    _host_probes,
    _privileged,
    _proc_mount,
    _selinux,
    _seccomp,
    _sysctls,
    _host_process,
)
RESTRICTED: tuple[Check, ...] = (
    _escalation,
    _all_capabilities,
    _masked_proc_restricted,
    _volume_types,
    _non_root,
    _root_user,
    _seccomp_set,
)
