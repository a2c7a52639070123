"""``killcheck.yaml`` at the file boundary: read into a :class:`~killcheck.spec.killpath.KillPath`, written, its schema.

Every problem of a file is answered at once, each as ``file:line: path: what is wrong, what was expected``. pydantic
is imported only when there is one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from msgspec import ValidationError
from msgspec.structs import asdict

from killcheck.spec import killpath as k
from killcheck.spec.deadlines import Deadlines
from killcheck.spec.specfile import cloud_section as clouds
from killcheck.spec.specfile import fleet_section as fleet
from killcheck.spec.specfile.errors import SpecError
from killcheck.spec.specfile.shape import misfits, one_document, read, surprises
from killcheck.text.problems import Problem
from killcheck.text.values import replace
from killcheck.text.yamlfile import Document, Path, format_path

if TYPE_CHECKING:
    from killcheck.spec.specfile import models as m

__all__ = ["Problem", "SpecError", "dump", "is_spec", "json_schema", "load", "loads"]

#: What to do where there is no spec of that name.
_ABSENT = "; killcheck init writes one"
_FOLDER = "a folder without a killcheck.yaml: give --manifests to drill what is in it, or a spec file"


def load(path: FilePath | str) -> k.KillPath:
    """The kill path that a file declares. Raises SpecError, also where the file cannot be read."""
    path = FilePath(path)
    found = loads(read(path, absent=_ABSENT, folder=_FOLDER), str(path))
    _stays_inside(found, path)
    return replace(_with_accepted(found, path), folder=str(path.parent.resolve()))


def _stays_inside(found: k.KillPath, path: FilePath) -> None:
    """A checkout is a stranger's: no folder of a command, and no market, leads out of it. Raises SpecError."""
    root = path.parent.resolve()
    for target in found.targets:
        offered = target.machines.stand_in if target.machines else ""
        if offered and not (root / offered).resolve().is_relative_to(root):
            said = f"{offered} is no file of the spec's folder: let it lie beside the spec"
            raise SpecError([Problem(str(path), 0, "machines.standIn", said)])
    for command in found.commands:
        if command.folder and not (root / command.folder).resolve().is_relative_to(root):
            said = f"{command.folder} is a link that leads out of the spec's folder: put the files below the spec"
            raise SpecError([Problem(str(path), 0, "folder", said)])


def _with_accepted(found: k.KillPath, path: FilePath) -> k.KillPath:
    """With the exposures that the file beside the spec accepts; its rules go before the spec's own."""
    from killcheck.spec.specfile import accepted

    rules = accepted.read(accepted.beside(path))
    return replace(found, policy=replace(found.policy, rules=(*rules, *found.policy.rules))) if rules else found


def loads(text: str, file: str = "killcheck.yaml") -> k.KillPath:
    """The kill path that a text declares; ``file`` names it in messages. Raises SpecError."""
    doc = one_document(text, file, what="spec", hint=" (killcheck init writes one)")
    spec = _without_nulls(doc.value)
    problems = [*surprises(doc), *_header(doc)]
    model: m.SpecModel | None = None
    if not any(problem.path in ("apiVersion", "kind") for problem in problems):
        model, found = _shape(doc, spec)
        problems += found
    if problems or model is None:
        raise SpecError(sorted(_distinct(problems), key=lambda problem: problem.line))
    return _kill_path(model, proof_said="proof" in spec)


def is_spec(value: Any) -> bool:
    """Whether a YAML document means to be a killcheck spec (and so is no Kubernetes object)."""
    return isinstance(value, dict) and str(value.get("apiVersion", "")).partition("/")[0] == "killcheck"


def dump(path: k.KillPath, comments: Mapping[str, str] | None = None) -> str:
    """The spec as commented YAML that loads back equal.

    ``comments`` are put above the fields they name, as problems name them (``deadlines.podsGone``, ``layers[0]``).
    """
    from killcheck.spec.specfile.writer import write

    return write(path, comments or {})


def json_schema() -> str:
    """The JSON Schema of spec files, for editors; published as ``killcheck/killcheck.schema.json``."""
    from killcheck.spec.specfile.explained import as_pydantic
    from killcheck.spec.specfile.models import SpecModel

    schema = as_pydantic(SpecModel).model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "killcheck.schema.json"}
    return json.dumps(head | schema, indent=2) + "\n"


# -- the text ----------------------------------------------------------------------------------------------
def _without_nulls(value: Any) -> Any:
    """An empty section says nothing: as if it were not there."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _header(doc: Document) -> Iterable[Problem]:
    version = doc.value.get("apiVersion")
    line = doc.line_of(("apiVersion",))
    if version == k.API_VERSION:
        kind = doc.value.get("kind", "KillPath")
        if kind != "KillPath":
            yield Problem(doc.file, doc.line_of(("kind",)), "kind", f"expected KillPath, found {kind!r}")
    elif is_spec(doc.value):
        message = f"this killcheck reads {k.API_VERSION}, found {version!r}"
        yield Problem(doc.file, line, "apiVersion", message)
    elif "kind" in doc.value and version is not None:
        message = f"expected {k.API_VERSION}; this is a Kubernetes {doc.value['kind']}: pass manifests with --manifests"
        yield Problem(doc.file, line, "apiVersion", message)
    else:
        found = f"found {version!r}" if version is not None else "it is missing"
        yield Problem(doc.file, line, "apiVersion", f"expected {k.API_VERSION}, {found}")


def _distinct(problems: Iterable[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))


# -- the shape ---------------------------------------------------------------------------------------------
def _shape(doc: Document, spec: dict[str, Any]) -> tuple[m.SpecModel | None, list[Problem]]:
    """The spec as its model has it, and all that is wrong with it; where that is its shape, there is no model."""
    from killcheck.spec.specfile.checks import check
    from killcheck.spec.specfile.models import fitting

    model, found = None, list[tuple[Path, str]]()
    try:
        model = fitting(spec)
    except ValidationError as first:
        booleans = {path for path, _, _ in doc.boolean_keys}
        found += [(path, message) for path, message in _misfits(doc, spec, first) if path not in booleans]
    broken = {path for path, _ in found}
    found += [(path, message) for path, message in check(spec) if path not in broken]
    return model, [Problem(doc.file, doc.line_of(path), format_path(path), message) for path, message in found]


def _misfits(doc: Document, spec: dict[str, Any], first: ValidationError) -> Iterable[tuple[Path, str]]:
    """Where and how it does not fit; ``first``: what is wrong in any case."""
    from killcheck.spec.specfile.explained import as_pydantic
    from killcheck.spec.specfile.models import SpecModel

    return misfits(doc, spec, as_pydantic(SpecModel)) or [((), str(first))]


# -- the meaning -------------------------------------------------------------------------------------------
def _kill_path(spec: m.SpecModel, *, proof_said: bool) -> k.KillPath:
    deadlines = _deadlines(spec.deadlines, None)
    return k.KillPath(
        name=spec.name,
        targets=tuple(_target(target) for target in spec.targets),
        layers=tuple(_layer(layer, deadlines) for layer in spec.layers),
        nodes=tuple(
            k.NodePool(
                n.name,
                n.node_pool or "",
                n.selector or "",
                n.instance_type or "",
                n.floor,
                n.removed_by or "",
                n.removed_after,
            )
            for n in spec.nodes
        ),
        deadlines=deadlines,
        proof=_proof(spec, said=proof_said),
        proof_said=proof_said,
        consent=_consent(spec.consent),
        prices=dict(spec.prices),
        accelerators=dict(spec.accelerators),
        kubernetes_version=spec.kubernetes_version or "",
        policy=_policy(spec.policy),
        fences=_fences(spec.fences),
        suppress=tuple(k.Suppression(s.probe, s.reason, s.until, s.object) for s in spec.suppress),
        assume=tuple(k.Assumption(a.reason, a.until, a.kind, a.namespace, a.name) for a in spec.assume),
        cloud=clouds.cloud(spec.cloud, _command(spec.cloud.command) if spec.cloud else None),
        alarm=clouds.alarm(spec.alarm),
        noticed=clouds.noticed(spec.noticed),
        items_per_hour=spec.items_per_hour,
        items=k.Items(_command(spec.items.count), spec.items.max_usd_per_item) if spec.items else None,
        chargeback=clouds.chargeback(spec.chargeback),
        starts=tuple(k.Ref(k.KINDS.get(s.kind, ""), s.kind, s.namespace, s.name) for s in spec.starts),
    )


def _proof(spec: m.SpecModel, *, said: bool) -> frozenset[k.Proof]:
    """A Docker host stays on when its containers go: where only they are targets, P2 is not asked for unless said."""
    if not said and all(target.kind == "Container" for target in spec.targets):
        return k.DEFAULT_PROOF - {k.Proof.P2}
    return frozenset(k.Proof(proof) for proof in spec.proof)


def _deadlines(said: m.DeadlinesModel | None, base: Deadlines | None) -> Deadlines:
    given = asdict(said) if said else {}
    return Deadlines.fitted({f"{name}_s": seconds for name, seconds in given.items() if seconds is not None}, base)


def _command(command: m.CommandModel | None) -> k.Command | None:
    if command is None:
        return None
    argv = ("/bin/sh", "-c", command.shell) if command.shell is not None else tuple(command.argv or ())
    passed = tuple(command.pass_env)
    if command.http is not None:
        argv, named = fleet.request(command.http, command.timeout)
        passed = tuple(dict.fromkeys([*passed, *(name for name in named if name not in command.env)]))
    folder = "" if command.folder in (None, ".") else command.folder
    return k.Command(argv, command.timeout, dict(command.env), passed, folder or "")


def _target(target: m.TargetModel) -> k.Target:
    kind = target.kind or ""
    return k.Target(
        name=target.name,
        api_version=target.api_version or k.KINDS.get(kind, ""),
        kind=kind,
        namespace=target.namespace or (k.DOCKER if kind == "Container" else ""),
        object=target.object or "",
        selector=target.selector or "",
        count=_command(target.count),
        start=_command(target.start),
        instance_type=target.instance_type or "",
        machines=fleet.machines(target.machines),
    )


def _ref(ref: m.WorkloadModel | m.ScalerModel | m.AnnotationModel | None) -> k.Ref | None:
    return k.Ref(ref.api_version or k.KINDS.get(ref.kind, ""), ref.kind, ref.namespace, ref.name) if ref else None


def _cron_job(cron: m.CronJobModel | None) -> k.Ref | None:
    return k.Ref("batch/v1", "CronJob", cron.namespace, cron.name) if cron else None


def _layer(layer: m.LayerModel, deadlines: Deadlines) -> k.Layer:
    return k.Layer(
        name=layer.name,
        type=k.LayerType(layer.type),
        covers=tuple(layer.covers),
        cron_job=k.Ref("batch/v1", "CronJob", k.DOCKER, layer.name) if layer.container else _cron_job(layer.cron_job),
        container=k.ContainerRun(layer.container.name, tuple(layer.container.argv or ())) if layer.container else None,
        workload=_ref(layer.workload),
        scaler=_ref(layer.scaler),
        command=_command(layer.command),
        sentinel=_sentinel(layer.sentinel),
        idle_s=layer.idle,
        schedule=layer.schedule or "",
        time_zone=layer.time_zone or "",
        deadlines=_deadlines(layer.deadlines, deadlines) if layer.deadlines else None,
        busy=_command(layer.busy),
        cold_start_s=layer.cold_start,
        notice_s=layer.notice,
        checkpoint=_checkpoint(layer.checkpoint),
    )


def _config_map(ref: m.ConfigMapModel | None) -> k.Ref | None:
    return k.Ref("v1", "ConfigMap", ref.namespace, ref.name) if ref else None


def _checkpoint(said: m.CheckpointModel | None) -> k.Checkpoint | None:
    if said is None:
        return None
    return k.Checkpoint(
        _command(said.command), _config_map(said.config_map), said.config_map.key if said.config_map else ""
    )


def _sentinel(sentinel: m.SentinelModel | None) -> k.Sentinel | None:
    if sentinel is None:
        return None
    keyed = sentinel.config_map or sentinel.annotation
    return k.Sentinel(
        sentinel.path or "",
        _config_map(sentinel.config_map),
        keyed.key if keyed else "",
        tuple(c for s in sentinel.starters if (c := _command(s)) is not None),
        _ref(sentinel.annotation),
        sentinel.value,
        tuple(ref for job in sentinel.start_jobs if (ref := _cron_job(job)) is not None),
        tuple(sentinel.units),
        sentinel.stopped_within,
    )


def _consent(consent: m.ConsentModel | None) -> k.Consent:
    if consent is None:
        return k.Consent()
    return k.Consent(
        namespaces=tuple(consent.namespaces),
        pools=tuple(consent.pools),
        contexts=tuple(consent.contexts),
        protected=tuple(consent.protected),
        max_gpu_nodes=consent.max_gpu_nodes,
        max_usd=consent.max_usd,
        commands=tuple(consent.commands),
    )


def _fences(fences: m.FencesModel | None) -> k.FenceCeiling:
    if fences is None:
        return k.FenceCeiling()
    return k.FenceCeiling(
        fences.max_devices_per_node,
        fences.max_usd_per_hour,
        fences.max_nodes,
        fences.max_devices,
        tuple(fences.forbidden_types),
        tuple(fences.catalogues),
    )


def _policy(policy: m.PolicyModel | None) -> k.Policy:
    if policy is None:
        return k.Policy()
    rules = tuple(
        k.Rule(
            k.Outcome(rule.require or "known"),
            rule.layer,
            rule.fault,
            (rule.cause,) if isinstance(rule.cause, str) else tuple(rule.cause),
        )
        for rule in policy.rules
    )
    return k.Policy(k.Outcome(policy.undisturbed), k.Outcome(policy.faulted), rules)
