"""Findings in the formats of others: SARIF as the standard has it, JUnit, annotations, baselines, suppressions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import jsonschema
import pytest
from click.testing import CliRunner, Result
from killcheck.probes import ALL, Finding, Probe, World

from killcheck import fixtures
from killcheck.cli import main
from killcheck.kube import manifests
from killcheck.lint import asking
from killcheck.reports import findings_junit
from killcheck.reports.sarif import document

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
#: The parts of SARIF 2.1.0 that are used, after the standard's sections 3.13 to 3.52; closed, so that a typo shows.
LEVEL = {"enum": ["none", "note", "warning", "error"]}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


def listed(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


TEXT = closed(["text"], text={"type": "string"})
RULE = closed(
    ["id"],
    id={"type": "string"},
    name={"type": "string"},
    shortDescription=TEXT,
    fullDescription=TEXT,
    help=TEXT,
    defaultConfiguration=closed([], level=LEVEL),
    properties={"type": "object"},
)
LOCATION = closed(
    [],
    physicalLocation=closed(
        ["artifactLocation"],
        region=closed(["startLine"], startLine={"type": "integer", "minimum": 1}),
        artifactLocation=closed(["uri"], uri={"type": "string", "format": "uri-reference", "pattern": r"^[^\s\\]+$"}),
    ),
    logicalLocations=listed(closed([], fullyQualifiedName={"type": "string"}, kind={"type": "string"})),
)
RESULT = closed(
    ["message", "ruleId"],
    ruleId={"type": "string"},
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    kind={"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
    message=TEXT,
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    locations=listed(LOCATION),
    baselineState={"enum": ["new", "unchanged", "updated", "absent"]},
    suppressions=listed(
        closed(
            ["kind"], kind={"enum": ["inSource", "external"]}, status={"enum": ["accepted", "underReview", "rejected"]}
        )
    ),
)
RESULT["if"] = {"properties": {"kind": {"not": {"const": "fail"}}}}
RESULT["then"] = {"properties": {"level": {"const": "none"}}}
DRIVER = closed(
    ["name"],
    name={"type": "string"},
    version={"type": "string"},
    semanticVersion={"type": "string"},
    rules=listed(RULE, uniqueItems=True),
)
RUN = closed(
    ["tool"],
    tool=closed(["driver"], driver=DRIVER),
    results=listed(RESULT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
)
SARIF = closed(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs=listed(RUN),
)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a kill path whose switch is falsely green, in a folder with a space in its name."""
    shutil.copytree(fixtures.path("dead-man-false-green"), tmp_path / "my deploy")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["lint", "--manifests", "my deploy", *arguments])


def sarif(*arguments: str) -> dict[str, Any]:
    run("--sarif", "out.sarif", *arguments)
    log = json.loads(Path("out.sarif").read_text())
    jsonschema.validate(log, SARIF, format_checker=jsonschema.FormatChecker())
    return log["runs"][0]  # type: ignore[no-any-return]


@pytest.mark.usefixtures("broken")
def test_sarif_is_valid_and_points_at_the_very_line() -> None:
    results = sarif()["results"]
    placed = [r["locations"][0]["physicalLocation"] for r in results if "physicalLocation" in r["locations"][0]]
    assert placed
    for place in placed:
        file = Path(unquote(place["artifactLocation"]["uri"]))
        assert not file.is_absolute()
        assert place["region"]["startLine"] <= len(file.read_text().splitlines())
    (green,) = [r for r in results if r["ruleId"] == "false-green"]
    place = green["locations"][0]["physicalLocation"]
    line = Path(unquote(place["artifactLocation"]["uri"])).read_text().splitlines()[place["region"]["startLine"] - 1]
    assert line.strip().startswith("args:")


@pytest.mark.usefixtures("broken")
def test_sarif_has_the_rules_of_probes_that_are_asked_by_option() -> None:
    class Extra(Probe):
        """Of an option."""

        id = "extra"
        claim = "Nothing is extra."
        remedy = "Take it away."
        failures = (1,)
        sources = ("nobody",)

        def ask(self, world: World) -> Iterable[Finding]:
            yield self.finding(world, world.targets[0][1], ("spec",), "is extra")

    world, _ = asking.world_of(manifests.load([Path("my deploy")]), NOW)
    log = document(asking.lint(world, probes=[Extra()]))
    jsonschema.validate(log, SARIF)
    (result,) = log["runs"][0]["results"]
    assert log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "extra"


@pytest.mark.usefixtures("broken")
def test_sarif_tells_new_from_known_and_suppressed() -> None:
    assert not [r for r in sarif()["results"] if "baselineState" in r]
    run("--baseline", "known.json", "--write-baseline")
    results = sarif("--baseline", "known.json")["results"]
    states = {r["ruleId"]: r["baselineState"] for r in results if r["kind"] == "fail"}
    assert states["false-green"] == "unchanged"
    file = next(Path("my deploy").glob("gpu-nightly-off.yaml"))
    text = file.read_text().replace(
        "kind: CronJob\nmetadata:\n",
        'kind: CronJob\nmetadata:\n  annotations: {killcheck.dev/ignore: "false-green until 2999-01-01: we know"}\n',
    )
    file.write_text(text)
    (green,) = [r for r in sarif()["results"] if r["ruleId"] == "false-green"]
    assert green["suppressions"] == [{"kind": "external", "status": "accepted"}]


@pytest.mark.usefixtures("broken")
def test_junit_has_a_case_for_every_probe() -> None:
    run("--junit", "out.xml")
    suite = ElementTree.parse("out.xml").getroot().find("testsuite")
    assert suite is not None
    cases = {case.get("name"): case for case in suite.findall("testcase")}
    assert set(cases) == {probe.id for probe in ALL}
    assert suite.get("tests") == str(len(ALL))
    failure = cases["false-green"].find("failure")
    assert failure is not None
    assert "my deploy/gpu-nightly-off.yaml:" in str(failure.get("message"))
    assert "remedy: Give curl -f" in str(failure.text)
    assert suite.get("failures") == str(sum(case.find("failure") is not None for case in cases.values()))


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("fail_on", "code"), [("error", 1), ("warning", 1), ("note", 1)])
def test_junit_fails_as_the_exit_code_does(fail_on: str, code: int) -> None:
    assert run("--junit", "out.xml", "--fail-on", fail_on).exit_code == code
    suite = ElementTree.parse("out.xml").getroot().find("testsuite")
    assert suite is not None
    assert int(suite.get("failures", "0")) >= 1


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("option", ["--junit", "--sarif"])
def test_a_report_that_cannot_be_written_is_wrong_usage(option: str) -> None:
    result = run(option, "nowhere/report")
    assert result.exit_code == 2
    assert "nowhere/report cannot be written: there is no folder nowhere" in result.output


def test_junit_never_passes_what_is_not_proven() -> None:
    objects = manifests.load(fixtures.path("dead-man")).objects
    world, _ = asking.world_of(objects, NOW, live=True, unread={"NetworkPolicy": "networkpolicies is forbidden"})
    suite = ElementTree.fromstring(findings_junit.junit(asking.lint(world), "error")).find("testsuite")
    assert suite is not None
    skipped = suite.find("testcase[@name='egress-blocked']/skipped")
    assert skipped is not None
    assert "networkpolicies is forbidden" in str(skipped.get("message"))
    assert int(suite.get("skipped", "0")) >= 1


@pytest.mark.usefixtures("broken")
def test_annotations_name_files_from_the_root_of_the_checkout() -> None:
    first = run("--github").stdout.splitlines()[0]
    assert first.startswith("::error file=my deploy/gpu-nightly-off.yaml,line=")


@pytest.mark.parametrize(("until", "silent"), [("2026-01-15", True), ("2026-01-14", False)])
@pytest.mark.parametrize("where", ["spec", "annotation"])
def test_a_suppression_that_has_expired_comes_back_and_says_so(where: str, until: str, silent: bool) -> None:
    from datetime import date

    from killcheck.spec.killpath import Suppression
    from killcheck.text.values import replace

    objects = manifests.load(fixtures.path("dead-man-false-green")).objects
    for obj in objects:
        if obj["kind"] == "CronJob" and where == "annotation":
            obj["metadata"]["annotations"] = {asking.ANNOTATION: f"false-green until {until}: it is being replaced"}
    world, _ = asking.world_of(objects, NOW)
    if where == "spec":
        entry = Suppression("false-green", "it is being replaced", date.fromisoformat(until), "CronJob/*")
        world.kill_path = replace(world.kill_path, suppress=(entry,))
    result = asking.lint(world)
    green = [f for f in result.findings if f.probe == "false-green"]
    assert (not green) is silent
    assert ("false-green" in {f.probe for f in result.suppressed}) is silent
    assert silent or f"a suppression of it ended on {until}" in green[0].message
    assert ("false-green" in {f.probe for f in result.at_or_above("error")}) is not silent
