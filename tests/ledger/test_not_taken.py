"""Manifests that no API server takes: what a cluster has in their place was not there, and may hold the switch up."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from beside import custom
from composed import WATCHED, Composition, Obj, workload

from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import DrillResult


def _of(kind: str, spec: Obj, *, version: str = "v1", namespace: str = "serving") -> Obj:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "odd", "namespace": namespace}, "spec": spec}


_LIMITS = {"limits": [{"type": "Container", "min": {"memory": "1Gi"}, "default": {"memory": "64Mi"}}]}
_SCALER = {"scaleTargetRef": {"kind": "Deployment", "name": "llama"}, "maxReplicas": 0}
_NAMELESS = workload("odd", "web", "default")
_NAMELESS["spec"]["template"]["spec"]["containers"][0]["name"] = "Not A Name"


def _drilled(obj: Obj, folder: Path) -> DrillResult:
    one = Composition(rivals=(obj,))
    (folder / "killcheck.yaml").write_text(yaml.safe_dump(one.spec))
    (folder / "all.yaml").write_text(yaml.safe_dump_all(one.objects))
    session = Session(spec=folder / "killcheck.yaml", exec_mode="host", strict=False)
    return Run(session, [PlannedDrill("lights-out", options=WATCHED)], folder=folder / "runs").execute().drills[0]


@pytest.mark.parametrize(
    ("obj", "verdict"),
    [
        (_of("LimitRange", _LIMITS), "inconclusive"),
        (_of("LimitRange", _LIMITS, namespace="web"), "survived"),
        (_of("ResourceQuota", {"hard": {"pods": "-1"}}), "inconclusive"),
        (_of("HorizontalPodAutoscaler", _SCALER, version="autoscaling/v2"), "inconclusive"),
        (_of("Service", {"ports": [{"port": 99999}]}), "survived"),
        (_NAMELESS, "survived"),
    ],
    ids=lambda value: (
        str(value.get("kind")) + "/" + value["metadata"]["namespace"] if isinstance(value, dict) else value
    ),
)
@pytest.mark.one_in(2)
def test_what_was_refused_is_not_taken_for_what_is_there(obj: Obj, verdict: str, tmp_path: Path) -> None:
    result = _drilled(obj, tmp_path)
    assert str(result.verdict) == verdict, result.why
    assert ("no API server takes it" in result.why) is (verdict == "inconclusive")


def test_resource_of_a_stranger_is_taken_as_it_is(tmp_path: Path) -> None:
    result = _drilled(custom("Anything", {"a": 1}, namespace="web"), tmp_path)
    assert str(result.verdict) == "survived", result.why
