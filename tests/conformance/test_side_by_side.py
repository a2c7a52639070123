"""The tool itself on a control plane that is named (``--kubeconfig``): what it says there and on the embedded cluster."""

from __future__ import annotations

import pytest
from side_by_side import (
    BESIDE,
    EXECUTORS,
    FAULTS,
    WORDS,
    Named,
    Told,
    conformance,
    on_embedded,
    reference,
    report,
    spec,
)


@pytest.fixture(scope="module")
def rows(request):
    """The rows of the report, which is written when all are known (``--report F``), and the control planes' versions."""
    found, versions = [], {}
    yield found, versions
    file = request.config.getoption("--report", default=None)
    if file:
        with open(file, "w") as out:  # noqa: PTH123
            out.write(report(found, ", ".join(versions)))


def _standing(request, rows, subject):
    """The control plane with a kill path on it, for all tests of the module: it and its nodes take a minute to be up."""
    kubeconfig = request.config.getoption("--kubeconfig", default=None)
    if not kubeconfig:
        pytest.skip("needs a control plane: --kubeconfig")
    made = Named(kubeconfig, subject)
    rows[1][made.cluster.kubernetes] = True
    try:
        yield made
    finally:
        left = made.close()
    assert left == []


@pytest.fixture(scope="module")
def own(request, rows):
    yield from _standing(request, rows, conformance())


@pytest.fixture(scope="module")
def dead_man(request, rows):
    yield from _standing(request, rows, reference("dead-man"))


@pytest.fixture(scope="module")
def two_switches(request, rows):
    yield from _standing(request, rows, reference("two-switches"))


OWN = [*(("", fault) for fault in ("", *FAULTS)), *((executor, fault) for executor in EXECUTORS for fault in WORDS)]
#: What applies to a shipped path where nodes have no autoscaler.
SHIPPED = ("", *FAULTS, *BESIDE)


@pytest.mark.parametrize(("executor", "fault"), OWN)
def test_both_say_the_same(own, rows, control_plane, tmp_path, executor, fault):
    kill_path = spec(tmp_path)
    ours, theirs = on_embedded(kill_path, fault, executor), own.drill(kill_path, fault, executor)
    rows[0].append((": ".join(filter(None, (executor, fault or "(none)"))), ours, theirs))
    assert theirs.left == ()
    assert theirs.compared == ours.compared


@pytest.mark.parametrize("fault", SHIPPED)
def test_both_say_the_same_of_dead_man(dead_man, rows, control_plane, tmp_path, fault):
    _same_of(dead_man, rows[0], tmp_path, "nightly-off", fault)


@pytest.mark.parametrize("fault", SHIPPED)
def test_both_say_the_same_of_two_switches(two_switches, rows, control_plane, tmp_path, fault):
    _same_of(two_switches, rows[0], tmp_path, "second-switch", fault)


def _same_of(named, rows, folder, layer, fault):
    subject = named.subject
    kill_path = spec(folder, subject)
    ours = on_embedded(kill_path, fault, subject=subject, layer=layer)
    theirs = named.drill(kill_path, fault, layer=layer)
    rows.append((f"{subject.name}: {fault or '(none)'}", ours, theirs))
    assert theirs.left == ()
    assert theirs.compared == ours.compared


def test_a_long_grace_shows_on_nodes_that_say_that_they_are_hollow(tmp_path):
    """Their servers stop at SIGTERM unless they are told not to, on whatever cluster they are."""
    said = on_embedded(spec(tmp_path), "long-grace")
    assert said.verdict == "exposed"
    assert "terminationGracePeriodSeconds" in said.cause
    assert "told to go" in said.bites


def test_what_differs_shows_in_the_report():
    ours = Told("exposed", "401 Unauthorized", ("triggered",), None)
    theirs = Told("exposed", "403 Forbidden", ("triggered", "pods_gone"), None)
    said = report([("token-dead", ours, theirs), ("", ours, ours)], "v1.36.2")
    assert "1 of 2 alike." in said
    assert "**exposed: 403 Forbidden**" in said
    assert "| (none) | exposed: 401 Unauthorized | exposed: 401 Unauthorized | triggered |" in said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pod night-killcheck-ab12-0-x7k2q: ErrImagePull", "pod night-killcheck-9f00-0-mmv4c: ErrImagePull"),
        ("pod render-6f74b56599-knt4t on gpu-1 stays", "pod render-b7c4d4678-ldl7g on hollow-5fd7ab-1 stays"),
        ("Job night-hung-17b4-0 is still active", "Job night-hung-e22c-0 is still active"),
        ("dial tcp 10.96.0.1:443: i/o timeout after 30 s", "dial tcp 10.0.0.7:6443: i/o timeout after 31 s"),
    ],
)
def test_names_that_are_made_up_are_no_difference(one, other):
    assert Told("exposed", one, (), None).compared == Told("exposed", other, (), 3.0).compared
