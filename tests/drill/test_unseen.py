"""What nobody saw proves nothing: a watch that died in silence or with a gap, a target that was not on, a clock set."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest

from killcheck import clock, events, faults, fixtures
from killcheck.clock import WallLoop
from killcheck.drill.progress import Progress
from killcheck.drill.sequence import Drill, Options
from killcheck.kube import resources as r
from killcheck.kube.errors import Expired
from killcheck.kube.informer import Informer
from killcheck.run.session import Session
from killcheck.safety.journal import Journal
from killcheck.spec.phases import PHASES
from killcheck.watch.cost import Meter
from killcheck.watch.scene import Scene
from killcheck.watch.timeline import Timeline

SECOND = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: embedder, namespace: inference}
spec:
  replicas: 1
  selector: {matchLabels: {app: embedder}}
  template:
    metadata: {labels: {app: embedder}}
    spec:
      nodeSelector: {no-such: node}
      containers:
        - {name: embedder, image: vllm/vllm-openai:v0.11.0, resources: {limits: {nvidia.com/gpu: 1}}}
"""


def test_a_target_of_which_no_pod_is_on_is_not_proven_to_go_off(drill, tmp_path):
    folder = tmp_path / "deploy"
    shutil.copytree(fixtures.path("dead-man"), folder)
    (folder / "second.yaml").write_text(SECOND)
    spec = folder / "killcheck.yaml"
    text = spec.read_text().replace("covers: [vllm]", "covers: [vllm, embedder]")
    one = "  - name: vllm\n"
    assert one in text
    spec.write_text(
        text.replace(one, "  - {name: embedder, kind: Deployment, namespace: inference, object: embedder}\n" + one, 1)
    )
    session = Session(spec=spec, manifests=[folder], exec_mode="host")
    result = drill(session=session, options=Options(steady_timeout_s=600)).only
    assert str(result.verdict) == "inconclusive"
    assert "0 of 1 GPU pods of Deployment/inference/embedder run: pod embedder-" in result.why


def test_a_watch_that_died_without_a_word_proves_no_zero(drill, monkeypatch):
    """From the moment that the pods are gone nothing more is heard of pods; one comes back."""
    deaf = []
    hear = Informer._event

    def event(self, happened):
        if self not in deaf:
            hear(self, happened)

    monkeypatch.setattr(Informer, "_event", event)
    held = Progress._held

    def relit(self, now, wake_in):
        if not deaf and "node_gone" in self.timeline.reached:
            deaf.extend(self.scene._informers.values())
            self.scene.cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 1}}, "inference")
        held(self, now, wake_in)

    monkeypatch.setattr(Progress, "_held", relit)
    result = drill().only
    assert str(result.verdict) == "inconclusive"
    assert "the watch has not shown what a list made now has: GPU pod inference/vllm" in result.why


def _after_the_verdict_is_due(monkeypatch, happens):
    """When everything is proven and zero is about to be listed once more."""
    overlooked, happened = Scene.overlooked, []

    def listed(self):
        if not happened:
            happened.append(self)
            happens(self)
        return overlooked(self)

    monkeypatch.setattr(Scene, "overlooked", listed)


def _deaf(monkeypatch):
    """Of the informers in the answer those of nodes hear nothing any more, and those of pods only of new ones.

    Its second part tells them what they missed.
    """
    missed, on = [], []
    hear = Informer._event

    def event(self, happened):
        if self in on and (self.resource is r.NODES or happened.type != "ADDED"):
            missed.append((self, happened))
        else:
            hear(self, happened)

    monkeypatch.setattr(Informer, "_event", event)

    def catch_up():
        on.clear()
        for informer, happened in missed:
            hear(informer, happened)

    return on, catch_up


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("never", "the watch has not shown what a list made now has: GPU pod inference/stray"),
        ("late", "the watch showed too late what was on before zero had been proven: GPU pod inference/stray"),
    ],
)
def test_a_pod_that_was_seen_waiting_is_not_seen_where_it_runs(drill, monkeypatch, told, words):
    """The watch has shown that it is there, and not that it has been given to a node."""
    on, catch_up = _deaf(monkeypatch)
    held = Progress._held

    def stray(self, now, wake_in):
        kube = self.scene.cluster.kube
        if "node_gone" in self.timeline.reached and not on:
            on.extend((self.scene.pods, self.scene.nodes))
            template = kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["template"]
            kube.create(
                r.PODS,
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "stray", "namespace": "inference"},
                    "spec": template["spec"],
                },
                "inference",
            )
        held(self, now, wake_in)

    monkeypatch.setattr(Progress, "_held", stray)
    if told == "late":
        _after_the_verdict_is_due(monkeypatch, lambda scene: scene.cluster.loop.call_later(3.0, catch_up))
    result = drill().only
    assert str(result.verdict) == "inconclusive"
    assert words in result.why


def test_what_began_after_everything_was_proven_is_no_part_of_the_proof(drill, monkeypatch):
    """A live watch shows it a moment later than a list does."""
    on, catch_up = _deaf(monkeypatch)

    def relight(scene):
        on.extend((scene.pods, scene.nodes))
        scene.cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 1}}, "inference")
        scene.cluster.loop.run_until(lambda: False, 300.0)
        assert not scene.gpu_pods()
        scene.cluster.loop.call_later(3.0, catch_up)

    _after_the_verdict_is_due(monkeypatch, relight)
    assert str(drill().only.verdict) == "survived"


@pytest.mark.parametrize("watched_s", [None, 1000.0])
def test_what_came_and_went_in_a_gap_was_not_seen_to_hold(drill, monkeypatch, watched_s):
    """The pods' watch begins anew ten minutes after all was off: it holds from then on, or nothing is proven."""
    cut = []
    held = Progress._held

    def gap(self, now, wake_in):
        gone = self.timeline.reached.get("node_gone")
        if gone and not cut:
            cut.append(gone.observed)
            self.scene.cluster.loop.call_later(600.0, self.scene.pods._ended, Expired(410, {"reason": "Expired"}))
        held(self, now, wake_in)

    monkeypatch.setattr(Progress, "_held", gap)
    drilled = drill(options=Options(horizon_s=watched_s))
    if watched_s is None:
        assert str(drilled.only.verdict) == "survived"
        (told,) = (e for e in drilled.of(events.PhaseReached) if e.phase == "held")
        assert told.at - cut[0] >= timedelta(seconds=600 + 900)
    else:
        assert str(drilled.only.verdict) == "inconclusive"
        assert "the watch was interrupted until" in drilled.only.why


def test_the_cloud_is_asked_about_every_machine_that_came_since_the_trigger():
    """A node made anew under its old name is another machine; so is one that came and went in the middle."""
    session = Session(fixture="dead-man", exec_mode="none")
    with session.cluster() as (cluster, kill_path):
        scene = Scene(cluster, kill_path, lambda change, old, new: None).open()
        cluster.loop.run_until(lambda: bool(scene.known_nodes), 900)
        (node,) = scene.pool_nodes()
        layer = kill_path.layers[0]
        timeline = Timeline(cluster.loop.now(), PHASES, {})
        progress = Progress(scene, kill_path, layer, timeline, hold_s=1, meter=Meter(lambda kind: None, {}))
        again = {**node, "spec": {**node["spec"], "providerID": "aws:///us-east-1a/i-0again"}}
        progress.node_changed("deleted", node, cluster.loop.now())
        progress.node_changed("added", again, cluster.loop.now())
        progress.node_changed("deleted", again, cluster.loop.now())
        assert {str(n["spec"]["providerID"]) for n in progress._machines.values()} == {
            node["spec"]["providerID"],
            "aws:///us-east-1a/i-0again",
        }
        scene.close()


def test_a_clock_that_is_set_back_does_not_make_what_is_late_look_in_time(monkeypatch):
    loop = WallLoop()
    before = loop.now()
    monkeypatch.setattr(clock, "wall_now", lambda: before - timedelta(hours=1))
    assert loop.now() >= before


def test_a_disk_that_is_full_while_it_heals_leaves_nothing_behind(drill):
    """Every event from the first undo on fails to be written; what was changed is put back all the same."""
    said = []

    def full(event):
        said.append(event)
        if isinstance(event, events.Judged):
            full.on = True
        if full.on:
            raise OSError(28, "No space left on device")

    full.on = False
    session = Session(fixture="dead-man")
    with session.cluster() as (cluster, kill_path):
        journal = Journal("r", cluster.loop, cluster.kube, capabilities=cluster.capabilities)
        one = Drill(
            cluster,
            kill_path,
            kill_path.layers[0],
            [faults.named("suspended")],
            run="r",
            journal=journal,
            sink=full,
            options=Options(horizon_s=600),
        )
        with pytest.raises(OSError, match="No space left"):
            one.run()
        assert journal.entries
        assert not journal.open
