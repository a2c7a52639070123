"""The question to a cluster's own audit log: what switches were refused, when targets went off, who lit them again."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from killcheck.probes.audit_log import AuditLog

from killcheck import fixtures
from killcheck.cli import main
from killcheck.kube import manifests
from killcheck.kube.audit_log import Broken, read
from killcheck.lint import asking
from killcheck.text.values import replace

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2JvZHkifQ.c2lnbmF0dXJl"


@pytest.fixture(scope="module")
def world():
    folder = fixtures.path("dead-man")
    return asking.world_of(manifests.load([folder]), NOW)[0]


@pytest.fixture
def target(world):
    return world.kill_path.targets[0]


@pytest.fixture
def account(world):
    (one,) = world.layer_executors
    return f"system:serviceaccount:{one.namespace}:{one.account}"


def _event(target, at, user, *, verb="patch", body=None, code=200, said=None, subresource="scale", **more):
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Request",
        "stage": "ResponseComplete",
        "requestURI": "/apis/apps/v1/...",
        "verb": verb,
        "user": {"username": user},
        "objectRef": {
            "resource": f"{target.kind.lower()}s",
            "namespace": target.namespace,
            "name": target.object,
            "apiGroup": "apps",
            "subresource": subresource,
        },
        "responseStatus": {"code": code, **({"message": said} if said else {})},
        "requestReceivedTimestamp": f"2026-01-{at}:00.000000Z",
        **({} if body is None else {"requestObject": body}),
        **more,
    }


def _log(tmp_path, *events):
    file = tmp_path / "audit.log"
    file.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in events))
    return file


def _asked(world, file):
    found = asking.lint(world, probes=[AuditLog([file])]).findings
    return [(f.severity, f.line, f.message) for f in sorted(found, key=lambda f: f.line)]


def _scale(number):
    return {"spec": {"replicas": number}}


def test_what_a_switch_was_refused_stands_until_it_is_taken(world, target, account, tmp_path):
    no = {"code": 403, "said": f"forbidden: User {account!r} cannot patch; Authorization: Bearer {TOKEN}"}
    nights = [_event(target, f"{day}T22:00", account, body=_scale(0), **no) for day in (12, 13)]
    ((severity, line, message), unseen) = sorted(_asked(world, _log(tmp_path, *nights)), key=lambda one: -one[1])
    assert (severity, line) == ("error", 2)
    assert "was refused 2 times, the last on 2026-01-13 22:00:00Z" in message
    assert "answered 403" in message
    assert TOKEN not in message
    assert "turned" in unseen[2]

    mended = _log(tmp_path, *nights, _event(target, "14T22:00", account, body=_scale(0)))
    refused, off = _asked(world, mended)
    assert refused[0] == "note"
    assert "taken on 2026-01-14" in refused[2]
    assert off[1:] == (3, f"was last turned off on 2026-01-14 22:00:00Z by {account}")


@pytest.mark.parametrize(("hour", "severity"), [("14T22:20", "error"), ("15T06:00", "note")])
def test_who_lights_it_again_is_told_with_how_long_after(world, target, account, tmp_path, hour, severity):
    events = [
        _event(target, "14T22:00", account, body=_scale(0)),
        _event(target, "14T22:01", account, body=_scale(2), stage="RequestReceived"),
        _event(target, "14T22:02", account, body=_scale(2), requestURI="/x?dryRun=All"),
        _event(target, hour, "kate", impersonatedUser={"username": "robot"}, body=[
            {"op": "replace", "path": "/spec/replicas", "value": 2}
        ]),
    ]  # fmt: skip
    _, lit = _asked(world, _log(tmp_path, *events))
    assert lit[:2] == (severity, 4)
    assert "was lit again by robot" in lit[2]
    assert "(2 replicas)" in lit[2]


def test_what_is_not_in_a_log_is_not_proven(world, target, account, tmp_path):
    file = _log(tmp_path, _event(target, "14T22:00", account))
    (found,) = asking.lint(world, probes=[AuditLog([file])]).findings
    assert found.unproven
    assert "level keeps no bodies" in found.message
    assert "turned Deployment/inference/vllm off is not known" in found.message
    (found,) = asking.lint(world, probes=[AuditLog([_log(tmp_path)])]).findings
    assert found.unproven
    assert "no answered change" in found.message


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "no JSON"),
        ('{"a":' + "[" * 100_000, "nested too deep"),
        ("[]", "expected kind: Event"),
        ('{"kind": "Event", "apiVersion": "v1"}', "apiVersion is v1: expected audit.k8s.io/v1"),
        (
            '{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"patch","objectRef":{}}',
            "it has no stageTimestamp",
        ),
        (
            '{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"Panic","verb":"patch","objectRef":{},"user":"a",'
            '"stageTimestamp":"2026-01-14T22:00:00Z"}',
            "AttributeError",
        ),
    ],
)
def test_a_broken_line_is_one_error_and_hides_no_other(world, target, account, tmp_path, line, why):
    file = _log(tmp_path, line, "", _event(target, "14T22:00", account, body=_scale(0)))
    (broken,) = [one for one in read(file) if isinstance(one, Broken)]
    assert (broken.file, broken.line) == (str(file), 1)
    assert why in broken.why
    assert [severity for severity, _, _ in _asked(world, file)] == ["error", "note"]


def test_a_file_that_is_no_audit_log_is_not_told_line_by_line(world, tmp_path):
    found = asking.lint(world, probes=[AuditLog([_log(tmp_path, *["level=info msg=started"] * 900)])]).findings
    assert [one.severity for one in found] == ["error"] * 5 + ["note"] * 2
    assert "895 more line(s)" in " ".join(one.message for one in found)


def test_another_of_the_kind_is_no_target_by_labels(world, target, account, tmp_path):
    labelled = replace(target, object="", selector="app=nobody")
    path = replace(world.kill_path, targets=(labelled,))
    events = _log(tmp_path, _event(target, "14T22:00", account, body=_scale(0)))
    (found,) = asking.lint(replace(world, kill_path=path), probes=[AuditLog([events])]).findings
    assert found.unproven
    assert "turned" in found.message


def test_lint_takes_logs_beside_manifests(target, account, tmp_path):
    file = _log(tmp_path, _event(target, "14T22:00", account, body=_scale(0), code=403, said="no"))
    folder = str(fixtures.path("dead-man"))
    ended = CliRunner().invoke(main, ["lint", "--manifests", folder, "--audit-log", str(file), "--json"])
    found = [f for f in json.loads(ended.stdout)["findings"] if f["probe"] == "audit-log" and not f["unproven"]]
    assert [(f["file"], f["line"]) for f in found] == [(str(file), 1)]
    assert ended.exit_code == 1
    ended = CliRunner().invoke(main, ["lint", "--manifests", folder, "--audit-log", str(tmp_path / "none")])
    assert ended.exit_code == 2
