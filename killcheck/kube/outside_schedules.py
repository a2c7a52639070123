"""Schedules beside manifests that act from outside Kubernetes: Terraform, CloudFormation, CI, systemd. Told, not read.

A switch, or a starter, may be in there: "nothing turns it off" is not said of a folder that has one. The resource types
and the places of pipelines are those of the providers' documentation, as of 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from killcheck.text import lazy_re
from killcheck.text.redaction import redact

__all__ = [
    "above",
    "has_users",
    "in_file",
    "in_text",
    "is_crontab",
    "is_of_a_machine",
    "is_user",
    "pipelines",
    "times_in",
]

#: Where CI systems keep their pipelines: what lies in a folder, and which files below it.
_PIPELINES: Mapping[str, str] = {
    ".github": "workflows/*.y*ml",
    ".gitea": "workflows/*.y*ml",
    ".forgejo": "workflows/*.y*ml",
    ".gitlab-ci.yml": "",
    ".gitlab": "**/*.y*ml",
    ".circleci": "*.y*ml",
    ".azure-pipelines": "*.y*ml",
    ".buildkite": "*.y*ml",
    ".woodpecker": "*.y*ml",
    ".woodpecker.yml": "",
    ".woodpecker.yaml": "",
    ".drone.yml": "",
    "Jenkinsfile": "",
}
#: The only ones whose every schedule is in the file itself.
_OWN_SCHEDULES = frozenset({".github", ".gitea", ".forgejo"})
#: So many folders above what was named belong to its repository at the most.
_HIGHEST = 12
#: Types whose own name says that they wait for a time (aws_scheduler_schedule, google_cloud_scheduler_job...).
_TERRAFORM = lazy_re.compile(r'^[ \t]*resource\s+"(\w*(?:schedul|cron|recurrence)\w*)"\s+"([\w-]+)"', re.M)
#: Types that do so by one of their fields (aws_cloudwatch_event_rule, google_compute_resource_policy, azurerm_monitor_
#: autoscale_setting, oci_autoscaling_auto_scaling_configuration).
_BY_FIELD = lazy_re.compile(
    r'^[ \t]*resource\s+"((?:aws_cloudwatch_event_rule|google_compute_resource_policy|azurerm_monitor_autoscale_setting'
    r'|oci_autoscaling_auto_scaling_configuration)\w*)"\s+"([\w-]+)"',
    re.M,
)
_FIELDS = lazy_re.compile(r"schedule_expression|instance_schedule_policy|recurrence|execution_schedule")
_CLOUDFORMATION = lazy_re.compile(
    r"AWS::(?:Scheduler::Schedule|AutoScaling::ScheduledAction|Events::Rule|Serverless::Function)\b"
)
_EXPRESSION = lazy_re.compile(r"ScheduleExpression|Schedule: |Recurrence|rate\(|cron\(")
_CI = lazy_re.compile(r"^[ \t]*-?[ \t]*[\"']?cron[\"']?\s*:\s*(.+)$", re.M)
#: How a pipeline says that a schedule fires it which is kept elsewhere (GitLab's, Drone's), or what Jenkins calls one.
_FIRED = lazy_re.compile(r"\bschedules?\b|\bcron\b")
#: Ansible's module that writes a line of a crontab.
_ANSIBLE = lazy_re.compile(r"^[ \t]*(?:-[ \t]*)?(?:ansible\.builtin\.)?cron\s*:", re.M)
#: What a workflow runs where it may turn something on or off.
_ACTS = lazy_re.compile(
    r"(?<![\w./-])(kubectl|oc|helm|helmfile|argocd|flux|gcloud|aws|az|eksctl|doctl|oci|terraform|tofu|pulumi)\s[^\n]*\b"
    r"(scale|stop|start|delete|resize|drain|destroy|apply|upgrade|uninstall|patch|deallocate|suspend|resume|set|up"
    r"|terminate-\S+|stop-\S+|start-\S+|update-(?!kubeconfig)\S+|set-\S+)\b"
    r"|\buses:\s*[\"']?\S*kubectl\S*"
    # a script or a target of somebody's own, by what its name says
    r"|[\w./-]*(?:scale|stop|shut|off|down|sleep|suspend|hibernat|wake|turn|gpu)[\w-]*\.(?:sh|py|ps1)\b"
    r"|\b(?:make|just|task)\s+[\w-]*(?:scale|stop|shut|off|down|sleep|suspend|hibernat|wake|turn|gpu)[\w-]*"
)
_CRONTAB = lazy_re.compile(r"(?:[\w-]+[.-])?crontab(?:[.-]\w+)?|[\w.-]+\.cron")
#: A line of a crontab that fires something.
_CRON_LINE = lazy_re.compile(r"\s*(?:@\w+|(?:[\d*/,\-A-Za-z]+\s+){4}[\d*/,\-A-Za-z]+)\s+(?P<rest>\S.*)")
#: What begins a command line, and is no user.
_COMMAND = lazy_re.compile(
    r"[./~$(\[{]|\w*=|(?:kubectl|oc|helm|curl|wget|gcloud|aws|az|oci|doctl|terraform|env|test|cd|flock|timeout|nice|set|if"
    r"|ssh|docker|systemctl|(?:ba|da|z)?sh|python[\d.]*)$"
)
#: A command line of Kubernetes or a cloud, or a script of somebody's own.
_OWN = lazy_re.compile(
    r"(?<![\w.-])(?:kubectl|oc|helm|curl|wget|gcloud|aws|az)\s|/(?:usr/local|opt|home|root|srv)/\S|\.(?:sh|py)\b"
)
#: Misspelt, too: systemd passes over what it does not know.
_TIMER = lazy_re.compile(r"^[ \t]*On(?!Failure|Success)[A-Z]\w*\s*=\s*(.+)$", re.M)


def is_crontab(path: Path) -> bool:
    """By its name (``crontab``, ``gpu.crontab``, ``crontab.txt``, ``off.cron``) or its folder's."""
    return bool(_CRONTAB.fullmatch(path.name)) or path.parent.name in ("cron.d", "crontabs")


def has_users(path: Path, text: str) -> bool:
    """Whether the lines of a crontab have a user before their command: those of ``/etc`` do (crontab(5)).

    A file elsewhere is one of these, or what ``crontab -l`` printed: what its lines begin with says.
    """
    if path.parent.name in ("cron.d", "crontabs") or (path.name == "crontab" and path.parent.name == "etc"):
        return path.parent.name != "crontabs"
    words = [found["rest"].split()[0] for line in text.splitlines() if (found := _CRON_LINE.match(line))]
    return all(map(is_user, words))


def is_user(word: str) -> bool:
    """Whether the sixth word of a crontab's line may be a user: it begins no command."""
    return not _COMMAND.match(word)


def is_of_a_machine(path: Path) -> bool:
    """Whether a file is the schedule of machines: a systemd timer, a crontab, Terraform's."""
    return path.suffix in (".timer", ".tf", ".tofu") or is_crontab(path)


def pipelines(entry: Path) -> Iterator[Path]:
    """The files of a CI system that an entry of a folder is, or holds."""
    pattern = _PIPELINES.get(entry.name)
    if pattern is not None:
        found = sorted(entry.glob(pattern)) if pattern else [entry]
        yield from (file for file in found if file.is_file())


def above(folder: Path) -> Iterator[Path]:
    """The pipelines of the repository that a folder is a part of, which lie above it."""
    here = folder.resolve()
    parents = list(here.parents)[:_HIGHEST]
    top = next((i for i, parent in enumerate(parents) if (parent / ".git").exists()), None)
    if top is None or (here / ".git").exists():
        return
    for parent in parents[: top + 1]:
        for name in _PIPELINES:
            yield from pipelines(parent / name)


def in_file(path: Path, text: str) -> str | None:
    """What schedule a file that is no manifest has, in one phrase; None: none that is known."""
    if path.suffix in (".tf", ".tofu"):
        return _terraform(text)
    if path.suffix == ".timer":
        found = _TIMER.search(text)
        return f"a systemd timer ({found[1].strip()})" if found else None
    if is_crontab(path):
        fires = [line for line in text.splitlines() if _CRON_LINE.match(line) and _OWN.search(line)]
        return f"a crontab ({redact(' '.join(fires[0].split()))[:60]})" if fires else None
    own = _OWN_SCHEDULES.intersection(path.parts)
    return _pipeline(text, _CI if own else _FIRED, "a workflow" if own else "a pipeline")


def in_text(text: str) -> str | None:
    """The schedule of YAML that is no Kubernetes object (CloudFormation, Ansible, a pipeline) in a phrase, or None."""
    if "AWS::" in text:  # a plain word is found fast where a file has megabytes
        found = _CLOUDFORMATION.search(text)
        return f"CloudFormation's {found[0]}" if found and _EXPRESSION.search(text) else None
    if "cron" not in text:
        return None
    if _ANSIBLE.search(text) and "job:" in text:
        return _pipeline(text, _ANSIBLE, "Ansible's module cron")
    return _pipeline(text, _CI, "a pipeline")


def times_in(text: str) -> list[str]:
    """When a pipeline of its own fires, as cron has it (in UTC)."""
    return [when.split("#")[0].strip().strip("\"'") for when in _CI.findall(text)]


def _pipeline(text: str, fired: re.Pattern[str], what: str) -> str | None:
    acts = _ACTS.search(text) if fired.search(text) else None
    return f"{what} on a schedule, which runs {redact(acts[0].strip())[:60]!r}" if acts else None


def _terraform(text: str) -> str | None:
    found = [*_TERRAFORM.findall(text), *(_BY_FIELD.findall(text) if _FIELDS.search(text) else ())]
    return f"Terraform's {', '.join(f'{kind} {name}' for kind, name in found)}" if found else None
