"""``fleet.yaml``: what it names becomes drills, and what is wrong in it is said with its line."""

from __future__ import annotations

import re

import click
import pytest
import yaml
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main
from killcheck.commands.matrix import _part
from killcheck.fleet import job
from killcheck.fleet.file import load
from killcheck.spec.specfile import SpecError

HEAD = {"apiVersion": "killcheck/v1", "kind": "Fleet", "name": "platform", "atOnce": 2, "results": "s3://proofs/gpu"}
CLUSTERS = [
    {"name": "eu", "context": "staging-eu", "secret": "eu-kubeconfig", "labels": {"env": "staging"}},
    {"name": "us", "context": "staging-us", "kubeconfig": "us.config", "labels": {"env": "staging"}},
    {"name": "own", "context": "embedded", "labels": {"env": "desk"}},
]
PATHS = [
    {"spec": "one/killcheck.yaml", "clusters": {"env": "staging"}, "under": ["suspended"]},
    {"spec": "two/killcheck.yaml", "clusters": {"env": "desk"}, "exec": "host", "matrix": True, "shards": 3},
]


def written(folder, **changes):
    """A fleet of two kill paths in a folder; ``changes``: of its fields."""
    for name in ("one", "two"):
        spec = yaml.safe_load((fixtures.path("dead-man") / "killcheck.yaml").read_text())
        spec |= {"name": name, "consent": {**spec["consent"], "contexts": ["staging-eu", "staging-us"]}}
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "killcheck.yaml").write_text(yaml.safe_dump(spec))
    (folder / "fleet.yaml").write_text(yaml.safe_dump({**HEAD, "clusters": CLUSTERS, "paths": PATHS, **changes}))
    return folder / "fleet.yaml"


def test_each_kill_path_on_each_cluster_with_its_labels_is_a_shard(tmp_path):
    fleet = load(written(tmp_path))
    keys = [re.sub(r"\.[0-9a-f]{6}", "", one.key) for one in fleet.shards]
    assert keys == ["eu.one", "us.one", "own.two.1-of-3", "own.two.2-of-3", "own.two.3-of-3"]
    one, two = f"{tmp_path}/one/killcheck.yaml", f"{tmp_path}/two/killcheck.yaml"
    assert fleet.shards[0].words() == ["drill", one, "--quiet", "--on", "staging-eu", "--yes", "--under", "suspended"]
    assert fleet.shards[3].words() == ["drill", two, "--quiet", "--exec", "host", "--matrix", "--shard", "2/3"]


def test_a_search_is_cut_into_shards_too(tmp_path):
    search = {"spec": "two/killcheck.yaml", "clusters": {"env": "desk"}, "explore": {"maxFaults": 3}, "shards": 2}
    fleet = load(written(tmp_path, paths=[search], results="results"))
    words = ["explore", f"{tmp_path}/two/killcheck.yaml", "--quiet", "--max-faults", "3", "--budget", "500"]
    more = ["--tree", "tree.jsonl", "--json", "--shard"]
    assert [one.words() for one in fleet.shards] == [[*words, *more, f"{part}/2"] for part in (1, 2)]
    with pytest.raises(SpecError, match="let results be one"):
        load(written(tmp_path, paths=[search]))
    with pytest.raises(SpecError, match="a matrix or a search"):
        load(written(tmp_path, paths=[{**search, "matrix": True}], results="results"))
    with pytest.raises(SpecError, match="combined on embedded clusters"):
        load(written(tmp_path, paths=[{**search, "clusters": {"env": "staging"}, "shards": 1}], results="results"))


def test_other_drills_of_a_kill_path_have_results_of_their_own(tmp_path):
    """What was proven without a fault proves nothing of one that is added."""
    ways = [{}, {"under": ["suspended"]}, {"under": ["image-gone"]}, {"matrix": True}, {"layers": ["nightly-off"]}]
    fleet = load(written(tmp_path, paths=[{**PATHS[0], "under": [], **more} for more in ways]))
    assert len({fleet.place(one) for one in fleet.shards}) == 2 * len(ways)
    again = load(written(tmp_path, paths=[{**PATHS[0], "under": [], **more} for more in reversed(ways)]))
    assert {one.key for one in again.shards} == {one.key for one in fleet.shards}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"atOnce": 0}, "atOnce: expected 1 or more, found 0"),
        ({"atOnce": "two"}, "atOnce: expected a whole number, found 'two'"),
        ({"clusters": []}, "clusters: expected at least one entry, found an empty list"),
        ({"clusters": {"eu": 1}}, "clusters: expected a list, found a mapping"),
        ({"path": []}, "path: unknown field; did you mean paths?"),
        ({"paths": [{**PATHS[0], "layer": ["a"]}]}, "paths[0].layer: unknown field; did you mean layers?"),
        ({"name": "../x"}, "name: expected a name of lower-case letters, digits and '-', found '../x'"),
        ({"paths": [{"spec": "one/killcheck.yaml", "clusters": {"env": "prod"}}]}, "no cluster has these labels"),
        (
            {"paths": [{"spec": "one/killcheck.yaml", "matrix": True, "shards": 2}]},
            "on a real one drills take turns",
        ),
        ({"paths": [PATHS[0], PATHS[0]]}, "is named twice for"),
        (
            {"clusters": [{"name": "prod", "context": "prod", "labels": {"env": "staging"}}]},
            "gives no consent for prod",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path, changes, words):
    file = written(tmp_path, **changes)
    with pytest.raises(SpecError, match=re.escape(words)):
        load(file)
    done = CliRunner().invoke(main, ["fleet", "plan", str(file)])
    assert (done.exit_code, "fleet.yaml" in done.output) == (2, True)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_the_parts_of_a_matrix_are_the_whole(parts):
    cells = [object() for _ in range(7)]
    found = [_part(cells, f"{part}/{parts}") for part in range(1, parts + 1)]
    assert {one for part in found for one in part} == set(cells)
    assert sum(map(len, found)) == len(cells)
    assert max(map(len, found)) - min(map(len, found)) <= 1


@pytest.mark.parametrize("wrong", ["0/2", "3/2", "a/b", "2", "", "8/8", "1/-1", "²/3"])
def test_a_part_that_there_is_not_is_wrong_usage(wrong):
    with pytest.raises(click.UsageError, match="--shard"):
        _part([object() for _ in range(7)], wrong)


def test_a_job_gets_what_lies_below_the_fleet_and_nothing_else(tmp_path):
    fleet = load(written(tmp_path))
    # What its drills read here they read there: of an embedded cluster all that lies beside the spec, YAML or not.
    for name in ("off.json", "groups.tf", "overlay/kustomization.yaml", ".killcheck/runs/r/run.jsonl"):
        (tmp_path / "two" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "two" / name).write_text("{}")
    (tmp_path / "two" / "image.bin").write_bytes(b"\xff\xfe")
    (tmp_path / "one" / "off.yaml").write_text("{}")  # its clusters are real: they hold their own objects
    made = {one["kind"]: one for one in job.manifests(fleet, namespace="ops", image="i")}
    items = made["Job"]["spec"]["template"]["spec"]["volumes"][0]["configMap"]["items"]
    beside = {f"two/{name}" for name in ("groups.tf", "image.bin", "killcheck.yaml", "off.json")}
    paths = {one["path"]: one["key"] for one in items}
    assert set(paths) == {"fleet.yaml", "one/killcheck.yaml", "two/overlay/kustomization.yaml", *beside}
    assert set(paths.values()) == {*made["ConfigMap"]["data"], *made["ConfigMap"]["binaryData"]}
    assert list(made["ConfigMap"]["binaryData"]) == [paths["two/image.bin"]]
    (tmp_path / "two" / "link.yaml").symlink_to("/etc/hostname")
    with pytest.raises(job.JobError, match=r"link\.yaml lies outside of"):
        job.manifests(fleet, namespace="ops", image="i")
    (tmp_path / "two" / "link.yaml").unlink()
    outside = tmp_path / "below"
    outside.mkdir()
    (outside / "fleet.yaml").write_text((tmp_path / "fleet.yaml").read_text().replace("spec: ", "spec: ../"))
    with pytest.raises(job.JobError, match="lies outside of"):
        job.manifests(load(outside / "fleet.yaml"), namespace="ops", image="i")
    with pytest.raises(job.JobError, match="give --pvc"):
        job.manifests(load(written(tmp_path, results="here")), namespace="ops", image="i")
