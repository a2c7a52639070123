"""What a drill takes for granted of things that no model of ours knows: said under the verdict, each with its object.

Sources: istio.io, ambient mode (label ``istio.io/dataplane-mode``, a pod's goes before its namespace's);
external-secrets.io (ExternalSecret ``spec.target.name``); developer.hashicorp.com, Vault Secrets Operator
(``spec.destination.name``); cert-manager.io (Certificate ``spec.secretName``); kueue.sigs.k8s.io, ClusterQueue
(``fairSharing``, ``preemption.borrowWithinCohort``) and ResourceFlavor (``topologyName``).
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.entries import Entry, Status
from killcheck.kube.objects import Obj, dig, labels_of, name_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.ledger.identities import secrets_of
from killcheck.ledger.stakes import Stakes, home_of

__all__ = ["entries"]

_MESH = "istio.io/dataplane-mode"
#: Where objects that renew a Secret name it; one without a name gives it its own.
_KEEPERS = {
    "ExternalSecret": ("spec", "target", "name"),
    "VaultStaticSecret": ("spec", "destination", "name"),
    "VaultDynamicSecret": ("spec", "destination", "name"),
    "VaultPKISecret": ("spec", "destination", "name"),
    "Certificate": ("spec", "secretName"),
}


def entries(stakes: Stakes) -> Iterator[Entry]:
    """An assumption for each: a mesh without sidecars, a Secret that somebody renews, a queue that does more."""
    named = {(ref.kind, ref.namespace, ref.name) for ref in stakes.switches}
    for obj in stakes.objects:
        if (obj.get("kind"), home_of(obj), name_of(obj)) in named:
            yield from _meshed(stakes, obj)
            yield from _renewed(stakes, obj)
    if stakes.queues:
        yield from map(_queue, filter(_does_more, stakes.objects))


def _meshed(stakes: Stakes, switch: Obj) -> Iterator[Entry]:
    for template in templates(switch):
        namespace = labels_of(stakes.namespace(home_of(switch)))
        said = dig(template.metadata, "labels", default={}).get(_MESH) or namespace.get(_MESH)
        if said == "ambient":
            because = (
                f"its packets go through a mesh ({_MESH}: ambient), which was not there: taken to let them through"
            )
            yield Entry(ref_of(switch), Status.ASSUMED, because)


def _renewed(stakes: Stakes, switch: Obj) -> Iterator[Entry]:
    wanted = {name for template in templates(switch) for name in secrets_of(template.spec)} - {""}
    for obj in stakes.objects:
        path = _KEEPERS.get(str(obj.get("kind")))
        kept = str(dig(obj, *path, default="") or name_of(obj)) if path else ""
        if kept in wanted and home_of(obj) == home_of(switch):
            because = f"it renews Secret {home_of(obj)}/{kept}, which {ref_of(switch)} reads: taken to go on doing so"
            yield Entry(ref_of(obj), Status.ASSUMED, because)


def _does_more(obj: Obj) -> bool:
    """Whether a queue, or a flavour of it, asks for what the model of Kueue leaves out."""
    if obj.get("kind") == "ResourceFlavor":
        return bool(dig(obj, "spec", "topologyName"))
    borrows = dig(obj, "spec", "preemption", "borrowWithinCohort", "policy", default="Never") != "Never"
    return obj.get("kind") in ("ClusterQueue", "Cohort") and (borrows or bool(dig(obj, "spec", "fairSharing")))


def _queue(obj: Obj) -> Entry:
    because = "topology, fair sharing and preemption while borrowing are not modelled: admitted by quota alone"
    return Entry(ref_of(obj), Status.ASSUMED, because)
