"""A night on the shipped kill path with its record, a key that signs, and what the tests change in between."""

from __future__ import annotations

import shutil
from pathlib import Path

from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from killcheck import fixtures
from killcheck.cli import main
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session

PRIVATE, PUBLIC = "k.pem", "k.pub"


def keys(folder, private=PRIVATE, public=PUBLIC):
    """A new pair of keys in a folder."""
    key = Ed25519PrivateKey.generate()
    (folder / private).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / public).write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def deployed(folder):
    """A team's folder with the manifests and the spec of the shipped kill path."""
    deploy = folder / "deploy"
    deploy.mkdir()
    for file in fixtures.path("dead-man").iterdir():
        if file.suffix == ".yaml":
            shutil.copy(file, deploy / file.name)
    return deploy


def drilled(deploy, folder, *faults, exec_mode="model"):
    """The record of one drill of what is deployed."""
    session = Session(spec=deploy / "killcheck.yaml", manifests=(deploy,), exec_mode=exec_mode, strict=False)
    return Run(session, [PlannedDrill("nightly-off", faults)], folder=folder).execute().record


def killcheck(*words):
    """(exit code, everything that it printed)."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    return done.exit_code, done.output


def copied(world: Path, folder: Path):
    """A world of a test's own."""
    shutil.copytree(world, folder, dirs_exist_ok=True)
    return folder
