"""Which target a resource of a kind that nobody models names: the one of its own namespace, unless it says another."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from beside import custom
from composed import Composition

from killcheck.capabilities.inventory import Inventory
from killcheck.ledger.keeping import keep
from killcheck.spec import specfile

REF = {"kind": "Deployment", "name": "llama"}


@pytest.mark.parametrize(
    ("spec", "namespace", "names"),
    [
        ({"scaleTargetRef": REF}, "web", False),
        ({"targets": [REF, {"kind": "Deployment", "name": "other"}]}, "web", False),
        ({"scaleTargetRef": REF}, "serving", True),
        ({"scaleTargetRef": REF}, "", True),  # of the whole cluster
        ({"scaleTargetRef": REF | {"namespace": "serving"}}, "web", True),
        ({"scaleTargetRef": REF | {"namespace": "shop"}}, "web", False),
        ({"scaleTargetRef": REF, "where": "serving"}, "web", True),
        ({"scaleTargetRef": REF, "namespaces": {"matchLabels": {"a": "b"}}}, "web", True),
        ({"scaleTargetRef": REF, "clusterName": "eu"}, "web", True),
        ({"scaleTargetRef": {"name": "llama"}}, "web", True),  # of what kind, and where, it does not say
        ({"workload": "llama"}, "web", True),
        ({"workload": "deployment/serving/llama"}, "web", True),
        ({"pause": [{"kind": "CronJob", "namespace": "serving", "name": "lights-out"}]}, "web", True),
        ({"pause": [{"kind": "CronJob", "name": "lights-out"}]}, "web", False),
    ],
)
def test_reference_without_a_namespace_means_its_own(
    spec: dict[str, Any], namespace: str, names: bool, tmp_path: Path
) -> None:
    one = Composition(rivals=(custom("PredictiveScaler", spec, namespace=namespace),))
    file = tmp_path / "killcheck.yaml"
    file.write_text(yaml.safe_dump(one.spec))
    kill_path = specfile.load(file)
    ledger = keep(Inventory(one.objects), kill_path, kill_path.layers[0], today=date(2026, 1, 15))
    assert any("of-a-stranger" in entry.object for entry in ledger.open) is names
