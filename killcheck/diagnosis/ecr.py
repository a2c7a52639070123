"""Why ECR did not let an executor's image be pulled: whose token it was, and who should have refreshed it."""

from __future__ import annotations

import re

from killcheck.diagnosis.case import Case, Diagnosis, said
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.standins.ecr import registry_of
from killcheck.text import lazy_re

__all__ = ["ecr_login", "refreshers"]

_PULL = lazy_re.compile(r'Failed to pull image "([^"]+)"')
#: What a program does that renews a pull secret for ECR: the CLI, an SDK, the API, or by its name.
_REFRESHES = lazy_re.compile(
    r"get-login-password|get_authorization_token|GetAuthorizationToken|ecr[-_a-z]*(refresh|renew|cred|token|login)",
    re.IGNORECASE,
)
_KEEP = "and keep the image on every node that may run the executor"


def refreshers(cron_jobs: list[Obj]) -> list[Obj]:
    """The CronJobs that renew a login for ECR, by what their templates say."""
    return [
        one for one in cron_jobs if _REFRESHES.search(f"{name_of(one)} {dig(one, 'spec', 'jobTemplate', default={})}")
    ]


#: How ECR says why it refuses a pull.
_REFUSALS = ("403 Forbidden", "401 Unauthorized", "no basic auth credentials", "authorization token has expired")


def ecr_login(case: Case) -> Diagnosis | None:
    """ECR refused the pull: 403 for a token past its end, 401 for one that is none, no login at all."""
    failed = next((e for e in case.events("Failed") if _PULL.match(str(e.get("message", "")))), None)
    if failed is None or "container_started" in case.timeline.reached:
        return None
    message = str(failed["message"])
    found = _PULL.match(message)
    host = registry_of(found.group(1)) if found else ""
    how = next((mark for mark in _REFUSALS if mark in message), None)
    if not host or how is None:
        return None
    namespace = namespace_of(case.job) or next(map(namespace_of, case.pods), "")
    spec = case.pods[-1]["spec"] if case.pods else dig(case.job, "spec", "template", "spec", default={})
    held = [f"{namespace}/{ref.get('name')}" for ref in spec.get("imagePullSecrets") or ()]
    evidence = (message, said(failed))
    return _stale_secret(case, namespace, held, how, evidence) if held else _no_login(host, how, evidence)


def _no_login(host: str, how: str, evidence: tuple[str, str]) -> Diagnosis:
    """No pull secret: the node's own role should have got in."""
    return Diagnosis(
        cause=f"ECR refused the pull ({how}): the node's credential provider got no authorization token for {host}",
        evidence=evidence,
        remedy="give the nodes' role ecr:GetAuthorizationToken and leave to pull "
        f"(AmazonEC2ContainerRegistryPullOnly), {_KEEP}",
        failures=(6,),
    )


def _stale_secret(case: Case, namespace: str, held: list[str], how: str, evidence: tuple[str, str]) -> Diagnosis:
    """A pull secret whose token is none, or past its end: who should have renewed it."""
    renewing = refreshers(_cron_jobs(case, namespace))
    whose = (
        f"{_told(renewing[0])} should have refreshed it"
        if renewing
        else f"nothing in {namespace} refreshes it, as far as its CronJobs show"
    )
    meaning = (
        "what it holds is no authorization token of ECR for that registry"
        if how.startswith(("401", "no basic"))
        else "ECR's authorization token in it has expired (it lives for 12 h)"
    )
    refresh = (
        "mend " + ", ".join(f"CronJob {namespace_of(one)}/{name_of(one)}" for one in renewing)
        if renewing
        else "refresh the Secret well within 12 h"
    )
    message, event = evidence
    return Diagnosis(
        cause=f"ECR refused the pull ({how}): Secret {', '.join(held)}: {meaning}; {whose}",
        evidence=(message, f"pod's imagePullSecrets: {', '.join(held)}", *map(_told, renewing), event),
        remedy=f"{refresh} and be told when it fails; better, let the nodes' role pull (ECR's credential provider), "
        f"{_KEEP}",
        failures=(6,),
    )


def _cron_jobs(case: Case, namespace: str) -> list[Obj]:
    try:
        return case.scene.cluster.kube.list(r.CRONJOBS, namespace).items
    except KubeError:
        return []


def _told(cron_job: Obj) -> str:
    """A refresher, and when it last did its work."""
    last = dig(cron_job, "status", "lastSuccessfulTime", default="")
    state = "suspended, " if dig(cron_job, "spec", "suspend") else ""
    return (
        f"CronJob {namespace_of(cron_job)}/{name_of(cron_job)} ({state}"
        f"{'last succeeded at ' + last if last else 'has never succeeded'})"
    )
