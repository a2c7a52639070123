"""What other programs read: each output against what its consumer expects."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from xml.etree import ElementTree

import jsonschema
import pytest
from click.testing import CliRunner
from report_worlds import FENCE, FINDING, record, result, story

from killcheck import events
from killcheck.cli import main
from killcheck.reports import allure, sarif_drills
from killcheck.reports.document import SCHEMAS, document, schema
from killcheck.reports.html import html
from killcheck.reports.junit import junit
from killcheck.reports.post import PostError, post, push
from killcheck.reports.prometheus import LAST_SUCCESS, carry_over, grouping, prometheus
from killcheck.reports.story import tell
from killcheck.reports.summary import markdown, slack
from killcheck.text.values import replace

WHOLE = [result(), result(faults=["image-gone"], verdict="exposed")]


def saved(path, told):
    path.write_text("".join(json.dumps(event.to_json()) + "\n" for event in told))
    return path


@pytest.fixture
def server():
    """An HTTP server on loopback that keeps what it is sent and answers from a list (default: 200)."""
    got, answers = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers["Content-Type"], body))
            self.send_response(answers.pop(0) if answers else 200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"no go")

        def log_message(self, *args):
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}", got, answers
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_published_schemas_are_schemas(name):
    jsonschema.Draft202012Validator.check_schema(schema(name))


def test_the_document_fits_its_schema_also_of_a_run_cut_short():
    check = jsonschema.Draft202012Validator(schema("result"))
    told = record(WHOLE, findings=[FINDING], fences=[FENCE], exit_code=1)
    check.validate(document(tell(told)))
    cut = document(tell(told[:9]))
    check.validate(cut)
    assert [d["verdict"] for d in cut["drills"]] == ["survived", "inconclusive"]
    assert cut["verdict"] == "unfinished"


def test_a_drill_without_its_verdict_does_not_fit_the_schema():
    made = deepcopy(document(story(WHOLE)))
    del made["drills"][0]["verdict"]
    with pytest.raises(jsonschema.ValidationError, match="verdict"):
        jsonschema.Draft202012Validator(schema("result")).validate(made)


def test_every_line_of_a_record_fits_the_record_schema():
    check = jsonschema.Draft202012Validator(schema("record"))
    for event in record(WHOLE, findings=[FINDING], fences=[FENCE]):
        check.validate(json.loads(json.dumps(event.to_json())))
    with pytest.raises(jsonschema.ValidationError):
        check.validate({"event": "Judged", "at": "2026-01-15T03:00:00Z", "drill": ""})


def test_sarif_says_what_is_exposed_and_found_and_nothing_that_is_proven():
    run = sarif_drills.document(story(WHOLE, findings=[FINDING]))["runs"][0]
    assert [r["ruleId"] for r in run["results"]] == ["drill/exposed", "image-unpinned"]
    assert all(run["tool"]["driver"]["rules"][r["ruleIndex"]]["id"] == r["ruleId"] for r in run["results"])
    place = run["results"][1]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "deploy/off.yaml"}, "region": {"startLine": 12}}


def test_a_dirty_drill_is_an_error_everywhere():
    dirty = story([result(problems=["Secret x is still there"])])
    assert sarif_drills.document(dirty)["runs"][0]["results"][0]["ruleId"] == "drill/dirty"
    assert "killcheck_dirty" in prometheus(dirty)
    assert re.search(r"^killcheck_dirty\{.*\} 1$", prometheus(dirty), re.MULTILINE)
    assert 'errors="1"' in junit(dirty)
    assert "could not put back" in markdown(dirty)


def test_allure_follows_a_drill_from_night_to_night(tmp_path):
    for run in ("r1", "r2"):
        allure.write(story(WHOLE, run=run), tmp_path / run)
    nights = [
        {r["historyId"]: r for r in (json.loads(p.read_text()) for p in (tmp_path / run).glob("*-result.json"))}
        for run in ("r1", "r2")
    ]
    assert set(nights[0]) == set(nights[1])
    assert not {r["uuid"] for r in nights[0].values()} & {r["uuid"] for r in nights[1].values()}
    exposed = next(r for r in nights[0].values() if r["status"] == "failed")
    assert exposed["statusDetails"]["message"] == "exposed: ImagePullBackOff: gone"
    assert [s["name"] for s in exposed["steps"]] == [
        "sabotage: image-gone",
        "trigger pulled: 0 s",
        "GPU pods gone: never",
    ]
    assert {"name": "severity", "value": "blocker"} in exposed["labels"]
    for attachment in exposed["attachments"]:
        assert (tmp_path / "r1" / attachment["source"]).is_file()


def test_allure_can_read_its_results_back(tmp_path):
    """The fields are those of allure-python's own model of a result."""
    model = pytest.importorskip("allure_commons.model2")
    allure.write(story(WHOLE), tmp_path)
    known = {field.name for field in model.TestResult.__attrs_attrs__}
    for path in tmp_path.glob("*-result.json"):
        assert set(json.loads(path.read_text())) <= known
    categories = json.loads((tmp_path / "categories.json").read_text())
    message = "exposed: ImagePullBackOff: gone"
    assert [c["name"] for c in categories if re.fullmatch(c["messageRegex"], message)] == ["Exposed: GPUs were left on"]
    assert "cluster=staging\n" in (tmp_path / "environment.properties").read_text()


def test_the_last_success_outlives_a_failed_run(tmp_path):
    good, bad = story([result()]), story(WHOLE, exit_code=1)
    assert LAST_SUCCESS in prometheus(good)
    assert LAST_SUCCESS not in prometheus(bad)
    kept = carry_over(prometheus(bad), prometheus(good))
    assert re.search(rf"^{LAST_SUCCESS}{{.*}} 1768446200$", kept, re.MULTILINE)
    elsewhere = story([result()], cluster="other")
    assert LAST_SUCCESS not in carry_over(prometheus(bad), prometheus(elsewhere))


def test_the_summary_is_text_whatever_a_cluster_says():
    made = markdown(story([result(verdict="exposed", cause="<img src=x> | @everyone `rm` [a](b)\n# no")]))
    row = next(line for line in made.splitlines() if "exposed" in line and line.startswith("|"))
    assert "<img" not in made
    assert "@everyone" not in made
    assert len(re.findall(r"(?<!\\)\|", row)) == 8


def test_what_a_verdict_rests_on_is_in_every_short_report_once():
    note = "no price for p5e.48xlarge: dollars are unknown <x>"
    told = story([result(verdict="survived", notes=[note]), result(verdict="survived", notes=[note])])
    assert [case.findtext("system-out") for case in ElementTree.fromstring(junit(told).encode()).iter("testcase")] == [
        f"rests on: {note}"
    ] * 2
    assert markdown(told).count("no price for p5e.48xlarge") == 1
    assert "### Rests on" in markdown(told)
    assert slack(told)["blocks"][-1]["text"]["text"] == (
        "Rests on:\n- no price for p5e.48xlarge: dollars are unknown &lt;x&gt;"
    )
    plain = story([result(verdict="survived")])
    assert "ests on" not in f"{junit(plain)}{markdown(plain)}{slack(plain)}"


def test_no_short_report_of_a_gate_that_reading_failed_says_that_all_is_well():
    told = story([result(verdict="survived")], findings=[FINDING, {**FINDING, "severity": "note"}], fences=[FENCE])
    said = "survived, 1 error found by reading, 1 pool above the ceiling"
    assert markdown(told).splitlines()[0].endswith(f": **{said}**")
    assert slack(told)["blocks"][0]["text"]["text"].endswith(f": {said}")
    assert f"- {said}</title>" in html(told)


def test_a_slack_message_keeps_to_the_limits():
    many = [result(faults=[f"fault-{n}"], verdict="exposed", cause="x" * 5000) for n in range(60)]
    made = slack(story(many))
    assert len(made["blocks"]) <= 50
    assert made["blocks"][0]["type"] == "header"
    assert all(len(b["text"]["text"]) <= 3000 for b in made["blocks"])
    told = story([result(verdict="exposed", cause="<!channel>")])
    named = slack(replace(told, started=replace(told.started, kill_path="<!here>")))
    assert "&lt;!channel&gt;" in named["blocks"][2]["text"]["text"]
    assert "killcheck: &lt;!here&gt; on" in named["text"]


def test_metrics_are_pushed_under_kill_path_and_cluster(server):
    url, got, _ = server
    one = story([result()], cluster="arn:aws:eks:eu-west-1:1:cluster/dev")
    push(url + "/", grouping(one), prometheus(one))
    path, kind, body = got[0]
    assert path.startswith("/metrics/job/killcheck/kill_path/inference/cluster@base64/YXJuOm")
    assert kind.startswith("text/plain; version=0.0.4")
    assert body.decode() == prometheus(one)


def test_a_busy_server_is_asked_again_and_a_refusal_names_no_url(server):
    url, got, answers = server
    answers += [503, 429]
    post(f"{url}/hooks/T0/secret", {"text": "x"})
    assert len(got) == 3
    answers.append(404)
    with pytest.raises(PostError) as refused:
        post(f"{url}/hooks/T0/secret", {"text": "x"})
    assert "HTTP 404 no go" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_command_posts_and_says_what_went_wrong(server, tmp_path):
    url, got, answers = server
    file = saved(tmp_path / "run.jsonl", record(WHOLE, exit_code=1))
    run = CliRunner()
    assert run.invoke(main, ["report", str(file), "--webhook"], env={"KILLCHECK_WEBHOOK": f"{url}/x"}).exit_code == 0
    assert json.loads(got[0][2])["text"].startswith("killcheck: inference on staging: exposed")
    unset = run.invoke(main, ["report", str(file), "--webhook"], env={"KILLCHECK_WEBHOOK": None})
    assert (unset.exit_code, "KILLCHECK_WEBHOOK" in unset.output) == (2, True)
    answers.append(403)
    refused = run.invoke(main, ["report", str(file), "--pushgateway", url])
    assert (refused.exit_code, "HTTP 403" in refused.output) == (4, True)


def test_the_command_writes_every_file(tmp_path):
    file = saved(tmp_path / "run.jsonl", record(WHOLE, exit_code=1, findings=[FINDING], fences=[FENCE]))
    options = {
        "--html": "r.html",
        "--json": "r.json",
        "--junit": "r.xml",
        "--sarif": "r.sarif",
        "--allure": "allure",
        "--prometheus": "r.prom",
        "--github-summary": "r.md",
        "--slack": "slack.json",
    }
    words = [word for option, name in options.items() for word in (option, str(tmp_path / name))]
    done = CliRunner().invoke(main, ["report", str(file), *words])
    assert done.exit_code == 0, done.output
    assert set(options.values()) <= {p.name for p in tmp_path.iterdir()}
    assert (tmp_path / "r.json").read_text() == CliRunner().invoke(main, ["report", str(file), "--json", "-"]).stdout


def test_every_kind_of_event_is_in_the_record_schema():
    kinds = {branch["properties"]["event"]["const"] for branch in schema("record")["anyOf"]}
    assert kinds == set(events._KINDS)
