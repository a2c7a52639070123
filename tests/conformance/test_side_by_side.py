"""The tool itself on a control plane that is named (``--kubeconfig``): what it says there and on the embedded cluster."""

from __future__ import annotations

import pytest
from side_by_side import (
    EXECUTORS,
    FAULTS,
    WORDS,
    Named,
    Told,
    applying,
    conformance,
    on_embedded,
    reference,
    report,
    spec,
)


@pytest.fixture(scope="module")
def named(request):
    """The control plane with a subject on it; the report is written when all rows are known (``--report F``)."""
    kubeconfig = request.config.getoption("--kubeconfig", default=None)
    if not kubeconfig:
        pytest.skip("needs a control plane: --kubeconfig")
    standing, rows, left = {}, [], []

    def stand(subject):
        if subject.name not in standing:
            left.extend(gone for made in standing.values() for gone in made.close())
            standing.clear()
            standing[subject.name] = Named(kubeconfig, subject)
        return standing[subject.name], rows

    try:
        yield stand
    finally:
        versions = {made.cluster.kubernetes for made in standing.values()}
        left += [gone for made in standing.values() for gone in made.close()]
        file = request.config.getoption("--report", default=None)
        if file:
            with open(file, "w") as out:  # noqa: PTH123
                out.write(report(rows, ", ".join(versions)))
    assert left == []


OWN = [*(("", fault) for fault in ("", *FAULTS)), *((executor, fault) for executor in EXECUTORS for fault in WORDS)]
#: Of the shipped paths: each layer under whatever applies where nodes have no autoscaler.
REFERENCES = [("dead-man", "nightly-off"), ("two-switches", "second-switch")]


@pytest.mark.parametrize(("executor", "fault"), OWN)
def test_both_say_the_same(named, control_plane, tmp_path, executor, fault):
    cluster, rows = named(conformance())
    kill_path = spec(tmp_path)
    ours, theirs = on_embedded(kill_path, fault, executor), cluster.drill(kill_path, fault, executor)
    rows.append((": ".join(filter(None, (executor, fault or "(none)"))), ours, theirs))
    assert theirs.left == ()
    assert theirs.compared == ours.compared


@pytest.mark.parametrize(("name", "layer", "fault"), [(*one, fault) for one in REFERENCES for fault in applying(*one)])
def test_both_say_the_same_of_a_reference_path(named, control_plane, tmp_path, name, layer, fault):
    subject = reference(name)
    cluster, rows = named(subject)
    kill_path = spec(tmp_path, subject)
    ours = on_embedded(kill_path, fault, subject=subject, layer=layer)
    theirs = cluster.drill(kill_path, fault, layer=layer)
    rows.append((f"{name}: {layer}: {fault or '(none)'}", ours, theirs))
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
