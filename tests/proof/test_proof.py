"""A certificate is made, verified, and refused when a byte, a subject, a date or the key is wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from proof_world import PRIVATE, PUBLIC, copied, deployed, drilled, keys, killcheck

pytest.importorskip("securesystemslib")
pytest.importorskip("in_toto_attestation")

from killcheck.proof import certificate, signing
from killcheck.proof.errors import Refused
from killcheck.run import subjects
from killcheck.run.chain import Chain
from killcheck.run.record import RecordError, read

RECORD, CERTIFICATE = "run/run.jsonl", "run/certificate.intoto.json"


@pytest.fixture(scope="module")
def proven(tmp_path_factory):
    """A folder with what was drilled, its record, and a certificate of it."""
    world = tmp_path_factory.mktemp("proven")
    keys(world)
    record = drilled(deployed(world), world / "state")
    (world / "run").mkdir()
    record.rename(world / RECORD)
    code, said = killcheck("certify", world / RECORD, "--key", world / PRIVATE)
    assert code == 0, said
    assert ": proven: " in said
    return world


def verified(world, *more):
    return killcheck("verify", world / CERTIFICATE, "--key", world / PUBLIC, *more)


def statement(world):
    return json.loads(base64.b64decode(json.loads((world / CERTIFICATE).read_text())["payload"]))


def resigned(world, change):
    """The certificate with another statement, signed by the same key."""
    said = statement(world)
    change(said)
    (world / CERTIFICATE).write_text(signing.signed(said, signing.signer_of(str(world / PRIVATE))))


def test_it_says_what_was_drilled_and_what_came_of_it(proven):
    said = statement(proven)
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert {one["name"].partition("@")[0] for one in said["subject"]} == {
        "killcheck.yaml",
        "manifests",
        "public.ecr.aws/amazonlinux/amazonlinux:2023.8.20250808.1",
    }
    assert all(len(one["digest"]["sha256"]) == 64 for one in said["subject"])
    predicate = said["predicate"]
    assert (predicate["verdict"], predicate["proven"]) == ("survived", True)
    assert [phase["phase"] for phase in predicate["drills"][0]["phases"]][-1] == "held"
    assert any("not modelled" in line for line in predicate["assumptions"])
    *_, last = (proven / RECORD).read_text().splitlines()
    assert predicate["record"]["chain"] == json.loads(last)["chain"]


def test_it_is_verified_against_what_is_in_hand(proven):
    code, said = verified(proven, "--max-age", "1", "--spec", proven / "deploy/killcheck.yaml")
    assert code == 0
    assert said.startswith("proven: dead-man on embedded")
    assert "the same as in hand" in said
    assert "rests on: drilled on the embedded cluster" in said
    code, said = verified(proven)
    assert code == 0
    assert "not compared with anything" in said
    assert verified(proven, "--record", proven / RECORD)[0] == 0


@settings(max_examples=25)
@given(data=st.data())
def test_no_byte_of_it_can_be_changed(proven, data):
    whole = (proven / CERTIFICATE).read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != whole[at]))
    changed = proven / "run/changed.intoto.json"
    changed.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
    with pytest.raises(Refused, match=r"changed\.intoto\.json: refused: "):
        certificate.read(changed, proven / PUBLIC)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"payload": 1, "payloadType": 2, "signatures": [3]}', "[" * 9999]
)
def test_what_is_no_certificate_is_refused(proven, tmp_path, text):
    (tmp_path / "x").write_text(text)
    code, said = killcheck("verify", tmp_path / "x", "--key", proven / PUBLIC)
    assert (code, said.count("\n")) == (3, 1)
    assert "no certificate" in said


def test_another_key_is_refused(proven, tmp_path):
    keys(tmp_path)
    code, said = killcheck("verify", proven / CERTIFICATE, "--key", tmp_path / PUBLIC)
    assert code == 3
    assert "did not sign it, another key did" in said


def test_what_is_no_key_is_wrong_usage(proven):
    code, said = killcheck("verify", proven / CERTIFICATE, "--key", proven / PRIVATE)
    assert code == 2
    assert "expected a public key in PEM" in said
    code, said = killcheck("certify", proven / RECORD, "--key", proven / PUBLIC, "-o", proven / "none")
    assert code == 2
    assert "expected a private key in PEM" in said
    assert not (proven / "none").exists()


CONFIG = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: inference}}"
ACCEPTED = """\
apiVersion: killcheck/v1
kind: Accepted
exposures: [{layer: nightly-off, fault: image-gone, cause: [pull], owner: ops, reason: so far, until: 2090-01-01}]
"""


def edit(file, change):
    before = file.read_text()
    file.write_text(change(before))
    assert file.read_text() != before


def joined(deploy):
    files = sorted((file for file in deploy.glob("*.yaml") if file.stem != "killcheck"), reverse=True)
    text = "\n---\n".join(file.read_text() for file in files)
    for file in files:
        file.unlink()
    (deploy / "all.yaml").write_text(text)


def moved(deploy):
    (deploy / "deeper").mkdir()
    (deploy / "nodepool.yaml").rename(deploy / "deeper/nodepool.yaml")


#: What is done to what was drilled, and what is said of it; None: it makes no difference.
IN_HAND = {
    "a comment": (lambda d: edit(d / "gpu-nightly-off.yaml", lambda t: f"# by night\n{t}"), None),
    "another file name": (lambda d: (d / "nodepool.yaml").rename(d / "zz.yaml"), None),
    "one file": (joined, None),
    "another folder": (moved, None),
    "an object changed": (
        lambda d: edit(d / "gpu-nightly-off.yaml", lambda t: t.replace('"replicas":0', '"replicas":1')),
        "gpu-nightly-off changed",
    ),
    "an object gone": (lambda d: (d / "nodepool.yaml").unlink(), "NodePool/gpu gone"),
    "an object new": (lambda d: (d / "x.yaml").write_text(CONFIG), "ConfigMap/inference/x new"),
    "a file that cannot be read": (
        lambda d: (d / "x.yaml").write_text("apiVersion: v1\nkind: [\n"),
        "files that cannot be read differ",
    ),
    "a deadline": (
        lambda d: edit(d / "killcheck.yaml", lambda t: t.replace("podsGone: 5m", "podsGone: 6m")),
        "the spec differs",
    ),
    "an acceptance": (lambda d: (d / "killcheck.accepted.yaml").write_text(ACCEPTED), "the spec differs"),
}


@pytest.mark.parametrize("what", IN_HAND)
def test_what_is_in_hand_must_be_what_was_drilled(proven, tmp_path, what):
    change, words = IN_HAND[what]
    world = copied(proven, tmp_path)
    change(world / "deploy")
    code, said = verified(world, "--spec", world / "deploy/killcheck.yaml")
    assert code == (0 if words is None else 3), said
    assert words is None or "what is in hand is not what was drilled: " in said
    assert words is None or words in said


def later(**times):
    """Change dates: each by so much."""

    def change(said):
        for name, delta in times.items():
            at = datetime.fromisoformat(said["predicate"]["times"][name]) + delta
            said["predicate"]["times"][name] = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"

    return change


DAY = timedelta(days=1)
DATES = {
    "too old": (later(started=-9 * DAY), "its drills began 9.0 days ago, and it must be younger than 7"),
    "just too old": (later(started=-7 * DAY), "7.0 days ago"),
    "future": (later(started=DAY, finished=DAY, certified=DAY), "its date is in the future"),
    "certified tomorrow": (later(certified=DAY), "its date is in the future"),
    "ended before it began": (later(finished=-DAY), "its dates cannot be"),
    "no date": (lambda said: said["predicate"]["times"].update(started="soon"), "does not read as a certificate"),
    "without dates": (lambda said: said["predicate"].pop("times"), "does not read as a certificate"),
}


@pytest.mark.parametrize("what", DATES)
def test_a_wrong_date_is_refused(proven, tmp_path, what):
    world = copied(proven, tmp_path)
    change, words = DATES[what]
    resigned(world, change)
    code, said = verified(world, "--max-age", "7")
    assert code == 3, said
    assert words in said
    assert "proven" not in said.replace(str(world), "")


def test_it_may_be_almost_too_old(proven, tmp_path):
    world = copied(proven, tmp_path)
    resigned(world, later(started=-6 * DAY))
    assert verified(world, "--max-age", "7")[0] == 0


def vouched(until):
    """An assumption of a person's, until a last day."""

    def change(said):
        entry = {"object": "Deployment/x", "status": "assumed", "because": "b", "settles": None, "until": until}
        said["predicate"]["drills"][0]["ledger"].append(entry)

    return change


def said_otherwise(**fields):
    return lambda said: said["predicate"].update(fields)


SIGNED = {
    "an assumption that ended": (vouched("2020-01-01"), 3, "which ended on 2020-01-01"),
    "an assumption that holds": (vouched("2090-01-01"), 0, "proven"),
    "proven by word only": (
        lambda said: said["predicate"]["drills"][0].update(verdict="exposed"),
        3,
        "its drills are exposed, and it says survived",
    ),
    "no drill": (said_otherwise(drills=[]), 3, "its drills are inconclusive"),
    "another image": (lambda said: said["subject"].pop(), 3, "its subjects are not those of its predicate"),
    "another predicate": (
        lambda said: said.update(predicateType="https://slsa.dev/provenance/v1"),
        3,
        "says nothing of a kill path",
    ),
}


@pytest.mark.parametrize("what", SIGNED)
def test_what_is_signed_is_still_judged(proven, tmp_path, what):
    change, code, words = SIGNED[what]
    world = copied(proven, tmp_path)
    resigned(world, change)
    got, said = verified(world)
    assert got == code, said
    assert words in said


@pytest.mark.parametrize(
    ("faults", "exec_mode", "code", "word"),
    [(("suspended",), "none", 1, "exposed"), ((), "none", 3, "inconclusive")],
)
def test_what_is_not_proven_never_reads_as_proven(tmp_path, faults, exec_mode, code, word):
    keys(tmp_path)
    record = drilled(deployed(tmp_path), tmp_path / "state", *faults, exec_mode=exec_mode)
    (tmp_path / "run").mkdir()
    record.rename(tmp_path / RECORD)
    got, said = killcheck("certify", tmp_path / RECORD, "--key", tmp_path / PRIVATE)
    assert (got, f": {word}: " in said) == (code, True)
    predicate = statement(tmp_path)["predicate"]
    assert (predicate["verdict"], predicate["proven"]) == (word, False)
    got, said = verified(tmp_path)
    assert (got, said.split(":")[0]) == (code, word)
    got, said = verified(tmp_path, "--max-age", "7", "--configmap", tmp_path / "permit.json")
    assert got == 3
    assert not (tmp_path / "permit.json").exists()
    got, said = gated(tmp_path)
    assert got in (1, 3)
    assert "gate: proven" not in said


def gated(world, *more):
    deploy = world / "deploy"
    options = ["--skip", "lint", "--skip", "fences", "--quick", "-q", *more]
    return killcheck(
        "gate",
        deploy / "killcheck.yaml",
        "--certificate",
        world / CERTIFICATE,
        "--key",
        world / PUBLIC,
        "--max-age",
        "7",
        *options,
    )


def test_the_gate_takes_it_in_the_place_of_drills(proven, tmp_path):
    code, said = gated(proven)
    assert code == 0, said
    assert "nothing was drilled now" in said
    assert said.strip().endswith("gate: proven (drills proven; left out: lint, fences)")
    document = json.loads("{" + gated(proven, "--json")[1].partition("{")[2])
    assert document["certificate"]["verdict"] == "proven"


def test_the_gate_misses_what_the_certificate_has_not(proven):
    """The whole matrix is due, and one drill was certified."""
    deploy = proven / "deploy"
    words = ["--certificate", proven / CERTIFICATE, "--key", proven / PUBLIC, "--max-age", "7"]
    code, said = killcheck("gate", deploy / "killcheck.yaml", *words, "--skip", "lint", "--skip", "fences", "-q")
    assert code == 3, said
    assert "has no drill of it" in said


def test_the_gate_refuses_what_is_something_else(proven, tmp_path):
    world = copied(proven, tmp_path)
    edit(world / "deploy/inference.yaml", lambda text: text.replace("replicas: ", "replicas: 1"))
    code, said = gated(world)
    assert code == 3
    assert "Deployment/inference/vllm changed" in said


@pytest.mark.parametrize("left_out", ["--key", "--max-age", "--certificate"])
def test_the_gate_wants_all_three(proven, left_out):
    words = {"--certificate": proven / CERTIFICATE, "--key": proven / PUBLIC, "--max-age": "7"}
    words.pop(left_out)
    code, said = killcheck("gate", proven / "deploy/killcheck.yaml", *(w for pair in words.items() for w in pair))
    assert code == 2
    assert "go together" in said


LINES = {
    "taken out": lambda lines: lines[:5] + lines[6:],
    "added": lambda lines: [*lines[:5], lines[4], *lines[5:]],
    "changed": lambda lines: [line.replace('"survived"', '"covered" ') for line in lines],
    "swapped": lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]],
    "without its hash": lambda lines: [*lines[:5], lines[5].partition(',"chain"')[0] + "}", *lines[6:]],
    "begun later": lambda lines: [lines[0].replace('"at":"20', '"at":"21'), *lines[1:]],
}


@pytest.mark.parametrize("what", LINES)
def test_a_record_that_was_changed_shows(proven, tmp_path, what):
    lines = (proven / RECORD).read_text().splitlines()
    record = tmp_path / "r/run.jsonl"
    record.parent.mkdir()
    record.write_text("\n".join(LINES[what](lines)) + "\n")
    assert record.read_text() != (proven / RECORD).read_text()
    with pytest.raises(RecordError, match=r"run\.jsonl:\d+: the record is not as it was written"):
        list(read(record))
    code, said = killcheck("report", record)
    assert (code, "not as it was written" in said) == (2, True)
    code, said = killcheck("history", tmp_path)
    assert (code, "not as it was written" in said) == (3, True)
    code, said = killcheck("certify", record, "--key", proven / PRIVATE)
    assert (code, "not as it was written" in said) == (2, True)
    assert not (tmp_path / "r/certificate.intoto.json").exists()


def test_a_record_of_an_older_version_is_taken_on_somebodys_word_alone(proven, tmp_path):
    """Without a chain, and so without a seal; and without what was drilled, nothing can be certified of it."""
    lines = [line.partition(',"chain"')[0] + "}" for line in (proven / RECORD).read_text().splitlines()]
    record = tmp_path / "r/run.jsonl"
    record.parent.mkdir()
    record.write_text("\n".join(lines) + "\n")
    code, said = killcheck("certify", record, "--key", proven / PRIVATE)
    assert (code, "it has no seal" in said) == (3, True)
    assert killcheck("certify", record, "--unsealed", "--key", proven / PRIVATE)[0] == 0
    record.write_text("\n".join(line for line in lines if '"Subjects"' not in line) + "\n")
    code, said = killcheck("certify", record, "--unsealed", "--key", proven / PRIVATE, "-o", tmp_path / "none")
    assert (code, "does not say what was drilled" in said) == (3, True)


def rewritten(world, folder, change):
    """A record with another first line, and a chain that fits it: whoever recomputes it can. Its seal is of the other."""
    first, *rest = (world / RECORD).read_text().splitlines()
    said = json.loads(first.partition(',"chain"')[0] + "}")
    change(said)
    chain = Chain()
    bare = [json.dumps(said), *(line.partition(',"chain"')[0] + "}" for line in rest)]
    (folder / "run.jsonl").write_text("".join(f"{chain.add(line)}\n" for line in bare))
    return folder / "run.jsonl"


def test_a_record_whose_chain_was_made_anew_is_not_the_one_that_was_certified(proven, tmp_path):
    record = rewritten(proven, tmp_path, lambda said: said.update(kill_path="another"))
    assert list(read(record))
    code, said = verified(proven, "--record", record)
    assert (code, "not the run record that it was made from" in said) == (3, True)


def resealed(world, folder, machine, monkeypatch):
    """The record with a chain and a seal of another machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(machine))
    lines = [re.split(',"(?:seal|chain)"', line)[0] + "}" for line in (world / RECORD).read_text().splitlines()]
    chain = Chain()
    (folder / "run.jsonl").write_text("".join(f"{chain.add(one, last=one == lines[-1])}\n" for one in lines))
    return folder / "run.jsonl"


ACCEPTING = ("--owner", "ops", "--reason", "wanted", "--until", "2090-01-01")
FORGED = {
    "its chain made anew": lambda world, folder, _: rewritten(world, folder, lambda said: said.update(version="9")),
    "sealed elsewhere": lambda world, folder, patch: resealed(world, folder, folder / "state", patch),
    "more after its end": lambda world, folder, _: longer(world, folder),
}


def longer(world, folder):
    """The record with a line after the sealed one, whose hash follows."""
    chain, lines = Chain(), (world / RECORD).read_text().splitlines()
    for line in lines:
        chain.follow(line)
    more = chain.add(
        json.dumps({"event": "RunFinished", "at": "2026-01-15T03:00:00Z", "verdict": "survived", "exit_code": 0})
    )
    (folder / "run.jsonl").write_text("\n".join([*lines, more, ""]))
    return folder / "run.jsonl"


@pytest.mark.parametrize("how", FORGED)
def test_what_this_machine_did_not_write_proves_nothing(proven, tmp_path, monkeypatch, how):
    folder = tmp_path / "runs/x"
    folder.mkdir(parents=True)
    here = os.environ["XDG_STATE_HOME"]
    with monkeypatch.context() as patch:
        record = FORGED[how](proven, folder, patch)
    assert os.environ["XDG_STATE_HOME"] == here
    assert list(read(record))  # its chain is whole
    for words in (
        ("certify", record, "--key", proven / PRIVATE),
        ("accept", record, "--spec", proven / "deploy/killcheck.yaml", *ACCEPTING),
    ):
        code, said = killcheck(*words)
        assert (code, "Nothing is proven by it" in said) == (3, True), said
    assert not (folder / "certificate.intoto.json").exists()
    code, said = killcheck("history", tmp_path)
    assert (code, "1 inconclusive" in said, "They prove nothing here" in said) == (3, True, True), said
    code, said = killcheck("report", record)
    assert (code, "proves nothing" in said) == (3, True)
    assert killcheck("report", record, "--unsealed")[0] == 0


def test_another_machines_record_is_believed_by_its_key_or_on_somebodys_word(proven, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("KILLCHECK_KEY", "a key that several machines share")
        record = resealed(proven, tmp_path, tmp_path / "state", patch)
    assert killcheck("certify", record, "--key", proven / PRIVATE)[0] == 3
    assert killcheck("history", tmp_path)[0] == 3
    with monkeypatch.context() as patch:
        patch.setenv("KILLCHECK_KEY", "a key that several machines share")
        assert killcheck("history", tmp_path)[0] == 0
        assert killcheck("certify", record, "--key", proven / PRIVATE, "-o", tmp_path / "ours")[0] == 0
    code, said = killcheck("history", tmp_path, "--unsealed")
    assert (code, "1 proven" in said) == (0, True)
    assert killcheck("certify", record, "--unsealed", "--key", proven / PRIVATE, "-o", tmp_path / "theirs")[0] == 0
    ours, theirs = (killcheck("verify", tmp_path / name, "--key", proven / PUBLIC)[1] for name in ("ours", "theirs"))
    assert ("--unsealed" in ours, "rests on: the record was taken on the word" in theirs) == (False, True)


def test_a_layer_that_was_not_drilled_is_told(proven, tmp_path):
    record = rewritten(proven, tmp_path, lambda said: said["spec"]["places"].update(second={"file": "f", "line": 1}))
    code, _ = killcheck("certify", record, "--unsealed", "--key", proven / PRIVATE, "-o", tmp_path / "c")
    assert code == 0
    code, said = killcheck("verify", tmp_path / "c", "--key", proven / PUBLIC)
    assert (code, "rests on: second was not drilled in this run" in said) == (0, True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: said["drills"][0].update(fixture="dead-man-false-green"), "its drills are of examples"),
        (lambda said: said["drills"].append({"layer": "second"}), "2 drill(s) were begun and 1 ended"),
        (lambda said: said.update(at="2100-01-01T00:00:00Z"), "ended before it began"),
    ],
)
def test_what_no_certificate_can_say_is_not_certified(proven, tmp_path, change, words):
    code, said = killcheck("certify", rewritten(proven, tmp_path, change), "--unsealed", "--key", proven / PRIVATE)
    assert (code, words in said) == (3, True), said
    assert not (tmp_path / "certificate.intoto.json").exists()


def test_a_run_that_did_not_end_is_not_certified(proven, tmp_path):
    record = tmp_path / "run.jsonl"
    whole = (proven / RECORD).read_text()
    record.write_text(whole[: whole.rindex('{"event":"RunFinished"') + 9])
    code, said = killcheck("certify", record, "--key", proven / PRIVATE)
    assert (code, "did not end" in said) == (3, True)


def test_secrets_never_reach_it(tmp_path):
    keys(tmp_path)
    deploy = deployed(tmp_path)
    secret = "Correct-Horse-93-Staple"
    (deploy / "secret.yaml").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "db", "namespace": "inference"},
                "stringData": {"password": secret},
            }
        )
    )
    record = drilled(deploy, tmp_path / "state", exec_mode="none")
    (tmp_path / "run").mkdir()
    record.rename(tmp_path / RECORD)
    killcheck("certify", tmp_path / RECORD, "--key", tmp_path / PRIVATE)
    first = statement(tmp_path)
    assert secret not in json.dumps(first)
    assert any("what Secrets hold is not among the subjects" in line for line in first["predicate"]["assumptions"])
    (deploy / "secret.yaml").write_text((deploy / "secret.yaml").read_text().replace(secret, "another-1"))
    code, said = verified(tmp_path, "--spec", deploy / "killcheck.yaml")
    assert (code, said.split(":")[0]) == (3, "inconclusive")


def test_without_the_extra_it_says_how_to_get_it(proven, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "securesystemslib.signer", None)
    code, said = killcheck("certify", proven / RECORD, "--key", proven / PRIVATE)
    assert code == 2
    assert "pip install 'killcheck[proof]'" in said


def test_what_a_checkout_brings_in_the_place_of_a_file_is_not_read(tmp_path):
    """A link to /dev/zero never ends, a pipe waits for a writer, a file may have a terabyte of nothing in it."""
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    (tmp_path / "host.yaml").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe.yaml")
    with (tmp_path / "sparse.yaml").open("wb") as made:
        made.truncate(1 << 40)
    (tmp_path / "broken.yaml").write_text("a: [")
    found = {file.stem: subjects._of_file(file) for file in tmp_path.iterdir()}
    assert found.pop("broken") == f"sha256:{hashlib.sha256(b'a: [').hexdigest()}"
    assert found == dict.fromkeys(("endless", "host", "pipe", "sparse"))
