"""Which fields an applied configuration owns: what a real v1.36.2 API server's managedFields said, object by object."""

import json
from pathlib import Path

import pytest

from killcheck.embedded.api.fieldsets import applied_fields

APPLIED = json.loads((Path(__file__).parent / "applied_fields.json").read_text())["applied"]


@pytest.mark.parametrize("told", APPLIED, ids=[told["applied"]["kind"] for told in APPLIED])
def test_what_is_applied_is_owned_as_there(told):
    assert applied_fields(told["applied"]) == told["fields"]
