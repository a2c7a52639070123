"""Charts and kustomizations that are named themselves are rendered by what is installed, and nothing else is run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from killcheck.kube import manifests
from killcheck.kube.objects import ref_of
from killcheck.kube.passed_over import Cause

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  template: {spec: {containers: [{name: c, image: i}]}}
"""
#: A stand-in for a renderer: writes its arguments and its environment down, and what it is told to.
PROGRAM = """\
#!/bin/sh
echo "$@" > {folder}/asked
env > {folder}/environment
cat {folder}/answer
exit $(cat {folder}/code 2>/dev/null || echo 0)
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is before all others on PATH: programs in it are those that are installed."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "cat", "env", "echo"):
        (folder / name).symlink_to(
            next(Path(place, name) for place in ("/bin", "/usr/bin") if Path(place, name).exists())
        )
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-for-charts")
    return folder


#: What kubectl's last line is.
LOGGED = r'E1126 19:55:21.066197    8935 run.go:72] "command failed" err="no \"d\""'


def installed(folder: Path, name: str, answer: str, code: int = 0) -> None:
    (folder / "answer").write_text(answer)
    (folder / "code").write_text(str(code))
    (folder / name).write_text(PROGRAM.format(folder=folder))
    (folder / name).chmod(0o755)


def kustomization(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(text)
    (folder / "d.yaml").write_text("# a comment\n" + DEPLOYMENT)
    return folder


def chart(folder: Path) -> Path:
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: stack\n")
    (folder / "templates/d.yaml").write_text("{{ if x }}\n" + DEPLOYMENT + "{{ end }}\n")
    return folder


@pytest.mark.parametrize(("name", "words"), [("kubectl", "kustomize"), ("kustomize", "build")])
def test_a_kustomization_is_rendered_and_points_at_its_sources(tools: Path, tmp_path: Path, name: str, words: str):
    folder = kustomization(tmp_path / "prod", "resources: [d.yaml]\nnamePrefix: prod-\nnamespace: ml\n")
    installed(tools, name, DEPLOYMENT.replace("name: chat", "name: prod-chat, namespace: ml"))
    loaded = manifests.load(folder)
    assert [ref_of(obj) for obj in loaded.objects] == ["Deployment/ml/prod-chat"]
    assert (tools / "asked").read_text().split() == [words, str(folder)]
    assert loaded.manifests[0].file == str(folder / "d.yaml")
    assert loaded.manifests[0].line_of(("spec", "template", "spec", "containers", 0)) == 6
    assert loaded.unseen == ()


HEAD = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"


@pytest.mark.parametrize(
    "more",
    [
        "patches: [{target: {group: batch, kind: CronJob}, patch: '[{op: add, path: /spec/suspend, value: true}]'}]",
        "patchesStrategicMerge: ['apiVersion: example.com/v1\\nkind: Thing\\nmetadata: {name: x}\\n']",
        "images: [{name: docker.io/library/busybox, newName: registry.example.com/busybox}]",
        "configMapGenerator: [{name: x, literals: ['url=https://example.com/x']}]",
        "replacements: [{source: {kind: Deployment, group: apps}, targets: [{select: {group: keda.sh/v1}}]}]",
        "commonAnnotations: {docs: 'https://example.com/runbook'}",
    ],
)
def test_what_names_no_file_is_fetched_from_nowhere(tools: Path, tmp_path: Path, more: str):
    installed(tools, "kubectl", DEPLOYMENT.replace("name: chat", "name: rendered"))
    loaded = manifests.load(kustomization(tmp_path / "app", f"{HEAD}resources: [d.yaml]\n{more}\n"))
    assert [ref_of(obj) for obj in loaded.objects] == ["Deployment/rendered"]
    assert loaded.unseen == ()


def test_a_few_further_down_are_rendered_in_the_place_of_what_they_list(tools: Path, tmp_path: Path):
    installed(tools, "kubectl", DEPLOYMENT.replace("name: chat", "name: prod-chat, namespace: ml"))
    kustomization(tmp_path / "base", "resources: [d.yaml]\n")
    kustomization(tmp_path / "prod", f"{HEAD}resources: [../base]\nnamePrefix: prod-\n")
    (tmp_path / "base/beside").mkdir()
    (tmp_path / "base/beside/e.yaml").write_text(DEPLOYMENT.replace("chat", "beside"))
    (tmp_path / "z.yaml").write_text(DEPLOYMENT.replace("chat", "z"))
    loaded = manifests.load(tmp_path)
    assert {ref_of(obj) for obj in loaded.objects} == {
        "Deployment/ml/prod-chat",
        "Deployment/beside",
        "Deployment/z",
    }
    assert (tools / "asked").read_text().split() == ["kustomize", str(tmp_path / "prod")]
    assert [one.file for one in loaded.unseen] == [str(tmp_path / "prod/d.yaml")]


def test_overlays_that_share_a_base_are_not_rendered_together(tools: Path, tmp_path: Path):
    installed(tools, "kubectl", DEPLOYMENT)
    kustomization(tmp_path / "base", "resources: [d.yaml]\n")
    for name in ("dev", "prod"):
        kustomization(tmp_path / name, f"resources: [../base]\nnamePrefix: {name}-\n")
    loaded = manifests.load(tmp_path)
    assert not (tools / "asked").exists()
    changed = {one.file: one.files for one in loaded.skipped if one.cause is Cause.KUSTOMIZATION}
    base = (str(tmp_path / "base/d.yaml"),)
    assert changed == {str(tmp_path / name / "kustomization.yaml"): base for name in ("dev", "prod")}


def test_overlays_that_share_patches_alone_are_rendered_each(tools: Path, tmp_path: Path):
    """A component without a file of its own is nobody's object; one that is not rendered keeps it told."""
    installed(tools, "kubectl", DEPLOYMENT)
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu/kustomization.yaml").write_text("kind: Component\nnamePrefix: gpu-\n")
    for name in ("dev", "prod"):
        kustomization(tmp_path / name, "resources: [d.yaml]\ncomponents: [../gpu]\n")
    assert manifests.load(tmp_path).unseen == ()
    (tmp_path / "prod/kustomization.yaml").write_text("resources: [d.yaml, gone.yaml]\ncomponents: [../gpu]\n")
    told = [one.why for one in manifests.load(tmp_path).unseen if one.cause is Cause.KUSTOMIZATION]
    assert told == [f"a component of {tmp_path}/dev (kubectl kustomize {tmp_path}/dev > rendered.yaml)"]


def test_a_kustomization_that_only_lists_is_read_without_any_program(tools: Path, tmp_path: Path):
    loaded = manifests.load(kustomization(tmp_path / "base", "resources: [d.yaml]\n"))
    assert [ref_of(obj) for obj in loaded.objects] == ["Deployment/chat"]
    assert not (tools / "asked").exists()


@pytest.mark.parametrize(
    "more",
    [
        "resources: [d.yaml, 'https://example.com/x.yaml']",
        "resources: [d.yaml, 'github.com/example/app?ref=v1']",
        "resources: [d.yaml, 'git@example.com:x/y']",
        "resources: [d.yaml]\nhelmCharts: [{name: x}]",
        "resources: [d.yaml]\ngenerators: [g.yaml]",
        "resources: [d.yaml]\ntransformers: [t.yaml]",
        "resources: [d.yaml]\nconfigMapGenerator: [{name: x, files: ['a=https://example.com/x']}]",
        "resources: [d.yaml]\npatches: [{path: 'https://example.com/p.yaml'}]",
        "resources: [d.yaml, ../nowhere]",
        "resources: [d.yaml]\ncomponents: ['https://example.com/c']",
    ],
)
def test_what_would_fetch_or_run_something_is_not_rendered(tools: Path, tmp_path: Path, more: str):
    installed(tools, "kubectl", DEPLOYMENT)
    loaded = manifests.load(kustomization(tmp_path / "app", f"{more}\nnamespace: ml\n"))
    assert not (tools / "asked").exists()
    assert [ref_of(obj) for obj in loaded.objects] == ["Deployment/chat"]
    flag = " --enable-helm" if "helmCharts" in more else ""
    assert f"kubectl kustomize {tmp_path / 'app'}{flag} > rendered.yaml" in loaded.notes[-1]


def test_a_base_that_would_be_fetched_further_down_is_found(tools: Path, tmp_path: Path):
    installed(tools, "kubectl", DEPLOYMENT)
    kustomization(tmp_path / "base", "resources: [d.yaml, 'ssh://git@example.com/x']\n")
    manifests.load(kustomization(tmp_path / "top", "resources: [../base]\nnamespace: ml\n"))
    assert not (tools / "asked").exists()


def test_a_chart_is_filled_in_with_values_and_points_at_its_files(tools: Path, tmp_path: Path):
    folder = chart(tmp_path / "stack")
    (tmp_path / "mine.yaml").write_text("x: true\n")
    installed(tools, "helm", "---\n# Source: stack/templates/d.yaml\n" + DEPLOYMENT)
    loaded = manifests.load(folder, values=[tmp_path / "mine.yaml"])
    assert [ref_of(obj) for obj in loaded.objects] == ["Deployment/chat"]
    assert (tools / "asked").read_text().split()[-2:] == ["-f", str(tmp_path / "mine.yaml")]
    assert loaded.manifests[0].place == f"{folder}/templates/d.yaml:3"


def test_a_renderer_sees_nothing_of_ours_and_reaches_no_network(tools: Path, tmp_path: Path):
    installed(tools, "helm", DEPLOYMENT)
    manifests.load(chart(tmp_path / "stack"))
    seen = dict(line.partition("=")[::2] for line in (tools / "environment").read_text().splitlines())
    assert "AWS_SECRET_ACCESS_KEY" not in seen
    assert seen["https_proxy"] == "http://127.0.0.1:9"
    assert (seen["GIT_ALLOW_PROTOCOL"], seen["KUBECONFIG"]) == ("none", os.devnull)
    assert seen["HOME"] != os.environ.get("HOME")


def test_without_the_program_the_one_command_is_said(tools: Path, tmp_path: Path):
    del tools
    folder = chart(tmp_path / "stack")
    with pytest.raises(manifests.ManifestError, match=f"helm is not installed: helm template {folder} > rendered.yaml"):
        manifests.load(folder)


@pytest.mark.parametrize(
    ("inside", "flag"), [("", " --dependency-update"), ("stack-0.1.8.tgz", ""), ("stack/Chart.yaml", ""), ("o/x", " -")]
)
def test_a_chart_whose_dependencies_are_not_there_is_told_with_what_fetches_them(
    tools: Path, tmp_path: Path, inside: str, flag: str
):
    del tools
    folder = chart(tmp_path / "umbrella")
    file = folder / "Chart.yaml"
    file.write_text(
        file.read_text() + "dependencies: [{name: stack, version: 0.1.8, repository: 'https://x.example'}]\n"
    )
    if inside:
        (folder / "charts" / inside).parent.mkdir(parents=True)
        (folder / "charts" / inside).write_text("")
    for path in (folder, tmp_path):  # named itself, or found in a folder
        try:
            [told] = [one.why for one in manifests.load(path).skipped if one.file == str(folder)]
        except manifests.ManifestError as error:
            told = str(error)
        assert f"helm template {folder}{flag}" in told
        assert ("--dependency-update" in told) is bool(flag)


def test_what_a_renderer_says_when_it_fails_is_told(tools: Path, tmp_path: Path):
    installed(tools, "kubectl", DEPLOYMENT, code=1)
    loaded = manifests.load(kustomization(tmp_path / "app", "resources: [d.yaml]\nnamespace: ml\n"))
    assert [ref_of(obj) for obj in loaded.objects] == ["Deployment/chat"]
    assert "not rendered: no reason given" in loaded.notes[-1]
    (tools / "kubectl").write_text(f"#!/bin/sh\necho '{LOGGED}' >&2; exit 1\n")
    assert '/app: not rendered: no "d" (kubectl' in manifests.load(tmp_path / "app").notes[-1]


def test_files_outside_a_kustomizations_folder_have_to_be_asked_for(tools: Path, tmp_path: Path):
    said = "accumulating: security; file '/x/d.yaml' is not in or below '/x/app': and so on"
    (tools / "kubectl").write_text(f'#!/bin/sh\necho "{said}" >&2; exit 1\n')
    (tools / "kubectl").chmod(0o755)
    kustomization(tmp_path / "base one", "resources: [d.yaml]\n")
    app = kustomization(
        tmp_path / "app", f"resources: ['../base one/d.yaml']\nnamespace: ml\ncommonAnnotations: {{a: {'ж' * 200}}}\n"
    )
    loaded = manifests.load(app)
    command = f"kubectl kustomize {app} --load-restrictor LoadRestrictionsNone > rendered.yaml"
    assert f"/x/d.yaml is outside the folder of the kustomization that names it ({command})" in loaded.notes[-1]
    assert [command in one.why for one in loaded.skipped if one.cause is Cause.KUSTOMIZATION] == [True]


def test_a_chart_is_filled_in_with_files_and_single_values(tools: Path, tmp_path: Path):
    folder = chart(tmp_path / "chart")
    installed(tools, "helm", "# Source: stack/templates/d.yaml\n" + DEPLOYMENT)
    values = tmp_path / "v.yaml"
    values.write_text("a: 1\n")
    loaded = manifests.load(folder, values=[values], sets=["gpu.enabled=true"])
    assert (tools / "asked").read_text().split()[3:] == ["-f", str(values), "--set", "gpu.enabled=true"]
    assert not loaded.notes
    assert "filled in with the chart's own values" in manifests.load(folder).notes[0]


@pytest.mark.usefixtures("tools")  # no helm is there
def test_without_helm_the_command_to_run_has_what_was_given(tmp_path: Path):
    folder = chart(tmp_path / "chart")
    with pytest.raises(manifests.ManifestError, match=r"--set 'a=b c' > rendered\.yaml"):
        manifests.load(folder, sets=["a=b c"])
