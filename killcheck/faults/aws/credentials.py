"""Cloud credentials that no longer work: an SSO session after its eight hours, session and static keys, a role's token.

Where AWS is a stand-in its gate and portal let them lapse, and answer as each service does; with an account only what
can be done to the drill's own copy of the Job is done, and AWS answers for itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from killcheck.capabilities.account import StandIn
from killcheck.capabilities.offered import Capability
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes.executor import (
    COPY,
    ExecutorFault,
    account_of,
    containers,
    log_line,
    pod_spec,
    said_by,
)
from killcheck.kube.objects import Obj, annotations_of, dig, format_time
from killcheck.layers.base import LayerRun, Stage

__all__ = ["SsoExpired", "StaticKeyRevoked", "StsExpired", "WebIdentityExpired"]

#: What clients and services say of credentials that are no good (botocore's exceptions, the services' codes).
LAPSED = (
    r"UnauthorizedSSOToken|TokenRetrievalError|SSO session .* expired|SSOTokenLoadError|ExpiredToken|RequestExpired|"
    r"InvalidClientTokenId|UnrecognizedClient|InvalidAccessKeyId|AuthFailure|InvalidIdentityToken|"
    r"Token has expired and refresh failed|executable aws failed"
)
#: Annotation of a ServiceAccount whose pods take a role by web identity (amazon-eks-pod-identity-webhook).
ROLE_ARN = "eks.amazonaws.com/role-arn"
#: Keys of nobody: the prefixes are AWS' own, so that every service takes them for keys that it does not know.
STATIC_KEY, SESSION_KEY = "AKIAKILLCHECKREVOKED", "ASIAKILLCHECKEXPIRED"


def stand_in(stage: Stage) -> StandIn | None:
    """The stand-in of AWS; None: there is an account, or no cloud at all."""
    return stage.cluster.capabilities.stand_in


def uses_aws(template: Obj) -> bool:
    """Whether an executor's pod spec has anything to do with AWS' credentials, as far as it shows."""
    return (
        re.search(r"AWS_[A-Z]|/\.aws\b|aws-cli|boto3|'aws'|eks\.amazonaws\.com|\baws [a-z]", said_by(template))
        is not None
    )


def takes_role(template: Obj) -> bool:
    """Whether a container of a pod spec takes a role by web identity."""
    names = {e.get("name") for c in containers({"spec": template}) for e in dig(c, "env", default=[])}
    return "AWS_WEB_IDENTITY_TOKEN_FILE" in names


def may_carry(template: Obj, name: str) -> bool:
    """Whether a pod spec gives a container a credential of that name (``AWS_SESSION_TOKEN``), or may do so unseen.

    Unseen: all of a Secret as variables, or a Secret as files (``~/.aws/credentials``).
    """
    wholes = [e for c in containers({"spec": template}) for e in dig(c, "envFrom", default=[]) if "secretRef" in e]
    files = [v for v in dig(template, "volumes", default=[]) if "secret" in v or "csi" in v]
    return name in str(list(containers({"spec": template}))) or bool(wholes or files)


def _template(cron_job: Obj) -> Obj:
    return dig(cron_job, "spec", "jobTemplate", "spec", "template", "spec", default={})  # type: ignore[no-any-return]


class _CredentialFault(ExecutorFault):
    """A fault of what the executor shows to AWS."""

    family = "credentials"
    shows = Evidence.EXECUTOR

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Nothing that exists in the cluster is changed."""
        if not uses_aws(pod_spec(layer)):
            raise FaultError(f"{self.name}: the executor of {layer.layer.name} shows nothing to AWS")
        return Plan((self.simulates,), edits=self.edits)

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Only where the executor shows AWS anything."""
        return None if uses_aws(_template(cron_job)) else f"the executor of {layer_name} shows nothing to AWS"

    edits: ClassVar[tuple[str, ...]] = ()

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """This very executor was told so."""
        return log_line(stage, LAPSED)


class SsoExpired(_CredentialFault):
    """Reproduces row 20 and the first failure of the founding story: the eight hours are over in the middle of a run.

    Every sign-in of the stand-in's portal ends, however it was made and whenever. What was already handed out lives on
    until its own end, as with AWS. A layer without a person's session in its path does not notice.
    """

    name = "sso-expired"
    simulates = "the AWS SSO session of whoever drives a run ends in the middle of it"
    failures = (20,)
    needs = (Capability.STAND_IN,)
    shows = Evidence.CALL

    #: How long a session still lives when the trigger is pulled, in seconds.
    lives_on_s: ClassVar[float] = 240.0
    _until = ""

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """A person's session may be in the path without the executor's template showing it."""
        return None

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """No session outlives a moment soon."""
        return Plan((f"every SSO session ends {self.lives_on_s:.0f} s from now",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Limit them all."""
        until = format_time(stage.cluster.loop.now() + timedelta(seconds=self.lives_on_s))
        what = f"every SSO session ends at {until}"
        stage.journal.call(Capability.STAND_IN, what, ("limit_sessions", until), ("limit_sessions", ""))
        self._until = until
        return [what]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Somebody who was signed in was refused by the portal, or the executor was told so."""
        said = log_line(stage, LAPSED)
        portal = stand_in(stage)
        if said or portal is None or not self._until or stage.cluster.loop.now() < datetime.fromisoformat(self._until):
            return said
        met = next(iter(portal.portal.cut_off), None)
        return f"the portal refused a session that had ended: {met}" if met is not None else None


class _KeyFault(_CredentialFault):
    """Keys in the environment of the drill's own copy, which no service takes."""

    key: ClassVar[str]
    token: ClassVar[str] = ""
    how: ClassVar[str]
    #: The variable without which an executor has no such credentials: what it has not cannot lapse.
    carried: ClassVar[str]
    edits = (f"{COPY} env AWS_ACCESS_KEY_ID",)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Only where the executor has such credentials. Raises FaultError: it would be given some first."""
        planned = super().plan(stage, layer)
        found = account_of(stage, layer) or {}
        why = self._has_none(layer.layer.name, pod_spec(layer), by_role=ROLE_ARN in annotations_of(found))
        if why:
            raise FaultError(f"{self.name}: {why}")
        return planned

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Only where the executor has such credentials."""
        template = _template(cron_job)
        return super().unsuited_executor(layer_name, cron_job) or self._has_none(layer_name, template, by_role=False)

    def _has_none(self, layer_name: str, template: Obj, *, by_role: bool) -> str | None:
        if takes_role(template) or by_role:
            return f"the executor of {layer_name} takes a role, and has {self.instead} (web-identity-expired)"
        return None if may_carry(template, self.carried) else f"the executor of {layer_name} carries no {self.carried}"

    #: What an executor that takes a role has instead.
    instead: ClassVar[str]

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Let the stand-in refuse the key, and the drill's Job show it."""
        if stand_in(stage) is not None:
            stage.journal.call(
                Capability.STAND_IN, f"{self.key} is {self.how}", ("lapse", self.key, self.how), ("restore", self.key)
            )
        values = {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": "nobodys", "AWS_SESSION_TOKEN": self.token}
        dropped = {*values, "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"}

        def rewrite(template: Obj) -> None:
            for container in containers(template):
                kept = [entry for entry in container.get("env", []) if entry.get("name") not in dropped]
                container["env"] = kept + [{"name": name, "value": value} for name, value in values.items() if value]

        stage.rewrites.append(rewrite)
        return [f"the drill's copy of the Job shows AWS a key that is {self.how}"]


class StaticKeyRevoked(_KeyFault):
    """Reproduces row 21's neighbour: the access key that the executor has carried for years was deleted.

    Works against AWS itself: no service knows the key that the drill's own copy shows.
    """

    name = "static-key-revoked"
    simulates = "the static access key that the executor uses has been revoked"
    failures = (21,)
    needs = (Capability.AWS,)
    key, how, carried = STATIC_KEY, "revoked", "AWS_ACCESS_KEY_ID"
    instead = "no key that could be revoked"


class StsExpired(_KeyFault):
    """Reproduces row 21: session credentials from STS, used after their end; each service has its own code for it."""

    name = "sts-expired"
    simulates = "the executor's session credentials (STS) have expired"
    failures = (21,)
    needs = (Capability.STAND_IN,)
    key, token, how, carried = SESSION_KEY, "nobodys-session", "expired", "AWS_SESSION_TOKEN"
    instead = "a session of its own at each start"


class WebIdentityExpired(_CredentialFault):
    """Reproduces row 21: STS takes the ServiceAccount's token no more (IRSA: expired, provider or trust gone)."""

    name = "web-identity-expired"
    simulates = "STS no longer takes the ServiceAccount's token for its role"
    failures = (21,)
    needs = (Capability.STAND_IN,)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Only where a role is taken that way."""
        if not takes_role(pod_spec(layer)):
            raise FaultError(f"{self.name}: the executor of {layer.layer.name} takes no role by web identity")
        return super().plan(stage, layer)

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Only where a role is taken that way."""
        return (
            None if takes_role(_template(cron_job)) else f"the executor of {layer_name} takes no role by web identity"
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Refuse AssumeRoleWithWebIdentity."""
        what = "STS refuses AssumeRoleWithWebIdentity"
        stage.journal.call(Capability.STAND_IN, what, ("lapse", "web-identity", "expired"), ("restore", "web-identity"))
        return [what]
