"""Schedules beside manifests that act from outside Kubernetes: Terraform, CloudFormation, CI, systemd. Told, not read.

A switch, or a starter, may be in there: "nothing turns it off" is not said of a folder that has one. The resource types
are those of the providers' documentation, as of 2026.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["WORKFLOWS", "in_file", "in_text", "is_crontab"]

#: Where GitHub's workflows are, in a folder that is hidden.
WORKFLOWS = (".github", "workflows")
#: Types whose own name says that they wait for a time (aws_scheduler_schedule, google_cloud_scheduler_job...).
_TERRAFORM = re.compile(r'^\s*resource\s+"(\w*(?:schedul|cron|recurrence)\w*)"\s+"([\w-]+)"', re.M)
#: Types that do so by one of their fields (aws_cloudwatch_event_rule, google_compute_resource_policy, azurerm_monitor_
#: autoscale_setting, oci_autoscaling_auto_scaling_configuration).
_BY_FIELD = re.compile(
    r'^\s*resource\s+"((?:aws_cloudwatch_event_rule|google_compute_resource_policy|azurerm_monitor_autoscale_setting'
    r'|oci_autoscaling_auto_scaling_configuration)\w*)"\s+"([\w-]+)"',
    re.M,
)
_FIELDS = re.compile(r"schedule_expression|instance_schedule_policy|recurrence|execution_schedule")
_CLOUDFORMATION = re.compile(
    r"AWS::(?:Scheduler::Schedule|AutoScaling::ScheduledAction|Events::Rule|Serverless::Function)\b"
)
_EXPRESSION = re.compile(r"ScheduleExpression|Schedule: |Recurrence|rate\(|cron\(")
_CI = re.compile(r"^\s*-?\s*[\"']?cron[\"']?\s*:\s*(.+)$", re.M)
#: What a workflow runs where it may turn something on or off.
_ACTS = re.compile(
    r"(?<![\w./-])(kubectl|oc|helm|helmfile|argocd|flux|gcloud|aws|az|eksctl|doctl|oci|terraform|tofu|pulumi)\s[^\n]*\b"
    r"(scale|stop|start|delete|resize|drain|destroy|apply|upgrade|uninstall|patch|deallocate|suspend|resume|set|up"
    r"|terminate-\S+|stop-\S+|start-\S+|update-\S+|set-\S+)\b"
)
#: A line of a crontab that fires something.
_CRON_LINE = re.compile(r"\s*(?:@\w+|(?:[\d*/,\-A-Za-z]+\s+){4}[\d*/,\-A-Za-z]+)\s+\S")
#: A command line of Kubernetes or a cloud, or a script of somebody's own.
_OWN = re.compile(
    r"(?<![\w./-])(?:kubectl|oc|helm|curl|wget|gcloud|aws|az)\s|/(?:usr/local|opt|home|root|srv)/\S|\.(?:sh|py)\b"
)
_TIMER = re.compile(r"^\s*On(?:Calendar|BootSec|UnitActiveSec)\s*=\s*(.+)$", re.M)


def is_crontab(path: Path) -> bool:
    """By its name or its folder's."""
    return path.name == "crontab" or path.suffix == ".cron" or path.parent.name in ("cron.d", "crontabs")


def in_file(path: Path, text: str) -> str | None:
    """What schedule a file that is no manifest has, in one phrase; None: none that is known."""
    if path.suffix == ".tf":
        return _terraform(text)
    if path.suffix == ".timer":
        found = _TIMER.search(text)
        return f"a systemd timer ({found[1].strip()})" if found else None
    if is_crontab(path):
        fires = [line for line in text.splitlines() if _CRON_LINE.match(line) and _OWN.search(line)]
        return f"a crontab ({' '.join(fires[0].split())[:60]})" if fires else None
    if path.parent.name == WORKFLOWS[1]:
        found, acts = _CI.search(text), _ACTS.search(text)
        return f"a workflow on a schedule, which runs {acts[0].strip()[:60]!r}" if found and acts else None
    return None


def in_text(text: str) -> str | None:
    """The schedule of a CloudFormation template, in one phrase; None: none."""
    if "AWS::" not in text:  # a plain word is found fast where a file has megabytes
        return None
    found = _CLOUDFORMATION.search(text)
    return f"CloudFormation's {found[0]}" if found and _EXPRESSION.search(text) else None


def _terraform(text: str) -> str | None:
    found = [*_TERRAFORM.findall(text), *(_BY_FIELD.findall(text) if _FIELDS.search(text) else ())]
    return f"Terraform's {', '.join(f'{kind} {name}' for kind, name in found)}" if found else None
