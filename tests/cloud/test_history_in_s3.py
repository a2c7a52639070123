"""A history of what ``killcheck evidence`` left in S3."""

import pytest

from killcheck.cloud.session import Aws
from killcheck.history.index import gather
from killcheck.history.places import PlaceError, place_of
from killcheck.history.series import Stand, told
from killcheck.run.chain import Chain
from killcheck.run.evidence import Store, files_of, leave

RECORD = """\
{"event":"RunStarted","at":"2026-11-0%dT03:00:00Z","drill":"","run":"r%d","version":"0.1.0","cluster":"c","real":true,"kill_path":"p"}
{"event":"DrillStarted","at":"2026-11-0%dT03:00:00Z","drill":"off","layer":"off","layer_type":"dead-man","faults":[],"deadlines":{},"proof":[]}
{"event":"DrillFinished","at":"2026-11-0%dT03:05:00Z","drill":"off","result":{"verdict":"survived","seconds_to_zero":4.0}}
{"event":"RunFinished","at":"2026-11-0%dT03:05:00Z","drill":"","verdict":"survived","exit_code":0}
"""


def sealed(text):
    """A record as this machine writes it."""
    chain, lines = Chain(), text.splitlines()
    return "".join(f"{chain.add(line, last=line == lines[-1])}\n" for line in lines)


def test_what_evidence_left_is_read_by_its_prefix(stand_in, tmp_path):
    aws = stand_in.aws()
    aws.client("s3").create_bucket(Bucket="proofs")
    for day in (1, 2):
        folder = tmp_path / f"r{day}"
        folder.mkdir()
        (folder / "run.jsonl").write_text(sealed(RECORD % ((day,) * 5)))
        (folder / "report.html").write_text("<html>")
        leave(aws, Store("s3://proofs/gpu"), files_of(folder / "run.jsonl"), run=folder.name)
        leave(aws, Store("s3://proofs/other"), files_of(folder / "run.jsonl"), run=f"x{day}")
    history = gather([place_of("s3://proofs/gpu/", aws)], tmp_path / "index")
    (one,) = told(history, now=history.nights[-1].at, stale_after_s=86400).series
    assert (len(one.nights), one.stand, one.to_zero.median_s) == (2, Stand.PROVEN, 4.0)
    assert gather([place_of("s3://proofs", aws)], None).nights == history.nights
    assert gather([place_of("s3://proofs/absent", aws)], None).nights == ()


def test_a_bucket_that_is_not_there_is_one_sentence(stand_in):
    with pytest.raises(PlaceError, match="s3://nowhere"):
        gather([place_of("s3://nowhere/x", stand_in.aws())], None)


def test_without_an_account_it_is_said(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(PlaceError, match="no credentials were found"):
        gather([place_of("s3://nowhere/x", Aws("us-east-1", ""))], None)
