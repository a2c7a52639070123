"""Requests that a real API server was sent, and its answers word for word (recordings 19 and 31)."""

import json
import re
from pathlib import Path

import pytest
from api_world import World

RECORDINGS = Path(__file__).parents[2] / "conformance" / "recordings"
#: What differs from cluster to cluster, wherever it stands in an answer.
CHANGING = re.compile(
    r'("(?:uid|resourceVersion|creationTimestamp)": )"[^"]*"|'
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)


def comparable(body):
    body = json.loads(json.dumps(body))
    body.get("metadata", {}).pop("managedFields", None)
    return json.loads(CHANGING.sub(lambda match: f'{match[1]}"*"' if match[1] else "*", json.dumps(body)))


def exchanges(name):
    return json.loads((RECORDINGS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["19-cronjob-invalid", "31-yaml-off-is-boolean"])
def test_the_answers_are_the_recorded_ones(name):
    recording = exchanges(name)
    world = World()
    for obj in recording["setup"]:
        world.kube.create(world.kube.resource_for(obj["apiVersion"], obj["kind"]), obj)
    wrong = []
    for exchange in recording["http"]:
        method, url = exchange["request"].split(" ", 1)
        answer = world.raw(method, url, exchange.get("request_body"), exchange.get("request_content_type", ""))
        got = answer.status, answer.headers.get("Warning"), comparable(answer.body)
        want = exchange["status"], exchange["headers"].get("Warning"), comparable(exchange["body"])
        if got != want:
            wrong.append((exchange.get("note"), got, want))
    assert not wrong, json.dumps(wrong[0], indent=1)
