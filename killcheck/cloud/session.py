"""The one place where AWS is asked: every client's endpoint, region, time-outs and retries, and what each call needs.

Every operation that this project calls is declared in :data:`CALLS` with the IAM permission it needs; one that is not
declared cannot be called. ``ci/aws-policy.json`` is made from the table (``python -m killcheck.cloud.session``).
boto3 is imported with the first client; no botocore exception leaves :func:`call` and :func:`pages`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

__all__ = ["CALLS", "NO_BOTO3", "AskError", "Aws", "Call", "Kind", "call", "explain", "pages", "policy"]

#: How a question can fail; each is *not knowing*, never an answer.
Kind = Literal[
    "no-credentials",
    "expired",
    "invalid-credentials",
    "denied",
    "throttled",
    "no-region",
    "bad-profile",
    "unreachable",
    "not-found",
    "not-installed",
    "other",
]

#: boto3 is an extra: most kill paths are drilled without any account.
NO_BOTO3 = "AWS is asked through boto3: pip install 'killcheck[aws]'"

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 20.0
#: The first try among them.
TRIES = 4

_T = TypeVar("_T")


class Call(Struct, frozen=True):
    """One operation: what it needs (IAM actions), for which part of killcheck, and whether it changes anything."""

    needs: tuple[str, ...]
    part: str
    changes: bool = False


def _calls(service: str, part: str, changes: bool, **operations: str) -> dict[tuple[str, str], Call]:
    return {(service, name): Call(tuple(needs.split()), part, changes) for name, needs in operations.items()}


#: Every call there is in this code. Source: the Service Authorization Reference (2026).
CALLS: dict[tuple[str, str], Call] = {
    **_calls("sts", "identity", False, get_caller_identity="sts:GetCallerIdentity"),
    **_calls(
        "ec2",
        "instances",
        False,
        describe_instances="ec2:DescribeInstances",
        describe_spot_instance_requests="ec2:DescribeSpotInstanceRequests",
        describe_capacity_reservations="ec2:DescribeCapacityReservations",
    ),
    **_calls("autoscaling", "instances", False, describe_auto_scaling_groups="autoscaling:DescribeAutoScalingGroups"),
    **_calls(
        "ec2",
        "catalogue",
        False,
        describe_instance_types="ec2:DescribeInstanceTypes",
        describe_spot_price_history="ec2:DescribeSpotPriceHistory",
    ),
    **_calls("pricing", "catalogue", False, get_products="pricing:GetProducts"),
    **_calls("autoscaling", "fence", False, describe_launch_configurations="autoscaling:DescribeLaunchConfigurations"),
    **_calls(
        "ec2",
        "fence",
        False,
        describe_launch_templates="ec2:DescribeLaunchTemplates",
        describe_launch_template_versions="ec2:DescribeLaunchTemplateVersions",
        run_instances="ec2:RunInstances",
    ),  # with DryRun, always
    **_calls(
        "eks",
        "fence",
        False,
        list_nodegroups="eks:ListNodegroups",
        describe_nodegroup="eks:DescribeNodegroup",
        list_fargate_profiles="eks:ListFargateProfiles",
    ),
    **_calls(
        "iam",
        "fence",
        False,
        get_account_authorization_details="iam:GetAccountAuthorizationDetails",
        simulate_principal_policy="iam:SimulatePrincipalPolicy",
    ),
    **_calls("sqs", "spot-queue-message", False, get_queue_attributes="sqs:GetQueueAttributes"),
    **_calls("sqs", "spot-queue-message", True, send_message="sqs:SendMessage"),
    **_calls(
        "fis",
        "spot-fis",
        False,
        get_experiment="fis:GetExperiment",
        list_experiments="fis:ListExperiments",
        list_experiment_templates="fis:ListExperimentTemplates",
    ),
    **_calls(
        "fis",
        "spot-fis",
        True,
        create_experiment_template="fis:CreateExperimentTemplate fis:TagResource iam:PassRole",
        start_experiment="fis:StartExperiment fis:TagResource",
        stop_experiment="fis:StopExperiment",
        delete_experiment_template="fis:DeleteExperimentTemplate",
    ),
    **_calls("iam", "spot-fis", False, get_role="iam:GetRole"),
    **_calls("cloudwatch", "spot-fis", False, describe_alarms="cloudwatch:DescribeAlarms"),
    **_calls("ec2", "spot-terminate", True, terminate_instances="ec2:TerminateInstances"),
    **_calls(
        "s3",
        "evidence",
        False,
        head_object="s3:GetObject",
        list_parts="s3:ListMultipartUploadParts",
        list_multipart_uploads="s3:ListBucketMultipartUploads",
    ),
    **_calls(
        "s3",
        "evidence",
        True,
        put_object="s3:PutObject s3:PutObjectRetention kms:GenerateDataKey",
        create_multipart_upload="s3:PutObject s3:PutObjectRetention kms:GenerateDataKey",
        upload_part="s3:PutObject kms:Decrypt",
        complete_multipart_upload="s3:PutObject",
        abort_multipart_upload="s3:AbortMultipartUpload",
    ),
    **_calls("s3", "results", False, list_objects_v2="s3:ListBucket"),
    **_calls("s3", "history", False, get_object="s3:GetObject"),
}


class AskError(Exception):
    """AWS could not be asked, or refused; one sentence for a person.

    ``kind`` says how it failed, ``code`` is the service's own error code (empty where the request never left),
    ``needs`` the IAM actions that the call takes.
    """

    def __init__(self, message: str, *, kind: Kind = "other", code: str = "", needs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.code = code
        self.needs = needs


class Aws(Struct):
    """An account as some profile sees it. ``endpoint_url`` is a stand-in's; empty: AWS itself.

    ``keys``: (access key id, secret, session token) instead of what the environment has. Nothing is opened, read or
    imported before the first call.
    """

    region: str = ""
    profile: str = ""
    endpoint_url: str = ""
    keys: tuple[str, str, str] | None = None
    _session: Any = None
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """A botocore client with this project's time-outs and retries. Raises botocore's exceptions."""
        # The price list is served from a few regions only. A region may become known later: clients are made anew.
        region = "us-east-1" if service == "pricing" else self.region
        if (service, region) not in self._clients:
            from botocore.config import Config

            if self._session is None:
                self._session = self._new_session()
            config = Config(
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                user_agent_extra="killcheck",
                retries={"total_max_attempts": TRIES, "mode": "standard"},
                s3={"addressing_style": "path"} if self.endpoint_url else None,
            )
            self._clients[service, region] = self._session.client(
                service, region_name=region or None, endpoint_url=self.endpoint_url or None, config=config
            )
        return self._clients[service, region]

    def _new_session(self) -> Any:
        import boto3
        import botocore.session

        key, secret, token = self.keys or (None, None, None)
        core = botocore.session.get_session()
        session = boto3.Session(
            profile_name=self.profile or None,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            aws_session_token=token or None,
            botocore_session=core,
        )
        core.register_component("data_loader", _models(core.get_config_variable("data_path")))
        return session


@cache
def _models(data_path: str | None) -> Any:
    """The services as botocore describes them, which each session would read anew: most of what a client costs."""
    from botocore.loaders import create_loader

    return create_loader(data_path)


# -- asking ------------------------------------------------------------------------------------------------
def call(aws: Any, service: str, operation: str, /, **arguments: Any) -> dict[str, Any]:
    """One call; ``aws`` has a ``client(service)``. Raises AskError, and KeyError for a call that is not declared."""
    needs = CALLS[service, operation].needs
    answer: dict[str, Any] = _asked(
        service, operation, needs, lambda: getattr(aws.client(service), operation)(**arguments), aws
    )
    return answer


def pages(aws: Any, service: str, operation: str, /, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Every page of a call that has pages. Raises as :func:`call` does, also half-way."""
    needs = CALLS[service, operation].needs
    found = _asked(
        service, operation, needs, lambda: iter(aws.client(service).get_paginator(operation).paginate(**arguments)), aws
    )
    while True:
        page = _asked(service, operation, needs, lambda: next(found, None), aws)
        if page is None:
            return
        yield page


def _asked(service: str, operation: str, needs: tuple[str, ...], ask: Callable[[], _T], aws: Any) -> _T:
    try:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError
    except ImportError as error:
        raise AskError(f"{_named(service, operation)}: {NO_BOTO3}", kind="not-installed", needs=needs) from error

    try:
        return ask()
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        told = explain(error, service, operation, needs)
        half = _half_configured(getattr(aws, "profile", "")) if told.kind == "no-credentials" else ""
        raise (
            AskError(f"{_named(service, operation)}: {half}", kind="bad-profile", needs=needs) if half else told
        ) from error
    except (KeyError, ValueError) as error:
        # A corrupt cache file of an SSO session is a bare KeyError or a JSON error in botocore.
        raise AskError(
            f"{_named(service, operation)}: the profile or its cached SSO session cannot be read "
            f"({type(error).__name__}: {error}); run aws sso login",
            kind="bad-profile",
            needs=needs,
        ) from error


def _half_configured(name: str) -> str | None:
    """What an SSO profile lacks: botocore passes over one that is not whole, and finds no credentials at all.

    Source: AWS SDKs reference guide "IAM Identity Center credential provider" (which settings belong together).
    """
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        session = Session(profile=name or None)
        profile = session.get_scoped_config()
        shared = session.full_config.get("sso_sessions", {})
    except BotoCoreError:
        return None
    if not any(key.startswith("sso_") for key in profile):
        return None
    lacking = [key for key in ("sso_account_id", "sso_role_name") if key not in profile]
    where, told = "", profile
    if "sso_session" in profile:
        where = f" (in [sso-session {profile['sso_session']}])"
        told = shared.get(profile["sso_session"], {})
    lacking += [f"{key}{where}" for key in ("sso_start_url", "sso_region") if key not in told]
    return f"profile {name or 'default'} is half configured: it lacks {', '.join(lacking)}" if lacking else None


_CODES: dict[Kind, frozenset[str]] = {
    "expired": frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"}),
    "invalid-credentials": frozenset(
        {
            "InvalidClientTokenId",
            "UnrecognizedClientException",
            "InvalidAccessKeyId",
            "AuthFailure",
            "SignatureDoesNotMatch",
            "InvalidSignatureException",
            "InvalidIdentityToken",
            "IncompleteSignature",
        }
    ),
    "denied": frozenset(
        {
            "AccessDenied",
            "AccessDeniedException",
            "UnauthorizedOperation",
            "UnauthorizedException",
            "Forbidden",
            "NotAuthorized",
            "AuthorizationError",
            "403",
        }
    ),
    "throttled": frozenset(
        {
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestLimitExceeded",
            "TooManyRequestsException",
            "SlowDown",
            "RequestThrottled",
            "RequestThrottledException",
            "PriorRequestNotComplete",
            "503 Slow Down",
        }
    ),
    "no-region": frozenset(
        {"OptInRequired", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
    ),
    "not-found": frozenset(
        {
            "404",
            "NoSuchKey",
            "NoSuchBucket",
            "NotFound",
            "InvalidInstanceID.NotFound",
            "ResourceNotFoundException",
            "AWS.SimpleQueueService.NonExistentQueue",
            "QueueDoesNotExist",
            "NoSuchEntity",
            "InvalidInstanceID.Malformed",
            "InvalidLaunchTemplateId.NotFound",
            "NoSuchUpload",
        }
    ),
}
_BY_CLASS: dict[str, tuple[Kind, str]] = {
    "NoCredentialsError": ("no-credentials", "no credentials were found: give a profile, or run where there is a role"),
    "PartialCredentialsError": ("no-credentials", "the credentials are incomplete"),
    "CredentialRetrievalError": ("no-credentials", "the program that gives the credentials failed"),
    "UnauthorizedSSOTokenError": ("expired", "the SSO session has expired: run aws sso login"),
    "SSOTokenLoadError": ("no-credentials", "there is no SSO session yet: run aws sso login"),
    "TokenRetrievalError": ("expired", "the SSO session has expired and could not be renewed: run aws sso login"),
    "InvalidConfigError": ("bad-profile", "the profile is half configured"),
    "SSOError": ("bad-profile", "the SSO profile cannot be used"),
    "ProfileNotFound": ("bad-profile", "there is no such profile"),
    "ConfigParseError": ("bad-profile", "the AWS configuration cannot be read"),
    "ConfigNotFound": ("bad-profile", "the AWS configuration cannot be read"),
    "NoRegionError": ("no-region", "no region is known: say region: in the spec's cloud:"),
    "InvalidRegionError": ("no-region", "that is no region"),
    "EndpointConnectionError": ("unreachable", "the endpoint cannot be reached (is the region right?)"),
    "ConnectTimeoutError": ("unreachable", "no connection within the time-out"),
    "ReadTimeoutError": ("unreachable", "no answer within the time-out"),
    "ConnectionClosedError": ("unreachable", "the connection was closed"),
    "ProxyConnectionError": ("unreachable", "the proxy cannot be reached"),
    "SSLError": ("unreachable", "TLS failed"),
    "ResponseParserError": ("other", "what came back is no answer of AWS (a proxy between?)"),
}
_ADVICE: dict[Kind, str] = {
    "expired": "the credentials have expired",
    "invalid-credentials": "AWS does not know these credentials (revoked, deleted, or of another partition)",
    "denied": "access denied",
    "throttled": f"throttled, {TRIES} times in a row",
    "no-region": "not available in that region, or for that account in it",
    "not-found": "there is no such thing",
}


def explain(error: Exception, service: str, operation: str, needs: tuple[str, ...] = ()) -> AskError:
    """What went wrong, in a sentence that names the call, the service's own code and what would help."""
    name = _named(service, operation)
    response = getattr(error, "response", None)
    if response is not None:
        said = response.get("Error", {})
        code, message = str(said.get("Code", "")), str(said.get("Message", ""))
        kind: Kind = next((kind for kind, codes in _CODES.items() if code in codes), "other")
        advice = f"{_ADVICE[kind]} " if kind in _ADVICE else ""
        grant = f"; it needs {', '.join(needs)} (ci/aws-policy.json)" if kind == "denied" and needs else ""
        return AskError(f"{name}: {advice}({code}): {message}{grant}", kind=kind, code=code, needs=needs)
    for cls in type(error).__mro__:
        if cls.__name__ in _BY_CLASS:
            kind, advice = _BY_CLASS[cls.__name__]
            return AskError(f"{name}: {advice} ({type(error).__name__}: {_short(error)})", kind=kind, needs=needs)
    return AskError(f"{name}: {type(error).__name__}: {_short(error)}", needs=needs)


def _short(error: Exception) -> str:
    """Its first line: some carry a whole answer."""
    return (str(error).splitlines() or [""])[0][:300]


def _named(service: str, operation: str) -> str:
    return f"{service}:{''.join(part.capitalize() for part in operation.split('_'))}"


# -- the policy --------------------------------------------------------------------------------------------
#: Actions that a drill only needs where it was asked for, and on what (nothing else is ever changed).
_SCOPES: dict[str, Any] = {
    "spot-terminate": {"Condition": {"StringEquals": {"aws:ResourceTag/killcheck.dev/consent": "true"}}},
}
_PARTITION = "arn:aws"


def policy() -> dict[str, Any]:
    """The IAM policy for everything here: a statement for each part, its reading and its changing apart."""
    statements = []
    for part in dict.fromkeys(one.part for one in CALLS.values()):
        for changes in (False, True):
            actions = sorted(
                {a for one in CALLS.values() if one.part == part and one.changes is changes for a in one.needs}
            )
            if actions:
                sid = "".join(word.capitalize() for word in part.split("-")) + ("Changes" if changes else "Reads")
                statements.append(
                    {
                        "Sid": sid,
                        "Effect": "Allow",
                        "Action": actions,
                        "Resource": "*",
                        **(_SCOPES.get(part, {}) if changes else {}),
                    }
                )
    return {"Version": "2012-10-17", "Statement": statements}


def main() -> int:
    """Print the policy."""
    sys.stdout.write(json.dumps(policy(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
