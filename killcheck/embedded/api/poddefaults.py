"""What Kubernetes fills in where a pod, or the template of one, leaves something out.

Source: pkg/apis/core/v1/defaults.go, zz_generated.defaults.go and conversion.go of Kubernetes v1.36.
Every function changes what it is given, in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from killcheck.embedded.api.pod_resources import pod_resources
from killcheck.kube.objects import Obj
from killcheck.kube.quantities import form_of, format_quantity, parse
from killcheck.text import lazy_re

__all__ = ["claim_spec", "containers_of", "pod", "pod_spec", "pull_policy", "round_resources", "template"]

_MODE = 420  # 0644
_PROBE = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3))
_SOURCELESS = frozenset({"name"})
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = lazy_re.compile(
    rf"(?:(?:localhost|[\w.-]*[A-Z.][\w.-]*|[\w.-]+(?=:[0-9]+/))(?::[0-9]+)?/)?{_COMPONENT}(?:/{_COMPONENT})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>[A-Za-z][\w+.-]*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)


def pull_policy(image: str) -> str:
    """``Always`` for the tag ``latest``, said or meant; ``IfNotPresent`` for any other, and for what is no image."""
    found = _IMAGE.fullmatch(image)
    if found is None:
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def containers_of(spec: Obj) -> Iterator[Obj]:
    """Init containers, containers and ephemeral containers."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def template(holder: Obj) -> None:
    """``holder['template']``, where there is one."""
    inner = holder.get("template")
    if isinstance(inner, dict):
        pod_spec(inner.setdefault("spec", {}))


def pod_spec(spec: Obj) -> None:
    """What pods and templates of pods have in common."""
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    _service_account(spec)
    for container in containers_of(spec):
        _container(container)
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for constraint in spec.get("topologySpreadConstraints") or ():
        constraint.setdefault("maxSkew", 0)
    round_resources(spec.get("overhead"))


def _service_account(spec: Obj) -> None:
    """The old name of the field goes on being written."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def pod(obj: Obj) -> None:
    """A whole pod: requests from limits, service links, and what templates have too."""
    spec = obj.setdefault("spec", {})
    pod_spec(spec)
    if spec.get("hostNetwork"):  # in a pod alone: not in templates
        _host_ports(spec)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        limits = (container.get("resources") or {}).get("limits")
        if limits:
            requests = container["resources"].get("requests") or {}
            container["resources"]["requests"] = requests | {k: v for k, v in limits.items() if k not in requests}
    _of_the_pod(obj)
    spec.setdefault("enableServiceLinks", True)


def _of_the_pod(obj: Obj) -> None:
    """Requests of a pod that has limits of its own: what its containers ask for, or those limits."""
    own = obj["spec"].get("resources") or {}
    if not own.get("limits"):
        return
    inside = {field: obj["spec"].get(field) for field in ("initContainers", "containers")}
    asked = {name: str(value) for name, value in pod_resources({"spec": inside}, "requests").items() if _shared(name)}
    requests = own["limits"] | asked | (own.get("requests") or {})
    obj["spec"]["resources"] = own | {"requests": requests}


def _shared(name: str) -> bool:
    """What containers of a pod may share (component-helpers: IsSupportedPodLevelResource)."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _container(container: Obj) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        _field_ref((variable.get("valueFrom") or {}).get("fieldRef"))
        _divisor((variable.get("valueFrom") or {}).get("resourceFieldRef"))
    resources = container.get("resources") or {}
    round_resources(resources.get("limits"))
    round_resources(resources.get("requests"))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe) is not None:
            _probe(container[probe])
    for hook in ("postStart", "preStop"):
        _http_get(((container.get("lifecycle") or {}).get(hook) or {}).get("httpGet"))


def _probe(probe: Obj) -> None:
    for field, value in _PROBE:
        if not probe.get(field):
            probe[field] = value
    _http_get(probe.get("httpGet"))
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _http_get(action: Obj | None) -> None:
    if action is not None:
        action["path"] = action.get("path") or "/"
        action["scheme"] = action.get("scheme") or "HTTP"


def _field_ref(selector: Obj | None) -> None:
    if selector is not None and not selector.get("apiVersion"):
        selector["apiVersion"] = "v1"


def _divisor(selector: Obj | None) -> None:
    if selector is not None:
        selector.setdefault("divisor", "0")


def _host_ports(spec: Obj) -> None:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            if not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort", 0)


def round_resources(amounts: Obj | None) -> None:
    """Resource lists know nothing finer than a thousandth; what is finer is rounded up."""
    for name, text in (amounts or {}).items():
        value = parse(text)
        if (value * 1000).denominator != 1:
            amounts[name] = format_quantity(  # type: ignore[index]
                Fraction(-(-(value * 1000).numerator // (value * 1000).denominator), 1000), form_of(text)
            )


# -- volumes ---------------------------------------------------------------------------------------------------
def _volume(volume: Obj) -> None:
    if volume.keys() <= _SOURCELESS:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", _MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference", ""))
    _downward(volume.get("downwardAPI"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        _downward(source.get("downwardAPI"))
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        claim_spec(claim.setdefault("spec", {}))
    if volume.get("iscsi") is not None and not volume["iscsi"].get("iscsiInterface"):
        volume["iscsi"]["iscsiInterface"] = "default"


def _downward(source: Obj | None) -> None:
    for item in (source or {}).get("items") or ():
        _field_ref(item.get("fieldRef"))
        _divisor(item.get("resourceFieldRef"))


def claim_spec(spec: Obj) -> None:
    """The spec of a PersistentVolumeClaim."""
    spec.setdefault("volumeMode", "Filesystem")
    resources = spec.get("resources") or {}
    round_resources(resources.get("limits"))
    round_resources(resources.get("requests"))
