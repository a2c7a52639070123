"""Which fields an applied configuration owns, and which lists patches merge: what a real v1.36.2 API server said."""

import json
from pathlib import Path

import pytest

from killcheck.embedded.api import schemas
from killcheck.embedded.api.fieldsets import applied_fields, emptied, paths, readable
from killcheck.embedded.api.kinds import builtin
from killcheck.embedded.api.mergekeys import ApplyLists, merge_key, merges_primitives, retains_keys

APPLIED = json.loads((Path(__file__).parent / "applied_fields.json").read_text())["applied"]
#: "v1.PodSpec containers" -> "merge name": all that /openapi/v2 says of strategic merge patches.
MERGED = json.loads((Path(__file__).parent / "merged_lists.json").read_text())["merged"]


@pytest.mark.parametrize("told", APPLIED, ids=[told["applied"]["kind"] for told in APPLIED])
def test_what_is_applied_is_owned_as_there(told):
    assert applied_fields(told["applied"]) == told["fields"]


def test_strategic_patches_merge_the_lists_that_they_merge_there():
    said = {}
    for schema in schemas.load():
        for field in schemas.fields(schema):
            merged = merge_key(schema, field), merges_primitives(schema, field), retains_keys(schema, field)
            if any(merged):
                key, whole, retained = merged
                ways = ["merge"] * bool(key or whole) + ["retainKeys"] * retained
                said[f"{schemas.go_name(schema)} {field}"] = f"{','.join(ways)} {key or ''}".strip()
    assert said == MERGED


def test_elements_that_a_client_wrote_have_an_order_whatever_is_in_them():
    """Keys of one list with values of several types."""
    items = ['k:{"a":2}', 'k:{"a":"x"}', 'k:{"a":[1]}', 'k:{"a":null}']
    told = list(paths({"f:x": {item: {} for item in reversed(items)}}))
    assert [item for _, item in told] == items
    assert readable({"f:x": {items[0]: {"f:y": {}}, "v:1": {}, "i:0": {}, ".": {}}})
    assert not any(readable({"f:x": tree}) for tree in (3, {"k:[1]": {}}, {"k:nope": {}}, {"x": {}}))


def test_what_no_type_has_is_nobodys():
    """What a patch says of itself, and a field that is dropped."""
    rules = [{"x": []}]
    sent = {"spec": {"$retainKeys": rules, "no": rules, "template": {"spec": {"no": {"no": rules}, "volumes": rules}}}}
    (deployment,) = (one for one in builtin() if one.resource.kind == "Deployment")
    assert emptied(sent, ApplyLists(deployment), deployment.schema) == {}
    sent["spec"]["template"]["spec"]["containers"] = [{"name": "c", "args": [[]]}]
    assert "f:spec" in emptied(sent, ApplyLists(deployment), deployment.schema)
