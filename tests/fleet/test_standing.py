"""How a fleet stands: what its shards' records say, of what is in hand, and what was never drilled."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main
from killcheck.clock import wall_now
from killcheck.fleet.file import load
from killcheck.fleet.standing import fresh
from killcheck.kube.objects import format_time
from killcheck.run.chain import Chain
from killcheck.run.chosen import chosen
from killcheck.run.combinations import Found, Scenario
from killcheck.run.explored import Kept
from killcheck.run.subjects import of_spec

#: Seconds ago.
AGES = {"now": 60.0, "yesterday": 86400.0, "long ago": 40 * 86400.0}


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A fleet of one kill path on three clusters. Returns its file."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    spec = yaml.safe_load((fixtures.path("dead-man") / "killcheck.yaml").read_text())
    spec |= {"name": "llm", "consent": {**spec["consent"], "contexts": ["a", "b", "c"]}}
    (tmp_path / "llm.yaml").write_text(yaml.safe_dump(spec))
    fleet = {
        "apiVersion": "killcheck/v1",
        "kind": "Fleet",
        "name": "f",
        "atOnce": 1,
        "results": "results",
        "clusters": [{"name": name, "context": name} for name in "abc"],
        "paths": [{"spec": "llm.yaml"}],
    }
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    return tmp_path / "fleet.yaml"


def drilled(file, cluster, verdict="survived", *, ago="now", ends=True, sealed=True):
    """Leave a run's record where a shard's drill leaves it."""
    at = format_time(wall_now().fromtimestamp(wall_now().timestamp() - AGES[ago], tz=wall_now().tzinfo))
    spec, run = of_spec(file.parent / "llm.yaml"), f"run-{cluster}-{ago.replace(' ', '-')}"
    exposed = {"usd": 7.0, "usd_until_next_chance": 50.0, "cause": "403"} if verdict == "exposed" else {}
    result = {"layer": "off", "faults": [], "verdict": verdict, "problems": [], **exposed}
    drill = {"drill": "off", "layer": "off", "layer_type": "dead-man", "faults": [], "deadlines": {}, "proof": []}
    head = {
        "run": run,
        "version": "0",
        "cluster": cluster,
        "real": True,
        "kill_path": "llm",
        "drills": [{"layer": "off", "faults": []}],
    }
    told = [
        {"event": "RunStarted", "at": at, **head},
        {"event": "Subjects", "at": at, "spec": spec},
        {"event": "DrillStarted", "at": at, **drill},
        {"event": "DrillFinished", "at": at, "drill": "off", "result": result},
        *([{"event": "RunFinished", "at": at, "verdict": verdict, "exit_code": 0}] if ends else []),
    ]
    chain, folder = Chain(), file.parent / f"results/{cluster}.llm/.killcheck/runs/{run}"
    folder.mkdir(parents=True)
    lines = [json.dumps(one, separators=(",", ":")) for one in told]
    lines = [chain.add(one, last=sealed and "RunFinished" in one) for one in lines]
    (folder / "run.jsonl").write_text("\n".join(lines) + "\n")


def reported(file, *more):
    done = CliRunner().invoke(main, ["fleet", "report", str(file), "--json", *more])
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.exit_code
    return done.exit_code, {one["cluster"]: one["stand"] for one in document["shards"]}, document


SEARCHES = {
    "nothing kept": ({}, "never drilled", 3),
    "all tried": ({(): "survived", ("suspended",): "survived"}, "explored", 0),
    "some left": ({(): "survived"}, "inconclusive", 3),
    "one exposes": ({(): "survived", ("suspended",): "exposed"}, "exposed", 1),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_the_parts_of_a_search_stand_as_one(world, name):
    kept, word, code = SEARCHES[name]
    shutil.copytree(fixtures.path("dead-man"), world.parent / "deploy")
    path = {"spec": "deploy/killcheck.yaml", "under": ["suspended"], "explore": {"maxFaults": 1}, "shards": 2}
    clusters = [{"name": "desk", "context": "embedded"}]
    fleet = {**yaml.safe_load(world.read_text()), "clusters": clusters, "paths": [path]}
    world.write_text(yaml.safe_dump(fleet))
    one = load(world)
    for number, (names, verdict) in enumerate(kept.items()):
        folder = world.parent / "results" / one.shards[number % 2].key
        folder.mkdir(parents=True)
        with Kept.of(folder / "tree.jsonl", chosen(spec=one.shards[0].spec, on="embedded")) as tree:
            tree(Found(Scenario("nightly-off", names), verdict, "it said so"))
    found, stands, document = reported(world)
    assert (found, stands) == (code, {"desk": word})
    assert len(document["shards"]) == 1
    page = CliRunner().invoke(main, ["fleet", "report", str(world)]).output
    assert ("nightly-off under suspended: it said so" in page) is (word == "exposed")


def test_each_stands_as_its_records_say(world):
    drilled(world, "a")
    drilled(world, "b", "exposed")
    code, stands, document = reported(world)
    assert (code, stands) == (1, {"a": "proven", "b": "exposed", "c": "never drilled"})
    assert (document["at_risk_usd"], document["shards"][0]["cells"][0]["cause"]) == (50.0, "403")
    assert [one["cluster"] for one in document["shards"]] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("how", "stand"),
    [
        ({"ago": "long ago"}, "stale"),
        ({"ends": False}, "inconclusive"),
        ({"sealed": False}, "inconclusive"),
        ({"verdict": "inconclusive"}, "inconclusive"),
    ],
)
def test_what_is_not_proven_now_keeps_the_fleet_from_it(world, how, stand):
    for cluster in "ab":
        drilled(world, cluster)
    drilled(world, "c", **how)
    assert reported(world)[:2] == (3, {"a": "proven", "b": "proven", "c": stand})


def test_all_of_it_is_proven_until_somebody_edits_the_spec(world, tmp_path):
    for cluster in "abc":
        drilled(world, cluster, ago="yesterday")
    assert reported(world)[:2] == (0, dict.fromkeys("abc", "proven"))
    spec = tmp_path / "llm.yaml"
    spec.write_text(spec.read_text().replace("podsGone: 5m", "podsGone: 6m"))
    code, stands, document = reported(world)
    assert (code, stands) == (3, dict.fromkeys("abc", "stale"))
    assert all(one["changed"] for one in document["shards"])
    done = CliRunner().invoke(main, ["fleet", "report", str(world), "--html", str(tmp_path / "fleet.html")])
    assert "what is in hand is not what was drilled" in done.stdout
    assert "what is in hand is not what was drilled" in (tmp_path / "fleet.html").read_text()


def test_only_what_ended_lately_and_is_in_hand_is_not_drilled_again(world):
    fleet, now = load(world), wall_now().timestamp()
    shards = {one.cluster: one for one in fleet.shards}

    def due(cluster):
        return fresh(fleet, shards[cluster], now, 43200.0) is None

    assert all(map(due, "abc"))
    drilled(world, "a", "exposed")
    drilled(world, "b", ago="yesterday")
    drilled(world, "c", ends=False)
    assert [due(cluster) for cluster in "abc"] == [False, True, True]
    drilled(world, "c", ago="yesterday", sealed=False)
    assert due("c")
    spec = world.parent / "llm.yaml"
    spec.write_text(spec.read_text().replace("podsGone: 5m", "podsGone: 6m"))
    assert due("a")
