"""A machine's kubeconfig ends on a day: read, drilled past it, and as a fault; who asks no API is not asked about."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from killcheck.clock import wall_now
from killcheck.lint import asking
from killcheck.machine import logins
from killcheck.run.public import run_drill
from killcheck.spec import specfile
from killcheck.spec.killpath import Command

HOLDER = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: sd-xl, namespace: art}
spec:
  replicas: 2
  serviceName: sd-xl
  selector: {matchLabels: {app: sd-xl}}
  template:
    metadata: {labels: {app: sd-xl}}
    spec:
      terminationGracePeriodSeconds: 3
      containers: [{name: s, image: registry.example.net/sd:1, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
SPEC = """\
apiVersion: killcheck/v1
kind: KillPath
name: art
targets: [{name: sd-xl, kind: StatefulSet, namespace: art, object: sd-xl}]
layers:
  - {name: desk, type: command, covers: [sd-xl], command: {argv: [./off.sh], timeout: 90s}, schedule: "10 4 * * *"}
proof: [P1]
"""


def kubeconfig(days: float) -> str:
    """One whose client certificate ends in so many days."""
    key, now = ec.generate_private_key(ec.SECP256R1()), wall_now()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "night-owl")])
    made = x509.CertificateBuilder(name, name, key.public_key(), 5, now - timedelta(400), now + timedelta(days))
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    user = f"{{client-certificate-data: {base64.b64encode(pem).decode()}}}"
    return (
        f"apiVersion: v1\nkind: Config\nusers: [{{name: night-owl, user: {user}}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: night-owl}}]\ncurrent-context: a\n"
    )


def desk(folder: Path, days: float, where: str = "art.conf") -> Path:
    """A spec whose program asks the API with a kubeconfig that lies there."""
    script = (
        f"#!/bin/sh\nset -e\nkubectl --kubeconfig /etc/art/{Path(where).name} -n art scale sts/sd-xl --replicas=0\n"
    )
    for name, text in {"off.sh": script, "killcheck.yaml": SPEC, "all.yaml": HOLDER, where: kubeconfig(days)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "off.sh").chmod(0o755)
    return folder / "killcheck.yaml"


@pytest.mark.parametrize(
    ("days", "where", "severity", "says"),
    [
        (-3, "art.conf", "error", "ended on"),
        (9, "machine/etc/art/art.conf", "warning", "in 8 days"),
        (90, "art.conf", "", ""),
        (-3, "elsewhere/art.conf", "", ""),
    ],
)
def test_lint_says_when_it_ends(days, where, severity, says, tmp_path):
    path = specfile.load(desk(tmp_path, days, where))
    world, _ = asking.world_of([], wall_now(), kill_path=path)
    found = [one for one in asking.lint(world).findings if one.probe == "certificate-expiry"]
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert all("user night-owl in /etc/art/art.conf" in one.message and says in one.message for one in found)


@pytest.mark.parametrize(
    ("days", "under", "verdict", "says"),
    [
        (-1, [], "exposed", "must be logged in"),
        (40, [], "survived", ""),
        (40, ["kubeconfig-ended"], "exposed", "must be logged in"),
    ],
)
def test_whoever_is_let_in_no_more_turns_nothing_off(days, under, verdict, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run_drill(
        desk(tmp_path, days), layer="desk", under=under, exec_mode="host", manifests=[tmp_path / "all.yaml"]
    )
    assert str(result.verdict) == verdict, result.why
    assert says in result.cause
    assert not result.problems


def test_nothing_out_of_the_folder_is_read(tmp_path):
    (tmp_path / "spec").mkdir()
    (tmp_path / "art.conf").write_text(kubeconfig(-3))
    (tmp_path / "spec" / "art.conf").symlink_to(tmp_path / "art.conf")
    command = Command(("kubectl", "--kubeconfig", "/etc/art.conf"), 5.0)
    assert list(logins.kept([command], tmp_path / "spec")) == []
    assert logins.homes([Command(("kubectl",), 5.0, env={"HOME": "/home/x"})]) == ["/root", "/home/x"]
