"""Whatever a user gets wrong: one clear message, the documented exit code, no traceback, nothing left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main

GOOD = fixtures.spec("dead-man").read_text()


@pytest.fixture
def killcheck(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))

    def run(*argv):
        result = CliRunner().invoke(main, list(argv))
        assert "Traceback" not in result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


def manifests(folder: Path, **replaced: tuple[str, str]) -> Path:
    shutil.copytree(fixtures.path("dead-man"), folder)
    for name, (old, new) in replaced.items():
        file = folder / f"{name.replace('_', '-')}.yaml"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
    (folder / "killcheck.yaml").unlink()
    return folder


def on_staging(folder: Path, address: str) -> None:
    """A spec, and a kubeconfig whose one context is staging at an address where nobody listens."""
    (folder / "killcheck.yaml").write_text(GOOD)
    (folder / "kubeconfig").write_text(
        f"apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://{address}'}}}}]\n"
        "users: [{name: u, user: {token: t}}]\ncontexts: [{name: staging, context: {cluster: c, user: u}}]\n"
    )


def test_a_spec_that_is_not_yaml(killcheck, tmp_path):
    (tmp_path / "killcheck.yaml").write_text("targets: [\n")
    result = killcheck("drill", "killcheck.yaml")
    assert result.exit_code == 2
    assert "killcheck.yaml:" in result.output


def test_a_misspelt_field_is_answered_with_its_place_and_the_nearest_name(killcheck, tmp_path):
    (tmp_path / "killcheck.yaml").write_text(GOOD.replace("cronJob:", "cronJbo:"))
    result = killcheck("drill", "killcheck.yaml")
    assert result.exit_code == 2
    assert "killcheck.yaml:" in result.output
    assert "cronJob" in result.output


def test_a_spec_that_does_not_exist(killcheck):
    for command in ("drill", "lint", "fence", "explore", "gate"):
        result = killcheck(command, "nowhere.yaml")
        assert result.exit_code == 2
        assert "nowhere.yaml: no such file or directory; killcheck init writes one" in result.output


def test_a_folder_without_a_spec_is_none_and_what_to_do_with_it_is_said(killcheck, tmp_path):
    (tmp_path / "deploy").mkdir()
    for command in ("drill", "lint", "fence", "explore", "gate"):
        result = killcheck(command, "deploy")
        assert result.exit_code == 2
        assert "deploy: a folder without a killcheck.yaml: give --manifests" in result.output


def test_a_layer_that_does_not_exist(killcheck):
    result = killcheck("drill", "--example", "dead-man", "--layer", "nightly-of")
    assert result.exit_code == 2
    assert "nightly-off" in result.output


def test_a_fault_that_does_not_exist(killcheck):
    result = killcheck("drill", "--example", "dead-man", "--under", "image-gon")
    assert result.exit_code == 2
    assert "image-gone" in result.output


def test_a_command_that_does_not_exist(killcheck):
    result = killcheck("dril")
    assert result.exit_code == 2
    assert "drill" in result.output


def test_a_context_that_does_not_exist_lists_the_nearest(killcheck, tmp_path):
    on_staging(tmp_path, "127.0.0.1:1")
    result = killcheck("drill", "killcheck.yaml", "--on", "stagin")
    assert result.exit_code == 2
    assert "staging" in result.output


def test_a_server_that_cannot_be_reached(killcheck, tmp_path):
    on_staging(tmp_path, "127.0.0.1:1")
    result = killcheck("drill", "killcheck.yaml", "--on", "staging")
    assert result.exit_code == 4
    assert "127.0.0.1:1" in result.output


def test_a_password_in_a_servers_address_is_not_told(killcheck, tmp_path):
    on_staging(tmp_path, "joe:hunter22@127.0.0.1:1")
    result = killcheck("drill", "killcheck.yaml", "--on", "staging")
    assert result.exit_code == 4
    assert "joe:<redacted>@127.0.0.1:1" in result.output
    assert "hunter22" not in result.output


def test_a_real_cluster_wants_a_spec(killcheck):
    result = killcheck("drill", "--on", "staging")
    assert result.exit_code == 2
    assert "spec" in result.output


def test_manifests_without_gpus(killcheck, tmp_path):
    (tmp_path / "deploy.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {a: b}}\n"
        "  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: web, image: nginx}]}}\n"
    )
    result = killcheck("drill", "--manifests", "deploy.yaml")
    assert result.exit_code == 2
    assert "GPU" in result.output


def test_a_manifest_that_yaml_misreads(killcheck, tmp_path):
    (tmp_path / "off.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n    - name: off\n      image: nginx\n"
    )
    result = killcheck("drill", "--manifests", "off.yaml")
    assert result.exit_code == 2
    assert "off.yaml:6" in result.output
    assert '"off"' in result.output


def test_no_such_cronjob_lists_the_nearest(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy")
    (tmp_path / "killcheck.yaml").write_text(GOOD.replace("name: gpu-nightly-off", "name: gpu-nightly-of"))
    result = killcheck("drill", "killcheck.yaml", "--manifests", str(folder), "--exec", "host")
    assert result.exit_code == 2
    assert "gpu-nightly-off" in result.output


def test_targets_that_sleep_in_the_manifests_are_woken_first(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy", inference=("replicas: 1", "replicas: 0"))
    (tmp_path / "killcheck.yaml").write_text(GOOD)
    result = killcheck("drill", "killcheck.yaml", "--manifests", str(folder), "--exec", "host")
    assert result.exit_code == 0, result.output
    assert "asks for no replicas in the manifests: woken to 1 replica(s) for this drill" in result.output


def test_a_users_own_manifests_do_not_run_unasked(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy")
    for more in ((), ("--under", "egress-denied")):
        result = killcheck("drill", "--manifests", str(folder), *more)
        assert result.exit_code == 3
        assert "nobody allowed it to run on this host (--exec host)" in result.output


@pytest.mark.parametrize("argv", [("--example", "dead-man", "--exec", "docker"), ("--on", "kind")])
def test_without_a_docker_engine_that_is_said(killcheck, argv, monkeypatch):
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    result = killcheck("drill", *argv)
    assert result.exit_code == 4
    assert "no Docker Engine answers at unix:///nowhere/docker.sock" in result.output


@pytest.mark.parametrize(
    "argv",
    [("drill", "--on", ""), ("drill", "--on="), ("drill", "--example", "dead-man", "--evidence", ""), ("drill", "")],
)
def test_a_variable_that_is_not_set_names_no_other_place(killcheck, argv):
    """``--on "$CONTEXT"`` was the embedded cluster, and passed."""
    done = killcheck(*argv)
    assert (done.exit_code, "is empty: set the variable that it comes from" in done.output) == (2, True), done.output


def test_a_bad_duration(killcheck):
    result = killcheck("drill", "--example", "dead-man", "--watch", "7")
    assert result.exit_code == 2
    assert "7h" in result.output or "90s" in result.output


@pytest.mark.parametrize("wide", ["UTF-16", "UTF-32"])
def test_a_spec_in_wide_characters_is_said_to_be_one(killcheck, tmp_path, wide):
    (tmp_path / "killcheck.yaml").write_bytes(GOOD.encode(wide))
    result = killcheck("drill", "killcheck.yaml")
    assert result.exit_code == 2
    assert f"killcheck.yaml: {wide}, not UTF-8: save it as UTF-8" in result.output


def test_links_in_a_circle_beside_a_spec_are_not_followed(killcheck, tmp_path):
    (tmp_path / "killcheck.yaml").write_text(GOOD.replace("type: dead-man", "type: deadman"))
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    assert killcheck("drill", "killcheck.yaml").exit_code == 2
    assert killcheck("drill", "loop.yaml").exit_code == 2


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            ("nvidia.com/gpu: 8", "nvidia.com/gpu: 8GiB"),
            ": not read: Deployment/inference/vllm: no API server takes this: quantities must match",
        ),
        (("replicas: 1", "replicas: one"), "cannot unmarshal string into Go struct field"),
    ],
)
def test_a_manifest_that_no_api_server_would_take_is_said_with_its_line(killcheck, tmp_path, file, said):
    folder = manifests(tmp_path / "deploy", inference=file)
    result = killcheck("drill", "--manifests", str(folder), "--exec", "none")
    assert result.exit_code == 2
    assert f"{folder}/inference.yaml:" in result.output
    assert said in result.output


@pytest.mark.parametrize("command", [("drill", "-q"), ("lint",), ("fence",), ("explore",)])
def test_a_spec_without_manifests_is_not_drilled_on_somebody_elses(killcheck, tmp_path, command):
    (tmp_path / "killcheck.yaml").write_text(GOOD)
    result = killcheck(command[0], "killcheck.yaml", *command[1:])
    assert result.exit_code == 2
    assert "no manifests beside it" in result.output or "no Kubernetes object in it" in result.output


def test_a_schedule_that_is_no_text_is_said_with_its_line_and_proves_nothing(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy", gpu_nightly_off=("schedule:", "schedule: 5 #"))
    for more, code in (((), 3), (("--strict",), 2)):
        result = killcheck("drill", "--manifests", str(folder), "--exec", "none", *more)
        assert result.exit_code == code
        assert f"{folder}/gpu-nightly-off.yaml:" in result.output
    result = killcheck("lint", "--manifests", str(folder))
    assert result.exit_code == 1
    assert "was not read: CronJob/inference/gpu-nightly-off: no API server takes this" in " ".join(
        result.output.split()
    )


def test_what_nothing_here_would_act_on_is_left_out_and_said(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy")
    (folder / "monitor.yaml").write_text(
        "apiVersion: monitoring.example.com/v1\nkind: ServiceMonitor\nmetadata: {name: m, namespace: inference}\n"
    )
    result = killcheck("drill", "--manifests", str(folder), "--exec", "host")
    assert result.exit_code == 0
    assert "ServiceMonitor/inference/m was left out: no CustomResourceDefinition of it" in result.output


def test_a_field_that_the_api_server_drops_is_said(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy", gpu_nightly_off=("concurrencyPolicy:", "concurencyPolicy:"))
    result = killcheck("drill", "--manifests", str(folder), "--exec", "host")
    assert result.exit_code == 0
    assert "unknown field 'spec.concurencyPolicy' was dropped unread (kubectl apply refuses it)" in " ".join(
        result.output.split()
    )


def test_a_kustomization_that_is_not_rendered_is_said_wherever_manifests_are_read(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy")
    (folder / "kustomization.yaml").write_text(
        "resources: [inference.yaml, gpu-nightly-off.yaml, nodepool.yaml, .]\nnamespace: elsewhere\n"
    )
    for command in (("lint",), ("drill", "--exec", "host")):
        result = killcheck(command[0], "--manifests", str(folder), *command[1:])
        assert "kustomization.yaml: not rendered here: namespace" in result.output
        assert "a kustomization that is among its own resources" in result.output
    (folder / "kustomization.yaml").write_text("resources: inference.yaml\n")
    assert killcheck("lint", "--manifests", str(folder)).exit_code == 2


def test_what_was_not_read_keeps_a_drill_from_proving_anything_until_it_is_left_out(killcheck, tmp_path):
    folder = manifests(tmp_path / "deploy")
    (folder / "later.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: '{{ .Release.Name }}', namespace: inference}\n"
    )
    (folder / "values.yaml").write_text("replicas: 1\n")
    argv = ("drill", "--manifests", str(folder), "--exec", "host")
    result = killcheck(*argv)
    assert result.exit_code == 3
    told = " ".join(result.output.split())
    assert "what could keep or turn GPUs on is not all known" in told
    assert "it may hold anything" in told
    assert f"{folder}/later.yaml:3" in result.output
    assert killcheck(*argv, "--exclude", "later.yaml").exit_code == 0
    refused = killcheck(*argv, "--strict")
    assert refused.exit_code == 2
    assert f"{folder}/later.yaml:3" in refused.output


LONG = "9" * 100_000
HOLDER = (
    "apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n"
    "spec: {{containers: [{{name: c, image: {image}, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]}}\n"
)


@pytest.mark.parametrize("field", ["kind", "name", "image", "gpus", "json"])
def test_a_strangers_text_of_no_end_fills_no_screen(killcheck, tmp_path, field):
    words = {"kind": "Pod", "name": "p", "image": "i", "gpus": "1"}
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "sound.yaml").write_text(HOLDER.format(**words))
    (tmp_path / "deploy" / "odd.yaml").write_text(HOLDER.format(**{**words, "name": "q", field: f"x{LONG}"}))
    (tmp_path / "deploy" / "odd.json").write_text('{"apiVersion": "v1", "kind": "Pod", "x": ' + LONG + "}")
    for argv in (["lint", "--manifests", "deploy", "--verbose"], ["init", "--manifests", "deploy", "-o", "out.yaml"]):
        result = killcheck(*argv)
        assert result.exit_code in (0, 1)
        assert max(map(len, result.output.splitlines())) < 5000
    assert "a number in it has more digits than any reader takes" in killcheck("lint", "--manifests", "deploy").output


NO_LAYERS = """\
apiVersion: killcheck/v1
kind: KillPath
name: inference
targets:
  - {name: vllm, kind: Deployment, namespace: inference, object: vllm}
layers: []
"""


@pytest.mark.parametrize(
    ("switch", "said"),
    [
        ("apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: off}\nspec: {}\n", "reads off as the boolean"),
        (
            "apiVersion: autoscaling.aibrix.ai/v1alpha1\nkind: PodAutoscaler\nmetadata: {name: s, namespace: inference}\n"
            "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: vllm}}\n",
            "PodAutoscaler/inference/s scales Deployment/inference/vllm, not understood",
        ),
    ],
)
def test_a_switch_that_was_not_read_is_named_where_no_layer_is_found(killcheck, tmp_path, switch, said):
    (tmp_path / "deploy").mkdir()
    shutil.copy(fixtures.path("dead-man") / "inference.yaml", tmp_path / "deploy")
    (tmp_path / "deploy/switch.yaml").write_text(switch)
    result = killcheck("drill", "--manifests", str(tmp_path / "deploy"))
    assert result.exit_code == 3, result.output
    assert "so nothing turns off" not in result.output
    assert said in " ".join(result.output.split()).partition("may be in what was not read")[2]
    mends = result.output.rstrip().splitlines()[-1].startswith(f"next: mend {tmp_path / 'deploy/switch.yaml'}:3")
    assert mends == ("boolean" in said)


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("drill",), 3),
        (("drill", "--matrix"), 3),
        (("drill", "--dry-run"), 3),
        (("explore",), 3),
        (("gate", "--skip", "lint"), 3),
        (("gate",), 1),  # lint: what holds GPUs is turned off by nothing
        (("lint",), 1),
    ],
)
def test_a_spec_without_layers_is_taken_everywhere_and_proves_nothing(killcheck, tmp_path, argv, code):
    folder = manifests(tmp_path / "deploy")
    for file in folder.glob("*.yaml"):
        if "kind: CronJob" in file.read_text():
            file.unlink()
    (tmp_path / "deploy" / "killcheck.yaml").write_text(NO_LAYERS)
    result = killcheck(*argv, str(folder / "killcheck.yaml"))
    assert result.exit_code == code, result.output
    if argv != ("lint",):
        assert "names no layer, so nothing turns off Deployment/inference/vllm" in result.output


#: What a file is that a command was given, the command, and what is said of it.
GIVEN = {
    "empty record": ("certify", "f", "--key", "n", "is empty: expected a run record"),
    "record that is a folder": ("report", "d", "run.jsonl: is a directory: expected a run record"),
    "deep baseline": ("lint", "--example", "dead-man", "--baseline", "n", "nested too deep"),
    "deep export": ("fence", "--example", "dead-man", "--account", "n", "n: nested too deep"),
    "empty folder of exports": ("fence", "--example", "dead-man", "--account", "d", "no *.json in it"),
    "search of other bytes": ("explore", "--example", "dead-man", "--tree", "b", "name another file"),
    "manifest in a circle": ("lint", "--manifests", "loop.yaml", "loop.yaml"),
    "links in a circle": ("rights", "loop.yaml", "too many levels of symbolic links"),
}


@pytest.mark.parametrize("given", GIVEN)
def test_a_file_that_is_not_what_is_expected_is_wrong_usage(killcheck, tmp_path, given):
    *argv, said = GIVEN[given]
    (tmp_path / "d/run.jsonl").mkdir(parents=True)
    for name, content in (("f", b""), ("n", b"[" * 20_000), ("b", b"\xff\xfe\n")):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    done = killcheck(*argv)
    assert (done.exit_code, said in " ".join(done.output.split())) == (2, True), done.output
