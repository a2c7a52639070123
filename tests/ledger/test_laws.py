"""Laws over the reference paths: what is added or renamed, and what may come of it."""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from beside import HARMLESS, RELIGHTING, UNKNOWN, Aim
from beside_by_kind import BY_KIND
from composed import WATCHED
from killcheck.fixtures import spec as spec_of
from twins import MORE, TWINS, text_of

from killcheck.capabilities.inventory import Inventory
from killcheck.embedded.cluster import MODELS
from killcheck.kube import manifests
from killcheck.kube.objects import labels_of, name_of, namespace_of
from killcheck.layers.base import LayerError
from killcheck.ledger.keeping import keep
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import DrillResult

#: The reference paths in Kubernetes that are over in a moment, layer by layer; all of them survive.
PATHS = (
    "dead-man/nightly-off",
    "two-switches/nightly-off",
    "two-switches/second-switch",
    "held-mornings/nightly-off",
    "held-mornings/hold",
    "kueue-quota/nightly-hold",
    "scale-to-zero/render-ui-idle",
    "scale-to-zero/video-idle",
    "self-terminating/worker-idle-exit",
    "self-terminating/idle-monitor",
    "spot-training/spot-reclaim",
)
#: How many of each law are drilled: "all", or a number.
LAWS = os.environ.get("KILLCHECK_LAWS", "5")
DAY = date(2026, 1, 15)
BESIDE = UNKNOWN | RELIGHTING


def _some(every: list[Any], most: int | None = None) -> list[Any]:
    drawn = random.Random(20261122)
    return every if LAWS == "all" else drawn.sample(every, min(most or int(LAWS), int(LAWS), len(every)))


def _copied(name: str, folder: Path) -> Path:
    """The folder of a reference path, to be changed."""
    return Path(shutil.copytree(spec_of(name).parent, folder / name))


def _drilled(folder: Path, layer: str) -> DrillResult:
    session = Session(spec=folder / "killcheck.yaml", exec_mode="host")
    return Run(session, [PlannedDrill(layer, options=WATCHED)], folder=folder / "runs").execute().drills[0]


@cache
def _session(name: str) -> Session:
    session = Session(spec=spec_of(name))
    session.objects  # noqa: B018 - read once
    return session


def _aim(name: str, layer: str) -> Aim:
    """The first target of a layer, as what is put beside it names it."""
    session = _session(name)
    target = session.kill_path.covered_by(session.kill_path.layer(layer))[0]
    obj = next(
        o
        for o in session.objects
        if o.get("kind") == target.kind
        and namespace_of(o) == target.namespace
        and (not target.object or name_of(o) == target.object)
    )
    return Aim(str(obj["apiVersion"]), target.kind, target.namespace, name_of(obj), dict(labels_of(obj)))


#: What a model here acts out: no open entry, and a drill sees what it does.
MODELLED = ("a Flux Kustomization", "a HelmRelease that detects drift")


#: Each of them beside two paths or three, not beside all: numbers without a common divisor go through both lists.
STRANGERS = list(itertools.product(PATHS, [one for one in UNKNOWN if one not in MODELLED]))
FURNITURE = list(itertools.product(PATHS, HARMLESS))


@pytest.mark.parametrize(("path", "beside"), STRANGERS)
@pytest.mark.one_in(5)
def test_ledger_knows_what_it_does_not_know(path: str, beside: str) -> None:
    """Whatever nobody here runs and could turn a target on is an open entry, and nothing else is."""
    name, _, layer = path.partition("/")
    session = _session(name)
    kill_path = session.kill_path
    models = frozenset(model.name for model in MODELS)
    more = UNKNOWN[beside](_aim(name, layer))
    kept = keep(Inventory([*session.objects, *more]), kill_path, kill_path.layer(layer), today=DAY, models=models)
    added = {f"{obj['kind']}" for obj in more}
    assert kept.open
    assert {entry.object.partition("/")[0] for entry in kept.open} <= added


@pytest.mark.parametrize("kind", BY_KIND)
def test_ledger_is_open_for_every_engine_of_the_field(kind: str) -> None:
    """One path for each kind, another for the next; all of them under KILLCHECK_LAWS=all."""
    turn = list(BY_KIND).index(kind) % len(PATHS)
    models = frozenset(model.name for model in MODELS)
    for path in PATHS if LAWS == "all" else PATHS[turn : turn + 1]:
        name, _, layer = path.partition("/")
        session = _session(name)
        kill_path = session.kill_path
        more = BY_KIND[kind](_aim(name, layer))
        kept = keep(Inventory([*session.objects, *more]), kill_path, kill_path.layer(layer), today=DAY, models=models)
        assert kept.open, path


#: A chart that nobody rendered, with a CronJob that its values would point at a target.
WAKER = """apiVersion: batch/v1
kind: CronJob
metadata: {name: {{ .Release.Name }}}
spec: {schedule: "{{ .Values.when }}", jobTemplate: {{ toYaml .Values.job }}}
"""


@pytest.mark.parametrize("path", _some(list(PATHS), 2))
@pytest.mark.one_in(2)
def test_adding_a_chart_that_nobody_rendered_never_leaves_a_pass(path: str, tmp_path: Path) -> None:
    name, _, layer = path.partition("/")
    folder = _copied(name, tmp_path)
    chart = folder / "warm"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: warm\nversion: 0.1.0\n")
    (chart / "values.yaml").write_text(f"wake: {_aim(name, layer).name}\n")
    (chart / "templates/cron.yaml").write_text(WAKER)
    session = Session(spec=folder / "killcheck.yaml", manifests=[folder], exec_mode="host")
    result = Run(session, [PlannedDrill(layer, options=WATCHED)], folder=folder / "runs").execute().drills[0]
    assert not result.proven, result.why


@pytest.mark.parametrize(("path", "beside"), FURNITURE)
@pytest.mark.one_in(4)
def test_ledger_is_not_alarmed_by_furniture(path: str, beside: str) -> None:
    name, _, layer = path.partition("/")
    session = _session(name)
    kill_path = session.kill_path
    models = frozenset(model.name for model in MODELS)
    more = HARMLESS[beside](_aim(name, layer))
    kept = keep(Inventory([*session.objects, *more]), kill_path, kill_path.layer(layer), today=DAY, models=models)
    assert not kept.open, kept.verdict()


@pytest.mark.parametrize(("path", "beside"), _some([(path, one) for path in PATHS for one in UNKNOWN]))
@pytest.mark.one_in(2)
def test_adding_the_unknown_never_leaves_a_pass(path: str, beside: str, tmp_path: Path) -> None:
    name, _, layer = path.partition("/")
    folder = _copied(name, tmp_path)
    (folder / "of-a-stranger.yaml").write_text(yaml.safe_dump_all(UNKNOWN[beside](_aim(name, layer))))
    result = _drilled(folder, layer)
    assert not result.proven, result.why


@pytest.mark.parametrize("beside", RELIGHTING)
@pytest.mark.parametrize("path", [path for path in PATHS if path.endswith("nightly-off")])
@pytest.mark.one_in(2)
def test_adding_what_lights_again_never_leaves_a_pass(path: str, beside: str, tmp_path: Path) -> None:
    name, _, layer = path.partition("/")
    folder = _copied(name, tmp_path)
    (folder / "of-a-stranger.yaml").write_text(yaml.safe_dump_all(RELIGHTING[beside](_aim(name, layer))))
    result = _drilled(folder, layer)
    assert not result.proven, result.why


@pytest.mark.parametrize(("path", "beside"), _some([(path, one) for path in PATHS for one in HARMLESS]))
@pytest.mark.one_in(2)
def test_adding_furniture_changes_no_verdict(path: str, beside: str, tmp_path: Path) -> None:
    name, _, layer = path.partition("/")
    folder = _copied(name, tmp_path)
    (folder / "of-a-stranger.yaml").write_text(yaml.safe_dump_all(HARMLESS[beside](_aim(name, layer))))
    result = _drilled(folder, layer)
    assert str(result.verdict) == "survived", result.why


#: Paths where a provider scales, and where an alert is heard.
ELSEWHERE = ("gke-night/lights-out", "aks-night/weeknight-off", "idle-alarm/vision-off")


@pytest.mark.parametrize(
    ("path", "twin"), [*itertools.product((*PATHS, *ELSEWHERE), TWINS), *itertools.product(PATHS[:3], MORE)]
)
@pytest.mark.one_in(23)
def test_what_says_the_same_changes_no_verdict(path: str, twin: str, tmp_path: Path) -> None:
    name, _, layer = path.partition("/")
    folder = _copied(name, tmp_path)
    which = _layers(folder).index(layer)
    before = text_of(folder)
    (TWINS | MORE)[twin](folder)
    if text_of(folder) == before:
        assert twin in ("another minute", "another zone")  # a path without a schedule
        return
    result = _drilled(folder, _layers(folder)[which])
    assert str(result.verdict) == "survived", result.why


def _layers(folder: Path) -> list[str]:
    return [one["name"] for one in yaml.safe_load((folder / "killcheck.yaml").read_text())["layers"]]


def _without_rights(obj: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if obj["kind"] in ("RoleBinding", "ClusterRoleBinding") else [obj]


def _without_switch(obj: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if obj["kind"] == "CronJob" else [obj]


def _with_idle_switch(obj: dict[str, Any]) -> list[dict[str, Any]]:
    if obj["kind"] == "CronJob":
        for container in obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]:
            container.update({"command": ["/bin/sh", "-c"], "args": ["exit 0"]})
    return [obj]


@pytest.mark.parametrize("cut", [_without_rights, _without_switch, _with_idle_switch])
@pytest.mark.parametrize("path", ["dead-man/nightly-off", "two-switches/nightly-off", "kueue-quota/nightly-hold"])
@pytest.mark.one_in(2)
def test_removing_the_switch_never_leaves_a_pass(
    path: str,
    cut: Callable[[dict[str, Any]], list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    name, _, layer = path.partition("/")
    folder = _copied(name, tmp_path)
    loaded = manifests.load([folder])
    kept = [one for obj in loaded.objects if obj.get("apiVersion") != "killcheck/v1" for one in cut(obj)]
    for file in folder.glob("*.yaml"):
        if file.name != "killcheck.yaml":
            file.unlink()
    (folder / "rest.yaml").write_text(yaml.safe_dump_all(kept))
    try:
        result = _drilled(folder, layer)
    except LayerError:
        return
    assert str(result.verdict) not in ("survived", "covered"), result.why
