"""The executor's token is no good: dead, for another audience, or not there."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from killcheck.executor.refusals import NO_TOKEN, UNAUTHORIZED
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes.executor import (
    COPY,
    ExecutorFault,
    account_of,
    admitted,
    cron_job_of,
    identity,
    log_line,
    pod_spec,
    reads_account,
    replace_token,
    without_token,
)
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, dig, uid_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry

__all__ = ["TokenAudience", "TokenDead", "TokenNotMounted"]

#: The shortest life that a TokenRequest may ask for, in seconds.
SHORTEST_S = 600


class _TokenFault(ExecutorFault):
    """A fault of the token that the executor's pod gets."""

    family = "credentials"

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Only where it gets one."""
        return without_token(layer_name, cron_job)

    def has_one(self, stage: Stage, layer: LayerRun) -> None:
        """Raise FaultError where its pod gets none: what would be broken would first have to be added."""
        found = account_of(stage, layer)
        if found is None:
            return
        why = without_token(layer.layer.name, admitted(cron_job_of(layer), found))
        if why:
            raise FaultError(f"{self.name}: {why}")


class TokenDead(_TokenFault):
    """Reproduces rows 17 and 18: a token bound to a throwaway Secret dies with that Secret; real 401s.

    The API server forgets a token that it has accepted only after about 10 s; this one was never shown to it.
    """

    name = "token-dead"
    simulates = "the executor's ServiceAccount token is revoked or has expired"
    failures = (17, 18)
    shows = Evidence.EXECUTOR

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Two Secrets of our own, one of them short-lived. Raises FaultError where the executor has no token."""
        self.has_one(stage, layer)
        namespace, account = identity(layer)
        verbs = tuple(Permission(v, "", "secrets", namespace=namespace) for v in ("get", "create", "delete"))
        token = Permission("create", "", "serviceaccounts", "token", namespace, account)
        return Plan(
            (
                f"a token of ServiceAccount {namespace}/{account} that is dead from the start, in a Secret that the "
                "drill's own copy of the Job reads",
            ),
            permissions=(*verbs, token, reads_account(layer)),
            edits=(f"{COPY}.token",),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Bind a token to a Secret, keep it in another, delete the first."""
        namespace, account = identity(layer)
        journal, kube = stage.journal, stage.cluster.kube
        anchor = journal.create(r.SECRETS, self._secret(stage, namespace, "anchor", {}))
        bound = {"apiVersion": "v1", "kind": "Secret", "name": anchor["metadata"]["name"], "uid": uid_of(anchor)}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": SHORTEST_S, "boundObjectRef": bound},
        }
        answer = retry(
            stage.cluster.loop,
            lambda: kube.create(r.SERVICEACCOUNTS, request, namespace, name=account, subresource="token"),
        )
        token = base64.b64encode(dig(answer, "status", "token", default="").encode()).decode()
        kept = journal.create(r.SECRETS, self._secret(stage, namespace, "dead", {"token": token}))

        def end() -> None:
            try:
                kube.delete(r.SECRETS, bound["name"], namespace, uid=bound["uid"])
            except NotFound:
                return

        retry(stage.cluster.loop, end)
        name = kept["metadata"]["name"]
        replace_token(stage, {"secret": {"name": name, "items": [{"key": "token", "path": "token"}]}})
        return [f"the drill's copy of the Job reads a dead token of {account} from Secret {namespace}/{name}"]

    @staticmethod
    def _secret(stage: Stage, namespace: str, what: str, data: dict[str, str]) -> Obj:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "data": data,
            "metadata": {"name": f"killcheck-{what}-{stage.run[-6:]}", "namespace": namespace},
        }

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A 401 seen by this very executor."""
        return log_line(stage, UNAUTHORIZED)


class TokenAudience(_TokenFault):
    """Reproduces row 19: a projected token that was made for somebody else."""

    name = "token-audience"
    simulates = "the executor's token is projected for an audience that is not the API server"
    failures = (19,)
    shows = Evidence.EXECUTOR

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Nothing that exists is changed. Raises FaultError where the executor has no token."""
        self.has_one(stage, layer)
        return Plan(
            ("the drill's own copy of the Job has a token for another audience",),
            permissions=(reads_account(layer),),
            edits=(f"{COPY}.token",),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Project a token for nobody in the drill's Job."""
        audience = "killcheck.invalid"
        replace_token(
            stage, {"serviceAccountToken": {"audience": audience, "expirationSeconds": SHORTEST_S, "path": "token"}}
        )
        return [f"the drill's copy of the Job has a token for audience {audience}"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A 401 seen by this very executor."""
        return log_line(stage, UNAUTHORIZED)


class TokenNotMounted(_TokenFault):
    """Reproduces row 16's neighbour: automountServiceAccountToken turned off by a hardening change."""

    name = "token-not-mounted"
    simulates = "the executor's pod no longer gets a ServiceAccount token"
    failures = (16, 17)
    shows = Evidence.EXECUTOR

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Nothing that exists is changed. Raises FaultError where the executor has no token."""
        self.has_one(stage, layer)
        return Plan(
            ("the drill's own copy of the Job gets no ServiceAccount token",),
            permissions=(reads_account(layer),),
            edits=(f"{COPY}.token",),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Switch the mount off in the drill's Job."""

        def rewrite(template: Obj) -> None:
            template["spec"]["automountServiceAccountToken"] = False

        stage.rewrites.append(rewrite)
        mounted = any("serviceAccountToken" in str(v) for v in pod_spec(layer).get("volumes", []))
        return [
            "the drill's copy of the Job gets no token"
            + (" but the one that its own volume projects" if mounted else "")
        ]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The executor missed the file, or was taken for anonymous."""
        return log_line(stage, f"{NO_TOKEN}|{UNAUTHORIZED}")
