"""What a rehearsal says of a kill path, a drill of it says too: for every layer of which a program runs.

In a rehearsal no host beyond the cluster answers, and every image can be pulled: the drill of a program that needs such
a host is one without it, and one whose image is known to be gone may do what it says, and turns nothing off. A monitor
that asked for no change claims nothing: nothing was idle. Layers that no program is (scalers, workers that end
themselves, what a cloud sends, holds) have nothing that could be fired.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import yaml
from click.testing import CliRunner
from killcheck.fixtures import zoo

from killcheck import fixtures
from killcheck.cli import main
from killcheck.kube.manifests import ManifestError
from killcheck.lint import asking
from killcheck.machine import rehearsed as machines
from killcheck.rehearsal.programs import programs
from killcheck.rehearsal.stage import rehearse, rehearse_one
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec.killpath import LayerType
from killcheck.spec.phases import PHASES, Phase

NOW = datetime(2026, 1, 14, 12, 0, tzinfo=UTC)
#: The phases of which a rehearsal says nothing.
NODES = PHASES[PHASES.index(Phase.NODE_CORDONED) :]
#: The types of layers that are no program of their own.
NO_PROGRAM = {"scale-to-zero", "self-terminating", "spot-handler", "sentinel"}


def _ref(layer):
    ref = layer.cron_job or layer.workload
    return f"{ref.kind}/{ref.namespace}/{ref.name}" if ref else None


def _fired():
    """Every layer of a reference path that is a program in the cluster, and so is fired by a rehearsal."""
    for name in fixtures.names():
        for layer in Session(fixture=name).kill_path.layers:
            if _ref(layer) and layer.type.value not in NO_PROGRAM:
                yield pytest.param(name, layer.name, id=f"{name}:{layer.name}")


def _claim(seen, covered):
    """Whether a rehearsal says that all that a layer covers goes off; None: it says nothing of that."""
    first = seen.first
    if first.exit_code == 0 and not first.writes and not any(True for _ in first.refused) and not first.off:
        return None
    off = {(change.kind, change.namespace, change.name) for change in first.off}
    return {(t.kind, t.namespace, t.object) for t in covered} <= off and not first.unpulled


@pytest.mark.parametrize(("name", "layer"), list(_fired()))
@pytest.mark.one_in(6)
def test_a_drill_confirms_it(name, layer, tmp_path):
    session = Session(fixture=name)
    ref = _ref(session.kill_path.layer(layer))
    (program,) = [p for p in programs(session.objects) if p.ref == ref]
    seen = rehearse_one(session.objects, program, NOW)
    claimed = _claim(seen, session.kill_path.covered_by(session.kill_path.layer(layer)))
    if claimed is None:
        assert session.kill_path.layer(layer).type.value == "idle-monitor"
        return

    under = ("egress-denied",) if seen.first.outside else ()
    (drill,) = Run(session, [PlannedDrill(layer, under)], folder=tmp_path).execute().drills
    survived = str(drill.verdict) == "survived"  # a program is rehearsed alone: what covers it is not there
    assert claimed is survived, (seen.to_json(), drill.verdict, drill.cause)


ZOO = [pytest.param(case, part, id=f"{case.name}-{part}") for case in zoo.cases() for part in ("broken", "mended")]


@pytest.mark.parametrize(("case", "part"), ZOO)
@pytest.mark.weekly
def test_a_drill_confirms_it_of_the_zoo(case, part, tmp_path, monkeypatch):
    """Where it claims that all goes off, and lint has no other error, that is survived; where not, it is not.

    It claims nothing of nodes: a drill that is stuck once the pods are gone contradicts nothing.
    """
    monkeypatch.chdir(tmp_path)
    session = Session(manifests=case.files(part), exec_mode="host")
    rehearsed = rehearse(session.objects, NOW)
    world, _ = asking.world_of(session.objects, NOW, rehearsed=rehearsed)
    errors = [finding for finding in asking.lint(world).findings if finding.severity == "error"]
    for layer in session.kill_path.layers:
        seen = rehearsed.get(_ref(layer) or "")
        if layer.type is not LayerType.DEAD_MAN or seen is None or not seen.known:
            continue
        claimed = _claim(seen, session.kill_path.covered_by(layer))
        try:
            (drill,) = Run(session, [PlannedDrill(layer.name)], sinks=[]).execute().drills
        except ManifestError:  # a gate of its cluster's: what the API server refuses here is not drilled
            assert case.name == "hpa-relights"
            return
        wrong = {True: "exposed", False: "survived"}.get(claimed if not errors or not claimed else None)
        assert str(drill.verdict) != wrong or (claimed and drill.stuck_at in NODES), (
            seen.to_json(),
            drill.cause or drill.why,
        )


def test_every_other_layer_is_no_program():
    """Or it asks a market, which a rehearsal has not: tests/layers/test_markets.py drills those."""
    told = {param.id for param in _fired()}
    others = {
        f"{name}:{layer.name}": layer
        for name in fixtures.names()
        for path in [Session(fixture=name).kill_path]
        for layer in path.layers
        if f"{name}:{layer.name}" not in told and not any(target.machines for target in path.covered_by(layer))
    }
    assert {id_ for id_, layer in others.items() if layer.type.value not in NO_PROGRAM} == {
        "single-controller:daily-cycle",
        "single-controller:idle-monitor",
    }


@pytest.mark.parametrize("layer", ["daily-cycle", "idle-monitor"])
@pytest.mark.one_in(2)
def test_what_a_machine_runs_ends_there_as_in_its_drill(layer, tmp_path):
    """Its instances are counted by a program, so that a rehearsal says no more than how it ended."""
    session = Session(fixture="single-controller")
    folder = fixtures.path("single-controller")
    timer = {"daily-cycle": "Timer/yoyo-daily", "idle-monitor": "Timer/yoyo-idle-monitor"}[layer]
    seen = machines.rehearse([], [folder], NOW)[timer]
    (drill,) = Run(session, [PlannedDrill(layer, ())], folder=tmp_path).execute().drills
    assert (seen.first.exit_code == 0) is (str(drill.verdict) == "survived"), (seen.to_json(), drill.cause)


OFF = "kubectl -n gpu-lab scale deploy/asr deploy/tts --replicas=0"
MONITOR = """import json, os, ssl, time, urllib.request
SA = "/var/run/secrets/kubernetes.io/serviceaccount"
while True:
    time.sleep(300)
    for name in ("asr", "tts"):
        request = urllib.request.Request(
            f"https://kubernetes.default.svc/apis/apps/v1/namespaces/{os.environ['WHERE']}/deployments/{name}/scale",
            method="PATCH",
            data=json.dumps({"spec": {"replicas": 0}}).encode(),
            headers={"Authorization": "Bearer " + open(SA + "/token").read(), "Content-Type": "application/merge-patch+json"},
        )
        urllib.request.urlopen(request, context=ssl.create_default_context(cafile=SA + "/ca.crt"))
"""


def _drilled(folder, objects):
    """The claim of ``init --exec host`` of the only layer, and the verdict of its drill."""
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
    spec = folder / "killcheck.yaml"
    ended = CliRunner().invoke(main, ["init", "--manifests", str(folder), "--exec", "host", "-o", str(spec)])
    assert ended.exit_code == 0, ended.output
    session = Session(spec=spec, exec_mode="host")
    (layer,) = session.kill_path.layers
    (drill,) = Run(session, [PlannedDrill(layer.name, ())], folder=folder / "runs").execute().drills
    return "it turned off asr, tts" in spec.read_text(), drill


@pytest.mark.parametrize("where", ["gpu-lab", "elsewhere"])
def test_a_timer_beside_manifests(path, tmp_path, where):
    path.does("true")
    (tmp_path / "off.timer").write_text("[Timer]\nOnCalendar=daily\n")
    (tmp_path / "off.service").write_text(
        f"[Service]\nExecStart=/bin/sh -c '{OFF.replace('asr', 'asr' if where == 'gpu-lab' else 'ars')}'\n"
    )
    claimed, drill = _drilled(tmp_path, [obj for obj in path.objects() if obj["kind"] != "CronJob"])
    assert claimed is (where == "gpu-lab")
    assert claimed is (str(drill.verdict) == "survived"), (drill.verdict, drill.cause)


@pytest.mark.weekly
def test_an_operator(path, tmp_path):
    path.does("true")
    pod = path._cron_job()["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod = {key: value for key, value in pod.items() if key not in ("restartPolicy", "volumes")}
    pod["containers"] = [
        {
            "name": "main",
            "image": "python:3.12-slim",
            "command": ["python", "-c", MONITOR],
            "env": [{"name": "WHERE", "value": "gpu-lab"}, {"name": "IDLE_SECONDS", "value": "300"}],
        }
    ]
    operator = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "monitor", "namespace": "gpu-lab"},
        "spec": {
            "selector": {"matchLabels": {"app": "monitor"}},
            "template": {"metadata": {"labels": {"app": "monitor"}}, "spec": pod},
        },
    }
    path.extra = [operator]
    claimed, drill = _drilled(tmp_path, [obj for obj in path.objects() if obj["kind"] != "CronJob"])
    assert claimed
    assert str(drill.verdict) == "survived", (drill.verdict, drill.cause)
