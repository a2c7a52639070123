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


WARM = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: warm}\nspec: {schedule: {{ .Values.when }}}\n"
ROLE = (
    "kind: ClusterRole\nmetadata: {name: {{ .Release.Name }}}\nrules:\n"
    "- {apiGroups: [apps], resources: [deployments/scale], verbs: [patch]}\n"
)
BINDING = (
    "kind: RoleBinding\nmetadata: {name: {{ .Release.Name }}}\nroleRef:\n  kind: ClusterRole\n  name: %s\n"
    "subjects: [{kind: ServiceAccount, name: {{ .Release.Name }}}]\n"
)
CHARTS = {
    "a template that names it": ({"templates/a.yaml": WARM + "# kubectl scale deploy/llama\n"}, "names Deployment"),
    "values that name it": ({"templates/a.yaml": WARM, "values.yaml": "target: llama\n"}, "names Deployment"),
    "a right over its kind": ({"templates/a.yaml": WARM, "templates/b.yaml": ROLE}, "right to write deployments"),
    "what a library makes of values": (
        {"templates/all.yaml": '{{- include "common.all" . }}\n', "values.yaml": "args: [scale, deploy/llama]\n"},
        "names Deployment",
    ),
    "a library beside a Service": (
        {"templates/all.yaml": 'kind: Service\n---\n{{ include "common.all" . }}\n', "values.yaml": "of: llama\n"},
        "names Deployment",
    ),
    "what only other charts make": (
        {"values.yaml": "on: {args: [scale, deploy/llama]}\n", "Chart.yaml": "name: x\ndependencies: [{name: on}]\n"},
        "names Deployment",
    ),
    "a right by a role that every cluster has": (
        {"templates/a.yaml": WARM, "templates/b.yaml": BINDING % "edit"},
        "binds",
    ),
    "a right by a role of somebody": ({"templates/a.yaml": WARM, "templates/b.yaml": BINDING % "ops"}, "binds"),
    "a right to look": ({"templates/a.yaml": WARM, "templates/b.yaml": BINDING % "view"}, ""),
    "something else": ({"templates/a.yaml": WARM}, ""),
    "a guarded ConfigMap and helpers": (
        {
            "templates/a.yaml": '{{- if .Values.llama }}\n# llama\nkind: ConfigMap\ndata: {{ include "x" . }}\n{{- end }}\n',
            "templates/_helpers.tpl": '{{- define "x" -}}llama{{- end }}\n',
        },
        "",
    ),
    "its Service alone": ({"templates/a.yaml": "kind: Service\nmetadata: {name: llama}\n"}, ""),
}


@pytest.mark.parametrize("what", CHARTS)
def test_a_chart_that_may_light_it_is_open(what: str, tmp_path: Path) -> None:
    files, said = CHARTS[what]
    assert _charted(tmp_path, files, "all.yaml") == ([said] if said else [])


@pytest.mark.parametrize("mark", ["# Source: warm/templates/a.yaml\n", "", "# Source: warm/README.md\n"])
def test_a_chart_whose_output_is_here_was_rendered(mark: str, tmp_path: Path) -> None:
    files, said = CHARTS["a template that names it"]
    assert _charted(tmp_path, files, "all.yaml", mark) == ([] if "templates" in mark else [said])


@pytest.mark.parametrize("guard", ["", "{{- if .Values.warm }}\n"])
def test_a_template_without_a_condition_whose_output_is_missing_was_not_rendered(guard: str, tmp_path: Path) -> None:
    files, said = CHARTS["a template that names it"]
    (warm,) = files.values()
    beside = {"templates/a.yaml": guard + warm, "templates/b.yaml": "kind: Service\nmetadata: {name: b}\n"}
    assert _charted(tmp_path, beside, "all.yaml", "# Source: warm/templates/b.yaml\n") == ([] if guard else [said])


def _charted(folder: Path, files: dict[str, str], name: str, mark: str = "") -> list[str]:
    """What is said of a chart beside a path: the words of ours that are in it."""
    one = Composition()
    for file, text in {"Chart.yaml": "apiVersion: v2\nname: warm\nversion: 0.1.0\n", **files}.items():
        (folder / "warm" / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / "warm" / file).write_text(text)
    (folder / name).write_text(mark + yaml.safe_dump_all(one.objects))
    (folder / "killcheck.yaml").write_text(yaml.safe_dump(one.spec))
    path, loaded = specfile.load(folder / "killcheck.yaml"), manifests.load([folder])
    kept = keep(Inventory(loaded.objects, loaded=loaded), path, path.layers[0], today=date(2026, 1, 15))
    told = [entry.because for entry in kept.open if entry.object.endswith("warm")]
    return [word for text in told for word in {said for _, said in CHARTS.values() if said} if word in text]


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
