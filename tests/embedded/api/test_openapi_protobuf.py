"""/openapi/v2 in protobuf, as kubectl up to 1.28 asks for it: read here by the wire format alone.

Tried with Debian's kubectl 1.20.2: ``apply -f`` of a List, ``get -o yaml | sed | apply -f -``, ``--dry-run=server``,
``--server-side``, ``diff`` and ``explain`` work, and a misspelt field is refused.
"""

from __future__ import annotations

import json

import pytest
from api_world import World

from killcheck.embedded.api import openapi
from killcheck.embedded.api.openapi_protobuf import MEDIA_TYPES


def fields(data):
    """number -> values of a message: bytes, or a number."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            assert key & 7 == 2
            length = varint()
            value, at = data[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def named(data, number):
    """Pairs of a name and a message."""
    pairs = (fields(pair) for pair in fields(data).get(number, ()))
    return {pair[1][0].decode(): pair[2][0] for pair in pairs}


def extensions(message, number):
    """name -> value; the value is YAML in the message."""
    return {name: json.loads(fields(value)[2][0]) for name, value in named(message, number).items()}


@pytest.fixture(scope="module")
def document():
    answer = World().raw("GET", "/openapi/v2", accept=f"application/json;q=0.1, {MEDIA_TYPES[1]}")
    assert (answer.status, answer.headers["Content-Type"]) == (200, MEDIA_TYPES[0])
    return fields(answer.body)


def test_every_definition_says_what_it_says_in_json(document):
    told = World().raw("GET", "/openapi/v2").body["definitions"]
    found = named(document[9][0], 1)
    assert list(found) == list(told)
    for name, schema in told.items():
        message = fields(found[name])
        properties = named(message[25][0], 1) if 25 in message else {}
        assert set(properties) == set(schema.get("properties", {}))
        assert [text.decode() for text in message.get(19, ())] == schema.get("required", [])
        assert extensions(found[name], 31) == {key: value for key, value in schema.items() if key.startswith("x-")}
        for field, text in schema.get("properties", {}).items():
            said = fields(properties[field])
            assert said.get(1, [b""])[0].decode() == text.get("$ref", "")
            assert ("items" in text) == (23 in said)


def test_kinds_are_found_and_a_patch_says_what_it_takes(document):
    """As kubectl looks: by the kind of a definition, and by the parameters of the PATCH of that kind."""
    deployment = named(document[9][0], 1)["io.k8s.api.apps.v1.Deployment"]
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert extensions(deployment, 31)["x-kubernetes-group-version-kind"] == [kind]
    path = named(document[8][0], 2)["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    patch = fields(path)[8][0]
    assert extensions(patch, 13)["x-kubernetes-group-version-kind"] == kind
    queries = [fields(fields(fields(fields(one)[1][0])[2][0])[3][0]) for one in fields(patch)[8]]
    assert {query[4][0].decode() for query in queries} >= {"dryRun", "fieldManager", "fieldValidation"}
    assert {query[2][0] for query in queries} == {b"query"}


def test_it_follows_the_custom_resources():
    world, media = World(), {"accept": MEDIA_TYPES[0]}
    before = world.raw("GET", "/openapi/v2", **media).body
    assert world.raw("GET", "/openapi/v2", **media).body is before
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "switches.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Switch", "plural": "switches", "singular": "switch"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "additionalProperties": {"type": "string"}}},
                        }
                    },
                }
            ],
        },
    }
    assert world.raw("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).status == 201
    world.settle()
    found = named(fields(world.raw("GET", "/openapi/v2", **media).body)[9][0], 1)
    spec = fields(named(fields(found["com.example.v1.Switch"])[25][0], 1)["spec"])
    assert fields(fields(fields(spec[21][0])[1][0])[22][0])[1] == [b"string"]


def test_paths_are_told():
    assert "/openapi/v2" in openapi.paths(World().server.kinds)
