"""Kustomizations that were not rendered: what they would have changed was not drilled."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml
from composed import Composition

from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Entry
from killcheck.kube import manifests
from killcheck.ledger.keeping import keep
from killcheck.spec import specfile

CHANGES = {
    "a patch": "patches: [{target: {kind: CronJob}, patch: '[{op: add, path: /spec/suspend, value: true}]'}]",
    "a prefix": "namePrefix: prod-",
    "a base elsewhere": "bases: ['https://example.com/base']",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_target_among_its_resources_is_not_what_was_drilled(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = _open(tmp_path, f"resources: [all.yaml]\n{CHANGES[what]}\n", monkeypatch)
    assert entry.object.endswith("kustomization.yaml")
    assert "is among its resources" in entry.because


def test_a_kustomization_of_other_things_concerns_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/ns.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n")
    (tmp_path / "other/kustomization.yaml").write_text("resources: [ns.yaml]\nnamePrefix: prod-\n")
    assert _open(tmp_path, None, monkeypatch) == []


def test_one_that_only_lists_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _open(tmp_path, "resources: [all.yaml]\n", monkeypatch) == []


def _open(folder: Path, kustomization: str | None, monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    monkeypatch.setenv("PATH", str(folder))  # nothing renders it
    one = Composition()
    (folder / "all.yaml").write_text(yaml.safe_dump_all(one.objects))
    if kustomization is not None:
        (folder / "kustomization.yaml").write_text(kustomization)
    (folder / "killcheck.yaml").write_text(yaml.safe_dump(one.spec))
    path, loaded = specfile.load(folder / "killcheck.yaml"), manifests.load([folder])
    kept = keep(Inventory(loaded.objects, loaded=loaded), path, path.layers[0], today=date(2026, 1, 15))
    return [entry for entry in kept.open if "kustomization" in entry.object]
