"""The runner of clients' own suites and the course of kubectl: what they count, and that nothing counts as alike unseen."""

from __future__ import annotations

import sys
from base64 import b64decode

import pytest
from client_suites import compared, counted, inlined, outcomes, run
from kubectl_course import STEPS, Said, plain, unlike

EXEC_MODE = "none"
SUITE = """
import subprocess
import pytest
from pytest_kind.cluster import KindCluster

@pytest.fixture(scope="session")
def made(request):
    cluster = KindCluster(name="x", image="y")
    cluster.create()
    assert request.config.getoption("keep_cluster")
    return cluster

def test_it_answers(made):
    assert "default" in made.kubectl("get", "namespace", "default")

def test_it_refuses(made):
    made.kubectl("get", "namespace", "none")

@pytest.mark.skip
def test_later():
    pass
"""


def test_a_suite_that_asks_for_kind_meets_the_cluster_that_is_there(kubeconfig, tmp_path):
    (tmp_path / "kr8s").mkdir()
    (tmp_path / "kr8s" / "test_one.py").write_text(SUITE)
    found = run("kr8s", tmp_path, kubeconfig, sys.executable, ["-p", "no:cacheprovider"], 2)
    assert {name.rpartition("::")[2]: said for name, said in found.items()} == {
        "test_it_answers": "passed",
        "test_it_refuses": "failed",
        "test_later": "skipped",
    }
    assert counted(found) == "1 passed, 1 failed, 1 skipped"


@pytest.mark.parametrize("text", ["import nothing_of_this_name\n", "def test_it():\n    assert False\n", "\n"])
@pytest.mark.one_in(3)
def test_a_suite_of_which_nothing_passed_is_no_measure(kubeconfig, tmp_path, text):
    (tmp_path / "kr8s").mkdir()
    (tmp_path / "kr8s" / "test_one.py").write_text(text)
    with pytest.raises(SystemExit, match=r"no test passed|no report"):
        run("kr8s", tmp_path, kubeconfig, sys.executable, ["-p", "no:cacheprovider"], 2)


def test_what_passes_on_one_alone_is_told(tmp_path):
    report = tmp_path / "junit.xml"
    report.write_text(
        "<testsuites><testsuite><testcase classname='a' name='one'/><testcase classname='a' name='two'><failure/></testcase>"
        "<testcase classname='a' name='three'><skipped/></testcase><testcase classname='a' name='one'><error/></testcase>"
        "</testsuite></testsuites>"
    )
    here = outcomes(report)
    assert here == {"a::one": "failed", "a::two": "failed", "a::three": "skipped"}
    assert compared(here, {"a::one": "passed", "a::four": "failed"}) == (["a::one"], [])
    assert compared({"a::two": "passed"}, here) == ([], ["a::two"])


def test_certificates_come_into_the_kubeconfig(tmp_path):
    (tmp_path / "ca.crt").write_text("CA")
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    cluster = inlined(config, tmp_path)["clusters"][0]["cluster"]
    assert b64decode(cluster["certificate-authority-data"]) == b"CA"
    assert "certificate-authority" not in cluster


def test_a_course_compares_codes_and_words():
    same = [Said(0, "x")] * len(STEPS)
    assert unlike(same, same) == []
    worded = next(number for number, step in enumerate(STEPS) if step.words)
    coded = next(number for number, step in enumerate(STEPS) if not step.words)
    for number, said, differs in (
        (worded, Said(0, "y"), True),
        (worded, Said(1, "x"), True),
        (coded, Said(0, "y"), False),
        (coded, Said(1, "x"), True),
        (worded, None, False),  # a kubectl that has no such command
    ):
        other = [*same[:number], said, *same[number + 1 :]]
        assert bool(unlike(other, same)) is differs


@pytest.mark.parametrize(
    "words",
    ["web-6d4cf56db6-x7k2q   1/1  Running  0  3m12s", "pod/web-7c9f8d5b4-mmv4c  1/1 Running 0 5s"],
)
def test_what_differs_from_run_to_run_is_no_difference(words):
    assert plain(words, "course-32", "cpu-1").removeprefix("pod/") == "web** 1/1 Running 0 *"
