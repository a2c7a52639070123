"""A policy that refuses the drill's own Job: the cause only where it refuses the schedule's just as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_steady_states import drilled, replicated, scaled, workload

API = "admissionregistration.k8s.io/v1"


def policy(expression: str) -> list[dict]:
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": "not like this"}],
    }
    bound = {"policyName": "neat", "validationActions": ["Deny"]}
    made = [workload("ValidatingAdmissionPolicy", spec, API, "neat")]
    made.append(workload("ValidatingAdmissionPolicyBinding", bound, API, "neat"))
    for one in made:
        del one["metadata"]["namespace"]
    return made


@pytest.mark.parametrize(
    ("expression", "verdict", "said"),
    [
        ("has(object.spec.activeDeadlineSeconds)", "exposed", "no Job of CronJob lights-out can be made"),
        ("has(object.metadata.ownerReferences)", "inconclusive", "the API server refused what the drill itself asked"),
        ("object.metadata.namespace != 'elsewhere'", "survived", ""),
    ],
    ids=["whoever makes them", "those without an owner", "those of another namespace"],
)
def test_who_is_refused_is_told_apart(expression: str, verdict: str, said: str, tmp_path: Path) -> None:
    result = drilled(tmp_path, replicated(replicas=1), *scaled("deployment/loom"), *policy(expression))
    assert str(result.verdict) == verdict, result.why
    assert said in f"{result.cause} {result.why}"
    assert ("not like this" in f"{result.cause} {result.why}") is (verdict != "survived")
