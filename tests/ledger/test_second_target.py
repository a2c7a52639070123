"""The law of the second target: what goes off by its own switch changes nothing of a verdict about the first."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from composed import WATCHED
from killcheck.fixtures import spec as spec_of
from test_laws import PATHS

from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import DrillResult

Obj = dict[str, Any]

#: Kinds without a namespace that the twin has for itself; what else has none (pools, queues, classes) they share.
_OWN = ("ClusterRole", "ClusterRoleBinding", "Namespace", "Node", "ResourceSlice")
#: What both together may have of what they share.
_SHARED = {"NodePool": re.compile(r"^(nvidia\.com/gpu)$"), "ClusterQueue": re.compile(r"^(nominalQuota)$")}


def _doubled(value: Any, names: re.Pattern[str]) -> Any:
    """An object in which every number under one of these names is twice as large, memory's too."""
    if isinstance(value, list):
        return [_doubled(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    return {k: _twice(v) if names.match(k) else _doubled(v, names) for k, v in value.items()}


def _twice(value: Any) -> Any:
    number = re.match(r"\d+", str(value))
    assert number is not None
    return f"{2 * int(number[0])}{str(value)[number.end() :]}"


class _Twin:
    """The same once more: in a namespace of its own, with a switch of its own, on the same pools and queues."""

    def __init__(self, spec: Obj) -> None:
        self.names = sorted({str(target["namespace"]) for target in spec["targets"]})
        self._words = re.compile(r"(?<![\w.-])(" + "|".join(map(re.escape, self.names)) + r")(?![\w/-])")

    def elsewhere(self, value: Any) -> Any:
        """With every mention of the namespace changed."""
        return yaml.safe_load(self._words.sub(r"\1-b", yaml.safe_dump(value)))

    def objects(self, every: list[Obj]) -> Iterator[Obj]:
        """Its manifests; of what is shared there is twice as much."""
        for obj in every:
            kind = obj["kind"]
            yield _doubled(obj, _SHARED[kind]) if kind in _SHARED else obj
            if "namespace" in obj["metadata"] or kind in _OWN:
                yield self._own(obj)

    def _own(self, obj: Obj) -> Obj:
        copy = self.elsewhere(deepcopy(obj))
        if "namespace" not in obj["metadata"] and copy["metadata"]["name"] == obj["metadata"]["name"]:
            copy["metadata"]["name"] += "-b"
        if obj["kind"] == "ClusterRoleBinding":
            copy["roleRef"]["name"] += "-b"
        if obj["kind"] == "Node":
            copy["metadata"]["labels"]["kubernetes.io/hostname"] = copy["metadata"]["name"]
        if obj["kind"] == "ResourceSlice":
            copy["spec"]["nodeName"] = copy["spec"]["pool"]["name"] = f"{copy['spec']['nodeName']}-b"
        return copy  # type: ignore[no-any-return]

    def spec(self, spec: Obj) -> Obj:
        """Both, each layer with its own target."""
        targets = [self.elsewhere(t) | {"name": f"{t['name']}-b"} for t in spec["targets"]]
        layers = [
            self.elsewhere(one) | {"name": f"{one['name']}-b", "covers": [f"{name}-b" for name in one["covers"]]}
            for one in spec["layers"]
        ]
        consent = dict(spec["consent"])
        consent |= {"namespaces": [*consent["namespaces"], *(f"{name}-b" for name in self.names)]}
        consent |= {key: 2 * consent[key] for key in ("maxGpuNodes", "maxUsd") if key in consent}
        both = {"targets": [*spec["targets"], *targets], "layers": [*spec["layers"], *layers], "consent": consent}
        return {key: value for key, value in spec.items() if key not in ("policy", "fences")} | both


def _with_its_twin(name: str, folder: Path) -> Path:
    """The folder of a reference path, its twin in it."""
    home = Path(shutil.copytree(spec_of(name).parent, folder / name))
    spec = yaml.safe_load((home / "killcheck.yaml").read_text())
    twin = _Twin(spec)
    for file in home.glob("*.yaml"):
        every = [obj for obj in yaml.safe_load_all(file.read_text()) if obj]
        if file.name != "killcheck.yaml":
            file.write_text(yaml.safe_dump_all(list(twin.objects(every))))
    (home / "killcheck.yaml").write_text(yaml.safe_dump(twin.spec(spec)))
    return home


def _drilled(folder: Path, layer: str) -> DrillResult:
    session = Session(spec=folder / "killcheck.yaml", exec_mode="host")
    return Run(session, [PlannedDrill(layer, options=WATCHED)], folder=folder / "runs").execute().drills[0]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.one_in(10)
def test_second_target_with_its_own_switch_changes_no_verdict(path: str, tmp_path: Path) -> None:
    name, _, layer = path.partition("/")
    result = _drilled(_with_its_twin(name, tmp_path), layer)
    assert (str(result.verdict), result.off_by) == ("survived", layer), result.why
