"""The spec file's shape as forms: what a spec is read with, and what its JSON Schema is made of.

Imported only when a spec is read or its schema made. What may *not* live here: meaning across fields (names that must
exist, parts that a type needs); that is in :mod:`killcheck.spec.specfile.checks`.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from killcheck.spec import killpath
from killcheck.spec.working_hours import working_hours
from killcheck.text import durations
from killcheck.text.forms import Parsed

__all__ = ["SpecModel"]


def _seconds(value: Any) -> float:
    shown = f"{value}s" if isinstance(value, int) and not isinstance(value, bool) else "90s"
    _need(isinstance(value, str), f"a duration with its unit, such as {shown} or 5m", value)
    return durations.parse_duration(value)


def _need(condition: bool, expected: str, value: Any) -> None:
    """ValueError, also for a wrong type: those are told, and no others."""
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


def _below(value: str) -> str:
    parts = PurePosixPath(value).parts
    _need(bool(parts) and not value.startswith("/") and ".." not in parts, "a folder below the spec's own", value)
    return str(PurePosixPath(value))


def _day(value: Any) -> date:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"expected a date such as 2027-01-31, found {value!r}") from None


_SELECTOR_PART = re.compile(
    r"\s*(!?\s*[\w./-]+|[\w./-]+\s*(=|==|!=)\s*[\w.-]*|[\w./-]+\s+(in|notin)\s*\([^()]*\))\s*",
)


def _selector(value: Any) -> str:
    parts = re.split(r",(?![^()]*\))", value) if isinstance(value, str) else [""]
    sound = all(_SELECTOR_PART.fullmatch(part) for part in parts)
    _need(sound, "a label selector as kubectl takes it, such as app=vllm", value)
    return str(value)


_TEXT = {"type": "string"}
Duration = Annotated[float, Parsed(_seconds, {"minLength": 2, "pattern": durations.PATTERN, "type": "string"})]
Day = Annotated[date, Parsed(_day, {"format": "date", "type": "string"})]
Hours = Annotated[str, Parsed(_hours, _TEXT)]
Zone = Annotated[str, Parsed(_zone, _TEXT)]
Selector = Annotated[str, Parsed(_selector, _TEXT)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", max_length=253)]
Text = Annotated[str, Meta(min_length=1)]
#: As the API server takes it: a DNS label.
Namespace = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
EnvName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
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


class _Model(Struct, rename="camel", forbid_unknown_fields=True):
    pass


class HttpModel(_Model, kw_only=True):
    """A request by curl; $NAMES in the URL and in the body are variables of killcheck's own environment."""

    url: Annotated[str, Meta(pattern=r"^(https?://|\$)")]
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    bearer: Annotated[EnvName | None, Meta(description="The variable that holds the token it is authorised by.")] = None
    body: Annotated[Text | None, Meta(description="What is sent, as JSON.")] = None


class CommandModel(_Model, kw_only=True):
    """A program to run where killcheck runs, in the folder of the spec or one below; no shell."""

    argv: Annotated[
        list[Text] | None, Meta(min_length=1, description="The program and its arguments, as given to exec.")
    ] = None
    shell: Annotated[Text | None, Meta(description="Instead of argv: a line for /bin/sh -c.")] = None
    http: Annotated[HttpModel | None, Meta(description="Instead of argv: a request.")] = None
    timeout: Annotated[Duration, Meta(description="How long it may take.")] = 60.0
    env: Annotated[dict[str, str], Meta(description="Variables beside PATH and HOME; nothing else is inherited.")] = {}
    pass_env: Annotated[
        list[EnvName], Meta(description="Variables of killcheck's own environment that it is given.")
    ] = []
    folder: Annotated[
        Annotated[str, Parsed(_below)] | None,
        Meta(description="The folder that it runs in, below the spec's: a machine's tree. Else the spec's own."),
    ] = None


class CronJobModel(_Model, kw_only=True):
    """A CronJob by name."""

    namespace: Namespace
    name: Name


class WorkloadModel(_Model, kw_only=True):
    """An object by kind and name."""

    api_version: Annotated[Text | None, Meta(description="Only for kinds that killcheck does not know.")] = None
    kind: Text = "Deployment"
    namespace: Namespace
    name: Name


class ScalerModel(_Model, kw_only=True):
    """What scales to zero: a KEDA ScaledObject, an HTTPScaledObject, an autoscaler."""

    api_version: Annotated[Text | None, Meta(description="Only for kinds that killcheck does not know.")] = None
    kind: Text = "ScaledObject"
    namespace: Namespace
    name: Name


class ConfigMapModel(_Model, kw_only=True):
    """A ConfigMap by name, and the key that is the sentinel."""

    namespace: Namespace
    name: Name
    key: Text


class AnnotationModel(_Model, kw_only=True):
    """An object by kind and name, and the annotation that is the sentinel."""

    api_version: Annotated[Text | None, Meta(description="Only for kinds that killcheck does not know.")] = None
    kind: Text = "Deployment"
    namespace: Namespace
    name: Name
    key: Text


class SentinelModel(_Model, kw_only=True):
    """What stops starters while it is set: a file on the host, a ConfigMap's key, an annotation."""

    path: Annotated[Text | None, Meta(description="An absolute path on the host.")] = None
    config_map: ConfigMapModel | None = None
    annotation: AnnotationModel | None = None
    value: Annotated[Text, Meta(description="What the key holds while it is set.")] = "true"
    starters: Annotated[list[CommandModel], Meta(description="The commands that must refuse.")] = []
    start_jobs: Annotated[list[CronJobModel], Meta(description="The CronJobs that must refuse.")] = []
    units: Annotated[
        list[Text], Meta(description="Folders whose systemd units and crontabs are read for what starts targets.")
    ] = []
    stopped_within: Annotated[
        Duration | None, Meta(description="Each starter fired alone must have been stopped by then.")
    ] = None


class CheckpointModel(_Model, kw_only=True):
    """Where a worker's progress is read: an integer that only grows."""

    command: CommandModel | None = None
    config_map: ConfigMapModel | None = None


class ContainerModel(_Model, kw_only=True):
    """A container of a Docker Engine: a new one like it runs at each firing, or argv inside it."""

    name: Name
    argv: Annotated[
        list[Text] | None, Meta(min_length=1, description="Run inside it at each firing (a cron container); no shell.")
    ] = None


class MachinesModel(_Model, kw_only=True):
    """Machines that are rented one by one, as a target's count lists them; paths of fields have dots."""

    items: Annotated[Text | None, Meta(description="Where the list is in the answer; none: it is the answer.")] = None
    id: Text = "id"
    type: Annotated[Text | None, Meta(description="The field with a machine's type, which prices it.")] = None
    usd_per_hour: Annotated[Text | None, Meta(description="The field with its price, before its type's.")] = None
    ended: Annotated[
        dict[str, list[str]],
        Meta(description="Fields, and the values with which it bills no GPU. All else is on."),
    ] = {}
    most: Annotated[int | None, Meta(ge=1, description="How many may be on at once: more is exposed.")] = None
    max_usd_per_hour: Annotated[float | None, Meta(gt=0, description="Of one machine: dearer is exposed.")] = None
    stand_in: Annotated[
        Text | None,
        Meta(description="A file beside the spec: what a market on loopback offers on the embedded cluster."),
    ] = None
    orchestrator_usd_per_hour: Annotated[
        float | None, Meta(ge=0, description="What the machine costs that starts and stops them, day and night.")
    ] = None


class TargetModel(_Model, kw_only=True):
    """A workload that holds GPUs and must reach zero."""

    name: Name
    api_version: Annotated[Text | None, Meta(description="Only for kinds that killcheck does not know.")] = None
    kind: Annotated[Text | None, Meta(description="Deployment, StatefulSet, Pod, Container (Docker)...")] = None
    namespace: Namespace | None = None
    object: Annotated[Name | None, Meta(description="The object's name; or give a selector.")] = None
    selector: Annotated[Selector | None, Meta(description="A label selector, as kubectl takes it.")] = None
    count: Annotated[
        CommandModel | None,
        Meta(description="Outside Kubernetes: prints how many accelerator instances are on, as an integer."),
    ] = None
    start: Annotated[
        CommandModel | None, Meta(description="Outside Kubernetes: puts it back on after a drill that turned it off.")
    ] = None
    instance_type: Annotated[Text | None, Meta(description="Prices a target outside Kubernetes.")] = None
    machines: Annotated[
        MachinesModel | None,
        Meta(description="Outside Kubernetes: how the list that count prints names and prices each."),
    ] = None


class DeadlinesModel(_Model, kw_only=True):
    """By when each phase must have been seen, counted from the trigger; held alone is a length."""

    job_created: Duration | None = None
    pod_created: Duration | None = None
    pod_scheduled: Duration | None = None
    image_pulled: Duration | None = None
    container_started: Duration | None = None
    executor_finished: Duration | None = None
    scale_written: Duration | None = None
    pods_gone: Annotated[Duration | None, Meta(description="No pod that holds a GPU is left.")] = None
    node_drained: Duration | None = None
    node_gone: Duration | None = None
    instance_gone: Duration | None = None
    held: Annotated[Duration | None, Meta(description="How long everything must stay off before it counts.")] = None


class LayerModel(_Model, kw_only=True):
    """One independent way that targets get turned off."""

    name: Name
    type: LayerKind
    covers: Annotated[list[Name], Meta(min_length=1, description="Names of targets.")]
    cron_job: CronJobModel | None = None
    container: Annotated[ContainerModel | None, Meta(description="On a Docker Engine, in place of a CronJob.")] = None
    workload: WorkloadModel | None = None
    scaler: ScalerModel | None = None
    command: CommandModel | None = None
    sentinel: SentinelModel | None = None
    idle: Annotated[Duration | None, Meta(description="How long a target must be idle before the layer acts.")] = None
    busy: Annotated[CommandModel | None, Meta(description="Makes a request of the target, so that it is busy.")] = None
    cold_start: Annotated[
        Duration | None, Meta(description="By when a pod must be ready after the first request to what slept.")
    ] = None
    notice: Annotated[Duration | None, Meta(description="How long a spot notice leaves: AWS 2m, others 30s.")] = None
    checkpoint: CheckpointModel | None = None
    schedule: Annotated[Text | None, Meta(description="When a command or container fires (cron).")] = None
    time_zone: Text | None = None
    deadlines: Annotated[DeadlinesModel | None, Meta(description="Where they differ from the path's.")] = None


class NodePoolModel(_Model, kw_only=True):
    """GPU nodes, by Karpenter pool, label selector, or both."""

    name: Name
    node_pool: Annotated[Name | None, Meta(description="A Karpenter NodePool's name.")] = None
    selector: Annotated[Selector | None, Meta(description="A label selector on nodes, as kubectl takes it.")] = None
    instance_type: Annotated[Text | None, Meta(description="Prices nodes that carry no instance-type label.")] = None
    floor: Annotated[int, Meta(ge=0, description="Nodes that may stay on for good.")] = 0
    removed_by: Annotated[
        Text | None, Meta(description="Who takes an empty node away, where no manifest describes the pool.")
    ] = None
    removed_after: Annotated[Duration | None, Meta(description="How long after it is empty.")] = None


class ConsentModel(_Model, kw_only=True):
    """What a drill may touch. Nothing is allowed that is not named here."""

    namespaces: Annotated[
        list[Namespace],
        Meta(description="Each must carry the label killcheck.dev/consent=true too; none named: those that carry it."),
    ] = []
    pools: Annotated[list[Name], Meta(description="Names of entries of nodes; none named: all of nodes.")] = []
    contexts: Annotated[
        list[Text], Meta(description="Shell patterns over kubeconfig contexts; none named: no cluster is touched.")
    ] = []
    protected: Annotated[list[Text], Meta(description="Contexts that are refused whatever contexts says.")] = field(
        default_factory=lambda: list(killpath.Consent().protected)
    )
    max_gpu_nodes: Annotated[int | None, Meta(ge=0)] = None
    max_usd: Annotated[float | None, Meta(ge=0)] = None
    commands: Annotated[
        list[Text], Meta(description="Shell patterns over the spec's command lines that may be run.")
    ] = []


class RuleModel(_Model, kw_only=True):
    """What is required where layer and fault match (shell patterns); the first rule that matches counts."""

    require: Annotated[OutcomeKind | None, Meta(description="The least outcome; known where cause is given.")] = None
    layer: Text = "*"
    fault: Text = "*"
    cause: Annotated[
        Text | list[Text],
        Meta(
            description="Of a known exposure: a part of the cause that it must have, or several (* stands for anything "
            "in between). An exposure for another cause fails."
        ),
    ] = []


class PolicyModel(_Model, kw_only=True):
    """What a drill must end with."""

    undisturbed: Annotated[Literal["survived", "covered"], Meta(description="Without any fault.")] = "survived"
    faulted: Annotated[OutcomeKind, Meta(description="Under any fault that no rule speaks of.")] = "covered"
    rules: list[RuleModel] = []


class FencesModel(_Model, kw_only=True):
    """The most that may ever be launched."""

    max_devices_per_node: Annotated[int | None, Meta(ge=0, description="GPUs and accelerators of any kind.")] = None
    max_usd_per_hour: Annotated[float | None, Meta(ge=0, description="Of everything together.")] = None
    max_nodes: Annotated[int | None, Meta(ge=0)] = None
    max_devices: Annotated[int | None, Meta(ge=0, description="Of all nodes together.")] = None
    forbidden_types: Annotated[list[Text], Meta(description="Shell patterns over types, such as p5*.")] = []
    catalogues: Annotated[
        list[Text], Meta(description="Files with types and prices of your own (CSV or YAML), beside the spec.")
    ] = []


class SuppressionModel(_Model, kw_only=True):
    """A finding that someone decided to live with."""

    probe: Name
    object: Annotated[Text, Meta(description="A shell pattern over Kind/namespace/name.")] = "*"
    reason: Annotated[str, Meta(min_length=3)]
    until: Annotated[Day, Meta(description="The last day on which it holds.")]


class AssumptionModel(_Model, kw_only=True):
    """An object that killcheck does not model and that someone vouches for: it turns nothing on."""

    kind: Annotated[Text, Meta(description="A shell pattern over kinds.")] = "*"
    namespace: Annotated[str, Meta(description="A shell pattern over namespaces; empty for objects outside any.")] = "*"
    name: Annotated[Text, Meta(description="A shell pattern over names.")] = "*"
    reason: Annotated[str, Meta(min_length=3)]
    until: Annotated[Day, Meta(description="The last day on which it holds; after it nothing is settled.")]


class ExperimentModel(_Model, kw_only=True):
    """An experiment of AWS FIS that interrupts spot instances."""

    role: Annotated[str, Meta(pattern=r"^arn:aws[\w-]*:iam::\d{12}:role/.+$")]
    stop_alarms: Annotated[
        list[Annotated[str, Meta(pattern=r"^arn:aws[\w-]*:cloudwatch:.+$")]],
        Meta(min_length=1, description="CloudWatch alarms that end it: FIS without a way to stop is not used."),
    ]
    max_targets: Annotated[int, Meta(ge=1, le=100)] = 1


class CloudModel(_Model, kw_only=True):
    """Who is asked what is billed: EC2 (boto3), or an exported file or a program for other clouds."""

    region: Text | None = None
    profile: Text | None = None
    endpoint: Annotated[
        Annotated[str, Meta(pattern=r"^(stand-in|http://(127\.0\.0\.1|localhost)(:\d+)?)$")] | None,
        Meta(description="A stand-in of AWS on loopback; 'stand-in' starts one (embedded cluster only)."),
    ] = None
    account: Annotated[
        Annotated[str, Meta(pattern=r"^\d{12}$")] | None,
        Meta(description="The only AWS account in which faults may change anything."),
    ] = None
    cluster: Annotated[Text | None, Meta(description="The EKS cluster's name: what is tagged for it is its own.")] = (
        None
    )
    tags: Annotated[dict[str, str], Meta(description="Tags of the cluster's GPU instances.")] = {}
    launch_templates: Annotated[list[Text], Meta(description="Ids of launch templates of its GPU nodes.")] = []
    queue: Annotated[
        Annotated[str, Meta(pattern=r"^https?://")] | None,
        Meta(description="URL of the SQS queue from which interruptions are read."),
    ] = None
    experiment: ExperimentModel | None = None
    states: Annotated[
        Text | None,
        Meta(description="A JSON file beside the spec: provider id to state, as exported from another cloud."),
    ] = None
    command: Annotated[CommandModel | None, Meta(description="A program that prints the same JSON.")] = None
    results: Annotated[
        list[Annotated[str, Meta(pattern=r"^s3://[^/]+/.+$")]],
        Meta(description="S3 URLs at which a run must leave something (prefixes end in '/')."),
    ] = []


class AlarmModel(_Model, kw_only=True):
    """The alert that must be raised where GPUs stay on (P5)."""

    alerts: Annotated[list[Text], Meta(description="Shell patterns over alert names; none: any on GPUs.")] = []
    within: Annotated[Duration, Meta(description="How long after the trigger it may take to fire.")] = 3600.0


class NoticedModel(_Model, kw_only=True):
    """Who notices that GPUs stayed on, and when: an exposed drill says the dollars until then."""

    hours: Annotated[Hours, Meta(description="When somebody looks: weekdays and hours, such as Mon-Fri 09:00-17:30.")]
    time_zone: Annotated[Zone, Meta(description="By whose clocks.")] = "Etc/UTC"
    answers: Annotated[Duration, Meta(description="How long after an alert somebody acts on it, at any hour.")] = 900.0


class ItemsModel(_Model, kw_only=True):
    """What a queue's workers get done: counted before and after a drill, it prices an item by what was seen."""

    count: Annotated[CommandModel, Meta(description="Prints how many items were done, an integer that only grows.")]
    max_usd_per_item: Annotated[float | None, Meta(gt=0, description="What one may cost; above it is said.")] = None


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
    proof: Annotated[list[ProofKind], Meta(min_length=1, extra_json_schema={"default": ["P1", "P2", "P4"]})] = field(
        default_factory=lambda: ["P1", "P2", "P4"]
    )
    consent: ConsentModel | None = None
    prices: Annotated[
        dict[str, Annotated[float, Meta(ge=0)]],
        Meta(description="US dollars an hour by instance type, before the catalogue's."),
    ] = {}
    policy: PolicyModel | None = None
    fences: FencesModel | None = None
    suppress: list[SuppressionModel] = []
    assume: Annotated[
        list[AssumptionModel], Meta(description="What killcheck does not model and someone vouches for.")
    ] = []
    cloud: CloudModel | None = None
    alarm: AlarmModel | None = None
    noticed: NoticedModel | None = None
    starts: Annotated[
        list[StartModel], Meta(description="What is meant to start targets again: it has to hold until then.")
    ] = []
    accelerators: Annotated[
        dict[str, bool],
        Meta(
            description="Extended resources (shell patterns) that are accelerators (true) or none (false), where "
            "killcheck takes them for the other."
        ),
    ] = {}
    kubernetes_version: Annotated[
        str | None,
        Meta(
            description="The Kubernetes that the embedded cluster is, as '1.34' or 'v1.34.3'. "
            "A real cluster has its own."
        ),
    ] = None
    items_per_hour: Annotated[
        float | None,
        Meta(gt=0, description="What a queue's workers get done in an hour, all together: prices an item."),
    ] = None
    items: ItemsModel | None = None
