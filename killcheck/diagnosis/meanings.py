"""What became of an executor's call: what it means for the night, what to do, and the rows of the failure catalogue."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.executor.refusals import Refusal, RefusalKind
from killcheck.kube.objects import Obj, dig
from killcheck.text import lazy_re

__all__ = ["EGRESS", "MEANINGS", "gone_group", "meaning"]

_RIGHTS = "give the executor's ServiceAccount exactly this: verb, resource, subresource and name"
_SCALES = lazy_re.compile(r"/scale|deployments|(?:stateful|replica)sets")
_GROUP = lazy_re.compile(r'in API group \\?"([^"\\]*)\\?"')
#: Groups that no server has any more, and where their workloads are (Deprecated API Migration Guide, v1.16, v1.22).
_MOVED = {"extensions": "apps/v1"}


def gone_group(line: str) -> str | None:
    """What to do where a 403 is about an API group that no server has any more; None: it is not."""
    group = _GROUP.search(line)
    moved = _MOVED.get(group[1]) if group is not None else None
    return moved and f"no API server has this group any more: call {moved} (a right would make it a 404)"


def _forbidden(line: str) -> str:
    """What to do about a 403, by what the API server said."""
    beside = " (deployments/scale is not deployments)" if _SCALES.search(line) else ""
    return gone_group(line) or f"{_RIGHTS}{beside}"


EGRESS = (
    "the executor cannot reach the API server: allow its egress to the API server's real address and to "
    "DNS, and let it retry"
)
#: By what became of the executor's call: (what it means, what to do, rows of the failure catalogue).
MEANINGS: dict[RefusalKind, tuple[str, str, tuple[int, ...]]] = {
    RefusalKind.NO_TOKEN: (
        "the pod has no ServiceAccount token",
        "let the executor's pod have its token (automountServiceAccountToken), or project one",
        (17,),
    ),
    RefusalKind.FORBIDDEN: (
        "403 Forbidden",
        _RIGHTS,
        (16,),
    ),
    RefusalKind.UNAUTHORIZED: (
        "401 Unauthorized",
        "the executor's token is not accepted: mount a fresh one (projected, audience of the API server) and "
        "read it at each use",
        (17, 19),
    ),
    RefusalKind.UNRESOLVED: ("the executor cannot resolve a name", EGRESS, (25, 23)),
    RefusalKind.UNTRUSTED: (
        "the executor does not trust the API server's certificate",
        "renew the certificate and see to the node's clock; give the executor the CA of its ServiceAccount's mount",
        (22,),
    ),
    RefusalKind.UNREACHED: ("the executor cannot get through", EGRESS, (23, 25)),
    RefusalKind.BUSY: (
        "the API server was busy, and the executor gave up",
        "let the executor try again for some minutes (curl --retry, backoffLimit): an API server that is busy recovers",
        (24, 26),
    ),
}
#: Where kubectl goes that has found no cluster to go to, and a volume that brings a token.
_NOWHERE, _TOKEN = "localhost:8080", "serviceAccountToken"
_PASSED_OVER = (
    "kubectl passed the pod's own token over",
    "kubectl takes the pod's own cluster and token only without --as, --as-group, --request-timeout and "
    "--disable-compression, and where its environment has KUBERNETES_SERVICE_HOST (cron, sudo and env -i take that "
    "away): leave these out, or give it a kubeconfig",
    (17,),
)


def meaning(told: Refusal, pods: Iterable[Obj]) -> tuple[str, str, tuple[int, ...]]:
    """What became of a call of a program in one of the ``pods``: as :data:`MEANINGS` says, and of a token that is
    there what keeps kubectl from it (client-go, DeferredLoadingClientConfig: a configuration that is not the default
    goes before the pod's; tried with kubectl 1.32).
    """
    if (
        told.kind is RefusalKind.NO_TOKEN
        and _NOWHERE in told.line
        and any(_TOKEN in str(dig(pod, "spec", "volumes")) for pod in pods)
    ):
        return _PASSED_OVER
    what, remedy, rows = MEANINGS[told.kind]
    return what, _forbidden(told.line) if told.kind is RefusalKind.FORBIDDEN else remedy, rows
