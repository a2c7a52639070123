"""Asking AWS itself: what an account's pools are, and whether a principal could launch a type - without launching it.

``SimulatePrincipalPolicy`` and ``RunInstances`` with ``DryRun`` decide what the offline evaluation leaves undecided.
boto3 is imported when the first question is asked; no botocore exception leaves this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from killcheck.cloud.iam import Decision

__all__ = ["AskError", "dry_run", "export", "simulate"]

#: Evaluation results of IAM's simulator, in this package's words.
_SIMULATED = {"allowed": "allowed", "explicitDeny": "explicit deny", "implicitDeny": "implicit deny"}
#: Contexts that one call of the simulator is asked with.
_REGION_KEY = "aws:RequestedRegion"


class AskError(Exception):
    """AWS could not be asked (no credentials, no right to ask, no network); one sentence for a person."""


@contextmanager
def _asking(what: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise AskError(f"AWS could not be asked {what}: {error}") from error


def session(profile: str | None = None, region: str | None = None) -> Any:
    """A boto3 session. Raises AskError."""
    import boto3

    with _asking("for a session"):
        return boto3.Session(profile_name=profile, region_name=region)


def export(aws: Any, cluster: str = "") -> list[Any]:
    """The documents that :class:`killcheck.fence.Account` reads: groups, templates, roles and policies of an account.

    ``cluster`` names the EKS cluster whose node groups are wanted. Raises AskError where one of them may not be read:
    an account with a part missing would look safer than it is.
    """
    documents: list[Any] = []
    scaling, ec2, iam = (aws.client(name) for name in ("autoscaling", "ec2", "iam"))
    with _asking("for its Auto Scaling groups"):
        documents += list(scaling.get_paginator("describe_auto_scaling_groups").paginate())
        documents += list(scaling.get_paginator("describe_launch_configurations").paginate())
    with _asking("for its launch templates"):
        templates = [
            template for page in ec2.get_paginator("describe_launch_templates").paginate()
            for template in page["LaunchTemplates"]]
        documents.append({"LaunchTemplates": templates})
        for template in templates:
            pages = ec2.get_paginator("describe_launch_template_versions").paginate(
                LaunchTemplateId=template["LaunchTemplateId"])
            documents += list(pages)
    if cluster:
        with _asking(f"for the node groups of {cluster}"):
            documents += _node_groups(aws.client("eks"), cluster)
    with _asking("for its roles and policies"):
        documents += list(iam.get_paginator("get_account_authorization_details").paginate(
            Filter=["Role", "LocalManagedPolicy", "AWSManagedPolicy"]))
    return documents


def _node_groups(eks: Any, cluster: str) -> Iterator[Any]:
    for page in eks.get_paginator("list_nodegroups").paginate(clusterName=cluster):
        for name in page["nodegroups"]:
            yield {"nodegroup": eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]}
    for page in eks.get_paginator("list_fargate_profiles").paginate(clusterName=cluster):
        yield from ({"fargateProfile": {"fargateProfileName": name}} for name in page["fargateProfileNames"])


def simulate(aws: Any, principal_arn: str, instance_types: Iterable[str], *, region: str) -> dict[str, Decision]:
    """What IAM's simulator says of RunInstances for each type: its policies, boundary and SCPs. Raises AskError."""
    iam, found = aws.client("iam"), {}
    account = principal_arn.split(":")[4] if principal_arn.count(":") >= 5 else "*"
    for name in instance_types:
        with _asking(f"what {principal_arn} may launch"):
            answer = iam.simulate_principal_policy(
                PolicySourceArn=principal_arn, ActionNames=["ec2:RunInstances"],
                ResourceArns=[f"arn:aws:ec2:{region}:{account}:instance/*"], ContextEntries=[
                    {"ContextKeyName": "ec2:InstanceType", "ContextKeyValues": [name], "ContextKeyType": "string"},
                    {"ContextKeyName": _REGION_KEY, "ContextKeyValues": [region], "ContextKeyType": "string"}])
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
    return _dry(lambda: aws.client("ec2").run_instances(
        DryRun=True, InstanceType=instance_type, ImageId=image, SubnetId=subnet, MinCount=1, MaxCount=1))


def _dry(call: Callable[[], Any]) -> Decision:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        call()
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code == "DryRunOperation":
            return Decision("allowed", "RunInstances with DryRun")
        if code == "UnauthorizedOperation":
            # EC2 says in the message whether a Deny matched; it does not have to.
            explicit = "explicit deny" in str(error).lower()
            return Decision("explicit deny" if explicit else "implicit deny", str(error))
        return Decision("undecided", str(error))
    except BotoCoreError as error:
        raise AskError(f"EC2 could not be asked: {error}") from error
    raise AskError("EC2 answered a dry run as if it were none")
