"""A fleet's own scaler beside a switch: it runs, and that it saw a night without work is said."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Status
from killcheck.kube.objects import copy
from killcheck.ledger import workloads
from killcheck.ledger.keeping import keep
from killcheck.ledger.stakes import Stakes
from killcheck.run.session import NothingToDrill, Session

GROWS = "kubectl -n inference scale deployment vllm --replicas=$((now + 1))"
SHRINKS = "kubectl -n inference scale deployment vllm --replicas=0"


def scaler(line: str, kind: str = "Deployment") -> Any:
    pod = {
        "serviceAccountName": "gpu-nightly-off",
        "containers": [{"name": "scaler", "image": "bitnami/kubectl:1.30", "command": ["sh", "-c", line]}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "fleet", "namespace": "inference"},
        "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "fleet"}}, "spec": pod}},
    }


@pytest.mark.parametrize(
    ("line", "status"), [(GROWS, Status.ASSUMED), (SHRINKS, Status.EXECUTED)], ids=["grows", "only-shrinks"]
)
def test_one_that_ran_is_said_where_it_may_grow(line: str, status: Status) -> None:
    session = Session(fixture="dead-man")
    obj = scaler(line)
    objects = [*(copy(one) for one in session.objects), obj]
    stakes = Stakes(objects, session.kill_path, session.kill_path.layers[0])
    entry = workloads.entry_of(obj, stakes, workloads.Seen(ran=True), (), live=False)
    assert entry.status is status, entry
    assert ("taken to be no work" in entry.because) is (status is Status.ASSUMED)


def test_one_that_did_not_run_stays_open() -> None:
    session = Session(fixture="dead-man")
    objects = [*(copy(one) for one in session.objects), scaler(GROWS)]
    kept = keep(Inventory(objects), session.kill_path, session.kill_path.layers[0], today=date(2026, 1, 1))
    assert "Deployment/inference/fleet" in [entry.object for entry in kept.open]


@pytest.mark.parametrize("switch", [True, False], ids=["beside-a-switch", "alone"])
def test_one_of_which_nobody_said_when_it_acts_runs_and_is_no_drill(switch: bool, tmp_path: Path) -> None:
    """The switches beside it are drilled all the same; alone, what is missing is said."""
    objects = [o for o in Session(fixture="dead-man").objects if switch or o["kind"] != "CronJob"]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([*objects, scaler(SHRINKS)]), encoding="utf-8")
    session = Session(manifests=[tmp_path], exec_mode="none")
    if switch:
        assert session.layer_names == ["gpu-nightly-off"]
        assert any("a watch of its own" in note for note in session.notes)
    else:
        with pytest.raises(NothingToDrill, match=r"fleet turns targets off by a watch of its own.*idle-monitor"):
            session.layer_names  # noqa: B018
    marked = next(o for o in session.inventory.objects if o["metadata"]["name"] == "fleet")
    assert marked["spec"]["template"]["metadata"]["annotations"] == {"killcheck.dev/execute": "true"}
