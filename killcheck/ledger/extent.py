"""What nobody built yet, by name: each with what becomes of a verdict that could turn on it.

`docs/reference/extent.md` is made from it, beside what the code does know.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

__all__ = ["UNKNOWN", "Becomes", "Unknown"]


class Becomes(StrEnum):
    """What a verdict does about something that is not known."""

    OPEN = "inconclusive: an open entry of the ledger, or no steady state"
    UNPROVEN = "unproven"
    SAID = "said under the verdict"
    UNSEEN = "not seen, and not said: drill it on a real cluster"


class Unknown(Struct, frozen=True):
    """Something that is not built."""

    area: str
    what: str
    becomes: Becomes


UNKNOWN: tuple[Unknown, ...] = (
    Unknown("worker fleets", "offers of a rental market: memory, price, reliability, which comes next", Becomes.UNSEEN),
    Unknown("worker fleets", "what the orchestrator itself costs; the cost of an item as it changes", Becomes.UNSEEN),
    Unknown("worker fleets", "a scaler of one's own that grows with a queue: KEDA's alone is modelled", Becomes.UNSEEN),
    Unknown("scale to zero", "how long a model loads, where what holds GPUs does not run", Becomes.SAID),
    Unknown("scale to zero", "requests that meet a pod while it ends (502)", Becomes.SAID),
    Unknown("scale to zero", "InterceptorRoutes of KEDA's HTTP add-on", Becomes.OPEN),
    Unknown(
        "single controllers", "timers beside such a path that start something and that no layer names", Becomes.OPEN
    ),
    Unknown("single controllers", "systemd itself: units are read, their programs run", Becomes.SAID),
    Unknown("spot", "how often a type is reclaimed, and when spot is to be had again", Becomes.UNSEEN),
    Unknown("spot", "traffic out of the cloud; bills by label and owner", Becomes.UNSEEN),
    Unknown("alerts", "whether Alertmanager tells anybody", Becomes.SAID),
    Unknown("alerts", "series of exporters other than kube-state-metrics and dcgm-exporter", Becomes.UNPROVEN),
    Unknown("Kueue", "MultiKueue, and any other AdmissionCheck: nobody answers for its controller", Becomes.OPEN),
    Unknown("Kueue", "topology, fair sharing, preemption while borrowing", Becomes.SAID),
    Unknown("Kueue", "partial admission", Becomes.UNSEEN),
    Unknown("clouds", "node auto-provisioning of AKS (karpenter.azure.com)", Becomes.OPEN),
    Unknown("clouds", "graceful shutdown as GKE's nodes have it", Becomes.SAID),
    Unknown("clouds", "P3 asked of GCP and Azure themselves, without an export or a program of yours", Becomes.OPEN),
    Unknown("policies", "Kyverno, Gatekeeper: rules over pods", Becomes.OPEN),
    Unknown("policies", "any policy over pools, in a fence: those that could widen one", Becomes.UNPROVEN),
    Unknown("policies", "any policy over pools, in a fence: those that could refuse one", Becomes.SAID),
    Unknown("fences", "capacity blocks", Becomes.UNSEEN),
    Unknown("credentials", "whether External Secrets, Vault and cert-manager go on renewing a Secret", Becomes.SAID),
    Unknown("credentials", "EKS Pod Identity, OIDC keys that rotate, workload identity elsewhere", Becomes.UNSEEN),
    Unknown("network", "sidecars that a webhook injects beside what turns GPUs off", Becomes.OPEN),
    Unknown("network", "name servers of a pod's own, and proxies: what they know and let through", Becomes.OPEN),
    Unknown("network", "a mesh without sidecars (Istio's ambient mode)", Becomes.SAID),
    Unknown("network", "MTU, DNS that answers slowly, a node's clock that is wrong", Becomes.UNSEEN),
)
