"""Kill paths composed of parts whose truth is known: the verdict is that truth or inconclusive, never a false pass."""

from __future__ import annotations

import os
import random
from datetime import date
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest
import yaml
from beside import HARMLESS, RELIGHTING, UNKNOWN, Aim
from composed import CALENDARS, PACKINGS, STYLES, Composition, account, workload

from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Status
from killcheck.ledger.keeping import keep
from killcheck.spec import specfile

#: How many are drilled; "all" of them take an hour. Folders of more kinds are drawn in test_parts.py, at less.
COMPOSED = os.environ.get("KILLCHECK_COMPOSED", "3")
RIGHT = {"off": {"survived"}, "on": {"exposed", "inconclusive"}, "unknown": {"inconclusive"}}


def _rivals() -> list[tuple[str, str]]:
    told = [("unknown", name) for name in UNKNOWN] + [("on", name) for name in RELIGHTING]
    return [("off", ""), *told, *(("off", name) for name in HARMLESS)]


def _every() -> list[tuple[Any, ...]]:
    """(kind, replicas, style, name and namespace, zone, second, packing, calendar, rival) of every composition.

    Each is written down in one way of all that there are, in turn, and has one calendar.
    """
    every = product(
        ("Deployment", "StatefulSet"),
        (1, 3),
        STYLES,
        ("llama/serving", "gpu-7b/default", "web/team-b"),
        ("Etc/UTC", "Asia/Kolkata", "America/New_York"),
        (False, True),
        _rivals(),
    )
    packings, calendars = cycle(PACKINGS), cycle(CALENDARS)
    told = [(*one[:-1], next(packings), next(calendars), one[-1]) for one in every]
    gone = ("delete", "resources-out")  # what is deleted, or asks for no GPU, no scale lights
    return [one for one in told if one[2] not in gone or (one[-1][0] != "on" and one[-2] == "each night")]


def _sample() -> list[tuple[Any, ...]]:
    every = _every()
    if COMPOSED == "all":
        return every
    drawn = random.Random(int(os.environ.get("KILLCHECK_SEED", "20261122")))
    sound = [one for one in every if STYLES[one[2]][0] == CALENDARS[one[-2]][0] == "off"]
    unsound = [one for one in every if STYLES[one[2]][0] == "on" and one[-1][0] != "unknown"]
    unsound += [one for one in every if STYLES[one[2]][0] == "off" and CALENDARS[one[-2]][0] == "on"]
    most = int(COMPOSED)
    return [*drawn.sample(sound, most - most // 3), *drawn.sample(unsound, most // 3)]


@pytest.mark.parametrize(
    ("kind", "replicas", "style", "where", "zone", "second", "packing", "calendar", "rival"),
    _sample(),
    ids=lambda value: str(value[1] if isinstance(value, tuple) else value).replace(" ", "-") or "alone",
)
def test_verdict_is_the_truth(
    kind: str,
    replicas: int,
    style: str,
    where: str,
    zone: str,
    second: bool,
    packing: str,
    calendar: str,
    rival: tuple[str, str],
    tmp_path: Path,
) -> None:
    name, _, namespace = where.partition("/")
    aim = Aim("apps/v1", kind, namespace, name, {"app": name})
    rivals = (UNKNOWN | RELIGHTING | HARMLESS)[rival[1]](aim) if rival[1] else []
    one = Composition(
        kind=kind,
        replicas=replicas,
        name=name,
        namespace=namespace,
        zone=zone,
        style=style,
        second=second,
        rivals=tuple(rivals),
        rivals_truth=rival[0],
        packing=packing,
        calendar=calendar,
    )
    result = one.drill(tmp_path / "path")
    assert str(result.verdict) in RIGHT[one.truth], result.why


@pytest.mark.parametrize("calendar", [one for one in CALENDARS if one != "each night"])
@pytest.mark.one_in(2)
def test_calendar_that_leaves_nights_on_is_seen(calendar: str, tmp_path: Path) -> None:
    one = Composition(calendar=calendar)
    result = one.drill(tmp_path / "path")
    wanted = {"off": "survived", "on": "exposed"}[CALENDARS[calendar][0]]
    assert str(result.verdict) == wanted, result.why
    assert wanted == "survived" or "CronJob serving/lights-on set Deployment llama" in result.cause


@pytest.mark.parametrize(("verb", "verdict"), [("patch", "exposed"), ("watch", "survived")])
@pytest.mark.one_in(2)
def test_loop_beside_a_switch_is_run(verb: str, verdict: str, tmp_path: Path) -> None:
    """What it may do, and what it does, is seen for a few rounds; then it is held, and leaves no trace."""
    rules = [{"apiGroups": ["apps"], "resources": ["deployments", "deployments/scale"], "verbs": ["get", verb]}]
    loop = "while true; do kubectl -n serving scale deployment llama --replicas=1; sleep 900; done"
    watchdog = workload("watchdog", "serving", "watchdog", image="alpine/k8s:1.32.0", command=["sh", "-c", loop])
    one = Composition(rivals=(*account("watchdog", "serving", rules), watchdog))
    result = one.drill(tmp_path / "path")
    assert str(result.verdict) == verdict, result.why
    assert verdict == "exposed" or not any("left changed" in note for note in result.notes)


def test_loop_whose_rights_no_manifest_shows_is_not_known_to_be_refused(tmp_path: Path) -> None:
    """Here the API refuses it; where somebody bound its account to a role by hand it lights the target each round."""
    aim = Aim("apps/v1", "Deployment", "serving", "llama", {"app": "llama"})
    rivals = UNKNOWN["a loop that scales it, without rights in the manifests"](aim)
    result = Composition(rivals=tuple(rivals)).drill(tmp_path / "path")
    assert str(result.verdict) == "inconclusive", result.why
    assert "no manifest gives its account any right" in result.why


def test_executor_that_fails_after_its_write_has_turned_it_off(tmp_path: Path) -> None:
    """Its own wait was too short: who wrote the zero is known, however that program ended."""
    result = Composition(style="waits-in-vain").drill(tmp_path / "path")
    assert (str(result.verdict), result.off_by) == ("survived", "lights-out"), result.why
    assert "its executor wrote it (Pod/serving/lights-out-killcheck-" in result.why


@pytest.mark.parametrize(("kind", "second"), [("StatefulSet", False), ("StatefulSet", True), ("Deployment", True)])
@pytest.mark.one_in(3)
def test_who_takes_gpus_out_of_a_template_has_turned_off_what_rolls_long_after(
    kind: str, second: bool, tmp_path: Path
) -> None:
    result = Composition(kind=kind, replicas=4, style="resources-out", second=second).drill(tmp_path / "path")
    assert (str(result.verdict), result.off_by) == ("survived", "lights-out"), result.why


@pytest.mark.parametrize("packing", ["kustomize", "argo"])
def test_what_a_tool_wrote_down_says_the_same(packing: str, tmp_path: Path) -> None:
    result = Composition(packing=packing).drill(tmp_path / "path")
    assert str(result.verdict) == "survived", result.why


def test_assumption_settles_what_it_names_until_its_day(tmp_path: Path) -> None:
    """And stands in the ledger from then on; of another object, or ended, it settles nothing."""
    aim = Aim("apps/v1", "Deployment", "serving", "llama", {"app": "llama"})
    one = Composition(rivals=tuple(UNKNOWN["an operator that may patch the scale"](aim)))
    said = {"kind": "Deployment", "namespace": "platform", "name": "night-*", "reason": "it scales web shops only"}
    held = one.drill(tmp_path / "held", assume=[said | {"until": "2999-01-01"}])
    assert str(held.verdict) == "survived"
    assert [(e.object, e.until) for e in held.ledger.telling if e.until] == [
        ("Deployment/platform/night-owl", "2999-01-01")
    ]
    for name, other in {"ended": {"until": "2020-01-01"}, "other": {"until": "2999-01-01", "namespace": "web"}}.items():
        result = one.drill(tmp_path / name, assume=[said | other])
        assert str(result.verdict) == "inconclusive"
        assert ("ended on 2020-01-01" in result.why) == (name == "ended")
        assert "Deployment/platform/night-owl" in result.why


def test_what_lint_calls_an_error_is_answered(tmp_path: Path) -> None:
    """What one night cannot disprove stands open; what the drill ran, and saw work, is executed, and told."""
    aim = Aim("apps/v1", "Deployment", "serving", "llama", {"app": "llama"})
    one = Composition(rivals=tuple(RELIGHTING["KEDA's minimum"](aim)))
    hung, hasty = one.objects, one.objects
    hung[-2]["spec"]["jobTemplate"]["spec"].pop("activeDeadlineSeconds")
    hasty[-2]["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] = 3
    file = tmp_path / "killcheck.yaml"
    file.write_text(yaml.safe_dump(one.spec))
    kill_path = specfile.load(file)
    kept = keep(Inventory(hung), kill_path, kill_path.layers[0], today=date(2026, 1, 15), models={"keda-operator"})
    said = {(e.object, e.because.split(":")[0]): e.status for e in kept.telling}
    assert said["ScaledObject/serving/of-a-stranger", "lint says keda-floor"] is Status.NOT_MODELLED
    assert said["CronJob/serving/lights-out", "lint says forbid-hung-job"] is Status.EXECUTED
    kept = keep(Inventory(hasty), kill_path, kill_path.layers[0], today=date(2026, 1, 15), models={"keda-operator"})
    assert any("tight-deadline: ends the Job after 3 s" in e.because for e in kept.open)  # a pull is modelled


@pytest.mark.parametrize(("host", "verdict"), [("k8s.gcr.io", "inconclusive"), ("registry.example.net", "survived")])
def test_image_of_a_registry_that_was_shut_is_not_pulled_by_a_drill_of_this_process(
    host: str, verdict: str, tmp_path: Path
) -> None:
    objects = Composition().objects
    (switch,) = [obj for obj in objects if obj["kind"] == "CronJob"]
    container = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    container["image"] = f"{host}/kubectl:v1.30.1"
    result = Composition.drill(_Fixed(objects), tmp_path / "path")
    assert str(result.verdict) == verdict, result.why
    assert ("nothing was pulled here" in result.why) is (verdict == "inconclusive")


@pytest.mark.parametrize("there", [False, True])
def test_claim_of_the_switch_that_no_manifest_holds_is_no_exposure(there: bool, tmp_path: Path) -> None:
    """As with Secrets and ServiceAccounts: what people make by hand is asked for."""
    objects = Composition().objects
    (switch,) = [obj for obj in objects if obj["kind"] == "CronJob"]
    pod = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "s", "persistentVolumeClaim": {"claimName": "state"}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "s", "mountPath": "/state"}]
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "resources": {"requests": {"storage": 1}}}
    meta = {"name": "state", "namespace": "serving"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
    result = Composition.drill(_Fixed([*objects, *([claim] if there else [])]), tmp_path / "path")
    assert (str(result.verdict) == "inconclusive") is not there, result.why
    assert ("needs PersistentVolumeClaim/serving/state" in result.why) is not there


def test_quota_that_leaves_no_room_for_the_job_is_an_exposure(tmp_path: Path) -> None:
    """The schedule's own Job would be refused by it just as well."""
    meta = {"name": "no-jobs", "namespace": "serving"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"count/jobs.batch": "0"}}}
    result = Composition(rivals=(quota,)).drill(tmp_path / "path")
    assert (str(result.verdict), result.stuck_at) == ("exposed", "triggered"), result.why
    assert "exceeded quota: no-jobs" in result.cause
    assert not result.problems


def test_owner_that_nobody_models_leaves_nothing_proven(tmp_path: Path) -> None:
    owner = {
        "apiVersion": "serving.example.io/v1",
        "kind": "ModelServer",
        "name": "llama",
        "uid": "u-1",
        "controller": True,
    }
    one = Composition()
    objects = one.objects
    objects[0]["metadata"]["ownerReferences"] = [owner]
    result = Composition.drill(_Fixed(objects), tmp_path / "path")
    assert not result.proven, result.why


class _Fixed(Composition):
    """The composition with other manifests."""

    def __init__(self, objects: list[dict[str, object]]) -> None:
        super().__init__()
        object.__setattr__(self, "_objects", objects)

    @property
    def objects(self) -> list[dict[str, object]]:
        return self._objects  # type: ignore[attr-defined,no-any-return]
