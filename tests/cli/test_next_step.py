"""What a newcomer is told to type next; and one table of exit codes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import killcheck
from killcheck import fixtures
from killcheck.cli import main
from killcheck.commands import saying
from killcheck.commands.next_step import after_drill
from killcheck.discover.finding import NAME_IT
from killcheck.run.session import Session
from killcheck.verdict import EXIT_CODES

GPU = """apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: gpu}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: a, image: "a:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


@pytest.mark.parametrize(
    ("word", "mode", "said"),
    [
        ("proven", "host", "next: killcheck gate --manifests deploy --exec host "),
        ("exposed", "host", "next: killcheck lint --manifests deploy --exec host "),
        ("inconclusive", "host", "next: killcheck lint --manifests deploy --exec host "),
        ("inconclusive", None, "next: killcheck drill --manifests deploy --exec host "),
        ("dirty", "host", None),
    ],
)
def test_after_a_drill_without_a_spec(word, mode, said):
    step = after_drill(Session(manifests=[Path("deploy")], exec_mode=mode), EXIT_CODES[word])
    assert (step or "").startswith(said or "")
    assert bool(step) is bool(said)


def test_after_reading_a_sound_path_it_is_drilled():
    path = str(fixtures.path("dead-man"))
    read = CliRunner().invoke(main, ["lint", "--manifests", path]).output
    assert read.splitlines()[-1].startswith(f"next: killcheck drill --manifests {path} --exec host ")


def test_whoever_has_a_spec_knows_what_to_type():
    assert after_drill(Session(spec=fixtures.spec("dead-man")), EXIT_CODES["exposed"]) is None


def _drilled(folder: Path) -> str:
    ended = CliRunner().invoke(main, ["drill", "--manifests", str(folder)])
    assert ended.exit_code in (EXIT_CODES["usage"], EXIT_CODES["inconclusive"]), ended.output
    return ended.output.splitlines()[-1].strip()


def test_where_nothing_turns_them_off_they_are_counted_and_a_spec_is_written(tmp_path):
    """In a drill, a gate and lint, whose last line it is; many findings that are mended the same way are one."""
    one = "names no layer, so nothing turns off Deployment/gpu/a (1 GPU)"
    (tmp_path / "gpu.yaml").write_text(GPU)
    drilled = CliRunner().invoke(main, ["drill", "--manifests", str(tmp_path), "--json"])
    document = json.loads(drilled.stdout)
    assert (document["verdict"], document["exit_code"], document["drills"]) == ("inconclusive", drilled.exit_code, [])
    assert one in document["error"]
    spec = tmp_path / "found/killcheck.yaml"
    spec.parent.mkdir()
    written = CliRunner().invoke(main, ["init", "--manifests", str(tmp_path), "-o", str(spec)]).stderr
    assert written.splitlines()[-1].endswith(f"then killcheck lint {spec} --manifests {tmp_path}")
    spec.unlink()
    (tmp_path / "more.yaml").write_text("---\n".join(GPU.replace("name: a,", f"name: {name},") for name in "bcde"))
    gated = CliRunner().invoke(main, ["gate", "--manifests", str(tmp_path)]).output
    read = CliRunner().invoke(main, ["lint", "--manifests", str(tmp_path)]).output
    last = f"next: killcheck init --manifests {tmp_path} -o killcheck.yaml"
    assert {output.splitlines()[-1] for output in (drilled.stderr, gated, read)} == {last}
    assert "names no layer, so nothing turns off 5 targets:" in gated
    assert gated.count("holds 1 GPU, and no layer turns it off") == 5
    assert gated.count("Add it to what a layer turns off") == 1
    (tmp_path / "no-name.yaml").write_text("apiVersion: v1\nkind: ServiceAccount\n")  # neither a switch nor a holder
    assert CliRunner().invoke(main, ["lint", "--manifests", str(tmp_path)]).output.splitlines()[-1] == last
    (tmp_path / "broken.yaml").write_text("apiVersion: spark/v1\nkind: SparkApplication\nspec:\n  a:\n - b\n")
    assert CliRunner().invoke(main, ["lint", "--manifests", str(tmp_path)]).output.splitlines()[-1] == last


def test_where_a_docker_host_has_them(tmp_path):
    (tmp_path / "web.yaml").write_text(GPU.replace("nvidia.com/gpu", "cpu"))
    devices = "deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}"
    (tmp_path / "compose.yaml").write_text(f"services:\n  llm:\n    image: a\n    gpus: 1\n    {devices}\n")
    assert _drilled(tmp_path).startswith(f"next: name the containers of {tmp_path}/compose.yaml in a killcheck.yaml")


def test_where_nothing_asks_for_a_gpu(tmp_path):
    (tmp_path / "web.yaml").write_text(GPU.replace("nvidia.com/gpu", "cpu"))
    assert _drilled(tmp_path).startswith("next: give --manifests the folder with your GPU workloads")


def test_where_the_holder_is_broken(tmp_path):
    (tmp_path / "gpu.yaml").write_text(GPU.replace("namespace: gpu", "namespace: n"))
    assert _drilled(tmp_path) == f"next: mend {tmp_path / 'gpu.yaml'}:3"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "$TEAM-a",
            "next: envsubst < {} > rendered.yaml && killcheck drill --manifests rendered.yaml --exec host   (with",
        ),
        ("'{{ team }}'", "next: render {}:3, and give what comes of it to killcheck drill --manifests"),
    ],
)
def test_where_the_holder_is_a_template(tmp_path, name, said):
    (tmp_path / "gpu.yaml").write_text(GPU.replace("name: a,", f"name: {name},", 1))
    assert _drilled(tmp_path).startswith(said.format(tmp_path / "gpu.yaml"))


def test_a_component_is_rendered_by_what_uses_it(tmp_path):
    files = {
        "top/kustomization.yaml": "resources: [web.yaml, https://example.com/x]\ncomponents: [../used]\n",
        "top/web.yaml": GPU.replace("nvidia.com/gpu", "cpu"),
    }
    for name in ("a-spare", "used"):
        files[f"{name}/kustomization.yaml"] = "kind: Component\npatches: [{path: gpu.yaml}]\n"
        files[f"{name}/gpu.yaml"] = GPU
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    step = _drilled(tmp_path)
    assert step.startswith(f"next: kubectl kustomize {tmp_path}/top > rendered.yaml && killcheck drill ")
    assert CliRunner().invoke(main, ["lint", "--manifests", str(tmp_path)]).output.splitlines()[-1] == step


def test_a_chart_among_others_is_rendered_first(tmp_path):
    (tmp_path / "charts/a/templates").mkdir(parents=True)
    (tmp_path / "charts/a/Chart.yaml").write_text("apiVersion: v2\nname: a\nversion: 1.0.0\n")
    (tmp_path / "charts/a/values.yaml").write_text("resources: {limits: {nvidia.com/gpu: 1}}\n")
    (tmp_path / "web.yaml").write_text(GPU.replace("nvidia.com/gpu", "cpu"))
    render = f"helm template {tmp_path}/charts/a > rendered.yaml"
    assert _drilled(tmp_path) == f"next: {render} && killcheck drill --manifests rendered.yaml --exec host"
    (tmp_path / "charts/a/values.yaml").write_text("")
    shutil.copytree(tmp_path / "charts/a", tmp_path / "charts/b")
    assert "none of these 2 names any" in _drilled(tmp_path)


def test_what_claims_devices_in_ways_not_understood_is_named_whatever_else_was_not_read(tmp_path):
    text = "kind: HelmRelease\nmetadata: {name: a}\nspec: {values: {resourceClaims: [{name: g, resourceClaimTemplateName: t}]}}\n"
    (tmp_path / "release.yaml").write_text(f"apiVersion: helm.toolkit.fluxcd.io/v2\n{text}")
    (tmp_path / "other.yaml.j2").write_text("kind: ConfigMap\n")
    assert _drilled(tmp_path) == NAME_IT
    said = CliRunner().invoke(main, ["lint", "--manifests", str(tmp_path)]).output
    assert said.splitlines()[-1] == NAME_IT
    assert "nothing that was read asks for a GPU" not in said


def test_a_chart_that_is_not_said_by_name_is_no_command_to_type(tmp_path):
    (tmp_path / "other.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Values.name }}\n")
    (tmp_path / "web.yaml").write_text(GPU.replace("nvidia.com/gpu", "cpu"))
    assert " ... " not in _drilled(tmp_path)


def test_where_a_spec_lies_here_already_it_is_not_written_once_more(tmp_path, monkeypatch):
    (tmp_path / "gpu.yaml").write_text(GPU)
    monkeypatch.chdir(tmp_path)
    assert _drilled(tmp_path / "gpu.yaml") == f"next: killcheck init --manifests {tmp_path}/gpu.yaml -o killcheck.yaml"
    assert CliRunner().invoke(main, ["init", "--manifests", "gpu.yaml", "-o", "killcheck.yaml"]).exit_code == 0
    said = _drilled(tmp_path / "gpu.yaml")
    assert said == f"next: killcheck drill killcheck.yaml --manifests {tmp_path}/gpu.yaml   (once it names that layer)"


def test_after_an_exposure_under_a_fault_reading_is_not_what_comes_next():
    session = Session(manifests=[Path("deploy")], exec_mode="host")
    step = after_drill(session, EXIT_CODES["exposed"], sabotaged=True) or ""
    assert step.startswith("next: killcheck gate --manifests deploy --exec host ")


def test_a_line_of_a_list_begins_where_the_others_do_however_long_its_first_word(monkeypatch, capsys):
    monkeypatch.setattr(saying, "_columns", lambda **_: 20)
    saying.say("  a/path/that/is/longer/than/it:3 (a template)")
    assert capsys.readouterr().out == "  a/path/that/is/longer/than/it:3\n      (a template)\n"


def test_exit_codes_are_written_down_once():
    root = Path(killcheck.__file__).parent
    places = [root / "commands", root / "fleet", root / "run", root / "fence", root / "history", root / "proof"]
    own = re.compile(
        r"sys\.exit\(\s*\d|sys\.exit\([^)\n]*\belse \d|\"(?:safe|exposed|proven|dirty)\": \d+, \"\w+\": \d+\}\["
    )
    found = [
        f"{file.name}: {line}"
        for place in places
        for file in place.glob("*.py")
        for line in own.findall(file.read_text())
    ]
    assert found == []
