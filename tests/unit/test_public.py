"""The public face: what ``killcheck`` exports is what is promised, costs nothing, and reads its own documents."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from importlib import import_module

import pytest
from killcheck.fixtures import path

import killcheck


def test_the_public_names_are_these():
    assert sorted(killcheck.__all__) == killcheck.__all__
    assert set(killcheck.__all__) == {"__version__", *killcheck._HOMES}
    for name in killcheck.__all__:
        assert getattr(killcheck, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'dril'"):
        _ = killcheck.dril


def test_every_public_call_and_type_says_what_it_takes_and_raises():
    for name, home in killcheck._HOMES.items():
        doc = inspect.getdoc(getattr(import_module(home), name))
        assert doc, name
        if name.startswith(("run_", "load_", "read_")):
            assert "Raises" in doc or "errors are those of" in doc, name


def test_importing_it_imports_nothing_but_its_version():
    code = "import sys, killcheck; print([m for m in sys.modules if m.startswith('killcheck.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['killcheck.version']"


def test_reading_a_folder_imports_no_cluster():
    """It was a third of what that costs."""
    argv = [sys.executable, "-X", "importtime", "-m", "killcheck", "lint", str(path("dead-man"))]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "killcheck.lint.asking" in imported
    assert not {"killcheck.embedded.api.server", "killcheck.embedded.nodes.kubelet"} & imported


def test_a_drill_is_a_typed_result_that_reads_its_own_document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = path("dead-man") / "killcheck.yaml"
    found = killcheck.run_drill(spec, layer="nightly-off", under=["rolebinding-gone"])
    assert (found.verdict, found.stuck_at) == (killcheck.Verdict.EXPOSED, "executor_finished")
    document = json.dumps({"schema": "killcheck.result/v1", "drills": [found.to_json()]})
    (again,) = killcheck.read_results(document)
    assert again.to_json() == found.to_json()
    assert again.faults == ("rolebinding-gone",)


def test_a_matrix_is_cells_with_what_the_policy_asks_of_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = killcheck.run_matrix(path("dead-man") / "killcheck.yaml", layers=["nightly-off"], under=["suspended"])
    assert [(cell.fault, cell.result.verdict, cell.passes) for cell in found.cells] == [
        ("", killcheck.Verdict.SURVIVED, True),
        ("suspended", killcheck.Verdict.EXPOSED, True),  # the example's policy accepts it
    ]


@pytest.mark.parametrize("call", [killcheck.run_drill, killcheck.run_matrix])
@pytest.mark.parametrize(
    ("layer", "under", "said"),
    [
        ("nightly", [], "the spec has no layer 'nightly'; did you mean nightly-off?"),
        ("nightly-off", ["suspendid"], "no fault is called suspendid; did you mean suspended?"),
        ("nightly-off", ["suspended@x"], r"the spec has no layer 'x' \(there is nightly-off\)"),
    ],
)
def test_names_that_are_not_there_are_key_errors_with_the_nearest(call, layer, under, said):
    chosen = {"layer": layer} if call is killcheck.run_drill else {"layers": [layer]}
    with pytest.raises(KeyError, match=said):
        call(path("dead-man") / "killcheck.yaml", under=under, **chosen)


def test_what_is_no_result_is_refused():
    with pytest.raises(ValueError, match=r"killcheck\.result/v1"):
        killcheck.read_results("[]")
    with pytest.raises(ValueError, match="expected a drill"):
        killcheck.read_results(json.dumps({"schema": "killcheck.result/v1", "drills": [{"layer": "x"}]}))


def test_lint_and_fence_answer_with_what_the_command_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = path("dead-man-false-green") / "killcheck.yaml"
    findings = killcheck.run_lint(spec).findings
    assert "false-green" in {one.probe for one in findings}
    for one in findings:
        assert killcheck.Finding.from_json(json.loads(json.dumps(one.to_json()))) == one
    assert killcheck.run_fence(spec).verdict in ("safe", "exposed", "unproven")
    assert killcheck.load_spec(spec).layers
