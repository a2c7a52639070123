"""killcheck lint and init as a user runs them, and what lint asks of a live API."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from killcheck.fixtures.zoo import Case, cases

from killcheck import fixtures
from killcheck.cli import main
from killcheck.kube import manifests
from killcheck.kube.client import Answer, Kube, Transport
from killcheck.kube.listing import read
from killcheck.lint import asking
from killcheck.spec import specfile
from killcheck.spec.working_hours import Noticed
from killcheck.text.values import replace

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
FALSE_GREEN = fixtures.path("dead-man-false-green")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def case(name: str) -> Case:
    return next(case for case in cases() if case.name == name)


def files(one: Case, part: Any) -> list[str | Path]:
    return [word for file in one.files(part) for word in ("--manifests", file)]


# -- what is said, and how it ends -------------------------------------------------------------------------
def test_the_reference_kill_path_is_clean() -> None:
    result = run("lint", "--example", "dead-man", "--no-color")
    assert result.exit_code == 0, result.output
    assert "0 errors, 0 warnings" in result.output


def test_a_finding_is_shown_with_its_line_and_its_fix() -> None:
    result = run("lint", "--manifests", FALSE_GREEN, "--no-color")
    assert result.exit_code == 1
    assert "curl without -f" in result.output
    assert "[false-green:49]" in result.output
    assert "fix     Give curl -f" in result.output


def test_json_is_one_document_with_evidence() -> None:
    result = run("lint", "--manifests", FALSE_GREEN, "--json")
    document = json.loads(result.stdout)
    assert (document["schema"], document["verdict"]) == ("killcheck.result/v1", "exposed")
    finding = next(f for f in document["findings"] if f["probe"] == "false-green")
    assert finding["object"] == "CronJob/inference/gpu-nightly-off"
    assert finding["evidence"][0]["path"].startswith("spec.jobTemplate.spec.template.spec.containers[0].")
    assert "curl" in finding["evidence"][0]["value"]


@pytest.mark.parametrize(("severity", "code"), [("error", 0), ("warning", 1), ("note", 1)])
def test_fail_on(severity: str, code: int) -> None:
    result = run("lint", *files(case("no-limits"), "broken"), "--fail-on", severity)
    assert result.exit_code == code, result.output


def test_sarif_has_true_places_and_every_rule(tmp_path: Path) -> None:
    run("lint", "--manifests", FALSE_GREEN, "--sarif", tmp_path / "k.sarif")
    log = json.loads((tmp_path / "k.sarif").read_text())["runs"][0]
    rules = [rule["id"] for rule in log["tool"]["driver"]["rules"]]
    for result in log["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
    found = next(r for r in log["results"] if r["ruleId"] == "false-green")
    place = found["locations"][0]["physicalLocation"]
    lines = Path(place["artifactLocation"]["uri"].removeprefix("file://")).read_text().splitlines()
    assert lines[place["region"]["startLine"] - 1].strip().startswith("args:")


def test_github_annotations_are_escaped() -> None:
    result = run("lint", "--manifests", FALSE_GREEN, "--github")
    first = result.stdout.splitlines()[0]
    assert first.startswith("::error file=")
    assert "title=killcheck false-green::" in first
    assert "%0A" in first


def test_nothing_with_gpus_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    result = run("lint", "--manifests", tmp_path)
    assert result.exit_code == 2
    assert "nothing here asks for a GPU" in result.output


# -- living with a finding ---------------------------------------------------------------------------------
def test_a_baseline_hides_what_was_there_and_not_what_is_new(tmp_path: Path) -> None:
    known = tmp_path / "baseline.json"
    assert run("lint", "--manifests", FALSE_GREEN, "--baseline", known, "--write-baseline").exit_code == 0
    assert run("lint", "--manifests", FALSE_GREEN, "--baseline", known).exit_code == 0
    assert run("lint", *files(case("tag-dropped"), "broken"), "--baseline", known).exit_code == 1


def test_a_baseline_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("[]")
    result = run("lint", "--manifests", FALSE_GREEN, "--baseline", tmp_path / "b.json")
    assert result.exit_code == 2
    assert "not a baseline file of killcheck lint: expected what" in result.output


@pytest.mark.parametrize(
    ("note", "suppressed"),
    [
        ("suspended until 2026-02-01: the cluster moves", True),
        ("suspended until 2026-01-14: the cluster moved", False),
        ("suspended until 2026-02-01:", False),
        ("suspended: whatever", False),
        ("image-gone until 2026-02-01: another probe", False),
    ],
)
def test_an_annotation_suppresses_with_a_reason_until_a_day(note: str, suppressed: bool) -> None:
    objects = manifests.load(case("suspended").files("broken")).objects
    for obj in objects:
        if obj["kind"] == "CronJob":
            obj["metadata"]["annotations"] = {asking.ANNOTATION: note}
    world, _ = asking.world_of(objects, NOW)
    result = asking.lint(world)
    assert ("suspended" in {f.probe for f in result.suppressed}) is suppressed
    assert ("suspended" in {f.probe for f in result.findings}) is not suppressed


# -- init --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["dead-man", "self-terminating", "scale-to-zero", "kueue-quota"])
def test_init_writes_a_spec_that_loads(name: str, tmp_path: Path) -> None:
    result = run("init", "--manifests", fixtures.path(name), "-o", tmp_path / "killcheck.yaml")
    assert result.exit_code == 0, result.output
    found = specfile.load(tmp_path / "killcheck.yaml")
    assert found.targets
    assert found.layers
    again = run("init", "--manifests", fixtures.path(name), "-o", tmp_path / "killcheck.yaml")
    assert again.exit_code == 2
    assert "--force" in again.output


def test_init_wants_one_place_to_look() -> None:
    assert run("init").exit_code == 2


# -- a live API --------------------------------------------------------------------------------------------
class Counted(Transport):
    """A transport with ``pods`` GPU pods that counts requests; ``refused`` plurals answer 403."""

    def __init__(self, objects: list[dict[str, Any]], pods: int = 0, refused: tuple[str, ...] = ()) -> None:
        self.requests: list[str] = []
        self.refused = refused
        self.objects = objects
        self.pods = [
            {"metadata": {"name": f"p{i}", "namespace": "inference", "uid": f"u{i}"}, "spec": {"containers": []}}
            for i in range(pods)
        ]

    def request(self, method: str, path: str, query: Any, body: Any, headers: Any) -> Answer:
        assert method == "GET"
        self.requests.append(path)
        plural = path.rpartition("/")[2]
        if plural in self.refused:
            message = f"{plural} is forbidden"
            return Answer(403, {"kind": "Status", "reason": "Forbidden", "message": message, "code": 403})
        if plural == "pods":
            start = int(query.get("continue", 0))
            end = start + int(query["limit"])
            metadata = {"continue": str(end)} if end < len(self.pods) else {}
            return Answer(200, {"metadata": metadata, "items": self.pods[start:end]})
        items = [o for o in self.objects if o["kind"].lower() + "s" == plural]
        return Answer(200, {"metadata": {}, "items": items})

    def watch(self, *_: Any) -> Any:
        raise AssertionError("lint does not watch")


def live(transport: Counted) -> Any:
    listed = read(Kube(transport))
    world, notes = asking.world_of(listed.objects, NOW, live=True, unread=listed.unread, listed=listed.kinds)
    return asking.lint(world, notes=notes)


def reference() -> list[dict[str, Any]]:
    objects = manifests.load(fixtures.path("dead-man")).objects
    return [o | {"metadata": o["metadata"] | {"uid": str(i)}} for i, o in enumerate(objects)]


def test_requests_grow_with_pages_and_nothing_else() -> None:
    few, many = Counted(reference(), pods=10), Counted(reference(), pods=1200)
    live(few)
    live(many)
    assert len(many.requests) == len(few.requests) + 2
    assert [path for path in set(many.requests) if many.requests.count(path) > 1] == ["/api/v1/pods"]


def test_what_cannot_be_listed_is_unproven_and_not_silence() -> None:
    result = live(Counted(reference(), refused=("networkpolicies",)))
    open_questions = [f for f in result.findings if f.unproven and f.probe == "egress-blocked"]
    assert open_questions
    assert "networkpolicies is forbidden" in open_questions[0].message


def test_without_pods_there_is_no_answer_at_all() -> None:
    from killcheck.kube.errors import Forbidden

    with pytest.raises(Forbidden):
        live(Counted(reference(), refused=("pods",)))


def test_a_live_reference_kill_path_is_clean() -> None:
    result = live(Counted(reference()))
    assert [f for f in result.findings if f.severity != "note"] == []


@pytest.mark.parametrize("is_live", [True, False])
def test_what_the_spec_names_and_nobody_finds(is_live: bool) -> None:
    path = specfile.load(fixtures.spec("dead-man"))
    objects = [o for o in reference() if o["kind"] != "CronJob"]
    world, _ = asking.world_of(objects, NOW, kill_path=path, live=is_live, listed=["CronJob", "Deployment", "NodePool"])
    (found,) = [f for f in asking.lint(world).findings if f.probe == "spec-mismatch"]
    assert "CronJob/inference/gpu-nightly-off" in found.message
    assert found.unproven is not is_live


@pytest.mark.parametrize(
    ("hours", "expr", "said"),
    [
        ("Mon-Fri 09:00-17:00", "up == 0", "54 h after Sat 03:00 UTC"),
        ("Mon-Sun 09:00-17:00", "up == 0", ""),
        ("Mon-Fri 09:00-17:00", "DCGM_FI_DEV_GPU_UTIL < 5", ""),
        ("", "up == 0", ""),
    ],
)
def test_how_long_nobody_looks_is_told_where_no_alert_calls(hours: str, expr: str, said: str) -> None:
    path = replace(specfile.load(fixtures.spec("dead-man")), noticed=Noticed(hours) if hours else None)
    spec = {"groups": [{"rules": [{"alert": "A", "expr": expr}]}]}
    rule = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": {"name": "r"}, "spec": spec}
    world, _ = asking.world_of([*(o for o in reference() if o["kind"] != "PrometheusRule"), rule], NOW, kill_path=path)
    found = [f.message for f in asking.lint(world).findings if f.probe == "unnoticed"]
    assert len(found) == bool(said)
    assert said in "".join(found)


def test_an_executor_that_cannot_be_read_is_said() -> None:
    objects = manifests.load(case("tag-dropped").files("mended")).objects
    for obj in objects:
        if obj["kind"] == "CronJob":
            container = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
            container["command"] = ["/opt/curfew/run"]
    world, _ = asking.world_of(objects, NOW)
    assert [f for f in asking.lint(world).findings if f.probe == "not-understood" and f.unproven]


def test_no_probe_asks_for_secrets() -> None:
    transport = Counted(reference())
    live(transport)
    assert not [path for path in transport.requests if "secrets" in path]


@pytest.mark.parametrize(("ready", "down"), [(0, True), (1, False)])
def test_a_webhook_whose_pods_are_not_ready_is_down(ready: int, down: bool) -> None:
    hook = {
        "name": "pods.example.com",
        "failurePolicy": "Fail",
        "clientConfig": {"service": {"name": "hook", "namespace": "hooks"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }
    objects = [
        *reference(),
        {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "hooks"}, "webhooks": [hook]},
        {"kind": "Service", "metadata": {"name": "hook", "namespace": "hooks"}, "spec": {"selector": {"app": "hook"}}},
        {
            "kind": "Deployment",
            "metadata": {"name": "hook", "namespace": "hooks"},
            "status": {"readyReplicas": ready},
            "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "hook"}}, "spec": {"containers": []}}},
        },
    ]
    world, _ = asking.world_of(objects, NOW, live=True)
    found = [f.message for f in asking.lint(world).findings if f.probe == "webhook-down"]
    assert bool(found) is down
