"""Evidence in S3: all of it, encrypted, locked if asked, taken up where it stopped; no verdict depends on it."""

import hashlib
import json
import shutil

import pytest
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main
from killcheck.run import evidence
from killcheck.run.evidence import Store, files_of, leave

KEY = "AKIASTANDIN000000000"
#: Bytes of a part: S3 itself takes none below 5 MiB.
PART = 64 * 1024


def small_parts(monkeypatch):
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", PART)
    monkeypatch.setattr(evidence, "PART", PART)


@pytest.fixture
def bucket(stand_in):
    s3 = stand_in.aws().client("s3")
    s3.create_bucket(Bucket="proofs", ObjectLockEnabledForBucket=True)
    return s3


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs/20261121-1"
    folder.mkdir(parents=True)
    (folder / "run.jsonl").write_text('{"event": "RunStarted"}\n')
    (folder / "report.html").write_text("<html>AKIAIOSFODNN7EXAMPLE</html>")
    (folder / "journal-0.jsonl").write_text("{}")
    (folder / "core").write_text("x")
    return folder


def kept(bucket):
    """What is in the bucket, each with its bytes: a body that nobody reads is a connection that nobody closes."""
    found = {
        one["Key"]: bucket.get_object(Bucket="proofs", Key=one["Key"])
        for one in bucket.list_objects_v2(Bucket="proofs").get("Contents", [])
    }
    for got in found.values():
        with got["Body"] as body:
            got["Body"] = body.read()
    return found


def test_the_record_and_reports_go_and_the_journal_stays(stand_in, bucket, run):
    told = leave(stand_in.aws(), Store("s3://proofs/gpu/"), files_of(run / "run.jsonl"), run="r1")
    assert [(one.url, one.state) for one in told] == [
        ("s3://proofs/gpu/r1/run.jsonl", "uploaded"),
        ("s3://proofs/gpu/r1/report.html", "uploaded"),
    ]
    found = kept(bucket)
    assert set(found) == {"gpu/r1/run.jsonl", "gpu/r1/report.html"}
    assert found["gpu/r1/run.jsonl"]["ServerSideEncryption"] == "AES256"
    assert b"AKIAIOSFODNN7EXAMPLE" not in found["gpu/r1/report.html"]["Body"]
    assert (run / "report.html").read_text() == "<html>AKIAIOSFODNN7EXAMPLE</html>"
    again = leave(stand_in.aws(), Store("s3://proofs/gpu/"), files_of(run / "run.jsonl"), run="r1")
    assert {one.state for one in again} == {"there already"}


def test_a_lock_and_a_key_if_asked(stand_in, bucket, run):
    store = Store("s3://proofs", "arn:aws:kms:us-east-1:123456789012:key/k", 90 * 86400.0, "COMPLIANCE")
    (told,) = leave(stand_in.aws(), store, [run / "run.jsonl"], run="r1")
    assert told.problem == ""
    found = bucket.head_object(Bucket="proofs", Key="r1/run.jsonl")
    assert (found["ServerSideEncryption"], found["ObjectLockMode"]) == ("aws:kms", "COMPLIANCE")
    assert found["SSEKMSKeyId"].endswith("key/k")
    assert (found["ObjectLockRetainUntilDate"] - found["LastModified"]).days in (89, 90)


def test_a_large_record_is_taken_up_where_it_stopped(stand_in, bucket, run, monkeypatch):
    small_parts(monkeypatch)
    text = "y" * (PART + 1)
    (run / "run.jsonl").write_text(text)
    sent = []

    def stop(seen):
        if seen.method == "PUT" and seen.path.endswith("run.jsonl"):
            sent.append(seen)
            stand_in.gate.lapse(KEY, "expired")

    stand_in.gate.listeners.append(stop)
    (first,) = leave(stand_in.aws(), Store("s3://proofs"), [run / "run.jsonl"], run="r1")
    assert first.problem
    stand_in.gate.listeners.clear()
    stand_in.gate.restore(KEY)
    (second,) = leave(stand_in.aws(), Store("s3://proofs"), [run / "run.jsonl"], run="r1")
    assert second.state == "uploaded (1 of 2 parts were there from an earlier try)"
    body = kept(bucket)["r1/run.jsonl"]["Body"]
    assert hashlib.sha256(body).digest() == hashlib.sha256(text.encode()).digest()


def test_an_upload_of_other_content_is_given_up(stand_in, bucket, run, monkeypatch):
    small_parts(monkeypatch)
    begun = bucket.create_multipart_upload(Bucket="proofs", Key="r1/run.jsonl")
    bucket.upload_part(
        Bucket="proofs", Key="r1/run.jsonl", UploadId=begun["UploadId"], PartNumber=1, Body=b"x" * (PART)
    )
    (run / "run.jsonl").write_text("y" * (PART + 1))
    (told,) = leave(stand_in.aws(), Store("s3://proofs"), [run / "run.jsonl"], run="r1")
    assert told.state == "uploaded"
    assert "Uploads" not in bucket.list_multipart_uploads(Bucket="proofs")


@pytest.mark.parametrize(("url", "words"), [("s3://nowhere/x", "NoSuchBucket"), ("s3://proofs/x", "AccessDenied")])
def test_what_did_not_get_there_is_told_and_stays(stand_in, bucket, run, url, words):
    if words == "AccessDenied":
        stand_in.gate.refuse("s3", "PUT /proofs/x/r1/run.jsonl", "denied")
    (told,) = leave(stand_in.aws(), Store(url), [run / "run.jsonl"], run="r1")
    assert words in told.problem
    assert (run / "run.jsonl").exists()


# -- as a user runs it -------------------------------------------------------------------------------------
def invoke(monkeypatch, tmp_path, *words, **env):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(fixtures.path("dead-man"), tmp_path, dirs_exist_ok=True)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return CliRunner().invoke(main, words)


def test_a_drill_leaves_its_evidence_and_a_bucket_that_is_not_there_changes_no_verdict(
    stand_in, bucket, tmp_path, monkeypatch
):
    env = {**stand_in.environment(), "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": "s"}
    good = invoke(
        monkeypatch, tmp_path, "drill", "--exec", "host", "--quiet", "--evidence", "s3://proofs/nightly", **env
    )
    assert good.exit_code == 0, good.output
    names = {key.rpartition("/")[2] for key in kept(bucket)}
    assert {"run.jsonl", "report.html"} <= names
    bad = invoke(
        monkeypatch, tmp_path, "drill", "--exec", "host", "--quiet", "--evidence", "s3://nowhere/nightly", **env
    )
    assert bad.exit_code == 0
    assert "NOT UPLOADED: s3:PutObject" in bad.stderr
    assert "try again with: killcheck evidence" in bad.stderr


@pytest.mark.weekly
def test_so_does_a_matrix_once_for_all_its_cells(stand_in, bucket, tmp_path, monkeypatch):
    env = {**stand_in.environment(), "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": "s"}
    result = invoke(
        monkeypatch,
        tmp_path,
        "drill",
        "--matrix",
        "--exec",
        "host",
        "--under",
        "image-gone",
        "--json",
        "--evidence",
        "s3://proofs/nightly",
        **env,
    )
    left = {key.rpartition("/")[2]: got["Body"] for key, got in kept(bucket).items()}
    assert result.exit_code == 0, result.output
    assert set(left) == {"run.jsonl", "report.html"}
    assert len(json.loads(result.stdout)["matrix"]["cells"]) == 2
    assert b"image-gone" in left["report.html"]


@pytest.mark.parametrize("url", ["proofs/nightly", "https://proofs", "s3://"])
def test_a_url_that_is_none_is_refused_before_anything_runs(tmp_path, monkeypatch, url):
    result = invoke(monkeypatch, tmp_path, "drill", "--evidence", url)
    assert result.exit_code == 2
    assert "expected s3://bucket/prefix" in result.stderr
    assert not (tmp_path / ".killcheck").exists()
