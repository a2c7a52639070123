"""What the API server serves: every resource type by group, version and plural.

Source of names, short names, categories and verbs: the discovery documents of Kubernetes v1.36.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, structs

from killcheck.kube import releases
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, dig
from killcheck.kube.releases import Release
from killcheck.kube.resources import Resource

__all__ = ["VERBS", "Kind", "Registry", "Subresource", "builtin", "from_crd", "served", "subresource_of"]

#: Everything that can be done to an ordinary resource, in the order in which discovery lists it.
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
#: Resources that are questions, not objects.
CREATE_ONLY = ("create",)


class Subresource(NamedTuple):
    """What a subresource speaks: the group, version and kind of its bodies, and its verbs."""

    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


_READ_WRITE = ("get", "patch", "update")
_SUBRESOURCES = {
    "scale": Subresource("autoscaling", "v1", "Scale", _READ_WRITE),
    "eviction": Subresource("policy", "v1", "Eviction", CREATE_ONLY),
    "binding": Subresource("", "v1", "Binding", CREATE_ONLY),
    "attach": Subresource("", "v1", "PodAttachOptions", ("create", "get")),
    "exec": Subresource("", "v1", "PodExecOptions", ("create", "get")),
    "portforward": Subresource("", "v1", "PodPortForwardOptions", ("create", "get")),
    "proxy": Subresource("", "v1", "ProxyOptions", ("create", "delete", "get", "patch", "update")),
    "token": Subresource("authentication.k8s.io", "v1", "TokenRequest", CREATE_ONLY),
}


class Kind(Struct, frozen=True, eq=False):
    """One resource type.

    ``schema`` is the name of its class in the ``kubernetes`` client (a key of ``schemas.json``), or None; ``crd``
    the CustomResourceDefinition that it comes from. ``generation`` tells whether ``metadata.generation`` counts
    changes of its spec. ``stored_as`` is the table where objects are kept if another type shares it
    (``events.k8s.io``'s Event is core/v1's).
    """

    resource: Resource
    short_names: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    categories: tuple[str, ...] = ()
    schema: str | None = None
    crd: Obj | None = None
    verbs: tuple[str, ...] = VERBS
    generation: bool = False
    stored_as: tuple[str, str] | None = None
    #: The Kubernetes that serves it: gates and types are its own.
    release: Release = releases.DEFAULT

    @property
    def table(self) -> tuple[str, str]:
        """Where the store keeps its objects."""
        return self.stored_as or (self.resource.group, self.resource.plural)

    @property
    def singular(self) -> str:
        """``pod``; a CRD may name its own."""
        if self.crd is not None:
            return str(dig(self.crd, "spec", "names", "singular", default=self.resource.kind.lower()))
        return self.resource.kind.lower()

    @property
    def list_kind(self) -> str:
        """``PodList``; a CRD may name its own."""
        fallback = self.resource.kind + "List"
        return str(dig(self.crd, "spec", "names", "listKind", default=fallback)) if self.crd else fallback

    @property
    def crd_version(self) -> Obj:
        """The entry of the CRD's ``spec.versions`` that this is; empty for built-in types."""
        versions: list[Obj] = dig(self.crd, "spec", "versions", default=[]) if self.crd else []
        return next((entry for entry in versions if entry.get("name") == self.resource.version), {})


def subresource_of(kind: Kind, name: str) -> Subresource | None:
    """What a subresource of ``kind`` speaks; None where it has no such subresource."""
    if name not in kind.subresources:
        return None
    known = _SUBRESOURCES.get(name)
    if known is not None:  # what is asked of a proxy is of the kind behind it
        return known if name != "proxy" else known._replace(kind=f"{kind.resource.kind}ProxyOptions")
    resource = kind.resource
    verbs = {"log": ("get",), "finalize": ("update",)}.get(name, _READ_WRITE)
    return Subresource(resource.group, resource.version, resource.kind, verbs)


class Registry:
    """The resource types that are served now."""

    def __init__(self, release: Release = releases.DEFAULT) -> None:
        self.release = release
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        #: Counts changes, so that what is computed from the registry can be kept until it changes.
        self.changes = 0
        for kind in served(release):
            self.add(kind)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The type served at ``/apis/GROUP/VERSION/.../PLURAL``."""
        return self._kinds.get((group, version, plural))

    def all(self) -> list[Kind]:
        """Every type, in the order in which it was added."""
        return list(self._kinds.values())

    def by_kind(self, group: str, kind: str, version: str = "") -> Kind | None:
        """The type of objects of a kind: in ``version``, or in the version preferred."""
        return next(
            (
                k
                for k in self._kinds.values()
                if k.resource.group == group and k.resource.kind == kind and version in ("", k.resource.version)
            ),
            None,
        )

    def of_resource(self, group: str, plural: str) -> Kind | None:
        """The type in whatever version is preferred."""
        return next(
            (k for k in self._kinds.values() if k.resource.group == group and k.resource.plural == plural), None
        )

    def serves_group(self, group: str) -> bool:
        """Whether anything is served in a group, in whatever version."""
        return any(key[0] == group for key in self._kinds)

    def add(self, kind: Kind) -> None:
        """Serve a type, in place of an earlier one of the same group, version and plural."""
        resource = kind.resource
        self._kinds[resource.group, resource.version, resource.plural] = kind
        self.changes += 1

    def remove(self, kind: Kind) -> None:
        """Serve a type no longer."""
        resource = kind.resource
        self._kinds.pop((resource.group, resource.version, resource.plural), None)
        self.changes += 1


def _kind(
    resource: Resource,
    short: str = "",
    *,
    sub: str = "",
    categories: str = "",
    schema: str = "",
    verbs: tuple[str, ...] = VERBS,
    generation: bool = False,
    stored_as: tuple[str, str] | None = None,
) -> Kind:
    return Kind(
        resource,
        tuple(short.split()),
        frozenset(sub.split()),
        tuple(categories.split()),
        schema or f"{resource.version[0].upper()}{resource.version[1:]}{resource.kind}",
        None,
        verbs,
        generation,
        stored_as,
    )


def _core() -> list[Kind]:
    def core(plural: str, kind: str, namespaced: bool = True) -> Resource:
        return Resource("", "v1", plural, kind, namespaced)

    return [
        _kind(core("bindings", "Binding"), verbs=CREATE_ONLY),
        _kind(core("componentstatuses", "ComponentStatus", False), "cs", verbs=("get", "list")),
        _kind(r.CONFIGMAPS, "cm"),
        _kind(r.ENDPOINTS, "ep"),
        _kind(r.EVENTS, "ev", schema="CoreV1Event"),
        _kind(r.LIMITRANGES, "limits"),
        _kind(r.NAMESPACES, "ns", sub="finalize status", verbs=tuple(v for v in VERBS if v != "deletecollection")),
        _kind(r.NODES, "no", sub="proxy status"),
        _kind(r.PERSISTENTVOLUMECLAIMS, "pvc", sub="status"),
        _kind(r.PERSISTENTVOLUMES, "pv", sub="status"),
        _kind(
            r.PODS,
            "po",
            sub="attach binding ephemeralcontainers eviction exec log portforward proxy resize status",
            categories="all",
            generation=True,
        ),
        _kind(core("podtemplates", "PodTemplate"), generation=True),
        _kind(r.REPLICATIONCONTROLLERS, "rc", sub="scale status", categories="all", generation=True),
        _kind(r.RESOURCEQUOTAS, "quota", sub="status"),
        _kind(r.SECRETS),
        _kind(r.SERVICEACCOUNTS, "sa", sub="token"),
        _kind(r.SERVICES, "svc", sub="proxy status", categories="all"),
    ]


def _workloads() -> list[Kind]:
    revisions = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
    hpas_v1 = Resource("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
    return [
        _kind(revisions),
        _kind(r.DAEMONSETS, "ds", sub="status", categories="all", generation=True),
        _kind(r.DEPLOYMENTS, "deploy", sub="scale status", categories="all", generation=True),
        _kind(r.REPLICASETS, "rs", sub="scale status", categories="all", generation=True),
        _kind(r.STATEFULSETS, "sts", sub="scale status", categories="all", generation=True),
        _kind(r.HPAS, "hpa", sub="status", categories="all"),
        _kind(hpas_v1, "hpa", sub="status", categories="all"),
        _kind(r.CRONJOBS, "cj", sub="status", categories="all", generation=True),
        _kind(r.JOBS, sub="status", categories="all", generation=True),
        _kind(r.PDBS, "pdb", sub="status", generation=True),
    ]


def _access() -> list[Kind]:
    def review(group: str, plural: str, kind: str, namespaced: bool = False, schema: str = "") -> Kind:
        return _kind(Resource(group, "v1", plural, kind, namespaced), verbs=CREATE_ONLY, schema=schema)

    authn, authz = "authentication.k8s.io", "authorization.k8s.io"
    return [
        review(authn, "selfsubjectreviews", "SelfSubjectReview"),
        review(authn, "tokenreviews", "TokenReview"),
        review(authz, "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
        review(authz, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        review(authz, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        review(authz, "subjectaccessreviews", "SubjectAccessReview"),
        _kind(r.CLUSTERROLEBINDINGS),
        _kind(r.CLUSTERROLES),
        _kind(r.ROLEBINDINGS),
        _kind(r.ROLES),
    ]


def _cluster() -> list[Kind]:
    def of(group: str, plural: str, kind: str, namespaced: bool = False, version: str = "v1") -> Resource:
        return Resource(group, version, plural, kind, namespaced)

    net, storage, policies = "networking.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io"
    return [
        _kind(of("events.k8s.io", "events", "Event", True), "ev", schema="EventsV1Event", stored_as=("", "events")),
        _kind(of(net, "ingressclasses", "IngressClass"), generation=True),
        _kind(of(net, "ingresses", "Ingress", True), "ing", sub="status", generation=True),
        _kind(r.NETWORKPOLICIES, "netpol", generation=True),
        _kind(r.LEASES),
        _kind(r.PRIORITYCLASSES, "pc", generation=True),
        _kind(of(storage, "csidrivers", "CSIDriver"), generation=True),
        _kind(of(storage, "csinodes", "CSINode")),
        _kind(of(storage, "csistoragecapacities", "CSIStorageCapacity", True)),
        _kind(of(storage, "storageclasses", "StorageClass"), "sc"),
        _kind(r.VOLUMEATTACHMENTS, sub="status"),
        _kind(of(storage, "volumeattributesclasses", "VolumeAttributesClass"), "vac"),
        _kind(r.DEVICECLASSES, generation=True),
        _kind(r.RESOURCECLAIMS, sub="status", schema="ResourceV1ResourceClaim"),
        _kind(r.RESOURCECLAIMTEMPLATES),
        _kind(r.RESOURCESLICES, generation=True),
        _kind(
            of(policies, "mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
            categories="api-extensions",
            generation=True,
        ),
        _kind(
            of(policies, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
            categories="api-extensions",
            generation=True,
        ),
        _kind(r.MUTATINGWEBHOOKS, categories="api-extensions", generation=True),
        _kind(
            of(policies, "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
            sub="status",
            categories="api-extensions",
            generation=True,
        ),
        _kind(
            of(policies, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
            categories="api-extensions",
            generation=True,
        ),
        _kind(r.VALIDATINGWEBHOOKS, categories="api-extensions", generation=True),
        _kind(r.CRDS, "crd crds", sub="status", categories="api-extensions", generation=True),
        _kind(r.ENDPOINTSLICES, generation=True),
        _kind(of("node.k8s.io", "runtimeclasses", "RuntimeClass")),
        *_beside(of),
    ]


def _beside(of: Callable[..., Resource]) -> list[Kind]:
    """What manifests bring along and nothing here acts on: kept, and no more."""
    flow, certificates, net = "flowcontrol.apiserver.k8s.io", "certificates.k8s.io", "networking.k8s.io"
    return [
        _kind(of("apiregistration.k8s.io", "apiservices", "APIService"), sub="status", categories="api-extensions"),
        _kind(
            of(certificates, "certificatesigningrequests", "CertificateSigningRequest"), "csr", sub="approval status"
        ),
        _kind(of(flow, "flowschemas", "FlowSchema"), sub="status", generation=True),
        _kind(of(flow, "prioritylevelconfigurations", "PriorityLevelConfiguration"), sub="status", generation=True),
        _kind(of(net, "ipaddresses", "IPAddress"), "ip"),
        _kind(of(net, "servicecidrs", "ServiceCIDR"), sub="status"),
    ]


def builtin() -> tuple[Kind, ...]:
    """Every built-in type, the version preferred in discovery before others of its group."""
    return (*_core(), *_workloads(), *_access(), *_cluster())


def served(release: Release) -> tuple[Kind, ...]:
    """Those that a release serves, each of which knows it."""
    kinds = (*builtin(), *_newer())
    kept = [kind for kind in kinds if release.serves(kind.resource.api_version, kind.resource.plural)]
    return tuple(kept if release == releases.DEFAULT else [structs.replace(kind, release=release) for kind in kept])


def _newer() -> tuple[Kind, ...]:
    """Types that no release up to the default one serves: kept as they are written, without a schema."""
    requests = Resource("certificates.k8s.io", "v1", "podcertificaterequests", "PodCertificateRequest")
    return (Kind(requests, subresources=frozenset({"status"}), generation=True),)


def from_crd(crd: Obj) -> list[Kind]:
    """The types that a CustomResourceDefinition (v1) asks for: one a served version, the newest first."""
    spec = crd["spec"]
    names = spec["names"]
    kinds = []
    for version in sorted(spec.get("versions") or [], key=lambda v: _priority(v["name"]), reverse=True):
        if not version.get("served"):
            continue
        resource = Resource(
            spec["group"], version["name"], names["plural"], names["kind"], spec.get("scope") == "Namespaced"
        )
        kinds.append(
            Kind(
                resource,
                tuple(names.get("shortNames") or ()),
                frozenset(version.get("subresources") or {}),
                tuple(names.get("categories") or ()),
                None,
                crd,
                VERBS,
                True,
            )
        )
    return kinds


def _priority(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: GA, then beta, then alpha, each by number; then the rest by name."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if not match:
        return (-1, 0, 0, version)
    stage = {None: 2, "beta": 1, "alpha": 0}[match[2]]
    return (stage, int(match[1]), int(match[3] or 0), version)
