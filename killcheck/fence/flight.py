"""A canary's flight as a run: consent, a plan that somebody approves, a Lease, a journal; and nothing left behind.

The same promises as a drill's (:mod:`killcheck.run.runner`): what a dead run left is put back first, what is created is
written down before, and ``killcheck restore`` takes it back after a kill -9.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from killcheck.capabilities.cluster import Cluster
from killcheck.fence.inside import Ask
from killcheck.fence.live import Canary, CanaryResult
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.permissions import Permission
from killcheck.safety import consent, journal, lease, orphans
from killcheck.safety.journal import Journal
from killcheck.spec.killpath import KillPath

__all__ = ["fly", "plan"]


def plan(cluster: Cluster, canary: Canary) -> consent.Plan:
    """What a flight touches."""
    home = canary.namespace
    watched = [("", "pods", home), ("", "events", home), ("", "nodes", "")]
    permissions = [
        Permission(verb, group, resource, namespace=namespace)
        for group, resource, namespace in watched
        for verb in ("list", "watch")
    ]
    permissions += [Permission(verb, "", "pods", namespace=home) for verb in ("get", "create", "delete")]
    permissions.append(Permission("get", "", "namespaces", name=home))
    permissions += [*journal.permissions(home), *lease.permissions([home])]
    claims = r.NODECLAIMS
    try:
        served = any(one.kind == claims.kind for one in cluster.kube.resources(claims.api_version))
    except NotFound:
        served = False  # no Karpenter here
    if served:
        permissions += [Permission(verb, claims.group, claims.plural) for verb in ("get", "list", "watch", "delete")]
    changes = (
        f"create pod {home}/{canary.name}, which asks for {canary.devices} x {canary.resource} and is to stay Pending",
        f"delete it after {canary.deadline_s:.0f} s, or at the first sign that something launches for it",
        "delete the NodeClaim, should Karpenter make one for it",
    )
    return consent.Plan(cluster.name, changes, (home,), tuple(permissions), usd_per_hour=0.0)


def fly(
    cluster: Cluster,
    kill_path: KillPath,
    canary: Canary,
    expected: Ask,
    *,
    run: str,
    folder: Path,
    approve: Callable[[consent.Plan], bool],
    kubeconfig: str = "",
) -> CanaryResult | None:
    """Send the canary out; ``folder`` keeps runs and their journals. None: the plan was not approved.

    Raises CanaryRefused, ConsentError, Busy (another run is at it), Dirty (a dead run left what cannot be put back),
    JournalError, KubeError. What could not be taken back is in the result's ``left``.
    """
    canary.admit(expected)
    wanted = plan(cluster, canary)
    consent.check(cluster, kill_path, wanted)
    if not approve(wanted):
        return None
    home = canary.namespace
    orphans.settle(cluster.kube, cluster.loop, context=cluster.name, namespaces=[home], folder=folder)
    what = f"Canary {home}/{canary.name}"
    claim = lease.Claim(
        cluster.kube, cluster.loop, run, [(home, "killcheck-" + hashlib.sha256(what.encode()).hexdigest()[:12], what)]
    )
    kept = Journal(
        run,
        cluster.loop,
        cluster.kube,
        path=folder / "runs" / run / "journal-0.jsonl",
        home=home,
        context=cluster.name,
        kubeconfig=kubeconfig,
    )
    kept.open_locally()
    claim.acquire()
    kept.guard = claim.check
    try:
        return canary.fly(expected, kept)
    finally:
        if kept.open:
            claim.abandon()
        else:
            claim.release()
            kept.close()
