"""Asking AWS itself: what an account's pools are, and whether a principal could launch a type - without launching it.

``SimulatePrincipalPolicy`` and ``RunInstances`` with ``DryRun`` decide what the offline evaluation leaves undecided.
boto3 is imported when the first question is asked; no botocore exception leaves this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from killcheck.cloud.iam import Decision
from killcheck.cloud.session import AskError, Aws, call, pages
from killcheck.entries import Becomes, leaves

__all__ = ["AskError", "dry_run", "export", "session", "simulate"]

#: Evaluation results of IAM's simulator, in this package's words.
_SIMULATED = {"allowed": "allowed", "explicitDeny": "explicit deny", "implicitDeny": "implicit deny"}
#: Contexts that one call of the simulator is asked with.
_REGION_KEY = "aws:RequestedRegion"


@contextmanager
def _asking(what: str) -> Iterator[None]:
    try:
        yield
    except AskError as error:
        raise AskError(
            f"AWS could not be asked {what}: {error}", kind=error.kind, code=error.code, needs=error.needs
        ) from error


def session(profile: str | None = None, region: str | None = None) -> Aws:
    """Whom to ask; nothing is opened before the first question."""
    return Aws(region=region or "", profile=profile or "")


@leaves("clouds", "what an account of GCP or Azure lets be launched: quotas, rights", Becomes.UNSEEN)
def export(aws: Any, cluster: str = "") -> list[Any]:
    """The documents that :class:`killcheck.fence.Account` reads: groups, templates, roles and policies of an account.

    ``cluster`` names the EKS cluster whose node groups are wanted. Raises AskError where one of them may not be read:
    an account with a part missing would look safer than it is.
    """
    documents: list[Any] = []
    with _asking("for its Auto Scaling groups"):
        documents += list(pages(aws, "autoscaling", "describe_auto_scaling_groups"))
        documents += list(pages(aws, "autoscaling", "describe_launch_configurations"))
    with _asking("for its launch templates"):
        templates = [
            template for page in pages(aws, "ec2", "describe_launch_templates") for template in page["LaunchTemplates"]
        ]
        documents.append({"LaunchTemplates": templates})
        for template in templates:
            documents += list(
                pages(aws, "ec2", "describe_launch_template_versions", LaunchTemplateId=template["LaunchTemplateId"])
            )
    if cluster:
        with _asking(f"for the node groups of {cluster}"):
            documents += _node_groups(aws, cluster)
    with _asking("for its roles and policies"):
        documents += list(
            pages(
                aws,
                "iam",
                "get_account_authorization_details",
                Filter=["Role", "LocalManagedPolicy", "AWSManagedPolicy"],
            )
        )
    return documents


def _node_groups(aws: Any, cluster: str) -> Iterator[Any]:
    for page in pages(aws, "eks", "list_nodegroups", clusterName=cluster):
        for name in page["nodegroups"]:
            found = call(aws, "eks", "describe_nodegroup", clusterName=cluster, nodegroupName=name)
            yield {"nodegroup": found["nodegroup"]}
    for page in pages(aws, "eks", "list_fargate_profiles", clusterName=cluster):
        yield from ({"fargateProfile": {"fargateProfileName": name}} for name in page["fargateProfileNames"])


def simulate(aws: Any, principal_arn: str, instance_types: Iterable[str], *, region: str) -> dict[str, Decision]:
    """What IAM's simulator says of RunInstances for each type: its policies, boundary and SCPs. Raises AskError."""
    found = {}
    account = principal_arn.split(":")[4] if principal_arn.count(":") >= 5 else "*"
    for name in instance_types:
        with _asking(f"what {principal_arn} may launch"):
            answer = call(
                aws,
                "iam",
                "simulate_principal_policy",
                PolicySourceArn=principal_arn,
                ActionNames=["ec2:RunInstances"],
                ResourceArns=[f"arn:aws:ec2:{region}:{account}:instance/*"],
                ContextEntries=[
                    {"ContextKeyName": "ec2:InstanceType", "ContextKeyValues": [name], "ContextKeyType": "string"},
                    {"ContextKeyName": _REGION_KEY, "ContextKeyValues": [region], "ContextKeyType": "string"},
                ],
            )
        found[name] = _of_simulation(answer)
    return found


def _of_simulation(answer: Any) -> Decision:
    results = answer.get("EvaluationResults") or [{}]
    missing = results[0].get("MissingContextValues") or []
    said = _SIMULATED.get(str(results[0].get("EvalDecision")))
    if said is None:
        return Decision("undecided", f"the simulator answered {results[0].get('EvalDecision')!r}")
    if missing and said != "explicit deny":
        return Decision("undecided", f"the simulator lacked {', '.join(missing)}")
    return Decision(said, "SimulatePrincipalPolicy")  # type: ignore[arg-type]


def dry_run(aws: Any, instance_type: str, image: str, subnet: str) -> Decision:
    """Whether *we* could launch a type: EC2 checks, and does not do it. Raises AskError where it was not checked."""
    try:
        call(
            aws,
            "ec2",
            "run_instances",
            DryRun=True,
            InstanceType=instance_type,
            ImageId=image,
            SubnetId=subnet,
            MinCount=1,
            MaxCount=1,
        )
    except AskError as error:
        if not error.code:
            raise
        if error.code == "DryRunOperation":
            return Decision("allowed", "RunInstances with DryRun")
        if error.code == "UnauthorizedOperation":
            # EC2 says in the message whether a Deny matched; it does not have to.
            explicit = "explicit deny" in str(error).lower()
            return Decision("explicit deny" if explicit else "implicit deny", str(error))
        return Decision("undecided", str(error))
    raise AskError("EC2 answered a dry run as if it were none")
