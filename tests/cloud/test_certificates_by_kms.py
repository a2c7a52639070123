"""A certificate that a key signs which AWS KMS keeps, as the stand-in has it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from killcheck import events
from killcheck.cli import main
from killcheck.run.record import RecordWriter

pytest.importorskip("securesystemslib")

NOW = datetime.now(UTC)
RESULT = {"layer": "l", "faults": [], "verdict": "survived", "why": "it went off"}


def record(folder):
    file = folder / "run.jsonl"
    began, ended = NOW - timedelta(minutes=2), NOW - timedelta(minutes=1)
    with RecordWriter(file) as writer:
        writer(events.RunStarted(at=began, run="r", version="0", cluster="c", real=True, kill_path="p", drills=[{}]))
        writer(events.Subjects(at=began, spec="sha256:" + "a" * 64))
        writer(events.DrillFinished(at=ended, drill="d", result=RESULT))
        writer(events.RunFinished(at=ended, verdict="survived", exit_code=0))
    return file


def of_digest(key, message, _algorithm):
    """As KMS signs a message of type DIGEST: moto signs the digest of that."""
    return key.private_key.sign(message, ec.ECDSA(utils.Prehashed(SHA256())))


def test_kms_signs_it(stand_in, tmp_path, monkeypatch):
    credentials = {"AWS_ACCESS_KEY_ID": "AKIASTANDIN000000000", "AWS_SECRET_ACCESS_KEY": "s"}
    for name, value in {**stand_in.environment(), **credentials}.items():
        monkeypatch.setenv(name, value)
    kms = stand_in.aws().client("kms")
    key = kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec="ECC_NIST_P256")["KeyMetadata"]["KeyId"]
    public = load_der_public_key(kms.get_public_key(KeyId=key)["PublicKey"])
    (tmp_path / "k.pub").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    certify = ["certify", str(record(tmp_path)), "--key", f"awskms:{key}"]
    wrong = CliRunner().invoke(main, certify)
    assert (wrong.exit_code, "its signature does not fit" in wrong.output) == (4, True)
    assert not (tmp_path / "certificate.intoto.json").exists()
    monkeypatch.setattr("moto.kms.utils.ECDSAPrivateKey.sign", of_digest)
    made = CliRunner().invoke(main, certify)
    assert made.exit_code == 0, made.output
    words = ["verify", str(tmp_path / "certificate.intoto.json"), "--key", str(tmp_path / "k.pub"), "--json"]
    assert json.loads(CliRunner().invoke(main, words).output)["verdict"] == "proven"
    none = CliRunner().invoke(main, ["certify", str(tmp_path / "run.jsonl"), "--key", "awskms:alias/none"])
    assert none.exit_code == 4
    assert "AWS KMS did not sign" in none.output
