"""The spec file's shape as msgspec's structures: what a spec is read into, and what its JSON Schema is made of.

What does not fit, msgspec refuses at the first place. :mod:`killcheck.spec.specfile.explained` says all of them.
What may *not* live here: meaning across fields (names that must exist, parts that a type needs); that is in
:mod:`killcheck.spec.specfile.checks`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date
from math import isinf
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, ValidationError, convert, field

from killcheck.spec import killpath
from killcheck.spec.working_hours import working_hours
from killcheck.text import durations, lazy_re

__all__ = ["Made", "SpecModel", "fitting"]


def _seconds(value: Any) -> float:
    shown = f"{value}s" if isinstance(value, int) and not isinstance(value, bool) else "90s"
    _need(isinstance(value, str), f"a duration with its unit, such as {shown} or 5m", value)
    return float(durations.parse_duration(value))


def _need(condition: bool, expected: str, value: Any) -> None:
    """ValueError, also for a wrong type: pydantic and msgspec report those and no others."""
    if not condition:
        raise ValueError(f"expected {expected}, found {value!r}")


def _hours(value: Any) -> str:
    _need(isinstance(value, str), "weekdays and hours such as Mon-Fri 09:00-17:30", value)
    working_hours(value, "Etc/UTC")
    return str(value)


def _zone(value: Any) -> str:
    _need(isinstance(value, str) and bool(value), "a time zone such as Europe/Berlin or Etc/UTC", value)
    working_hours("Mon 09:00-10:00", value)
    return str(value)


def _below(value: Any) -> str:
    _need(isinstance(value, str), "text", value)
    path = PurePosixPath(value)
    below = bool(path.parts) and not path.is_absolute() and ".." not in path.parts
    _need(below, "a folder below the spec's own", value)
    return str(path)


def _day(value: Any) -> date:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"expected a date such as 2027-01-31, found {value!r}") from None


_SELECTOR_PART = lazy_re.compile(
    r"\s*(!?\s*[\w./-]+|[\w./-]+\s*(=|==|!=)\s*[\w.-]*|[\w./-]+\s+(in|notin)\s*\([^()]*\))\s*",
)


def _selector(value: Any) -> str:
    parts = re.split(r",(?![^()]*\))", value) if isinstance(value, str) else [""]
    sound = all(_SELECTOR_PART.fullmatch(part) for part in parts)
    _need(sound, "a label selector as kubectl takes it, such as app=vllm", value)
    return str(value)


class Made(type):
    """The type of what ``read`` makes of what a file says, whatever type that is. ``schema``: what the file has."""

    read: Callable[[Any], Any]
    made: type
    schema: dict[str, Any]

    def __instancecheck__(cls, value: object) -> bool:
        return True


def _made(read: Callable[[Any], Any], made: type = str, **more: Any) -> Made:
    return Made(read.__name__, (), {"read": read, "made": made, "schema": {"type": "string", **more}})


if TYPE_CHECKING:
    Duration = float
    Day = date
    Hours = str
    Zone = str
    Selector = str
    Folder = str
else:
    Duration = _made(_seconds, float, pattern=durations.PATTERN, minLength=2)
    Day = _made(_day, date, format="date")
    Hours, Zone, Selector, Folder = _made(_hours), _made(_zone), _made(_selector), _made(_below)


def says(text: str) -> Meta:
    """What a field is for, in the JSON Schema and in the documentation."""
    return Meta(description=text)


# Ends in \Z: to Python, a $ also stands before a line's end. In the JSON Schema it is a $ again.
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z", max_length=253)]
Text = Annotated[str, Meta(min_length=1)]
#: As the API server takes it: a DNS label.
Namespace = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z", max_length=63)]
EnvName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
LayerKind = Literal[
    "dead-man",
    "idle-monitor",
    "self-terminating",
    "scale-to-zero",
    "spot-handler",
    "sentinel",
    "command",
]
OutcomeKind = Literal["survived", "covered", "known"]
ProofKind = Literal["P1", "P2", "P3", "P4", "P5"]
_PROOF: list[ProofKind] = ["P1", "P2", "P4"]


class _Model(Struct, forbid_unknown_fields=True, rename="camel"):
    """One mapping of the file."""


class HttpModel(_Model):
    """A request by curl; $NAMES in the URL and in the body are variables of killcheck's own environment."""

    url: Annotated[str, Meta(pattern=r"^(https?://|\$)")]
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    bearer: Annotated[EnvName | None, says("The variable that holds the token it is authorised by.")] = None
    body: Annotated[Text | None, says("What is sent, as JSON.")] = None


class CommandModel(_Model):
    """A program to run where killcheck runs, in the folder of the spec or one below; no shell."""

    argv: Annotated[
        Annotated[list[Text], Meta(min_length=1)] | None, says("The program and its arguments, as given to exec.")
    ] = None
    shell: Annotated[Text | None, says("Instead of argv: a line for /bin/sh -c.")] = None
    http: Annotated[HttpModel | None, says("Instead of argv: a request.")] = None
    timeout: Annotated[Duration, says("How long it may take.")] = 60.0
    env: Annotated[dict[str, str], says("Variables beside PATH and HOME; nothing else is inherited.")] = {}
    pass_env: Annotated[list[EnvName], says("Variables of killcheck's own environment that it is given.")] = []
    folder: Annotated[
        Folder | None, says("The folder that it runs in, below the spec's: a machine's tree. Else the spec's own.")
    ] = None


class CronJobModel(_Model):
    """A CronJob by name."""

    namespace: Namespace
    name: Name


class WorkloadModel(_Model, kw_only=True):
    """An object by kind and name."""

    api_version: Annotated[Text | None, says("Only for kinds that killcheck does not know.")] = None
    kind: Text = "Deployment"
    namespace: Namespace
    name: Name


class ScalerModel(_Model, kw_only=True):
    """What scales to zero: a KEDA ScaledObject, an HTTPScaledObject, an autoscaler."""

    api_version: Annotated[Text | None, says("Only for kinds that killcheck does not know.")] = None
    kind: Text = "ScaledObject"
    namespace: Namespace
    name: Name


class ConfigMapModel(_Model):
    """A ConfigMap by name, and the key that is the sentinel."""

    namespace: Namespace
    name: Name
    key: Text


class AnnotationModel(_Model, kw_only=True):
    """An object by kind and name, and the annotation that is the sentinel."""

    api_version: Annotated[Text | None, says("Only for kinds that killcheck does not know.")] = None
    kind: Text = "Deployment"
    namespace: Namespace
    name: Name
    key: Text


class SentinelModel(_Model):
    """What stops starters while it is set: a file on the host, a ConfigMap's key, an annotation."""

    path: Annotated[Text | None, says("An absolute path on the host.")] = None
    config_map: ConfigMapModel | None = None
    annotation: AnnotationModel | None = None
    value: Annotated[Text, says("What the key holds while it is set.")] = "true"
    starters: Annotated[list[CommandModel], says("The commands that must refuse.")] = []
    start_jobs: Annotated[list[CronJobModel], says("The CronJobs that must refuse.")] = []
    units: Annotated[
        list[Text], says("Folders whose systemd units and crontabs are read for what starts targets.")
    ] = []
    stopped_within: Annotated[Duration | None, says("Each starter fired alone must have been stopped by then.")] = None


class CheckpointModel(_Model):
    """Where a worker's progress is read: an integer that only grows."""

    command: CommandModel | None = None
    config_map: ConfigMapModel | None = None


class ContainerModel(_Model):
    """A container of a Docker Engine: a new one like it runs at each firing, or argv inside it."""

    name: Name
    argv: Annotated[
        Annotated[list[Text], Meta(min_length=1)] | None,
        says("Run inside it at each firing (a cron container); no shell."),
    ] = None


class MachinesModel(_Model):
    """Machines that are rented one by one, as a target's count lists them; paths of fields have dots."""

    items: Annotated[Text | None, says("Where the list is in the answer; none: it is the answer.")] = None
    id: Text = "id"
    type: Annotated[Text | None, says("The field with a machine's type, which prices it.")] = None
    usd_per_hour: Annotated[Text | None, says("The field with its price, before its type's.")] = None
    ended: Annotated[
        dict[str, list[str]], says("Fields, and the values with which it bills no GPU. All else is on.")
    ] = {}
    most: Annotated[Annotated[int, Meta(ge=1)] | None, says("How many may be on at once: more is exposed.")] = None
    max_usd_per_hour: Annotated[Positive | None, says("Of one machine: dearer is exposed.")] = None
    stand_in: Annotated[
        Text | None, says("A file beside the spec: what a market on loopback offers on the embedded cluster.")
    ] = None
    orchestrator_usd_per_hour: Annotated[
        Amount | None, says("What the machine costs that starts and stops them, day and night. Counted once in a path.")
    ] = None


class TargetModel(_Model):
    """A workload that holds GPUs and must reach zero."""

    name: Name
    api_version: Annotated[Text | None, says("Only for kinds that killcheck does not know.")] = None
    kind: Annotated[Text | None, says("Deployment, StatefulSet, Pod, Container (Docker)...")] = None
    namespace: Namespace | None = None
    object: Annotated[Name | None, says("The object's name; or give a selector.")] = None
    selector: Annotated[Selector | None, says("A label selector, as kubectl takes it.")] = None
    count: Annotated[
        CommandModel | None, says("Outside Kubernetes: prints how many accelerator instances are on, as an integer.")
    ] = None
    start: Annotated[
        CommandModel | None, says("Outside Kubernetes: puts it back on after a drill that turned it off.")
    ] = None
    instance_type: Annotated[Text | None, says("Prices a target outside Kubernetes.")] = None
    machines: Annotated[
        MachinesModel | None, says("Outside Kubernetes: how the list that count prints names and prices each.")
    ] = None


class DeadlinesModel(_Model):
    """By when each phase must have been seen, counted from the trigger; held alone is a length."""

    job_created: Duration | None = None
    pod_created: Duration | None = None
    pod_scheduled: Duration | None = None
    image_pulled: Duration | None = None
    container_started: Duration | None = None
    executor_finished: Duration | None = None
    scale_written: Duration | None = None
    pods_gone: Annotated[Duration | None, says("No pod that holds a GPU is left.")] = None
    node_drained: Duration | None = None
    node_gone: Duration | None = None
    instance_gone: Duration | None = None
    held: Annotated[Duration | None, says("How long everything must stay off before it counts.")] = None


class LayerModel(_Model):
    """One independent way that targets get turned off."""

    name: Name
    type: LayerKind
    covers: Annotated[list[Name], Meta(min_length=1), says("Names of targets.")]
    cron_job: CronJobModel | None = None
    container: Annotated[ContainerModel | None, says("On a Docker Engine, in place of a CronJob.")] = None
    workload: WorkloadModel | None = None
    scaler: ScalerModel | None = None
    command: CommandModel | None = None
    sentinel: SentinelModel | None = None
    idle: Annotated[Duration | None, says("How long a target must be idle before the layer acts.")] = None
    busy: Annotated[CommandModel | None, says("Makes a request of the target, so that it is busy.")] = None
    cold_start: Annotated[
        Duration | None, says("By when a pod must be ready after the first request to what slept.")
    ] = None
    notice: Annotated[Duration | None, says("How long a spot notice leaves: AWS 2m, others 30s.")] = None
    checkpoint: CheckpointModel | None = None
    schedule: Annotated[Text | None, says("When a command or container fires (cron).")] = None
    time_zone: Text | None = None
    deadlines: Annotated[DeadlinesModel | None, says("Where they differ from the path's.")] = None


class NodePoolModel(_Model):
    """GPU nodes, by Karpenter pool, label selector, or both."""

    name: Name
    node_pool: Annotated[Name | None, says("A Karpenter NodePool's name.")] = None
    selector: Annotated[Selector | None, says("A label selector on nodes, as kubectl takes it.")] = None
    instance_type: Annotated[Text | None, says("Prices nodes that carry no instance-type label.")] = None
    floor: Annotated[Count, says("Nodes that may stay on for good.")] = 0
    removed_by: Annotated[Text | None, says("Who takes an empty node away, where no manifest describes the pool.")] = (
        None
    )
    removed_after: Annotated[Duration | None, says("How long after it is empty.")] = None


class ConsentModel(_Model):
    """What a drill may touch. Nothing is allowed that is not named here."""

    namespaces: Annotated[
        list[Namespace],
        says("Each must carry the label killcheck.dev/consent=true too; none named: those that carry it."),
    ] = []
    pools: Annotated[list[Name], says("Names of entries of nodes; none named: all of nodes.")] = []
    contexts: Annotated[
        list[Text], says("Shell patterns over kubeconfig contexts; none named: no cluster is touched.")
    ] = []
    protected: Annotated[list[Text], says("Contexts that are refused whatever contexts says.")] = field(
        default_factory=lambda: list(killpath.Consent().protected)
    )
    max_gpu_nodes: Count | None = None
    max_usd: Amount | None = None
    commands: Annotated[list[Text], says("Shell patterns over the spec's command lines that may be run.")] = []


class RuleModel(_Model):
    """What is required where layer and fault match (shell patterns); the first rule that matches counts."""

    require: Annotated[OutcomeKind | None, says("The least outcome; known where cause is given.")] = None
    layer: Text = "*"
    fault: Text = "*"
    cause: Annotated[
        Text | list[Text],
        says(
            "Of a known exposure: a part of the cause that it must have, or several (* stands for anything in "
            "between). An exposure for another cause fails."
        ),
    ] = []


class PolicyModel(_Model):
    """What a drill must end with."""

    undisturbed: Annotated[Literal["survived", "covered"], says("Without any fault.")] = "survived"
    faulted: Annotated[OutcomeKind, says("Under any fault that no rule speaks of.")] = "covered"
    rules: list[RuleModel] = []


class FencesModel(_Model):
    """The most that may ever be launched."""

    max_devices_per_node: Annotated[Count | None, says("GPUs and accelerators of any kind.")] = None
    max_usd_per_hour: Annotated[Amount | None, says("Of everything together.")] = None
    max_nodes: Count | None = None
    max_devices: Annotated[Count | None, says("Of all nodes together.")] = None
    forbidden_types: Annotated[list[Text], says("Shell patterns over types, such as p5*.")] = []
    catalogues: Annotated[
        list[Text], says("Files with types and prices of your own (CSV or YAML), beside the spec.")
    ] = []


class SuppressionModel(_Model, kw_only=True):
    """A finding that someone decided to live with."""

    probe: Name
    object: Annotated[Text, says("A shell pattern over Kind/namespace/name.")] = "*"
    reason: Annotated[str, Meta(min_length=3)]
    until: Annotated[Day, says("The last day on which it holds.")]


class AssumptionModel(_Model, kw_only=True):
    """An object that killcheck does not model and that someone vouches for: it turns nothing on."""

    kind: Annotated[Text, says("A shell pattern over kinds.")] = "*"
    namespace: Annotated[str, says("A shell pattern over namespaces; empty for objects outside any.")] = "*"
    name: Annotated[Text, says("A shell pattern over names.")] = "*"
    reason: Annotated[str, Meta(min_length=3)]
    until: Annotated[Day, says("The last day on which it holds; after it nothing is settled.")]


class ExperimentModel(_Model):
    """An experiment of AWS FIS that interrupts spot instances."""

    role: Annotated[str, Meta(pattern=r"^arn:aws[\w-]*:iam::\d{12}:role/.+\Z")]
    stop_alarms: Annotated[
        list[Annotated[str, Meta(pattern=r"^arn:aws[\w-]*:cloudwatch:.+\Z")]],
        Meta(min_length=1),
        says("CloudWatch alarms that end it: FIS without a way to stop is not used."),
    ]
    max_targets: Annotated[int, Meta(ge=1, le=100)] = 1


class CloudModel(_Model):
    """Who is asked what is billed: EC2 (boto3), or an exported file or a program for other clouds."""

    region: Text | None = None
    profile: Text | None = None
    endpoint: Annotated[
        Annotated[str, Meta(pattern=r"^(stand-in|http://(127\.0\.0\.1|localhost)(:\d+)?)\Z")] | None,
        says("A stand-in of AWS on loopback; 'stand-in' starts one (embedded cluster only)."),
    ] = None
    account: Annotated[
        Annotated[str, Meta(pattern=r"^\d{12}\Z")] | None,
        says("The only AWS account in which faults may change anything."),
    ] = None
    cluster: Annotated[Text | None, says("The EKS cluster's name: what is tagged for it is its own.")] = None
    tags: Annotated[dict[str, str], says("Tags of the cluster's GPU instances.")] = {}
    launch_templates: Annotated[list[Text], says("Ids of launch templates of its GPU nodes.")] = []
    queue: Annotated[
        Annotated[str, Meta(pattern=r"^https?://")] | None,
        says("URL of the SQS queue from which interruptions are read."),
    ] = None
    experiment: ExperimentModel | None = None
    states: Annotated[
        Text | None, says("A JSON file beside the spec: provider id to state, as exported from another cloud.")
    ] = None
    command: Annotated[CommandModel | None, says("A program that prints the same JSON.")] = None
    results: Annotated[
        list[Annotated[str, Meta(pattern=r"^s3://[^/]+/.+\Z")]],
        says("S3 URLs at which a run must leave something (prefixes end in '/')."),
    ] = []


class AlarmModel(_Model):
    """The alert that must be raised where GPUs stay on (P5)."""

    alerts: Annotated[list[Text], says("Shell patterns over alert names; none: any on GPUs.")] = []
    within: Annotated[Duration, says("How long after the trigger it may take to fire.")] = 3600.0


class NoticedModel(_Model):
    """Who notices that GPUs stayed on, and when: an exposed drill says the dollars until then."""

    hours: Annotated[
        Hours, says("When somebody looks: weekdays and hours, such as Mon-Fri 09:00-17:30; Sat 22:00-06:00.")
    ]
    time_zone: Annotated[Zone, says("By whose clocks.")] = "Etc/UTC"
    answers: Annotated[Duration, says("How long after an alert somebody acts on it, at any hour.")] = 900.0


class ItemsModel(_Model):
    """What a queue's workers get done: counted before and after a drill, it prices an item by what was seen."""

    count: Annotated[CommandModel, says("Prints how many items were done, an integer that only grows.")]
    max_usd_per_item: Annotated[Positive | None, says("What one may cost; above it is said.")] = None


class ChargebackModel(_Model):
    """Whose bill it is: a drill's GPU-hours and dollars by who held them."""

    labels: Annotated[
        list[Text], says("Labels that say whose a holder of GPUs is; none: team, owner, cost-center and their like.")
    ] = []
    egress_usd_per_gib: Annotated[
        Amount | None, says("What a GiB out of the store costs that pods fetch from when they start.")
    ] = None


class StartModel(_Model, kw_only=True):
    """What is meant to start targets again: a CronJob, or a ScaledObject whose cron window opens."""

    kind: Literal["CronJob", "ScaledObject"] = "CronJob"
    namespace: Text
    name: Text


class SpecModel(_Model, kw_only=True):
    """A kill path: everything between 'the GPUs should be off' and 'the bill stops'."""

    api_version: Literal["killcheck/v1"]
    kind: Literal["KillPath"] = "KillPath"
    name: Name
    targets: Annotated[list[TargetModel], Meta(min_length=1)]
    layers: list[LayerModel]
    nodes: list[NodePoolModel] = []
    deadlines: DeadlinesModel | None = None
    proof: Annotated[list[ProofKind], Meta(min_length=1, extra_json_schema={"default": _PROOF})] = field(
        default_factory=lambda: list(_PROOF)
    )
    consent: ConsentModel | None = None
    prices: Annotated[dict[str, Amount], says("US dollars an hour by instance type, before the catalogue's.")] = {}
    policy: PolicyModel | None = None
    fences: FencesModel | None = None
    suppress: list[SuppressionModel] = []
    assume: Annotated[list[AssumptionModel], says("What killcheck does not model and someone vouches for.")] = []
    cloud: CloudModel | None = None
    alarm: AlarmModel | None = None
    noticed: NoticedModel | None = None
    starts: Annotated[list[StartModel], says("What is meant to start targets again: it has to hold until then.")] = []
    accelerators: Annotated[
        dict[str, bool],
        says(
            "Extended resources (shell patterns) that are accelerators (true) or none (false), where killcheck "
            "takes them for the other."
        ),
    ] = {}
    kubernetes_version: Annotated[
        str | None,
        says("The Kubernetes that the embedded cluster is, as '1.34' or 'v1.34.3'. A real cluster has its own."),
    ] = None
    items_per_hour: Annotated[
        Positive | None, says("What a queue's workers get done in an hour, all together: prices an item.")
    ] = None
    items: ItemsModel | None = None
    chargeback: ChargebackModel | None = None


def fitting(spec: Any) -> SpecModel:
    """A spec, as its model has it. Raises ValidationError at the first place that does not fit."""
    if _endless(spec):
        raise ValidationError("a number without an end")
    return convert(spec, SpecModel, dec_hook=lambda kind, value: kind.read(value))


def _endless(value: Any) -> bool:
    """Whether there is a number in it that no bound is beyond."""
    if isinstance(value, float):
        return isinf(value)
    inside: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_endless, inside))
