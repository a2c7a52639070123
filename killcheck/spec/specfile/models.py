"""The spec file's shape as pydantic models: what a spec is validated with, and what its JSON Schema is made of.

Imported only when a spec is read or its schema made (pydantic takes 50 ms). What may *not* live here: meaning across
fields (names that must exist, parts that a type needs); that is in :mod:`killcheck.spec.specfile.checks`.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from killcheck.spec import killpath
from killcheck.spec.working_hours import working_hours
from killcheck.text import durations, lazy_re

__all__ = ["SpecModel"]


def _seconds(value: Any) -> float:
    shown = f"{value}s" if isinstance(value, int) and not isinstance(value, bool) else "90s"
    _need(isinstance(value, str), f"a duration with its unit, such as {shown} or 5m", value)
    return durations.parse_duration(value)


def _need(condition: bool, expected: str, value: Any) -> None:
    """ValueError, also for a wrong type: pydantic reports those and no others."""
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


_SELECTOR_PART = lazy_re.compile(
    r"\s*(!?\s*[\w./-]+|[\w./-]+\s*(=|==|!=)\s*[\w.-]*|[\w./-]+\s+(in|notin)\s*\([^()]*\))\s*",
)


def _selector(value: Any) -> str:
    parts = re.split(r",(?![^()]*\))", value) if isinstance(value, str) else [""]
    sound = all(_SELECTOR_PART.fullmatch(part) for part in parts)
    _need(sound, "a label selector as kubectl takes it, such as app=vllm", value)
    return str(value)


Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "pattern": durations.PATTERN, "minLength": 2}),
]
Day = Annotated[date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]
Hours = Annotated[str, BeforeValidator(_hours), WithJsonSchema({"type": "string"})]
Zone = Annotated[str, BeforeValidator(_zone), WithJsonSchema({"type": "string"})]
Selector = Annotated[str, BeforeValidator(_selector), WithJsonSchema({"type": "string"})]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", max_length=253)]
Text = Annotated[str, Field(min_length=1)]
#: As the API server takes it: a DNS label.
Namespace = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
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


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, alias_generator=to_camel, defer_build=True
    )


class HttpModel(_Model):
    """A request by curl; $NAMES in the URL and in the body are variables of killcheck's own environment."""

    url: Annotated[str, Field(pattern=r"^(https?://|\$)")]
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    bearer: EnvName | None = Field(default=None, description="The variable that holds the token it is authorised by.")
    body: Text | None = Field(default=None, description="What is sent, as JSON.")


class CommandModel(_Model):
    """A program to run where killcheck runs, in the folder of the spec or one below; no shell."""

    argv: list[Text] | None = Field(
        default=None, min_length=1, description="The program and its arguments, as given to exec."
    )
    shell: Text | None = Field(default=None, description="Instead of argv: a line for /bin/sh -c.")
    http: HttpModel | None = Field(default=None, description="Instead of argv: a request.")
    timeout: Duration = Field(default=60.0, description="How long it may take.")
    env: dict[str, str] = Field(
        default_factory=dict, description="Variables beside PATH and HOME; nothing else is inherited."
    )
    pass_env: list[EnvName] = Field(
        default_factory=list, description="Variables of killcheck's own environment that it is given."
    )
    folder: Annotated[str, AfterValidator(_below)] | None = Field(
        default=None, description="The folder that it runs in, below the spec's: a machine's tree. Else the spec's own."
    )


class CronJobModel(_Model):
    """A CronJob by name."""

    namespace: Namespace
    name: Name


class WorkloadModel(_Model):
    """An object by kind and name."""

    api_version: Text | None = Field(default=None, description="Only for kinds that killcheck does not know.")
    kind: Text = "Deployment"
    namespace: Namespace
    name: Name


class ScalerModel(_Model):
    """What scales to zero: a KEDA ScaledObject, an HTTPScaledObject, an autoscaler."""

    api_version: Text | None = Field(default=None, description="Only for kinds that killcheck does not know.")
    kind: Text = "ScaledObject"
    namespace: Namespace
    name: Name


class ConfigMapModel(_Model):
    """A ConfigMap by name, and the key that is the sentinel."""

    namespace: Namespace
    name: Name
    key: Text


class AnnotationModel(_Model):
    """An object by kind and name, and the annotation that is the sentinel."""

    api_version: Text | None = Field(default=None, description="Only for kinds that killcheck does not know.")
    kind: Text = "Deployment"
    namespace: Namespace
    name: Name
    key: Text


class SentinelModel(_Model):
    """What stops starters while it is set: a file on the host, a ConfigMap's key, an annotation."""

    path: Text | None = Field(default=None, description="An absolute path on the host.")
    config_map: ConfigMapModel | None = None
    annotation: AnnotationModel | None = None
    value: Text = Field(default="true", description="What the key holds while it is set.")
    starters: list[CommandModel] = Field(default_factory=list, description="The commands that must refuse.")
    start_jobs: list[CronJobModel] = Field(default_factory=list, description="The CronJobs that must refuse.")
    units: list[Text] = Field(
        default_factory=list, description="Folders whose systemd units and crontabs are read for what starts targets."
    )
    stopped_within: Duration | None = Field(
        default=None, description="Each starter fired alone must have been stopped by then."
    )


class CheckpointModel(_Model):
    """Where a worker's progress is read: an integer that only grows."""

    command: CommandModel | None = None
    config_map: ConfigMapModel | None = None


class ContainerModel(_Model):
    """A container of a Docker Engine: a new one like it runs at each firing, or argv inside it."""

    name: Name
    argv: list[Text] | None = Field(
        default=None, min_length=1, description="Run inside it at each firing (a cron container); no shell."
    )


class MachinesModel(_Model):
    """Machines that are rented one by one, as a target's count lists them; paths of fields have dots."""

    items: Text | None = Field(default=None, description="Where the list is in the answer; none: it is the answer.")
    id: Text = "id"
    type: Text | None = Field(default=None, description="The field with a machine's type, which prices it.")
    usd_per_hour: Text | None = Field(default=None, description="The field with its price, before its type's.")
    ended: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Fields, and the values with which it bills no GPU. All else is on.",
    )
    most: int | None = Field(default=None, ge=1, description="How many may be on at once: more is exposed.")
    max_usd_per_hour: float | None = Field(default=None, gt=0, description="Of one machine: dearer is exposed.")
    stand_in: Text | None = Field(
        default=None,
        description="A file beside the spec: what a market on loopback offers on the embedded cluster.",
    )
    orchestrator_usd_per_hour: float | None = Field(
        default=None,
        ge=0,
        description="What the machine costs that starts and stops them, day and night. Counted once in a path.",
    )


class TargetModel(_Model):
    """A workload that holds GPUs and must reach zero."""

    name: Name
    api_version: Text | None = Field(default=None, description="Only for kinds that killcheck does not know.")
    kind: Text | None = Field(default=None, description="Deployment, StatefulSet, Pod, Container (Docker)...")
    namespace: Namespace | None = None
    object: Name | None = Field(default=None, description="The object's name; or give a selector.")
    selector: Selector | None = Field(default=None, description="A label selector, as kubectl takes it.")
    count: CommandModel | None = Field(
        default=None, description="Outside Kubernetes: prints how many accelerator instances are on, as an integer."
    )
    start: CommandModel | None = Field(
        default=None, description="Outside Kubernetes: puts it back on after a drill that turned it off."
    )
    instance_type: Text | None = Field(default=None, description="Prices a target outside Kubernetes.")
    machines: MachinesModel | None = Field(
        default=None,
        description="Outside Kubernetes: how the list that count prints names and prices each.",
    )


class DeadlinesModel(_Model):
    """By when each phase must have been seen, counted from the trigger; held alone is a length."""

    job_created: Duration | None = None
    pod_created: Duration | None = None
    pod_scheduled: Duration | None = None
    image_pulled: Duration | None = None
    container_started: Duration | None = None
    executor_finished: Duration | None = None
    scale_written: Duration | None = None
    pods_gone: Duration | None = Field(default=None, description="No pod that holds a GPU is left.")
    node_drained: Duration | None = None
    node_gone: Duration | None = None
    instance_gone: Duration | None = None
    held: Duration | None = Field(default=None, description="How long everything must stay off before it counts.")


class LayerModel(_Model):
    """One independent way that targets get turned off."""

    name: Name
    type: LayerKind
    covers: list[Name] = Field(min_length=1, description="Names of targets.")
    cron_job: CronJobModel | None = None
    container: ContainerModel | None = Field(default=None, description="On a Docker Engine, in place of a CronJob.")
    workload: WorkloadModel | None = None
    scaler: ScalerModel | None = None
    command: CommandModel | None = None
    sentinel: SentinelModel | None = None
    idle: Duration | None = Field(default=None, description="How long a target must be idle before the layer acts.")
    busy: CommandModel | None = Field(default=None, description="Makes a request of the target, so that it is busy.")
    cold_start: Duration | None = Field(
        default=None, description="By when a pod must be ready after the first request to what slept."
    )
    notice: Duration | None = Field(default=None, description="How long a spot notice leaves: AWS 2m, others 30s.")
    checkpoint: CheckpointModel | None = None
    schedule: Text | None = Field(default=None, description="When a command or container fires (cron).")
    time_zone: Text | None = None
    deadlines: DeadlinesModel | None = Field(default=None, description="Where they differ from the path's.")


class NodePoolModel(_Model):
    """GPU nodes, by Karpenter pool, label selector, or both."""

    name: Name
    node_pool: Name | None = Field(default=None, description="A Karpenter NodePool's name.")
    selector: Selector | None = Field(default=None, description="A label selector on nodes, as kubectl takes it.")
    instance_type: Text | None = Field(default=None, description="Prices nodes that carry no instance-type label.")
    floor: int = Field(default=0, ge=0, description="Nodes that may stay on for good.")
    removed_by: Text | None = Field(
        default=None, description="Who takes an empty node away, where no manifest describes the pool."
    )
    removed_after: Duration | None = Field(default=None, description="How long after it is empty.")


class ConsentModel(_Model):
    """What a drill may touch. Nothing is allowed that is not named here."""

    namespaces: list[Namespace] = Field(
        default_factory=list,
        description="Each must carry the label killcheck.dev/consent=true too; none named: those that carry it.",
    )
    pools: list[Name] = Field(default_factory=list, description="Names of entries of nodes; none named: all of nodes.")
    contexts: list[Text] = Field(
        default_factory=list, description="Shell patterns over kubeconfig contexts; none named: no cluster is touched."
    )
    protected: list[Text] = Field(
        default_factory=lambda: list(killpath.Consent().protected),
        description="Contexts that are refused whatever contexts says.",
    )
    max_gpu_nodes: int | None = Field(default=None, ge=0)
    max_usd: float | None = Field(default=None, ge=0)
    commands: list[Text] = Field(
        default_factory=list, description="Shell patterns over the spec's command lines that may be run."
    )


class RuleModel(_Model):
    """What is required where layer and fault match (shell patterns); the first rule that matches counts."""

    require: OutcomeKind | None = Field(default=None, description="The least outcome; known where cause is given.")
    layer: Text = "*"
    fault: Text = "*"
    cause: Text | list[Text] = Field(
        default_factory=list,
        description="Of a known exposure: a part of the cause that it must have, or several (* stands for anything in "
        "between). An exposure for another cause fails.",
    )


class PolicyModel(_Model):
    """What a drill must end with."""

    undisturbed: Literal["survived", "covered"] = Field(default="survived", description="Without any fault.")
    faulted: OutcomeKind = Field(default="covered", description="Under any fault that no rule speaks of.")
    rules: list[RuleModel] = Field(default_factory=list)


class FencesModel(_Model):
    """The most that may ever be launched."""

    max_devices_per_node: int | None = Field(default=None, ge=0, description="GPUs and accelerators of any kind.")
    max_usd_per_hour: float | None = Field(default=None, ge=0, description="Of everything together.")
    max_nodes: int | None = Field(default=None, ge=0)
    max_devices: int | None = Field(default=None, ge=0, description="Of all nodes together.")
    forbidden_types: list[Text] = Field(default_factory=list, description="Shell patterns over types, such as p5*.")
    catalogues: list[Text] = Field(
        default_factory=list, description="Files with types and prices of your own (CSV or YAML), beside the spec."
    )


class SuppressionModel(_Model):
    """A finding that someone decided to live with."""

    probe: Name
    object: Text = Field(default="*", description="A shell pattern over Kind/namespace/name.")
    reason: Annotated[str, Field(min_length=3)]
    until: Day = Field(description="The last day on which it holds.")


class AssumptionModel(_Model):
    """An object that killcheck does not model and that someone vouches for: it turns nothing on."""

    kind: Text = Field(default="*", description="A shell pattern over kinds.")
    namespace: str = Field(default="*", description="A shell pattern over namespaces; empty for objects outside any.")
    name: Text = Field(default="*", description="A shell pattern over names.")
    reason: Annotated[str, Field(min_length=3)]
    until: Day = Field(description="The last day on which it holds; after it nothing is settled.")


class ExperimentModel(_Model):
    """An experiment of AWS FIS that interrupts spot instances."""

    role: Annotated[str, Field(pattern=r"^arn:aws[\w-]*:iam::\d{12}:role/.+$")]
    stop_alarms: list[Annotated[str, Field(pattern=r"^arn:aws[\w-]*:cloudwatch:.+$")]] = Field(
        min_length=1, description="CloudWatch alarms that end it: FIS without a way to stop is not used."
    )
    max_targets: int = Field(default=1, ge=1, le=100)


class CloudModel(_Model):
    """Who is asked what is billed: EC2 (boto3), or an exported file or a program for other clouds."""

    region: Text | None = None
    profile: Text | None = None
    endpoint: Annotated[str, Field(pattern=r"^(stand-in|http://(127\.0\.0\.1|localhost)(:\d+)?)$")] | None = Field(
        default=None, description="A stand-in of AWS on loopback; 'stand-in' starts one (embedded cluster only)."
    )
    account: Annotated[str, Field(pattern=r"^\d{12}$")] | None = Field(
        default=None, description="The only AWS account in which faults may change anything."
    )
    cluster: Text | None = Field(default=None, description="The EKS cluster's name: what is tagged for it is its own.")
    tags: dict[str, str] = Field(default_factory=dict, description="Tags of the cluster's GPU instances.")
    launch_templates: list[Text] = Field(default_factory=list, description="Ids of launch templates of its GPU nodes.")
    queue: Annotated[str, Field(pattern=r"^https?://")] | None = Field(
        default=None, description="URL of the SQS queue from which interruptions are read."
    )
    experiment: ExperimentModel | None = None
    states: Text | None = Field(
        default=None, description="A JSON file beside the spec: provider id to state, as exported from another cloud."
    )
    command: CommandModel | None = Field(default=None, description="A program that prints the same JSON.")
    results: list[Annotated[str, Field(pattern=r"^s3://[^/]+/.+$")]] = Field(
        default_factory=list, description="S3 URLs at which a run must leave something (prefixes end in '/')."
    )


class AlarmModel(_Model):
    """The alert that must be raised where GPUs stay on (P5)."""

    alerts: list[Text] = Field(default_factory=list, description="Shell patterns over alert names; none: any on GPUs.")
    within: Duration = Field(default=3600.0, description="How long after the trigger it may take to fire.")


class NoticedModel(_Model):
    """Who notices that GPUs stayed on, and when: an exposed drill says the dollars until then."""

    hours: Hours = Field(
        description="When somebody looks: weekdays and hours, such as Mon-Fri 09:00-17:30; Sat 22:00-06:00."
    )
    time_zone: Zone = Field(default="Etc/UTC", description="By whose clocks.")
    answers: Duration = Field(default=900.0, description="How long after an alert somebody acts on it, at any hour.")


class ItemsModel(_Model):
    """What a queue's workers get done: counted before and after a drill, it prices an item by what was seen."""

    count: CommandModel = Field(description="Prints how many items were done, an integer that only grows.")
    max_usd_per_item: float | None = Field(default=None, gt=0, description="What one may cost; above it is said.")


class ChargebackModel(_Model):
    """Whose bill it is: a drill's GPU-hours and dollars by who held them."""

    labels: list[Text] = Field(
        default_factory=list,
        description="Labels that say whose a holder of GPUs is; none: team, owner, cost-center and their like.",
    )
    egress_usd_per_gib: float | None = Field(
        default=None, ge=0, description="What a GiB out of the store costs that pods fetch from when they start."
    )


class StartModel(_Model):
    """What is meant to start targets again: a CronJob, or a ScaledObject whose cron window opens."""

    kind: Literal["CronJob", "ScaledObject"] = "CronJob"
    namespace: Text
    name: Text


class SpecModel(_Model):
    """A kill path: everything between 'the GPUs should be off' and 'the bill stops'."""

    api_version: Literal["killcheck/v1"]
    kind: Literal["KillPath"] = "KillPath"
    name: Name
    targets: list[TargetModel] = Field(min_length=1)
    layers: list[LayerModel]
    nodes: list[NodePoolModel] = Field(default_factory=list)
    deadlines: DeadlinesModel | None = None
    proof: list[ProofKind] = Field(default=["P1", "P2", "P4"], min_length=1)
    consent: ConsentModel | None = None
    prices: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="US dollars an hour by instance type, before the catalogue's."
    )
    policy: PolicyModel | None = None
    fences: FencesModel | None = None
    suppress: list[SuppressionModel] = Field(default_factory=list)
    assume: list[AssumptionModel] = Field(
        default_factory=list, description="What killcheck does not model and someone vouches for."
    )
    cloud: CloudModel | None = None
    alarm: AlarmModel | None = None
    noticed: NoticedModel | None = None
    starts: list[StartModel] = Field(
        default_factory=list, description="What is meant to start targets again: it has to hold until then."
    )
    accelerators: dict[str, bool] = Field(
        default_factory=dict,
        description="Extended resources (shell patterns) that are accelerators (true) or none (false), where killcheck "
        "takes them for the other.",
    )
    kubernetes_version: str | None = Field(
        default=None,
        description="The Kubernetes that the embedded cluster is, as '1.34' or 'v1.34.3'. A real cluster has its own.",
    )
    items_per_hour: float | None = Field(
        default=None, gt=0, description="What a queue's workers get done in an hour, all together: prices an item."
    )
    items: ItemsModel | None = None
    chargeback: ChargebackModel | None = None
