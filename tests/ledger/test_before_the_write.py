"""The law of what stands before a write: what nobody listed as known leaves a switch open, and what is known does not."""

from __future__ import annotations

import pytest
from conditions import (
    known_pythons,
    known_shells,
    peculiar_pythons,
    peculiar_shells,
    unknown_pythons,
    unknown_shells,
)

from killcheck.executor import guards

_HOLIDAYS = {("inference", "days"): {"data": {"holidays": "2026-12-24\n"}}}


def _guards(interpreter, program):
    container = {"name": "c", "command": [interpreter, "-c", program], "env": [{"name": "DRY", "value": "false"}]}
    container["volumeMounts"] = [{"name": "days", "mountPath": "/config"}]
    volumes = [{"name": "days", "configMap": {"name": "days"}}]
    spec = {"containers": [container], "volumes": volumes}
    return guards.of(spec, "inference", _HOLIDAYS, guards.Around())


@pytest.mark.parametrize(
    ("interpreter", "programs"),
    [
        ("bash", unknown_shells),
        ("bash", peculiar_shells),
        ("python3", unknown_pythons),
        ("python3", peculiar_pythons),
    ],
)
def test_whatever_is_not_known_leaves_it_open(interpreter, programs):
    passed = [program for _, program in programs() if not _guards(interpreter, program).guards]
    assert passed == []


@pytest.mark.parametrize(("interpreter", "programs"), [("bash", known_shells), ("python3", known_pythons)])
def test_whatever_is_known_does_not(interpreter, programs):
    open_ = [(program, found) for program in programs() if (found := _guards(interpreter, program)) != guards.Read()]
    assert open_ == []
