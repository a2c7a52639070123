"""Manifests from files and folders: what is loaded, from where, and what is refused or said to be missing."""

from pathlib import Path

import pytest

from killcheck.kube import manifests
from killcheck.kube.manifests import ManifestError
from killcheck.kube.objects import ref_of

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: x, labels: {a: b}}
spec:
  suspend: yes
  template:
    spec:
      containers:
        - name: off-peak
          image: i
          args: [scale, "0"]
          stdin: on
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def pod(name: str, **metadata: str) -> str:
    extra = "".join(f", {key}: {value}" for key, value in metadata.items())
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}{extra}}}\n"


def problems(*paths: Path | str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        manifests.load(list(paths), strict=True)
    return [str(problem) for problem in caught.value.problems]


def test_a_folder_is_read_in_order_of_name_with_its_subfolders(tmp_path: Path):
    write(
        tmp_path,
        {
            "b.yaml": pod("b1") + "---\n" + pod("b2"),
            "a/x.yml": pod("a"),
            "c.json": '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}',
            "readme.md": "# no",
            ".hidden/d.yaml": pod("d"),
            "node_modules/e.yaml": pod("e"),
        },
    )
    loaded = manifests.load(tmp_path)
    assert [ref_of(obj) for obj in loaded.objects] == ["Pod/a", "Pod/b1", "Pod/b2", "Pod/c"]
    assert [Path(m.file).name + f":{m.line}" for m in loaded.manifests] == [
        "x.yml:1",
        "b.yaml:1",
        "b.yaml:5",
        "c.json:1",
    ]


def test_lists_are_taken_apart_and_every_field_knows_its_line(tmp_path: Path):
    text = "apiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: Pod\n    metadata:\n      name: p\n"
    manifest = manifests.load(write(tmp_path, {"l.yaml": text})).manifests[0]
    assert (manifest.line, manifest.line_of(("metadata", "name"))) == (4, 7)
    assert manifest.line_of(("metadata", "labels", "x")) == 6


def test_json_may_be_indented_with_tabs(tmp_path: Path):
    text = '{\n\t"apiVersion": "v1", "kind": "Pod",\n\t"metadata": {"name": "1e3"}\n}'
    manifest = manifests.load(write(tmp_path, {"p.json": text})).manifests[0]
    assert manifest.obj["metadata"] == {"name": "1e3"}
    assert manifest.line_of(("metadata", "name")) == 3


def test_yaml_that_is_no_object_is_skipped_and_listed(tmp_path: Path):
    write(
        tmp_path,
        {
            "p.yaml": pod("p"),
            "values.yaml": "replicas: 1\n",
            "killcheck.yaml": "apiVersion: killcheck/v1\nname: x\n",
            "kind.yaml": "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\n",
            "empty.yaml": "# nothing\n",
            "package.json": '{"name": "x",}',
        },
    )
    loaded = manifests.load(tmp_path)
    assert len(loaded.objects) == 1
    why = {Path(s.file).name: s.why for s in loaded.skipped}
    assert why["values.yaml"] == "not a Kubernetes object (no kind and apiVersion)"
    assert why["killcheck.yaml"] == "a killcheck spec"
    assert why["kind.yaml"].startswith("configuration of a program")
    assert why["empty.yaml"] == "empty"
    assert "package.json" in why


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("off-peak", "off", ".yaml:9: spec.template.spec.containers[0].name: YAML 1.1 reads off as the boolean false"),
        ("off-peak", "y", 'write "y" in quotes'),
        ("off-peak", "1e3", "containers[0].name: YAML 1.1 reads 1e3 as a number"),
        ('"0"', "0", ".yaml:11: spec.template.spec.containers[0].args[1]: YAML 1.1 reads 0 as a number"),
        ('"0"', "off", "args[1]: YAML 1.1 reads off as the boolean false"),
        ("image: i", "env: [{name: A, value: no}]", "env[0].value: YAML 1.1 reads no as the boolean false"),
        ("image: i", "env: [{name: A, value: 0}]", "env[0].value: YAML 1.1 reads 0 as a number"),
        ("image: i", "imagePullPolicy: true", "imagePullPolicy: YAML 1.1 reads true as the boolean true"),
        ("a: b", "a: on", ".yaml:3: metadata.labels.a: YAML 1.1 reads on as the boolean true"),
        ("a: b", "a: 1", "metadata.labels.a: YAML 1.1 reads 1 as a number"),
        ("a: b", "on: b", "metadata.labels.on: YAML 1.1 reads the key on as a boolean"),
        ("name: x", "name: off", "metadata.name: YAML 1.1 reads off"),
        ("name: x", "namespace: x", "metadata: Job without a metadata.name: kubectl apply takes none"),
        ("name: x", 'name: "{{ .Release.Name }}"', "metadata.name: a template ('{{', Helm?) that was not rendered"),
        ("suspend: yes", "suspend: yes\n  suspend: no", ".yaml:6: spec.suspend: key 'suspend' is given twice"),
        ("spec:\n  suspend", "spec:\n\tsuspend", ".yaml:5: not YAML: a tab character"),
        ("name: x", "name: {{ .Release.Name }}-x", "a template ('{{', Helm?), not YAML yet: render it first"),
        (
            "suspend: yes",
            "suspend: ${SUSPEND}: x",
            "a template ('${', a variable of a shell or of Terraform), not YAML yet",
        ),
        ("image: i", 'command: [sh, -c, "echo $(date) \\\\"$HOME\\\\""]', ".yaml:10: not YAML: "),
    ],
)
def test_what_the_api_server_would_refuse_is_named_with_its_line(tmp_path: Path, old: str, new: str, said: str):
    assert old in JOB
    found = problems(write(tmp_path, {"j.yaml": JOB.replace(old, new)}))
    assert any(said in line for line in found), found


def test_booleans_where_booleans_belong_and_quoted_words_are_fine(tmp_path: Path):
    text = JOB.replace("off-peak", '"off"').replace("a: b", 'a: "on", at: 03:00')
    obj = manifests.load(write(tmp_path, {"j.yaml": text})).objects[0]
    assert obj["spec"]["suspend"] is True
    assert obj["spec"]["template"]["spec"]["containers"][0]["stdin"] is True
    assert obj["metadata"]["labels"] == {"a": "on", "at": "03:00"}


def test_custom_resources_may_have_booleans_that_nobody_here_knows(tmp_path: Path):
    text = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec: {selfHeal: yes}\n"
    assert manifests.load(write(tmp_path, {"a.yaml": text})).objects[0]["spec"] == {"selfHeal": True}


def test_all_problems_of_all_files_come_at_once(tmp_path: Path):
    broken = "apiVersion: v1\nkind: ["
    write(tmp_path, {"a.yaml": JOB.replace("off-peak", "off"), "b.yaml": broken, "c.yaml": pod("on")})
    assert [Path(line.split(":")[0]).name for line in problems(tmp_path, tmp_path / "nowhere.yaml")] == [
        "a.yaml",
        "b.yaml",
        "c.yaml",
        "nowhere.yaml",
    ]


def test_the_same_object_twice_is_said_and_the_later_one_used(tmp_path: Path):
    write(tmp_path, {"a.yaml": pod("p", namespace="ns"), "b.yaml": pod("p", namespace="ns", uid="later")})
    loaded = manifests.load(tmp_path)
    assert [obj["metadata"].get("uid") for obj in loaded.objects] == ["later"]
    assert "Pod/ns/p has variants" in loaded.notes[0]
    assert (
        len(manifests.load([tmp_path / "a.yaml", tmp_path / "a.yaml"]).notes) == 0
    )  # one file named twice is one file


def test_a_kustomization_lends_its_resources_and_says_what_it_would_have_done(tmp_path: Path):
    write(
        tmp_path,
        {
            "kustomization.yaml": "resources: [base, ../x.yaml, https://example.com/r]\n"
            "namespace: ns\npatches: [{path: p.yaml}]\n",
            "base/kustomization.yaml": "resources: [d.yaml]\n",
            "base/d.yaml": pod("d"),
            "p.yaml": pod("patch"),
        },
    )
    (tmp_path.parent / "x.yaml").write_text(pod("x"))
    loaded = manifests.load(tmp_path)
    assert [ref_of(obj) for obj in loaded.objects] == ["Pod/d", "Pod/x"]
    told = loaded.passed_over(spec=False)
    assert "not rendered here: namespace, patches" in told[0]
    assert "https://example.com/r is not a file here" in told[1]


def test_a_chart_is_not_rendered_and_says_so(tmp_path: Path):
    write(tmp_path, {"p.yaml": pod("p"), "chart/Chart.yaml": "name: c", "chart/templates/d.yaml": "{{ if }}"})
    [told] = manifests.load(tmp_path).passed_over(spec=False)
    assert "a Helm chart, which is not rendered here: helm template" in told
    assert "no Kubernetes object in it" in problems(tmp_path / "chart")[0]


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(pod("p")))
    assert manifests.load("-").manifests[0].place == "<stdin>:1"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("e.txt", "hello", "no Kubernetes object in it"),
        ("l.yaml", "", "no Kubernetes object in it"),
    ],
)
def test_nothing_to_load_is_an_error(tmp_path: Path, name: str, text: str, said: str):
    assert said in problems(write(tmp_path, {name: text}) / name)[0]
    assert "no YAML or JSON file in it" in problems(write(tmp_path, {"sub/readme.md": ""}) / "sub")[0]


def test_a_folder_of_a_machines_timers_alone_is_read(tmp_path: Path):
    loaded = manifests.load(write(tmp_path, {"m/gpu-off.timer": "[Timer]\nOnCalendar=03:00\n"}) / "m")
    assert (loaded.manifests, [one.why.split(":")[0] for one in loaded.unseen]) == ((), ["a systemd timer (03"])


def test_a_spec_among_manifests_is_told_of_only_where_none_was_named(tmp_path):
    (tmp_path / "killcheck.yaml").write_text("apiVersion: killcheck/v1\nkind: KillPath\n")
    (tmp_path / "killcheck.accepted.yaml").write_text("apiVersion: killcheck/v1\nkind: Accepted\n")
    (tmp_path / "p.yaml").write_text(pod("p"))
    (tmp_path / "values.yaml").write_text("replicas: 1\n")
    loaded = manifests.load(tmp_path)
    told = f"{tmp_path}/values.yaml: not read: not a Kubernetes object (no kind and apiVersion)"
    assert loaded.passed_over(spec=True) == [told]
    assert loaded.passed_over(spec=False) == [
        f"{tmp_path}/killcheck.yaml: not read: a killcheck spec (give it as SPEC)",
        told,
    ]


def test_links_that_are_not_followed_and_those_that_lead_nowhere_are_told_of(tmp_path):
    (tmp_path / "deploy").mkdir()
    (tmp_path / "base").mkdir()
    (tmp_path / "deploy/p.yaml").write_text(pod("p"))
    (tmp_path / "deploy/base").symlink_to(tmp_path / "base")
    (tmp_path / "deploy/gone.yaml").symlink_to("nowhere.yaml")
    (tmp_path / "deploy/x\nkillcheck: proven.yaml").write_text(pod("q"))  # a line of its own, wherever it is told
    assert manifests.load(tmp_path / "deploy").passed_over(spec=True) == [
        f"{tmp_path}/deploy/base: not read: a link to a folder, not followed: name that folder too",
        f"2 files cannot be read: {tmp_path}/deploy/gone.yaml (a link that leads nowhere, or no file), "
        f"{tmp_path}/deploy/x?killcheck: proven.yaml",
    ]


@pytest.mark.parametrize(
    ("key", "said", "why"),
    [
        ("name", "[x]", "expected text"),
        ("namespace", "[x]", "expected text"),
        ("name", '"x\\n::y"', "has a line break"),
    ],
)
def test_a_name_that_is_no_name_is_told_with_its_line(key, said, why):
    with pytest.raises(manifests.ManifestError, match=rf"<text>:5: metadata\.{key}: {why}"):
        manifests.loads(f"apiVersion: v1\nkind: Pod\nmetadata:\n  generateName: x\n  {key}: {said}\n")


@pytest.mark.parametrize(
    ("hook", "left_out"),
    [
        ("test", True),
        ("test-success", True),
        ("pre-delete, post-delete", True),
        ("post-install", False),
        ("test,post-upgrade", False),
        ("", False),
    ],
)
def test_what_helm_makes_only_when_it_is_asked_to_is_left_out(hook: str, left_out: bool):
    pod = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: smoke, annotations: {{helm.sh/hook: '{hook}'}}}}\n"
    loaded = manifests.loads(f"{pod}---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: ml}}\n")
    assert ("Pod/smoke" in [ref_of(obj) for obj in loaded.objects]) is not left_out
    assert any("Pod/smoke" in note and "helm.sh/hook" in note for note in loaded.notes) is left_out
