"""Values of a shape that their types have not are told with file and line by whatever reads manifests."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from killcheck import fixtures
from killcheck.cli import main
from killcheck.discover import from_objects
from killcheck.discover.shapes import read_as_typed, sound
from killcheck.kube import manifests
from killcheck.kube.pod_shapes import as_typed

SCALED = "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: s, namespace: inference}\nspec:\n"
#: (file, what is in it, what is there instead, the text of the line that is named, a part of what is said)
EDITS = [
    (
        "gpu-nightly-off.yaml",
        "            - name: executor",
        "              name: executor",
        "containers:",
        "cannot unmarshal object into Go struct field PodSpec.spec.jobTemplate.spec.template.spec.containers",
    ),
    ("inference.yaml", "replicas: 1", "replicas: [1]", "[1]", "cannot unmarshal array into Go struct field"),
    (
        "inference.yaml",
        "terminationGracePeriodSeconds: 30",
        "terminationGracePeriodSeconds: half a minute",
        "half a minute",
        "cannot unmarshal string into Go struct field",
    ),
    (
        "nodepool.yaml",
        "      requirements:",
        "      requirements: many\n      others:",
        "many",
        "must be of type array",
    ),
    ("inference.yaml", "matchLabels: {app: vllm}", "matchLabels: {app: v/llm}", "v/llm", "a valid label must be"),
    ("keda.yaml", "", SCALED + "  scaleTargetRef: vllm\n", "vllm", "scaleTargetRef in body must be of type object"),
    (
        "keda.yaml",
        "",
        SCALED.replace("metadata: {", "metadata: {annotations: [paused], ") + "  triggers: []\n",
        "paused",
        "Go struct field ObjectMeta.annotations of type map",
    ),
]


@pytest.fixture(params=EDITS, ids=[edit[4][:40] for edit in EDITS])
def edited(request, tmp_path):
    """A folder with one value of a wrong shape; the file, the text of its line, what is said of it."""
    file, old, new, line, said = request.param
    for one in fixtures.path("dead-man").glob("*.yaml"):
        if one.name != "killcheck.yaml":
            (tmp_path / one.name).write_text(one.read_text())
    text = (tmp_path / file).read_text() if old else ""
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new, 1) if old else new)
    return tmp_path, file, line, said


def test_it_is_told_with_its_line(edited):
    folder, file, line, said = edited
    with pytest.raises(manifests.ManifestError) as told, read_as_typed(lambda: manifests.load(folder)):
        raise AttributeError("a reader stumbled")
    first = told.value.problems[0]
    assert first.file == str(folder / file)
    assert line in (folder / file).read_text().splitlines()[first.line - 1]
    assert "no API server takes this: " in first.message
    assert said in first.message


def test_no_command_stumbles_over_it(edited):
    folder, file, *_ = edited
    for command in (("lint",), ("init", "-o", "-"), ("fence",)):
        result = CliRunner().invoke(main, [*command, "--manifests", str(folder)])
        assert result.exit_code != 4, result.output
        assert "a defect of killcheck" not in result.output
        if result.exit_code == 2:
            assert f"{folder / file}:" in result.output


@pytest.mark.parametrize("edited", EDITS[:1], indirect=True)
def test_a_mapping_for_the_list_of_containers_is_said_in_place_of_a_defect(edited):
    for *command, code in (("lint", 1), ("init", "-o", "-", 0), ("drill", 3), ("drill", "--strict", 2)):
        result = CliRunner().invoke(main, [*command, "--manifests", str(edited[0])])
        assert result.exit_code == code, result.output
        assert f"{edited[0]}/gpu-nightly-off.yaml:" in result.output
        assert edited[3] in result.output


def test_a_defect_that_no_manifest_is_to_blame_for_stays_one():
    loaded = manifests.load(fixtures.path("dead-man"))
    with pytest.raises(ZeroDivisionError), read_as_typed(lambda: loaded):
        _ = 1 / 0
    with pytest.raises(KeyError), read_as_typed(lambda: loaded):
        raise KeyError("x")
    with pytest.raises(KeyError), read_as_typed(lambda: None):
        raise KeyError("x")


ODD = st.sampled_from(["text", 7, True, None, [], ["text"], [{}], {}, {"a": "b"}, {"name": ["x"]}, [["y"]]])
FIELDS = (
    "containers initContainers env envFrom ports volumes command args resources limits requests tolerations affinity "
    "nodeSelector securityContext nodeAffinity requiredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms metadata "
    "matchExpressions template replicas schedulingGates serviceAccountName terminationGracePeriodSeconds suspend name"
).split()
SHAPED = st.recursive(ODD, lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4), max_leaves=12)


@given(spec=st.dictionaries(st.sampled_from(FIELDS), SHAPED, max_size=5))
def test_no_custom_resource_is_such_that_the_others_cannot_be_read(spec):
    """Nobody has typed what a chart's values or an operator's own fields hold: they may have any shape."""
    asked = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    values = (
        {**spec, "spec": {**spec, "containers": [asked, *(spec.get("containers") or ())]}}
        if isinstance(spec.get("containers"), list)
        else spec
    )
    objects = [
        {
            "apiVersion": "helm.example.io/v2",
            "kind": "Release",
            "metadata": {"name": "odd"},
            "spec": {"values": values},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": {"containers": [asked]}},
    ]
    loaded = sound(manifests.loads(json.dumps(objects[0]) + "\n---\n" + json.dumps(objects[1])))
    found = from_objects(loaded, complete=False)
    assert "plain" in [target.name for target in found.kill_path.targets]


def test_env_of_a_pod_in_a_charts_values_is_read_by_name():
    typed = as_typed({"containers": [{"name": "c", "env": {"NVIDIA_VISIBLE_DEVICES": "all"}, "command": "run"}, "x"]})
    assert typed == {"containers": [{"name": "c", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}


def test_a_pod_as_the_api_has_it_is_left_as_it_is():
    spec = {"containers": [{"name": "c", "env": [{"name": "A"}], "command": ["x"]}], "nodeSelector": {"a": "b"}}
    assert as_typed(spec) is spec
