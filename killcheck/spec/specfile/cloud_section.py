"""The spec's ``cloud:``, ``alarm:``, ``noticed:`` and ``chargeback:``: from the file to types, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from killcheck.spec.chargeback import Chargeback
from killcheck.spec.cloud_access import Alarm, CloudAccess, Experiment
from killcheck.spec.killpath import Command
from killcheck.spec.working_hours import Noticed
from killcheck.text.durations import format_duration

if TYPE_CHECKING:
    from killcheck.spec.specfile import models as m

__all__ = [
    "alarm",
    "chargeback",
    "cloud",
    "noticed",
    "written_alarm",
    "written_chargeback",
    "written_cloud",
    "written_noticed",
]


def cloud(model: m.CloudModel | None, command: Command | None) -> CloudAccess | None:
    """The types of a ``cloud:`` section; ``command`` is its command as a type."""
    if model is None:
        return None
    trial = model.experiment
    return CloudAccess(
        region=model.region or "",
        profile=model.profile or "",
        endpoint=model.endpoint or "",
        account=model.account or "",
        cluster=model.cluster or "",
        tags=dict(model.tags),
        launch_templates=tuple(model.launch_templates),
        queue=model.queue or "",
        experiment=Experiment(trial.role, tuple(trial.stop_alarms), trial.max_targets) if trial else None,
        states=model.states or "",
        command=command,
        results=tuple(model.results),
    )


def alarm(model: m.AlarmModel | None) -> Alarm | None:
    """The types of an ``alarm:`` section."""
    return Alarm(tuple(model.alerts), model.within) if model else None


def noticed(model: m.NoticedModel | None) -> Noticed | None:
    """The types of a ``noticed:`` section."""
    return Noticed(model.hours, model.time_zone, model.answers) if model else None


def chargeback(model: m.ChargebackModel | None) -> Chargeback | None:
    """The types of a ``chargeback:`` section."""
    return Chargeback(tuple(model.labels), model.egress_usd_per_gib) if model else None


def written_chargeback(said: Chargeback | None) -> dict[str, Any]:
    """What a file says for it."""
    if said is None:
        return {}
    price = {} if said.egress_usd_per_gib is None else {"egressUsdPerGib": said.egress_usd_per_gib}
    return ({"labels": list(said.labels)} if said.labels else {}) | price


def written_noticed(said: Noticed | None) -> dict[str, Any]:
    """What a file says for it."""
    if said is None:
        return {}
    return {"hours": said.hours, "timeZone": said.time_zone, "answers": format_duration(said.answers_s)}


def written_cloud(access: CloudAccess | None, command: Any) -> dict[str, Any]:
    """What a file says for it; ``command`` is its command as a file has it."""
    if access is None:
        return {}
    trial = access.experiment
    said: dict[str, Any] = {
        "region": access.region,
        "profile": access.profile,
        "endpoint": access.endpoint,
        "account": access.account,
        "cluster": access.cluster,
        "tags": dict(access.tags),
        "launchTemplates": list(access.launch_templates),
        "queue": access.queue,
        "states": access.states,
        "command": command,
        "results": list(access.results),
        "experiment": {
            "role": trial.role,
            "stopAlarms": list(trial.stop_alarms),
            "maxTargets": trial.max_targets,
        }
        if trial
        else None,
    }
    return {key: value for key, value in said.items() if value}


def written_alarm(wanted: Alarm | None) -> dict[str, Any]:
    """What a file says for it."""
    if wanted is None:
        return {}
    said: dict[str, Any] = {"alerts": list(wanted.alerts), "within": format_duration(wanted.within_s)}
    return {key: value for key, value in said.items() if value}
