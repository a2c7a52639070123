"""Protobuf bodies: what a real kubectl sent, and every recorded object there and back."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from api_world import World

from killcheck.embedded.api import protobuf, schemas
from killcheck.kube.objects import Obj

RECORDINGS = Path(__file__).parents[2] / "conformance" / "recordings"
PROTOBUF = "application/vnd.kubernetes.protobuf"
#: kubectl v1.32.4: create job now --from=cronjob/gpu-off
JOB = (
    "azhzAAoPCghiYXRjaC92MRIDSm9iErUCCoYBCgNub3cSABoAIgAqADIAOABCAGIrCiFjcm9uam9iLmt1YmVybmV0ZXMuaW8vaW5zdGFudGlhdGUSBm1h"
    "bnVhbGpECgdDcm9uSm9iGgdncHUtb2ZmIiQwNjBjZWE2My0xZDNiLTQ5M2YtYjk0OS0wZWFiN2YxYTM1NWUqCGJhdGNoL3YxMAESnwEynAEKEAoAEgAa"
    "ACIAKgAyADgAQgAShwESQwoBeBIGY3VybDoxKgBCAGoUL2Rldi90ZXJtaW5hdGlvbi1sb2dyDElmTm90UHJlc2VudIABAIgBAJABAKIBBEZpbGUaBU5l"
    "dmVyIB4yDENsdXN0ZXJGaXJzdEIASgBSAFgAYABoAHIAggEAigEAmgERZGVmYXVsdC1zY2hlZHVsZXLCAQAaCCAAKAAwADoAGgAiAA=="
)
#: kubectl v1.32.4: create cronjob cc --image=z --schedule='*/5 * * * *' -- date
CRON_JOB = (
    "azhzAAoTCghiYXRjaC92MRIHQ3JvbkpvYhKeAQoSCgJjYxIAGgAiACoAMgA4AEIAEoUBCgsqLzUgKiAqICogKhoAKnQKEgoCY2MSABoAIgAqADIAOABC"
    "ABJeMlwKEAoAEgAaACIAKgAyADgAQgASSBIhCgJjYxIBehoEZGF0ZSoAQgBqAHIAgAEAiAEAkAEAogEAGglPbkZhaWx1cmUyAEIASgBSAFgAYABoAIIB"
    "AIoBAJoBAMIBABoAGgAiAA=="
)


def test_what_kubectl_sends_is_what_it_means() -> None:
    job = schemas.decode("V1Job", protobuf.decode(base64.b64decode(JOB)))
    assert job.unknown == []
    assert job.obj == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "now",
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "CronJob",
                    "name": "gpu-off",
                    "controller": True,
                    "uid": "060cea63-1d3b-493f-b949-0eab7f1a355e",
                }
            ],
        },
        "spec": {
            "template": {
                "metadata": {},
                "spec": {
                    "containers": [
                        {
                            "name": "x",
                            "image": "curl:1",
                            "resources": {},
                            "terminationMessagePath": "/dev/termination-log",
                            "terminationMessagePolicy": "File",
                            "imagePullPolicy": "IfNotPresent",
                        }
                    ],
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst",
                    "securityContext": {},
                    "schedulerName": "default-scheduler",
                },
            }
        },
        "status": {},
    }


def test_the_server_takes_it_and_answers_in_json() -> None:
    world = World()
    answer = world.raw(
        "POST",
        "/apis/batch/v1/namespaces/default/cronjobs",
        base64.b64decode(CRON_JOB),
        PROTOBUF,
        accept=f"{PROTOBUF},application/json",
    )
    assert answer.status == 201
    assert answer.body["spec"]["schedule"] == "*/5 * * * *"
    assert answer.body["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"] == ["date"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{}", "does not appear to be a protobuf message"),
        (b"k8s\x00\x0a\x7f", "unexpected EOF"),
        (b"k8s\x00\x0b", "illegal wireType 3"),
        (b"k8s\x00", 'no kind "" is registered for version ""'),
    ],
)
def test_what_is_no_object(body: bytes, words: str) -> None:
    with pytest.raises(protobuf.ProtobufError, match=words):
        protobuf.decode(body)
    answer = World().raw("POST", "/apis/batch/v1/namespaces/default/cronjobs", body, PROTOBUF)
    assert answer.status == 400
    assert words in answer.body["message"]


# -- there and back: an encoder for objects as a server writes them ----------------------------------------------
def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def chunk(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def encoded(schema: str, numbers: dict[str, Any], obj: Obj) -> bytes:
    fields, out = schemas.fields(schema), b""
    for number, name in numbers.items():
        if isinstance(name, dict):
            out += chunk(int(number), encoded(schema, name, obj))
        elif obj.get(name) is not None:
            spec, value = fields[name], obj[name]
            if spec.shape == "{}":
                for key, inner in value.items():
                    out += chunk(int(number), chunk(1, key.encode()) + single(2, spec.base, inner))
            else:
                for inner in value if spec.shape == "[]" else [value]:
                    out += single(int(number), spec.base, inner)
    return out


def single(number: int, base: str, value: Any) -> bytes:
    if base in ("bool", "int32", "int64"):
        return varint(number << 3) + varint(int(value))
    if base == "string":
        return chunk(number, value.encode())
    if base == "bytes":
        return chunk(number, base64.b64decode(value))
    if base == "Quantity":
        return chunk(number, chunk(1, value.encode()))
    if base in ("Time", "MicroTime"):
        moment = datetime.fromisoformat(value)
        seconds, nanos = int(moment.timestamp()), moment.microsecond * 1000
        return chunk(number, varint(8) + varint(seconds) + varint(16) + varint(nanos))
    if base == "IntOrString":
        inner = (
            varint(8) + varint(1) + chunk(3, value.encode()) if isinstance(value, str) else (varint(16) + varint(value))
        )
        return chunk(number, inner)
    if base == "any":
        return chunk(number, chunk(1, json.dumps(value).encode()))
    return chunk(number, encoded(base, protobuf.numbers()[base], value))


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.json")), ids=lambda path: path.stem)
def test_every_recorded_object_comes_through(path: Path) -> None:
    recording = json.loads(path.read_text("utf-8"))
    names = {"Event": "CoreV1Event", "ResourceClaim": "ResourceV1ResourceClaim"}
    for obj in [*recording["objects"], *recording.get("deleted_objects", [])]:
        version = obj["apiVersion"].rpartition("/")[2]
        schema = names.get(obj["kind"], version.upper() + obj["kind"])
        kind = chunk(1, obj["apiVersion"].encode()) + chunk(2, obj["kind"].encode())
        body = b"k8s\x00" + chunk(1, kind) + chunk(2, encoded(schema, protobuf.numbers()[schema], obj))
        assert schemas.decode(schema, protobuf.decode(body)).obj == obj


def test_options_of_a_delete_are_read_too() -> None:
    world = World()
    world.raw("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
    options = encoded("V1DeleteOptions", protobuf.numbers()["V1DeleteOptions"], {"preconditions": {"uid": "other"}})
    kind = chunk(1, b"v1") + chunk(2, b"DeleteOptions")
    body = b"k8s\x00" + chunk(1, kind) + chunk(2, options)
    answer = world.raw("DELETE", "/api/v1/namespaces/default/configmaps/c", body, PROTOBUF)
    assert answer.status == 409
    assert "other" in answer.body["message"]
