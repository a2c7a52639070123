"""What a fence wants to know of a live cluster, by the same closed vocabulary as manifests: what is not known to launch
nothing is listed, and what may not be listed is told.

Which kinds there are is the cluster's own word (discovery), so a controller that nobody here has heard of is seen by
its objects. What may *not* live here: any judgement of them.

Sources: the discovery documents of an API server (APIGroupList, APIResourceList: ``verbs``); the webhooks that Kyverno
(``*.kyverno.svc*``) and Gatekeeper (``*.gatekeeper.sh``) keep for the policies that are listed here themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec import Struct, field

from killcheck.fence.makers import launches_nothing
from killcheck.kube import listing
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import ApiError, Forbidden, NotFound, ServerFault
from killcheck.kube.objects import Obj
from killcheck.kube.resources import Resource
from killcheck.text import lazy_re

__all__ = ["Gathered", "gather"]

_KUEUE = tuple(
    Resource("kueue.x-k8s.io", "v1beta1", plural, kind, False)
    for plural, kind in (("resourceflavors", "ResourceFlavor"), ("clusterqueues", "ClusterQueue"))
)
#: Bounds within the pools: what is not known of them counts for nothing.
_BOUNDS = (r.RESOURCEQUOTAS, r.LIMITRANGES, *_KUEUE)
#: What is read whole, and what only by a label (everything of it would be too much).
_WHOLE = (r.NODES, r.CLUSTERROLES, r.CLUSTERROLEBINDINGS, r.ROLES, r.ROLEBINDINGS)
_LABELLED = (
    (r.CONFIGMAPS, "killcheck.dev/node-groups=true"),
    (r.SERVICEACCOUNTS, "app.kubernetes.io/name=karpenter"),
)
#: Groups of Kubernetes' own, or judged here, of which these kinds matter.
_JUDGED = {
    "admissionregistration.k8s.io": lazy_re.compile(r"\w+(WebhookConfiguration|AdmissionPolicy)"),
    **dict.fromkeys(
        ("karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com", "eks.amazonaws.com"),
        lazy_re.compile(r"\w*Node(Pool|Claim|Overlay|Class)|Provisioner"),
    ),
    "kyverno.io": lazy_re.compile(r"(Cluster)?Policy"),
    "policies.kyverno.io": lazy_re.compile(r"\w+Policy"),
    "mutations.gatekeeper.sh": lazy_re.compile(r"\w+"),
    "constraints.gatekeeper.sh": lazy_re.compile(r"\w+"),
}
#: Webhooks that do what those policies say, and no more.
_BY_POLICY = lazy_re.compile(r".+\.(kyverno\.svc(-\w+)*|gatekeeper\.sh)")
#: A kind that cannot be listed keeps no objects (MethodNotAllowed).
_NOT_LISTED = 405


class Gathered(Struct):
    """``unread``: a sentence for each kind that was not listed and may launch machines, or widen a pool."""

    objects: list[Obj] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> list[Obj]:
        """The nodes that stand."""
        return [obj for obj in self.objects if r.is_of(obj, r.NODES)]

    def take(self, what: str, listed: Callable[[], Iterable[Obj]]) -> None:
        """Keep what is listed; that it may not be, or that who serves it does not answer, is told."""
        try:
            self.objects += listed()
        except NotFound:
            return
        except (Forbidden, ServerFault) as error:
            self.unread.append(f"{what} could not be listed, and may launch machines: {error}")
        except ApiError as error:
            if error.code != _NOT_LISTED:
                raise


def gather(kube: Kube) -> Gathered:
    """Everything on a cluster that the evaluation looks at.

    Raises KubeError where the cluster does not answer, or not which groups it serves: all of them may launch machines.
    """
    groups, found, within = listing.served_groups(kube), Gathered(), Gathered()
    asked = [*((found, one, "") for one in _WHOLE), *((within, one, "") for one in _BOUNDS)]
    for kept, resource, labels in [*asked, *((found, *one) for one in _LABELLED)]:
        served = listing.served(resource, groups)
        if served is not None:
            kept.take(served.qualified, partial(_objects, kube, served, labels))
    for group, versions in groups.items():
        _group(kube, group, versions, found)
    found.take("programs of workloads", partial(listing.programs, kube))
    return Gathered([*found.objects, *within.objects], found.unread)


def _group(kube: Kube, group: str, versions: list[str], found: Gathered) -> None:
    """The objects of what a group serves, but for kinds that are known to launch nothing."""
    judged = _JUDGED.get(group)
    if judged is None and launches_nothing({"apiVersion": f"{group}/v1", "kind": ""}):
        return
    kinds: dict[str, Resource] = {}
    for version in versions:
        found.take(f"what {group} serves", partial(_kinds, kube, f"{group}/{version}", kinds))
    for one in kinds.values():
        of = {"apiVersion": one.api_version, "kind": one.kind}
        if judged.fullmatch(one.kind) if judged else not launches_nothing(of):
            found.take(one.qualified, partial(_objects, kube, one))


def _kinds(kube: Kube, api_version: str, found: dict[str, Resource]) -> Iterable[Obj]:
    """Add to ``found`` what can be listed in a version, each kind by the first version that has it."""
    group, _, version = api_version.rpartition("/")
    for one in kube.call("GET", f"/apis/{api_version}").body.get("resources") or ():
        if "/" not in one["name"] and "list" in one.get("verbs", ("list",)):
            made = Resource(group, version, one["name"], one["kind"], bool(one["namespaced"]))
            found.setdefault(made.plural, made)
    return ()


def _objects(kube: Kube, kind: Resource, labels: str = "") -> Iterator[Obj]:
    for obj in kube.list(kind, labels=labels).items:
        kept = [one for one in obj.get("webhooks") or () if not _BY_POLICY.fullmatch(str(one.get("name")))]
        yield obj | {"webhooks": kept} if obj.get("webhooks") else obj
