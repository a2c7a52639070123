"""The spec at its file boundary: what loads, what is refused and in which words, what is written."""

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import killcheck
from killcheck import fixtures
from killcheck.spec import specfile
from killcheck.spec.cloud_access import Alarm, CloudAccess, Experiment
from killcheck.spec.deadlines import MOMENTS, Deadlines
from killcheck.spec.killpath import (
    Checkpoint,
    Command,
    Consent,
    FenceCeiling,
    Items,
    KillPath,
    Layer,
    LayerType,
    NodePool,
    Outcome,
    Policy,
    Proof,
    Ref,
    Rule,
    Sentinel,
    Suppression,
    Target,
)
from killcheck.spec.specfile import SpecError
from killcheck.spec.specfile.explained import as_pydantic
from killcheck.spec.specfile.models import SpecModel, fitting
from killcheck.text import yamlfile

MINIMAL = """\
apiVersion: killcheck/v1
name: nights
targets:
  - {name: vllm, kind: Deployment, namespace: inference, object: vllm}
layers:
  - name: nightly-off
    type: dead-man
    covers: [vllm]
    cronJob: {namespace: inference, name: gpu-nightly-off}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        specfile.loads(text)
    return [str(problem).removeprefix("killcheck.yaml") for problem in caught.value.problems]


def with_line(line: str, at: str = "layers:\n") -> str:
    """MINIMAL with one line put before ``at``."""
    return MINIMAL.replace(at, f"{line}\n{at}")


# -- what loads --------------------------------------------------------------------------------------------
def test_a_minimal_spec_and_its_defaults():
    path = specfile.loads(MINIMAL)
    assert path.targets == (Target("vllm", "apps/v1", "Deployment", "inference", "vllm"),)
    assert path.layer("nightly-off").cron_job == Ref("batch/v1", "CronJob", "inference", "gpu-nightly-off")
    assert path.proof == {Proof.P1, Proof.P2, Proof.P4}
    assert path.deadlines == Deadlines()
    assert path.consent == Consent()  # nothing is allowed that nobody named
    assert not path.consent.namespaces


def test_durations_are_read_with_their_units():
    path = specfile.loads(with_line("deadlines: {podsGone: 90s, nodeDrained: 1h30m, held: 500ms}"))
    assert (path.deadlines.pods_gone_s, path.deadlines.node_drained_s, path.deadlines.held_s) == (90, 5400, 0.5)


def test_what_was_not_said_makes_way_for_what_was():
    early = specfile.loads(with_line("deadlines: {podsGone: 90s}")).deadlines
    assert max(getattr(early, name) for name in MOMENTS[: MOMENTS.index("pods_gone_s")]) <= 90
    late = specfile.loads(with_line("deadlines: {executorFinished: 1h}")).deadlines
    assert late.pods_gone_s == late.node_gone_s == 3600


def test_a_layers_own_deadlines_stand_on_the_paths():
    text = MINIMAL + "    deadlines: {podsGone: 40m}\n" + "deadlines: {jobCreated: 5s}\n"
    path = specfile.loads(text)
    own = path.deadlines_for(path.layer("nightly-off"))
    assert (own.job_created_s, own.pods_gone_s) == (5, 2400)
    assert path.deadlines.pods_gone_s == 300


def test_empty_sections_say_nothing():
    assert specfile.loads(MINIMAL + "nodes:\nconsent:\n  contexts:\nprices:\n") == specfile.loads(MINIMAL)


def test_the_folder_is_where_it_was_read_from(tmp_path: Path):
    file = tmp_path / "killcheck.yaml"
    file.write_text(MINIMAL)
    assert specfile.load(file).folder == str(tmp_path)


# -- what is refused ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ": empty; a spec begins with 'apiVersion: killcheck/v1'"),
        ("# only a comment\n", ": empty"),
        ("a: [1, 2", ":1: not YAML: while parsing a flow sequence"),
        ("a:\n\t- b", ":2: not YAML: a tab character indents this line"),
        ("a: " + "[" * 500 + "]" * 500, ":1: not YAML: nested more than 100 deep"),
        (
            MINIMAL.replace("nights", "{{ .Values.name }}"),
            ":2: not YAML: a key must be text, not a list or a mapping (a t",
        ),
        (MINIMAL.replace("nights", "n" * 300), "found 'nnnnnnn"),
        (with_line("deadlines: {podsGone: 0s}"), ":5: deadlines.podsGone: 0s: nothing can be reached"),
        (
            with_line("deadlines: {podsGone: 99999999999999999999h}"),
            ":5: deadlines.podsGone: expected a duration of at mo",
        ),
        (with_line("itemsPerHour: " + "9" * 5000), ":5: itemsPerHour: input should be a finite number"),
        (
            with_line("suppress: [{probe: x, reason: xy, until: 2027-01-31}]"),
            "expected at least 3 characters, found 'xy'",
        ),
        (
            with_line("consent: {namespaces: [In_Ference]}"),
            ":5: consent.namespaces[0]: expected the name of a namespace",
        ),
        (MINIMAL.replace("targets:\n", "targets:\n  -\n"), ":4: targets[0]: expected a mapping, found nothing"),
        ("- a\n- b", ":1: expected a mapping that begins with 'apiVersion: killcheck/v1', found a list"),
        ("hello", "found 'hello'"),
        ("name: x", ":1: apiVersion: expected killcheck/v1, it is missing"),
        (
            "apiVersion: killcheck/v2\nname: x",
            ":1: apiVersion: this killcheck reads killcheck/v1, found 'killcheck/v2'",
        ),
        (
            "kind: Deployment\napiVersion: apps/v1",
            ":2: apiVersion: expected killcheck/v1; this is a Kubernetes Deployment",
        ),
        (MINIMAL + "---\nname: again\n", ":11: a second YAML document begins here"),
        (MINIMAL + "name: again\n", ":10: name: given twice"),
        (MINIMAL.replace("name: nights", "kind: Deployment\nname: nights"), ":2: kind: expected KillPath"),
        (MINIMAL.replace("nights", "off"), ':2: name: YAML 1.1 reads off as a boolean; write "off" in quotes'),
        (MINIMAL.replace("nights", "12"), ':2: name: expected text, found the number 12; write "12" in quotes'),
        (MINIMAL.replace("inference, object", "on, object"), ":4: targets[0].namespace: YAML 1.1 reads on"),
        (with_line("prices: {on: 3}"), ":5: prices.on: YAML 1.1 reads the key on as a boolean"),
        (with_line("prices: {p4d: cheap}"), ":5: prices.p4d: expected a number, found 'cheap'"),
        (with_line("prices: {p4d: -1}"), ":5: prices.p4d: "),
        (with_line("nmae: x"), ":5: nmae: unknown field; did you mean name?"),
        (
            MINIMAL.replace("name: gpu-n", "nmae: gpu-n"),
            ":9: layers[0].cronJob.nmae: unknown field; did you mean name?",
        ),
        (MINIMAL.replace("dead-man", "deadman"), "found 'deadman'; did you mean dead-man?"),
        (MINIMAL.replace("[vllm]", "[vlm]"), ":8: layers[0].covers[0]: no target is named 'vlm'; did you mean vllm?"),
        (MINIMAL.replace("[vllm]", "vllm"), ":8: layers[0].covers: expected a list, found 'vllm'"),
        (MINIMAL.replace("[vllm]", "[]"), ":8: layers[0].covers: expected at least one entry, found an empty list"),
        (
            MINIMAL.replace("Deployment", "Deplyment"),
            ":4: targets[0].kind: 'Deplyment' is a kind that killcheck does not",
        ),
        (MINIMAL.replace(", object: vllm", ""), ":4: targets[0]: expected exactly one of object, selector and count"),
        (MINIMAL.replace("object: vllm", "selector: 'a=(b'"), ":4: targets[0].selector: expected a label selector"),
        (
            MINIMAL.replace("cronJob", "scaler"),
            ":6: layers[0]: a dead-man layer needs exactly one of cronJob, container, workload, found none",
        ),
        (MINIMAL + "    command: {argv: [x]}\n", ":10: layers[0].command: a dead-man layer has no command"),
        (
            MINIMAL + "    idle: 5\n",
            ":10: layers[0].idle: expected a duration with its unit, such as 5s or 5m, found 5",
        ),
        (
            with_line("deadlines: {podsGone: 5x}"),
            ":5: deadlines.podsGone: expected a duration such as 90s, 5m or 1h30m",
        ),
        (
            with_line("deadlines: {podsGone: 5m, nodeGone: 1m}"),
            "deadlines.nodeGone: nodeGone (1m) is before podsGone (5m)",
        ),
        (with_line("proof: [P6]"), ":5: proof[0]: expected P1 | P2 | P3 | P4 | P5, found 'P6'"),
        (with_line("consent: {pools: [gpu]}"), ":5: consent.pools[0]: no entry of nodes is named 'gpu'"),
        (with_line("consent: {maxGpuNodes: yes}"), "expected a whole number, found yes (a boolean in YAML 1.1)"),
        (with_line("nodes: [{name: gpu}]"), ":5: nodes[0]: expected nodePool (Karpenter), selector"),
        (with_line("policy: {rules: [{require: covered, layer: nightly}]}"), "'nightly'; did you mean nightly-off?"),
        (with_line("suppress: [{probe: p, reason: because, until: someday}]"), "expected a date such as 2027-01-31"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_was_expected(text: str, said: str):
    assert any(said in line for line in problems(text)), problems(text)


def test_all_mistakes_come_at_once_in_the_files_order():
    text = MINIMAL.replace("nights", "off").replace("dead-man", "deadman").replace("[vllm]", "[vlm]") + "nmae: x\n"
    lines = [int(line.split(":")[1]) for line in problems(text)]
    assert lines == [2, 7, 8, 10]


def test_one_mistake_is_reported_once():
    assert len(problems(MINIMAL.replace("dead-man", "deadman"))) == 1


def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path):
    with pytest.raises(SpecError, match="no such file"):
        specfile.load(tmp_path / "nowhere.yaml")
    with pytest.raises(SpecError, match=r"a folder without a killcheck\.yaml"):
        specfile.load(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not text in UTF-8"):
        specfile.load(tmp_path / "binary.yaml")


def test_a_link_that_leads_out_of_a_checkout_is_not_followed(tmp_path: Path):
    (tmp_path / "repo").mkdir()
    (file := tmp_path / "repo" / "killcheck.yaml").write_text(MINIMAL)
    (link := file.with_name("killcheck.accepted.yaml")).symlink_to("../somebodys.yaml")
    with pytest.raises(SpecError, match="a link that leads out of the spec's folder"):
        specfile.load(file)  # there or not: an accepted exposure would be written through it
    link.rename(file.with_name("programs"))
    count = {"argv": ["./count"], "folder": "programs"}
    spec = json.loads(json.dumps(yamlfile.documents(MINIMAL, "")[0].value))
    spec["targets"] = [{"name": spec["targets"][0]["name"], "count": count}]
    file.write_text(json.dumps(spec))
    with pytest.raises(SpecError, match="programs is a link that leads out"):
        specfile.load(file)
    text = (Path(fixtures.path("worker-fleet")) / "killcheck.yaml").read_text().replace("market.yaml", "/etc/passwd")
    file.write_text(text)
    with pytest.raises(SpecError, match=r"machines\.standIn: /etc/passwd is no file of the spec's folder"):
        specfile.load(file)


# -- what is written ---------------------------------------------------------------------------------------
#: Names that are text in YAML only when quoted, among ordinary ones.
names = st.sampled_from(["a", "off", "no", "1e3", "017", "0x1f", "null", "g1", "03", "true", "x.y_z", "2027-01-31"])
namespaces = names.filter(lambda name: "." not in name and "_" not in name)
texts = st.one_of(names, st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12))
seconds = st.integers(1, 500_000).map(lambda milli: milli / 1000 if milli % 7 == 0 else float(milli))
commands = st.builds(
    Command,
    st.lists(texts, min_size=1, max_size=3).map(tuple),
    seconds,
    st.dictionaries(names, texts, max_size=2),
    st.lists(st.sampled_from(["AWS_PROFILE", "_x"]), max_size=2).map(tuple),
)


@st.composite
def deadlines(draw: st.DrawFn) -> Deadlines:
    moments = sorted(draw(st.lists(seconds, min_size=len(MOMENTS), max_size=len(MOMENTS))))
    return Deadlines(*moments, held_s=draw(seconds))


def refs(kind: str, version: str) -> st.SearchStrategy[Ref]:
    return st.builds(Ref, st.just(version), st.just(kind), namespaces, names)


@st.composite
def layers(draw: st.DrawFn, name: str) -> Layer:
    kind = draw(st.sampled_from(LayerType))
    parts = {
        LayerType.DEAD_MAN: {"cron_job": refs("CronJob", "batch/v1")},
        LayerType.IDLE_MONITOR: {"workload": refs("Deployment", "apps/v1"), "idle_s": seconds, "busy": commands},
        LayerType.SELF_TERMINATING: {"workload": refs("Widget", "example.com/v1")},
        LayerType.SCALE_TO_ZERO: {"scaler": refs("ScaledObject", "keda.sh/v1alpha1"), "idle_s": seconds},
        LayerType.SPOT_HANDLER: {
            "workload": refs("DaemonSet", "apps/v1"),
            "command": st.none() | commands,
            "notice_s": seconds,
            "checkpoint": st.one_of(
                st.builds(Checkpoint, commands), st.builds(Checkpoint, st.none(), refs("ConfigMap", "v1"), texts)
            ),
        },
        LayerType.SENTINEL: {
            "sentinel": st.one_of(
                st.builds(
                    Sentinel,
                    path=texts.map("/".__add__),
                    starters=st.lists(commands, min_size=1, max_size=2).map(tuple),
                    units=st.lists(texts, max_size=2).map(tuple),
                    stopped_within_s=st.none() | seconds,
                ),
                st.builds(
                    Sentinel,
                    path=st.just(""),
                    config_map=refs("ConfigMap", "v1"),
                    key=texts,
                    value=texts,
                    start_jobs=st.lists(refs("CronJob", "batch/v1"), min_size=1, max_size=2).map(tuple),
                ),
                st.builds(
                    Sentinel,
                    path=st.just(""),
                    annotated=refs("Widget", "example.com/v1"),
                    key=texts,
                    units=st.lists(texts, min_size=1, max_size=2).map(tuple),
                ),
            )
        },
        LayerType.COMMAND: {"command": commands, "schedule": st.just("0 3 * * *"), "time_zone": st.just("Etc/UTC")},
    }[kind]
    chosen = {key: draw(strategy) for key, strategy in parts.items()}
    return Layer(name, kind, ("t",), deadlines=draw(st.none() | deadlines()), **chosen)


def clouds() -> st.SearchStrategy[CloudAccess]:
    role, alarms = "arn:aws:iam::111122223333:role/fis", ("arn:aws:cloudwatch:us-east-1:111122223333:alarm:stop",)
    return st.builds(
        CloudAccess,
        region=texts,
        profile=texts,
        endpoint=st.sampled_from(["", "stand-in", "http://127.0.0.1:5000"]),
        account=st.just("111122223333"),
        cluster=texts,
        tags=st.dictionaries(texts, texts, max_size=2),
        launch_templates=st.lists(texts, max_size=2).map(tuple),
        queue=st.just("https://sqs.example/1/q"),
        experiment=st.none() | st.builds(Experiment, st.just(role), st.just(alarms), st.integers(1, 9)),
        states=st.just(""),
        command=st.none() | commands,
        results=st.just(("s3://runs/eval/",)),
    )


@st.composite
def kill_paths(draw: st.DrawFn) -> KillPath:
    selector = draw(st.sampled_from(["", "a=b,c in (d, e)"]))
    pool = NodePool(draw(names), draw(names), selector, draw(st.just("") | texts), 2)
    proven = st.sampled_from([Outcome.SURVIVED, Outcome.COVERED])
    rule = Rule(draw(proven), "l*", draw(texts))
    known = Rule(Outcome.KNOWN, "l1", draw(texts), tuple(draw(st.lists(texts, min_size=1, max_size=2))))
    return KillPath(
        name=draw(names),
        targets=(
            Target("t", "apps/v1", "StatefulSet", draw(namespaces), draw(names)),
            Target("u", "example.com/v1", "Widget", draw(namespaces), selector="a=b"),
            Target("v", count=draw(commands), start=draw(st.none() | commands), instance_type=draw(texts)),
        ),
        layers=(draw(layers("l1")), draw(layers("l2"))),
        nodes=(pool,),
        deadlines=draw(deadlines()),
        proof=draw(st.frozensets(st.sampled_from(Proof), min_size=1)),
        consent=Consent(
            (draw(namespaces),),
            (pool.name,),
            (draw(texts),),
            draw(st.just(("*prod*",)) | st.just(())),
            0,
            1.5,
            draw(st.just(()) | st.tuples(texts)),
        ),
        prices={draw(texts): 2.25},
        policy=Policy(draw(proven), draw(proven), (rule, known)),
        fences=FenceCeiling(0, 3.5, None, 16, ("p5*", draw(texts)), ("our-types.csv",)),
        suppress=(Suppression(draw(names), "because of x", date(2027, 1, 31), draw(texts)),),
        cloud=draw(st.none() | clouds()),
        alarm=draw(st.none() | st.builds(Alarm, st.lists(texts, max_size=2).map(tuple), seconds)),
        items_per_hour=draw(st.sampled_from([None, 1200.0])),
        items=draw(st.sampled_from([None, Items(Command(("count",)), 0.5), Items(Command(("count", "-a")))])),
    )


@settings(max_examples=60, deadline=None)
@given(kill_paths())
def test_what_is_written_loads_back_equal(path: KillPath):
    assert specfile.loads(specfile.dump(path)) == path


def test_comments_stand_above_what_they_are_about():
    path = specfile.loads(MINIMAL)
    text = specfile.dump(path, {"": "Found in staging.", "deadlines.podsGone": "30s of grace", "layers[0]": "by RBAC"})
    lines = text.splitlines()
    assert lines[0] == "# Found in staging."
    assert lines[lines.index("  podsGone: 5m") - 1] == "  # 30s of grace"
    assert lines[lines.index("  - name: nightly-off") - 1] == "  # by RBAC"
    assert specfile.loads(text) == path


# -- the schema --------------------------------------------------------------------------------------------
def schema() -> dict[str, object]:
    found: dict[str, object] = json.loads(Path(killcheck.__file__).with_name("killcheck.schema.json").read_text())
    return found


def test_the_published_schema_is_current():
    assert schema() == json.loads(specfile.json_schema()), "regenerate it: specfile.json_schema()"


def test_the_schema_accepts_what_loads_and_refuses_what_does_not():
    validator = jsonschema.Draft202012Validator(schema())
    good = yamlfile.documents(MINIMAL, "x")[0].value
    assert validator.is_valid(good)
    assert not validator.is_valid({**good, "nmae": "x"})
    assert not validator.is_valid({**good, "deadlines": {"podsGone": 300}})
    assert not validator.is_valid({**good, "deadlines": {"podsGone": "5 minutes"}})


# -- what the types answer ---------------------------------------------------------------------------------
def test_policy_takes_the_first_rule_that_matches_and_the_mildest_of_several_faults():
    policy = Policy(rules=(Rule(Outcome.COVERED, fault="image-*"), Rule(Outcome.SURVIVED, "night*", "token-dead")))
    assert policy.required("nightly-off") is Outcome.SURVIVED
    assert policy.required("nightly-off", ["token-dead"]) is Outcome.SURVIVED
    assert policy.required("other", ["token-dead"]) is Outcome.COVERED
    assert policy.required("nightly-off", ["token-dead", "image-gone"]) is Outcome.COVERED


def test_a_policy_names_the_causes_of_what_is_known():
    policy = Policy(
        faulted=Outcome.KNOWN,
        rules=(
            Rule(Outcome.KNOWN, fault="token-*", causes=("401",)),
            Rule(Outcome.KNOWN, fault="dns-denied", causes=("-3",)),
            Rule(Outcome.COVERED, fault="image-gone"),
        ),
    )
    assert policy.causes("l", ["token-dead"]) == ("401",)
    assert policy.causes("l", ["token-dead", "dns-denied"]) == ("401", "-3")
    assert policy.causes("l", ["token-dead", "image-gone"]) == ("401",)
    assert policy.causes("l", ["token-dead", "suspended"]) == ()  # of that one any will do
    assert policy.causes("l", ["image-gone"]) == policy.causes("l") == ()


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("{fault: x}", "expected require"),
        ("{fault: x, require: covered, cause: y}", "only a known exposure has a cause"),
        ("{fault: x, cause: []}", "expected require"),
        ("{fault: x, require: known}", "expected cause: with require"),
        ("{fault: x, require: known, cause: []}", "so that no other is taken for it"),
    ],
)
def test_a_rule_says_what_is_required_or_what_is_known(rule, told):
    with pytest.raises(specfile.SpecError, match=told):
        specfile.loads(f"{MINIMAL}policy: {{rules: [{rule}]}}\n")


def test_what_is_known_is_never_all_that_no_rule_speaks_of():
    with pytest.raises(specfile.SpecError, match="what is known is a rule's, with its cause"):
        specfile.loads(f"{MINIMAL}policy: {{faulted: known}}\n")
    assert specfile.loads(f"{MINIMAL}policy: {{rules: [{{cause: '*'}}]}}\n").policy.causes("l", ["x"]) == ("*",)


def test_a_protected_context_is_refused_even_where_it_is_allowed():
    consent = Consent(contexts=("staging", "eu-*"), protected=("*prod*",))
    assert consent.allows_context("staging")
    assert consent.allows_context("eu-west")
    assert not consent.allows_context("eu-prod-1")
    assert not consent.allows_context("eu-PROD-1")
    assert not consent.allows_context("dev")
    assert not Consent().allows_context("staging")


def test_that_it_stayed_off_for_no_time_is_refused():
    assert any(
        "deadlines.held" in said and "0 proves nothing" in said for said in problems(with_line("deadlines: {held: 0s}"))
    )


def test_who_takes_an_empty_node_away_and_by_when_are_said_together():
    assert any(
        "removedBy and removedAfter together" in said
        for said in problems(with_line("nodes: [{name: gpu, removedBy: cluster-autoscaler}]"))
    )


#: What may stand anywhere in a file, and seldom fits.
_ODD = (
    "",
    "a\n",
    "0",
    True,
    0,
    -1,
    1.0,
    2**70,
    float("inf"),
    float("nan"),
    [],
    ["a"],
    {},
    {"a": "b"},
    "5m",
    "../x",
    "é",
)


@pytest.mark.parametrize("name", ["two-switches", "single-controller", "spot-training"])
def test_what_is_read_is_what_explains_itself_takes(name: str) -> None:
    """msgspec reads a spec, pydantic says what does not fit: neither takes what the other refuses."""
    known = yamlfile.documents((fixtures.path(name) / "killcheck.yaml").read_text(), "")[0].value
    random, explained = Random(name), as_pydantic(SpecModel)
    for _ in range(150):
        spec = deepcopy(known)
        places = list(_places(spec))
        inside, key = random.choice(places)
        inside[key] = random.choice(_ODD)
        try:
            fitting(spec)
        except msgspec.ValidationError:
            with pytest.raises(pydantic.ValidationError):
                explained.model_validate(spec)
        else:
            assert explained.model_validate(spec)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)
