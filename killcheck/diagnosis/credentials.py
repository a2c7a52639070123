"""Why an executor that talks to a cloud was refused: whose credentials, and what became of them."""

from __future__ import annotations

import re

from killcheck.diagnosis.case import Case, Diagnosis

__all__ = ["cloud_credentials"]

#: (what a client or service says, what it means, what to do, rows); the first that matches counts.
_SIGNS: tuple[tuple[str, str, str, tuple[int, ...]], ...] = (
    (
        r"UnauthorizedSSOToken|TokenRetrievalError|SSOTokenLoadError|SSO session.*(expired|invalid)|"
        r"Token has expired and refresh failed",
        "a person's AWS SSO session in its path has expired (eight hours, where nobody set it otherwise)",
        "take the person out of the path: let a Job with an identity of its own turn the GPUs off, by its own schedule",
        (20,),
    ),
    (
        r"InvalidClientTokenId|UnrecognizedClient|InvalidAccessKeyId|AuthFailure",
        "AWS does not know its access key (revoked or deleted)",
        "give the executor no key: a role for its ServiceAccount renews itself",
        (21,),
    ),
    (
        r"(ExpiredToken|AccessDenied).*AssumeRoleWithWebIdentity|InvalidIdentityToken",
        "STS did not take its ServiceAccount's token for the role (expired, or the role's trust has changed)",
        "see to the role's trust policy and the cluster's OIDC provider; turn off through the Kubernetes API besides",
        (21,),
    ),
    (
        r"ExpiredToken|RequestExpired",
        "its AWS session credentials have expired",
        "let the executor take its role afresh when it starts",
        (21,),
    ),
    (
        r"NoCredentialsError|Unable to locate credentials",
        "it has no AWS credentials at all",
        "give its ServiceAccount a role",
        (21,),
    ),
)


def cloud_credentials(case: Case) -> Diagnosis | None:
    """The executor's log says that its cloud credentials were refused."""
    if "scale_written" in case.timeline.reached:
        return None
    for (pod, container), text in case.observations.logs.items():
        for pattern, meaning, remedy, rows in _SIGNS:
            line = next((one for one in text.splitlines() if re.search(pattern, one)), "")
            if line:
                return Diagnosis(
                    cause=f"the executor could not act: {meaning}",
                    evidence=(f"{pod}, container {container}: {line.strip()[:300]}",),
                    remedy=remedy,
                    failures=rows,
                )
    return None
