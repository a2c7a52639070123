"""A drill on somebody's cluster ends when its verdict cannot change any more, and says the same as one that goes on."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import side_by_side as side
import yaml

from killcheck import faults
from killcheck.capabilities.offered import Capabilities
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.drill.sequence import Drill, Options
from killcheck.embedded.nodes.pod_worker import PodWorker
from killcheck.kube import resources as r
from killcheck.kube.objects import name_of
from killcheck.safety.journal import Journal
from killcheck.spec import specfile

#: What a spec of their own has to say of a night that comes once a year.
RESTS = "assume: [{kind: CronJob, namespace: killcheck-conformance, reason: by hand alone, until: 2099-12-31}]\n"
LONG_S = 1200.0


def somebodys(objects=(), exec_mode="host", program=""):
    """A cluster of this process, taken for somebody's: with none of its levers, on a virtual clock.

    ``program``: a shell's, in place of the switch's own.
    """
    *rest, switch = side.manifests("kubectl in a shell" if program else "")
    if program:
        switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", program]
    loaded = [*rest, switch, *side._nodes(), *objects]
    cluster = EmbeddedDrillCluster(loaded, exec_mode=exec_mode, start=datetime(2026, 1, 15, 12, tzinfo=UTC))
    cluster.real, cluster.name, cluster.capabilities = True, "embedded", Capabilities()
    cluster.loop.run_until(lambda: False, 60)
    return cluster


def spec(folder, *changes):
    text = side.SPEC.replace("proof: [P1]", "proof: [P1, P4]").replace("held: 3s", "held: 10m") + RESTS
    for old, new in changes:
        text = text.replace(old, new)
    path = folder / "killcheck.yaml"
    path.write_text(text)
    return specfile.load(path)


def drilled(kill_path, fault, options=None, objects=(), exec_mode="host", program=""):
    cluster = somebodys(objects, exec_mode, program)
    try:
        journal = Journal("20260115-030001-abcdef-0", cluster.loop, cluster.kube, capabilities=cluster.capabilities)
        kinds = [faults.named(fault)] if fault else []
        how = {"run": journal.run, "journal": journal, "price": lambda _: None, "options": options or Options()}
        return Drill(cluster, kill_path, kill_path.layers[0], kinds, **how).run()
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("fault", "within_s"),
    [
        ("image-gone", 5),
        ("registry-unreachable", 5),
        ("webhook-down", 5),
        ("no-room", 5),
        ("podsecurity", 5),
        ("suspended", 5),
        ("rolebinding-gone", 15),
        ("sidecar-not-ready", 46),
        ("command-missing", 15),
        ("rival-operator", 46),
        ("finalizer", 46),
    ],
)
@pytest.mark.one_in(2)
def test_it_says_the_same_as_when_it_is_watched_to_the_end(tmp_path, fault, within_s):
    kill_path = spec(tmp_path)
    soon, late = drilled(kill_path, fault), drilled(kill_path, fault, Options(horizon_s=LONG_S))
    said = [(*side.told(one).compared[:2], one.why) for one in (soon, late)]
    assert said[0] == said[1]
    assert soon.verdict == "exposed"
    assert soon.watched_s <= within_s < late.watched_s
    assert any("which is enough" in note for note in soon.notes)


SCALE = "kubectl scale deployment/render --replicas=0"


@pytest.mark.parametrize(
    ("fault", "program", "ends"),
    [
        ("rolebinding-gone", f"kubectl get deployment render; {SCALE}", True),
        ("rolebinding-gone", f"kubectl label configmap orders gpus=off; {SCALE}", False),  # another may obey, later
        ("", "kubectl annotate deployment/render off=yes; exit 1", False),
    ],
)
def test_a_job_that_failed_is_the_end_of_it_where_nothing_can_come_of_it_later(tmp_path, fault, program, ends):
    found = drilled(spec(tmp_path), fault, program=program)
    assert found.verdict == "exposed"
    assert (found.watched_s < 15) is ends


def test_a_second_starter_acts_while_it_must_hold_however_short_that_is(tmp_path):
    found = drilled(spec(tmp_path, ("held: 10m", "held: 20s")), "second-starter")
    assert found.verdict == "exposed", found.why
    assert "scaled back: a second starter" in found.cause
    assert found.watched_s < 46


@pytest.mark.parametrize("fault", ["", "rolebinding-gone"])
def test_an_executor_that_nobody_lets_run_is_told_at_once(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(PodWorker, "_has_machine", False)  # as on a hollow node of a real cluster
    monkeypatch.setattr(EmbeddedDrillCluster, "unknowns", lambda _self: [])  # where pods alone say it
    found = drilled(spec(tmp_path), fault, exec_mode="none")
    assert found.verdict == "inconclusive"
    assert "nobody allowed it to run on this host (--exec host)" in found.why
    assert found.watched_s < 5


def test_where_nobody_watches_whether_it_holds_a_second_starter_means_nothing(tmp_path):
    kill_path = spec(tmp_path, ("[P1, P4]", "[P1]"))
    found = drilled(kill_path, "second-starter")
    assert found.verdict == "inconclusive"
    assert "P4 is not to be proven" in found.why


def test_what_holds_is_watched_for_as_long_as_it_must_hold(tmp_path):
    found = drilled(spec(tmp_path), "")
    assert found.verdict == "survived", found.why
    assert found.watched_s >= 600


SECOND = """
- {name: later, type: dead-man, covers: [render], cronJob: {namespace: killcheck-conformance, name: later}}
nodes:"""


@pytest.mark.parametrize(("schedule", "verdict"), [("2 12 * * *", "covered"), ("0 15 * * *", "exposed")])
def test_another_layer_that_acts_in_time_is_waited_for(tmp_path, schedule, verdict):
    *_, cron_job = yaml.safe_load_all(side.MANIFESTS)
    cron_job["metadata"]["name"], cron_job["spec"]["schedule"] = "later", schedule
    kill_path = spec(tmp_path, ("\nnodes:", SECOND), ("podsGone: 45s", "podsGone: 5m"))
    found = drilled(kill_path, "image-gone", objects=[cron_job])
    assert found.verdict == verdict, found.why
    assert (found.watched_s < 5) is (verdict == "exposed")


def test_a_template_that_was_changed_leaves_no_revision_of_a_stateful_set(tmp_path):
    *rest, switch = side.manifests()
    for obj in rest:
        if obj["kind"] == "Deployment":
            obj["kind"] = "StatefulSet"
            del obj["spec"]["strategy"]
    cluster = side.EmbeddedDrillCluster(
        [*rest, switch, *side._nodes()], exec_mode="none", start=datetime(2026, 1, 15, 12, tzinfo=UTC)
    )
    cluster.real, cluster.name, cluster.capabilities = True, "embedded", Capabilities()
    try:
        cluster.loop.run_until(lambda: False, 60)
        before = [name_of(obj) for obj in cluster.kube.list(r.CONTROLLERREVISIONS).items]
        kill_path = spec(tmp_path, ("kind: Deployment", "kind: StatefulSet"))
        assert side.drill(cluster, kill_path, "long-grace").left == ()
        assert [name_of(obj) for obj in cluster.kube.list(r.CONTROLLERREVISIONS).items] == before
    finally:
        cluster.close()
