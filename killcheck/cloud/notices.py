"""What AWS tells a cluster of its spot instances: EventBridge's events as they arrive in a queue, and how to send them.

Nobody but AWS may put events with ``source: aws.*`` on a bus; whoever may send to the queue can say the same there.
Sources: EC2 user guide "Spot Instance interruption notices", "rebalance recommendations", "state change events"; AWS
Health user guide "Event schema"; the keys on which Karpenter and the node termination handler decide (FACTS: spot).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from killcheck.cloud.account_undo import RUN_TAG
from killcheck.cloud.session import Aws, call, pages

__all__ = ["KINDS", "RUN_TAG", "Hands", "event"]

#: Kind -> (detail-type, source, detail beside the instance).
KINDS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "interruption": ("EC2 Spot Instance Interruption Warning", "aws.ec2", {"instance-action": "terminate"}),
    "rebalance": ("EC2 Instance Rebalance Recommendation", "aws.ec2", {}),
    "state-change": ("EC2 Instance State-change Notification", "aws.ec2", {"state": "stopping"}),
    "health": ("AWS Health Event", "aws.health", {}),
}


def event(kind: str, instance_id: str, *, account: str, region: str, now: datetime) -> dict[str, Any]:
    """The raw event, as EventBridge puts it into a queue's message body."""
    detail_type, source, more = KINDS[kind]
    arn = f"arn:aws:ec2:{region}:{account}:instance/{instance_id}"
    detail: dict[str, Any] = {"instance-id": instance_id, **more}
    if kind == "interruption":
        arn = f"arn:aws:ec2:{region}:instance/{instance_id}"  # AWS leaves the account out of this one
    if kind == "health":
        stamp = f"{now:%a, %d %b %Y %H:%M:%S GMT}"
        detail = {
            "eventArn": f"arn:aws:health:{region}::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/killcheck",
            "service": "EC2",
            "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            "eventTypeCategory": "scheduledChange",
            "startTime": stamp,
            "endTime": stamp,
            "eventDescription": [{"language": "en_US", "latestDescription": "A drill of killcheck."}],
            "affectedEntities": [{"entityValue": instance_id}],
        }
        arn = instance_id
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": detail_type,
        "source": source,
        "account": account,
        "time": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "region": region,
        "resources": [arn],
        "detail": detail,
    }


class Hands(Struct):
    """What a drill does in an account; how it is taken back is :mod:`killcheck.cloud.account_undo`'s."""

    aws: Aws

    def account(self) -> str:
        """Whose credentials these are. Raises AskError."""
        return str(call(self.aws, "sts", "get_caller_identity")["Account"])

    def instances(self, ids: Iterable[str]) -> list[Mapping[str, Any]]:
        """EC2's description of instances. Raises AskError."""
        filters = [{"Name": "instance-id", "Values": sorted(ids)}]
        return [
            one
            for page in pages(self.aws, "ec2", "describe_instances", Filters=filters)
            for reservation in page["Reservations"]
            for one in reservation["Instances"]
        ]

    def queue_is_there(self, url: str) -> None:
        """Raises AskError where it is not, or may not be looked at."""
        call(self.aws, "sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["QueueArn"])

    def send(self, url: str, body: Mapping[str, Any]) -> str:
        """Put a message into a queue; returns its id. Raises AskError."""
        return str(call(self.aws, "sqs", "send_message", QueueUrl=url, MessageBody=json.dumps(body))["MessageId"])

    def terminate(self, ids: Iterable[str]) -> None:
        """End instances. Raises AskError."""
        call(self.aws, "ec2", "terminate_instances", InstanceIds=sorted(ids))

    # -- FIS -----------------------------------------------------------------------------------------------
    def role_trusts_fis(self, arn: str) -> bool:
        """Whether FIS may assume a role at all. Raises AskError."""
        role = call(self.aws, "iam", "get_role", RoleName=arn.rpartition("/")[2])["Role"]
        policy = role["AssumeRolePolicyDocument"]
        return role["Arn"] == arn and "fis.amazonaws.com" in (policy if isinstance(policy, str) else json.dumps(policy))

    def alarms(self, arns: Iterable[str]) -> dict[str, str]:
        """ARN to state of the CloudWatch alarms that exist. Raises AskError."""
        names = [arn.partition(":alarm:")[2] for arn in arns]
        return {
            str(one["AlarmArn"]): str(one["StateValue"])
            for page in pages(self.aws, "cloudwatch", "describe_alarms", AlarmNames=names)
            for one in page.get("MetricAlarms", ())
        }

    def create_template(
        self,
        run: str,
        *,
        role: str,
        alarms: Iterable[str],
        instances: Iterable[str],
        minutes: int,
    ) -> str:
        """A template that interrupts these very instances; returns its id. Raises AskError."""
        made = call(
            self.aws,
            "fis",
            "create_experiment_template",
            clientToken=str(uuid.uuid4()),
            description=f"killcheck run {run}",
            roleArn=role,
            tags={RUN_TAG: run},
            stopConditions=[{"source": "aws:cloudwatch:alarm", "value": arn} for arn in alarms],
            targets={
                "instances": {
                    "resourceType": "aws:ec2:spot-instance",
                    "resourceArns": list(instances),
                    "selectionMode": "ALL",
                }
            },
            actions={
                "interrupt": {
                    "actionId": "aws:ec2:send-spot-instance-interruptions",
                    "parameters": {"durationBeforeInterruption": f"PT{minutes}M"},
                    "targets": {"SpotInstances": "instances"},
                }
            },
        )
        return str(made["experimentTemplate"]["id"])

    def start(self, template: str, run: str) -> str:
        """Start an experiment; returns its id. Raises AskError."""
        made = call(
            self.aws,
            "fis",
            "start_experiment",
            clientToken=str(uuid.uuid4()),
            experimentTemplateId=template,
            tags={RUN_TAG: run},
        )
        return str(made["experiment"]["id"])

    def experiment(self, name: str) -> tuple[str, str]:
        """(status, reason) of an experiment. Raises AskError."""
        state = call(self.aws, "fis", "get_experiment", id=name)["experiment"]["state"]
        return str(state["status"]), str(state.get("reason", ""))
