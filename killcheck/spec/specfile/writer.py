"""Writes a kill path as the commented YAML that a team commits; what it writes loads back equal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from msgspec import structs

from killcheck.spec import killpath as k
from killcheck.spec.deadlines import Deadlines, spec_key
from killcheck.spec.specfile.cloud_section import written_alarm, written_chargeback, written_cloud, written_noticed
from killcheck.spec.specfile.fleet_section import written_machines
from killcheck.text import lazy_re
from killcheck.text.durations import format_duration
from killcheck.text.yamlfile import format_path, reads_as_text

__all__ = ["write"]

_PLAIN = lazy_re.compile(r"[A-Za-z0-9_./][\w./@+=-]*(?:(?: |:(?=\S))[\w./@+=,()-]+)*")

_SECTIONS: Mapping[str, str] = {
    "targets": "What holds GPUs and must reach zero.",
    "layers": "What turns it off: each an independent way.",
    "nodes": "Where the GPUs are. Drained and gone is what stops the bill.",
    "deadlines": "By when, counted from the trigger (held: how long it must then stay off).",
    "proof": "P1 no GPU pod, P2 no node, P3 the cloud says terminated, P4 it holds, P5 the alarm was raised.",
    "consent": "What a drill may touch on a cluster of yours. Nothing is touched that is not named here.",
    "prices": "US dollars an hour, by instance type; before the catalogue's.",
    "policy": (
        "What a drill must end with: survived (the layer itself did it), covered (another one did), known (either, or "
        "not)."
    ),
    "fences": "The most that may ever be launched.",
    "suppress": "Findings that someone decided to live with, and until when.",
    "assume": "What is not modelled and someone vouches for, and until when.",
    "cloud": "Who is asked what is billed, and where a run must leave its results.",
    "starts": "What is meant to start targets again: it has to hold until then.",
    "accelerators": "Extended resources that are accelerators, or none, whatever they are taken for.",
    "kubernetesVersion": "The Kubernetes that the embedded cluster is.",
    "alarm": "What must be raised where the GPUs stay on (P5).",
    "chargeback": "Whose bill it is.",
    "noticed": "Who notices that GPUs stayed on, and when.",
}


def write(path: k.KillPath, comments: Mapping[str, str]) -> str:
    """The spec's text; see :func:`killcheck.spec.specfile.dump`."""
    notes = {**_SECTIONS, **comments}
    lines = _comment(comments.get("", ""), 0)
    for key, value in _spec(path).items():
        if key in notes and lines:
            lines.append("")
        lines += _field(key, value, 0, (key,), notes)
    return "\n".join(lines) + "\n"


# -- the shape ---------------------------------------------------------------------------------------------
def _spec(path: k.KillPath) -> dict[str, Any]:
    spec = {
        "apiVersion": k.API_VERSION,
        "kind": "KillPath",
        "name": path.name,
        "targets": [_target(target) for target in path.targets],
        "layers": [_layer(layer, path.deadlines) for layer in path.layers],
        "nodes": [_pool(pool) for pool in path.nodes],
        "deadlines": _deadlines(path.deadlines, None),
        "proof": sorted(path.proof),
        "consent": _consent(path.consent),
        "prices": dict(path.prices),
        "accelerators": dict(path.accelerators),
        "kubernetesVersion": path.kubernetes_version,
        "policy": _policy(path.policy),
        "fences": _said(
            maxDevicesPerNode=path.fences.max_devices_per_node,
            maxUsdPerHour=path.fences.max_usd_per_hour,
            maxNodes=path.fences.max_nodes,
            maxDevices=path.fences.max_devices,
            forbiddenTypes=list(path.fences.forbidden_types),
            catalogues=list(path.fences.catalogues),
        ),
        "suppress": [
            {"probe": s.probe, "object": s.object, "reason": s.reason, "until": s.until} for s in path.suppress
        ],
        "assume": [_assumption(a) for a in path.assume],
        "cloud": written_cloud(path.cloud, _command(path.cloud.command) if path.cloud else None),
        "alarm": written_alarm(path.alarm),
        "noticed": written_noticed(path.noticed),
        "itemsPerHour": path.items_per_hour,
        "items": _said(count=_command(path.items.count), maxUsdPerItem=path.items.max_usd_per_item)
        if path.items
        else None,
        "chargeback": written_chargeback(path.chargeback),
        "starts": [{"kind": ref.kind, "namespace": ref.namespace, "name": ref.name} for ref in path.starts],
    }
    return {key: value for key, value in spec.items() if value or key in ("proof", "layers")}


def _said(**given: Any) -> dict[str, Any]:
    """Only what is not empty (zero says something, None and '' do not)."""
    return {key: value for key, value in given.items() if value is not None and value not in ("", (), [], {})}


def _assumption(assumed: k.Assumption) -> dict[str, Any]:
    patterns = {"kind": assumed.kind, "namespace": assumed.namespace, "name": assumed.name}
    return {key: value for key, value in patterns.items() if value != "*"} | {
        "reason": assumed.reason,
        "until": assumed.until,
    }


def _command(command: k.Command | None) -> dict[str, Any] | None:
    if command is None:
        return None
    timeout = None if command.timeout_s == k.Command(()).timeout_s else format_duration(command.timeout_s)
    env, passed = dict(command.env), list(command.pass_env)
    return _said(argv=list(command.argv), timeout=timeout, env=env, passEnv=passed, folder=command.folder)


def _api_version(kind: str, api_version: str) -> str | None:
    return None if k.KINDS.get(kind, "") == api_version else api_version


def _target(target: k.Target) -> dict[str, Any]:
    return _said(
        name=target.name,
        apiVersion=_api_version(target.kind, target.api_version),
        kind=target.kind,
        namespace="" if target.kind == "Container" else target.namespace,
        object=target.object,
        selector=target.selector,
        count=_command(target.count),
        start=_command(target.start),
        instanceType=target.instance_type,
        machines=written_machines(target.machines),
    )


def _ref(ref: k.Ref | None) -> dict[str, Any] | None:
    if ref is None:
        return None
    return _said(
        apiVersion=_api_version(ref.kind, ref.api_version), kind=ref.kind, namespace=ref.namespace, name=ref.name
    )


def _layer(layer: k.Layer, deadlines: Deadlines) -> dict[str, Any]:
    cron = layer.cron_job
    return _said(
        name=layer.name,
        type=layer.type.value,
        covers=list(layer.covers),
        cronJob={"namespace": cron.namespace, "name": cron.name} if cron and not layer.container else None,
        container=_said(name=layer.container.name, argv=list(layer.container.argv)) if layer.container else None,
        workload=_ref(layer.workload),
        scaler=_ref(layer.scaler),
        command=_command(layer.command),
        sentinel=_sentinel(layer.sentinel),
        idle=None if layer.idle_s is None else format_duration(layer.idle_s),
        busy=_command(layer.busy),
        coldStart=None if layer.cold_start_s is None else format_duration(layer.cold_start_s),
        notice=None if layer.notice_s is None else format_duration(layer.notice_s),
        checkpoint=_checkpoint(layer.checkpoint),
        schedule=layer.schedule,
        timeZone=layer.time_zone,
        deadlines=_deadlines(layer.deadlines, deadlines) if layer.deadlines else None,
    )


def _sentinel(sentinel: k.Sentinel | None) -> dict[str, Any] | None:
    if sentinel is None:
        return None
    annotation = (_ref(sentinel.annotated) or {}) | {"key": sentinel.key} if sentinel.annotated else None
    within = sentinel.stopped_within_s
    return _said(
        path=sentinel.path,
        configMap=_config_map(sentinel.config_map, sentinel.key),
        annotation=annotation,
        value=sentinel.value if sentinel.value != k.Sentinel().value else None,
        starters=[_command(s) for s in sentinel.starters],
        startJobs=[{"namespace": ref.namespace, "name": ref.name} for ref in sentinel.start_jobs],
        units=list(sentinel.units),
        stoppedWithin=None if within is None else format_duration(within),
    )


def _config_map(ref: k.Ref | None, key: str) -> dict[str, Any] | None:
    return {"namespace": ref.namespace, "name": ref.name, "key": key} if ref else None


def _checkpoint(checkpoint: k.Checkpoint | None) -> dict[str, Any] | None:
    if checkpoint is None:
        return None
    return _said(command=_command(checkpoint.command), configMap=_config_map(checkpoint.config_map, checkpoint.key))


def _pool(pool: k.NodePool) -> dict[str, Any]:
    return _said(
        name=pool.name,
        nodePool=pool.node_pool,
        selector=pool.selector,
        instanceType=pool.instance_type,
        floor=pool.floor or None,
        removedBy=pool.removed_by,
        removedAfter=None if pool.removed_after_s is None else format_duration(pool.removed_after_s),
    )


def _deadlines(deadlines: Deadlines, base: Deadlines | None) -> dict[str, str]:
    """All of them, or with ``base`` those that differ from it (all, if leaving some out would move them)."""
    given = structs.asdict(deadlines)
    if base is not None:
        differing = {name: value for name, value in given.items() if value != getattr(base, name)}
        if differing and Deadlines.fitted(differing, base) == deadlines:
            given = differing
    return {spec_key(name): format_duration(value) for name, value in given.items()}


def _consent(consent: k.Consent) -> dict[str, Any]:
    said = _said(
        namespaces=list(consent.namespaces),
        pools=list(consent.pools),
        contexts=list(consent.contexts),
        maxGpuNodes=consent.max_gpu_nodes,
        maxUsd=consent.max_usd,
        commands=list(consent.commands),
    )
    if consent.protected != k.Consent().protected:
        said["protected"] = list(consent.protected)
    # That no context is allowed is said: a reader fills it in, and knows that until then no cluster is touched.
    return {**said, "contexts": list(consent.contexts)} if said else said


def _policy(policy: k.Policy) -> dict[str, Any]:
    if policy == k.Policy():
        return {}
    rules = [
        {"layer": rule.layer, "fault": rule.fault, "require": rule.require.value}
        | ({"cause": list(rule.causes)} if rule.causes else {})
        for rule in policy.rules
    ]
    return _said(undisturbed=policy.undisturbed.value, faulted=policy.faulted.value, rules=rules)


# -- the text ----------------------------------------------------------------------------------------------
def _comment(text: str, indent: int) -> list[str]:
    return [f"{' ' * indent}# {line}".rstrip() for line in text.splitlines()]


def _field(key: str, value: Any, indent: int, path: tuple[str | int, ...], notes: Mapping[str, str]) -> list[str]:
    lines = _comment(notes.get(format_path(path), ""), indent)
    head = f"{' ' * indent}{_scalar(key)}:"
    if isinstance(value, dict) and value:
        lines.append(head)
        for name, item in value.items():
            lines += _field(name, item, indent + 2, (*path, name), notes)
    elif isinstance(value, list) and value and not _flat(value):
        lines.append(head)
        for i, item in enumerate(value):
            lines += _entry(item, indent + 2, (*path, i), notes)
    else:
        lines.append(f"{head} {_inline(value)}")
    return lines


def _entry(entry: dict[str, Any], indent: int, path: tuple[str | int, ...], notes: Mapping[str, str]) -> list[str]:
    """One mapping of a list: its first line carries the dash."""
    lines: list[str] = []
    for name, item in entry.items():
        lines += _field(name, item, indent + 2, (*path, name), notes)
    first = next(i for i, line in enumerate(lines) if not line.lstrip().startswith("#"))
    comment = _comment(notes.get(format_path(path), ""), indent) + [line[2:] for line in lines[:first]]
    return [*comment, " " * indent + "- " + lines[first][indent + 2 :], *lines[first + 1 :]]


def _flat(value: Sequence[Any]) -> bool:
    return not any(isinstance(item, dict | list) for item in value)


def _inline(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{}"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and "," not in value and reads_as_text(value)
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)
