"""Schedules beside the manifests that act from outside Kubernetes: what lights a target is never passed over."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml
from composed import Composition

from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Entry, Status
from killcheck.kube import manifests
from killcheck.ledger.keeping import keep
from killcheck.spec import specfile

UP = "kubectl -n serving scale deployment llama --replicas=1"
DOWN = UP.replace("=1", "=0")


def _workflow(cron: str, *lines: str) -> str:
    steps = [{"uses": "actions/checkout@v4"}] if not lines else [{"run": line} for line in lines]
    return yaml.safe_dump({"name": "n", "on": {"schedule": [{"cron": cron}]}, "jobs": {"go": {"steps": steps}}})


FILES = {
    "a crontab that lights it at night": ("cron.d/warm", f"30 23 * * * ops {UP} >> /var/log/warm\n", "open"),
    "a crontab that lights it in the morning": ("cron.d/warm", f"30 7 * * 1-5 ops {UP}\n", "assumed"),
    "a crontab that stops it too": ("cron.d/off", f"30 23 * * * ops {DOWN}\n", "harmless"),
    "a crontab of another matter": ("cron.d/dump", "0 2 * * * root /usr/local/bin/pg-dump.sh --all\n", "assumed"),
    "a script of another folder": ("cron.d/warm", "0 2 * * * root /opt/ops/warm.sh serving llama\n", "open"),
    "a workflow that lights it at night": (".github/workflows/on.yml", _workflow("0 1 * * *", UP), "open"),
    "a workflow that lights it in the morning": (".github/workflows/on.yml", _workflow("0 7 * * *", UP), "assumed"),
    "a workflow that stops it": (".github/workflows/off.yml", _workflow("0 22 * * *", DOWN), "harmless"),
    "Terraform of another matter": ("s.tf", 'resource "aws_autoscaling_schedule" "web" {\n  recurrence = "0 1 * * *"\n}', "assumed"),
    "Terraform that names its namespace": (
        "s.tf",
        'resource "aws_scheduler_schedule" "up" {\n  name = "up"\n  input = jsonencode({ns = "serving"})\n}',
        "open",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FILES)
def test_schedule_from_outside_has_its_entry(what: str, tmp_path: Path) -> None:
    name, text, wanted = FILES[what]
    assert [_said(entry) for entry in _entries(tmp_path, name, text)] == [wanted]


def test_timer_with_its_script_is_read(tmp_path: Path) -> None:
    (tmp_path / "units").mkdir()
    (tmp_path / "units/warm.service").write_text("[Service]\nExecStart=/opt/warm.sh\n")
    (tmp_path / "units/warm.sh").write_text(f"#!/bin/sh\n{UP}\n")
    (entry,) = _entries(tmp_path, "units/warm.timer", "[Timer]\nOnCalendar=*-*-* 23:30:00\n")
    assert _said(entry) == "open"
    assert "patch deployments/scale.apps serving/llama" in entry.because


def _entries(folder: Path, name: str, text: str) -> list[Entry]:
    one = Composition()
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    (folder / "all.yaml").write_text(yaml.safe_dump_all(one.objects))
    (folder / "killcheck.yaml").write_text(yaml.safe_dump(one.spec))
    path, loaded = specfile.load(folder / "killcheck.yaml"), manifests.load([folder])
    kept = keep(Inventory(loaded.objects, loaded=loaded), path, path.layers[0], today=date(2026, 1, 15))
    return [entry for entry in kept.entries if entry.object == str(file)]


def _said(entry: Entry) -> str:
    return "open" if entry.status is Status.NOT_MODELLED else str(entry.status)
