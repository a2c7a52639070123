"""One object in several folders: of several clusters, perhaps, of which one was drilled."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml
from composed import Composition, Obj

from killcheck.capabilities.inventory import Inventory
from killcheck.kube import manifests
from killcheck.kube.objects import copy
from killcheck.ledger.keeping import keep
from killcheck.spec import specfile


def _more(objects: list[Obj]) -> list[Obj]:
    changed = [copy(one) for one in objects]
    next(one for one in changed if one["kind"] == "Deployment")["spec"]["replicas"] = 7
    return changed


@pytest.mark.parametrize(
    ("folders", "is_open"),
    [
        ({"a": list, "b": list}, False),
        ({"a": list, "b": _more}, True),
        ({"a": list, "b": lambda objects: [one for one in objects if one["kind"] != "CronJob"]}, True),
        ({"a": list, "b": lambda objects: [one for one in objects if one["kind"] == "Namespace"]}, False),
        ({"a/deep": list, "a/deep/older": _more}, True),
    ],
    ids=["alike", "more replicas", "without the switch", "something else", "below"],
)
def test_what_another_folder_has_otherwise_is_open(folders: dict[str, object], is_open: bool, tmp_path: Path) -> None:
    one = Composition()
    for name, of in folders.items():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "all.yaml").write_text(yaml.safe_dump_all(of(one.objects)))  # type: ignore[operator]
    (tmp_path / "killcheck.yaml").write_text(yaml.safe_dump(one.spec))
    path = specfile.load(tmp_path / "killcheck.yaml")
    for named, said in (([tmp_path], is_open), ([tmp_path / name for name in folders], is_open and "a" not in folders)):
        loaded = manifests.load(named)
        kept = keep(Inventory(loaded.objects, loaded=loaded), path, path.layers[0], today=date(2026, 1, 15))
        assert any("both have it" in entry.because for entry in kept.open) is said, (
            "named one by one they are laid over"
        )


@pytest.mark.parametrize(("overlays", "is_open"), [(["a"], False), (["a", "b"], True)])
def test_what_two_overlays_share_was_drilled_with_what_either_has(
    overlays: list[str], is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # nothing renders it
    one = Composition()
    for name in ("base", *overlays):
        (tmp_path / name).mkdir()
        listed = "[all.yaml]" if name == "base" else "[../base]"
        (tmp_path / name / "kustomization.yaml").write_text(f"resources: {listed}\n")
    (tmp_path / "base/all.yaml").write_text(yaml.safe_dump_all(one.objects))
    (tmp_path / "killcheck.yaml").write_text(yaml.safe_dump(one.spec))
    path, loaded = specfile.load(tmp_path / "killcheck.yaml"), manifests.load([tmp_path])
    kept = keep(Inventory(loaded.objects, loaded=loaded), path, path.layers[0], today=date(2026, 1, 15))
    assert any("both deploy it" in entry.because for entry in kept.open) is is_open
