"""Sidecars that an injector adds: open for whichever layer's pods turned the targets off."""

from __future__ import annotations

from datetime import date

import pytest

from killcheck import fixtures
from killcheck.capabilities.inventory import Inventory
from killcheck.kube.objects import copy, name_of
from killcheck.ledger.keeping import keep
from killcheck.run.session import Session


@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_the_pods_of_what_turned_them_off_are_asked_about(own: bool, refused: bool) -> None:
    session = Session(fixture="two-switches")
    assert "two-switches" in fixtures.names()
    first, second = session.kill_path.layers[:2]
    ref = (first if own else second).cron_job
    assert ref is not None
    objects = [copy(obj) for obj in session.objects]
    (cron,) = [obj for obj in objects if obj["kind"] == "CronJob" and name_of(obj) == ref.name]
    template = cron["spec"]["jobTemplate"]["spec"]["template"]
    template.setdefault("metadata", {}).setdefault("labels", {})["sidecar.istio.io/inject"] = str(not refused).lower()
    by = None if own else second
    kept = keep(Inventory(objects), session.kill_path, first, today=date(2026, 1, 1), by=by)
    found = [entry.object for entry in kept.open if entry.object.startswith("Injection/")]
    assert found == ([] if refused else [f"Injection/{ref.namespace}/{ref.name}"])
    if not own:  # where the first turned them off itself, the other's pods are not asked about
        alone = keep(Inventory(objects), session.kill_path, first, today=date(2026, 1, 1))
        assert not [entry for entry in alone.open if entry.object.startswith("Injection/")]
