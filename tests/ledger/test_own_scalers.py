"""A fleet's own scaler beside a switch: it runs, and on a night with work it may do more than was seen."""

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
from killcheck.spec.killpath import Ref
from killcheck.text.values import replace

GROWS = "kubectl -n inference scale deployment vllm --replicas=$((now + 1))"
SHRINKS = "kubectl -n inference scale deployment vllm --replicas=0"
#: Ends another one, and waits until it is gone.
ENDS, GONE = "kubectl scale {} --replicas=0", "kubectl wait --for=delete pod -l app=fleet"


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
    ("line", "ends", "status"),
    [
        (GROWS, "", Status.NOT_MODELLED),
        (GROWS, f"{ENDS.format('deployment/fleet')}; {GONE}; {SHRINKS}", Status.EXECUTED),
        (GROWS, f"{ENDS.format('deployment --all')}; sleep 60; {SHRINKS}", Status.EXECUTED),
        (GROWS, f"{ENDS.format('deployment/fleet')}; {SHRINKS}; {GONE}", Status.NOT_MODELLED),
        (GROWS, f"{SHRINKS}; {ENDS.format('deployment/fleet')}; {GONE}", Status.NOT_MODELLED),
        (GROWS, f"{ENDS.format('deployment/fleet deployment/vllm')}; {GONE}", Status.NOT_MODELLED),
        (GROWS, f"while true; do {SHRINKS}; {ENDS.format('deployment/fleet')}; sleep 60; done", Status.NOT_MODELLED),
        (GROWS, f"{ENDS.format('deployment $(cat /which)')}; {GONE}; {SHRINKS}", Status.NOT_MODELLED),
        (GROWS, f"{ENDS.format('deployment/fleet -n $(cat /where)')}; {GONE}; {SHRINKS}", Status.NOT_MODELLED),
        (SHRINKS, "", Status.EXECUTED),
    ],
    ids=["grows", "ends", "all", "no-wait", "after", "at-once", "cron-loop", "some-one", "somewhere", "only-shrinks"],
)
def test_one_that_ran_is_open_where_it_may_grow_and_nobody_ends_it(line: str, ends: str, status: Status) -> None:
    session = Session(fixture="dead-man")
    obj = scaler(line)
    objects = [*(copy(one) for one in session.objects), obj]
    for cron in (one for one in objects if ends and one["kind"] == "CronJob"):
        (container,) = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        container["args"] = [ends]
    stakes = Stakes(objects, session.kill_path, session.kill_path.layers[0])
    entry = workloads.entry_of(obj, stakes, workloads.Seen(ran=True), (), live=False)
    assert entry.status is status, entry
    assert ("when work comes" in entry.because) is (line is GROWS)


def test_one_that_is_a_layer_itself_is_tried_there_and_said_here() -> None:
    session = Session(fixture="dead-man")
    obj, layer = scaler(GROWS), session.kill_path.layers[0]
    own = replace(layer, name="fleet", cron_job=None, workload=Ref("apps/v1", "Deployment", "inference", "fleet"))
    path = replace(session.kill_path, layers=(layer, own))
    stakes = Stakes([*(copy(one) for one in session.objects), obj], path, layer)
    entry = workloads.entry_of(obj, stakes, workloads.Seen(ran=True), (), live=False)
    assert entry.status is Status.ASSUMED, entry
    assert "taken to be no work" in entry.because


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
