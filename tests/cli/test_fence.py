"""``killcheck fence`` as a user runs it."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main


def fence(*argv):
    return CliRunner().invoke(main, ["fence", "--no-color", *argv])


def test_the_reference_paths_pool_is_within_its_ceiling():
    done = fence("--example", "dead-man", "--json")
    document = json.loads(done.stdout)
    assert done.exit_code == 0, done.output
    assert {"pool", "verdict", "worst_instance", "max_devices_per_node", "max_usd_per_hour", "door", "remedy"} <= set(
        document["fences"][0]
    )


@pytest.mark.parametrize(("ceiling", "code"), [(["--max-devices", "8"], 0), (["--max-devices", "4"], 1), ([], 3)])
def test_the_ceiling_decides(ceiling, code):
    done = fence("--manifests", str(fixtures.path("dead-man")), *ceiling)
    assert done.exit_code == code, done.output
    assert "g6e.48xlarge" in done.output


def test_a_hole_is_named_with_what_closes_it():
    text = " ".join(fence("--manifests", str(fixtures.path("dead-man")), "--max-devices", "4").output.split())
    assert "remedy" in text
    assert "NodePool/gpu" in text


def test_the_spec_bounds_all_devices_forbids_types_and_brings_its_own_prices(tmp_path):
    folder = fixtures.path("dead-man")
    (tmp_path / "ours.csv").write_text("instance_type,usd_per_hour\np4d.24xlarge,9.5\n")
    text = (folder / "killcheck.yaml").read_text()

    def with_fences(fences, more=""):
        spec = tmp_path / "killcheck.yaml"
        spec.write_text(text[: text.index("fences:")] + f"fences: {fences}\n{more}")
        done = fence(str(spec), "--manifests", str(folder), "--json")
        return done.exit_code, json.loads(done.stdout)["fences"][0]

    assert with_fences("{maxDevicesPerNode: 8, forbiddenTypes: [p4d.*]}")[0] == 1
    assert with_fences("{maxDevices: 15}")[0] == 3, "sixteen while one node replaces another"
    assert with_fences("{maxDevices: 16}")[0] == 0
    code, listed = with_fences("{maxUsdPerHour: 100}")
    assert (code, listed["usd_per_node"]) == (0, 30.13118)
    code, ours = with_fences("{maxUsdPerHour: 25, catalogues: [ours.csv]}", "prices: {g6e.48xlarge: 10.0}\n")
    assert (code, ours["usd_per_node"]) == (0, 10.0)


def test_machines_of_eksctls_configuration_are_a_door(tmp_path):
    """No API server keeps it, and drills pass it over: it says which machines a cluster has all the same."""
    folder = shutil.copytree(fixtures.path("dead-man"), tmp_path / "path")
    group = "managedNodeGroups: [{name: big, instanceTypes: [p5.48xlarge], maxSize: 4}]\n"
    head = "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: dev, region: us-east-1}\n"
    (folder / "cluster.yaml").write_text(head + group)
    for place in (("--manifests", str(folder)), (str(folder / "killcheck.yaml"),)):
        done = fence(*place, *(("--max-usd", "61") if place[0] == "--manifests" else ()))
        assert (done.exit_code, "EKSNodegroup/big" in done.output) == (1, True), done.output


def test_a_catalogue_that_cannot_be_used_says_file_and_line(tmp_path):
    wrong = tmp_path / "ours.csv"
    wrong.write_text("instance_type,usd_per_hour\np5.48xlarge,31\np9.96xlarge,190\n")
    done = fence("--example", "dead-man", "--max-devices", "8", "--catalogue", str(wrong))
    assert done.exit_code == 2
    assert "ours.csv:3: p9.96xlarge is not in the catalogue: say its vcpu, memory_mib, device_count" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--live",), "name the cluster"),
        (("--ask", "3"), "--ask is for --live"),
        (("--eks", "dev"), "--eks is for --aws"),
        (("--on", "x", "--manifests", "."), "name one"),
        (("--max-devices", "-1"), "not in the range"),
    ],
)
def test_what_does_not_fit_together_is_said(argv, says):
    done = fence(*argv)
    assert done.exit_code == 2
    assert says in done.stderr


def test_an_account_that_cannot_be_asked_is_one_sentence(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    done = fence("--example", "dead-man", "--aws", "--region", "us-east-1")
    assert done.exit_code == 2
    assert "AWS could not be asked" in done.stderr
