"""SIGKILL between any two steps of a drill's life, over the wire, then ``killcheck restore`` in another process, which
is killed too, and once more.

What is compared is the whole cluster. The default run takes a sample of the kill points, spread over all of them and
different for each set of faults; ``KILLCHECK_KILL_POINTS=all`` takes every one.
"""

from __future__ import annotations

import base64
import json
import os
import re

import pytest
from kill_world import CONTEXT, KillWorld
from mortal import kill_points

from killcheck import faults
from killcheck.kube import resources as r

#: Sets of faults that can be there together; each API fault is in one.
SETS = {
    "none": [],
    "image": ["image-gone", "command-missing", "token-audience"],
    "secrets": ["pull-secret-expired", "token-dead"],
    "edits": ["rolebinding-gone", "podsecurity", "pool-floor"],
    "schedule": ["suspended", "job-hung-under-forbid", "no-room"],
    "zone": ["zone-changed", "second-starter", "sidecar-not-ready"],
    "egress": ["egress-denied", "token-not-mounted", "proxy-in-the-way"],
    "dns": ["dns-denied", "podsecurity", "dns-wrong"],
    "network": ["api-unreachable"],
    "admission": ["quota-exhausted", "webhook-down", "registry-unreachable"],
    "rivals": ["keda-minimum"],
    "operator": ["rival-operator", "volume-stuck"],
    "runs": ["laptop-killed", "run-never-finishes"],
    "drain": ["pdb-blocks", "finalizer", "do-not-disrupt"],
    "grace": ["long-grace"],
}
#: What only can be done to an embedded cluster's own parts goes with its process; an autoscaler's Deployment is not in these.
NOT_OVER_THE_WIRE = {kind.name for kind in faults.ALL if kind.needs} | {"autoscaler-down"}
#: How many kill points of a set are tried by default; the sets together have them from the first step to the last. For
#: every other two sets they are those where most can be lost: something was done, and nobody has written that it was.
SAMPLE = 1
#: Writes of killcheck's own: the journal, the Lease.
OWN = re.compile(r"^journal|/configmaps\b|/leases\b")
#: At which of its steps the first restore is killed, in turn; one that has taken fewer was at its end.
AGAIN = [(at, when) for at in range(1, 9) for when in ("before", "after")]


@pytest.fixture(scope="module")
def mortals(tmp_path_factory):
    made = KillWorld(tmp_path_factory.mktemp("mortals"))
    yield made
    made.close()


def chosen(steps, offset):
    """The points to be tried: a sample that is different for each ``offset``, or all."""
    points = kill_points(steps)
    if os.environ.get("KILLCHECK_KILL_POINTS") == "all":
        return points
    if offset % 4 < 2:
        points = [(at, when) for at, when in points if when == "after" and not OWN.search(steps[at - 1])]
    place = (7 * offset % len(SETS) + 0.5) / len(SETS)
    return [points[int(len(points) * (number + place) / SAMPLE)] for number in range(SAMPLE)]


def document(answer):
    """The JSON document in what a child said on both its streams."""
    return json.loads(answer["out"][answer["out"].index("{") :])


def restore(mortals, folder, elsewhere, **death):
    """From the same machine, which knows that the process is dead; or from one that has only the cluster's word."""
    if not elsewhere:
        return mortals.order(folder, "restore", **death)
    other = folder / "elsewhere"
    state = folder / "anothers-state"
    shown = mortals.order(other, "restore", "--on", CONTEXT, "--dry-run", "--json", state=state)
    answer = {"code": 0, "out": ""}
    for run in document(shown)["left"]:
        assert not run["refused"], run
        answer = mortals.order(other, "restore", "--on", CONTEXT, "--run", run["run"], state=state, **death)
    return answer


def test_every_fault_that_works_over_the_wire_is_in_a_set():
    assert {name for names in SETS.values() for name in names} | NOT_OVER_THE_WIRE == {k.name for k in faults.ALL}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.one_in(6)
def test_killed_anywhere_it_is_put_back(mortals, tmp_path, name, record_property):
    assert mortals.settled() == []
    whole = mortals.drill(tmp_path / "whole", SETS[name])
    assert whole["code"] in (0, 1, 3), whole["out"]
    assert document(whole)["drills"][0]["problems"] == []
    assert mortals.settled() == []
    offset = list(SETS).index(name)
    points = chosen(whole["steps"], offset)
    for number, (at, when) in enumerate(points):
        folder = tmp_path / f"{at}-{when}"
        killed = mortals.drill(folder, SETS[name], at=at, when=when)
        if killed["code"] != -9:  # this time it took fewer steps
            assert killed["code"] in (0, 1, 3), killed["out"]
        again = AGAIN[(number // 2 + offset) % len(AGAIN)]
        elsewhere = (number + offset) % 2 == 1
        killed_again = restore(mortals, folder, elsewhere, at=again[0], when=again[1])
        assert killed_again["code"] in (0, -9), (at, when, again, killed_again["out"])
        answer = restore(mortals, folder, elsewhere)
        assert answer["code"] == 0, (at, when, again, answer["out"])
        # What never came to a journal is not known on this machine's; the Leases of a dead process lapse, or go here.
        mortals.order(folder, "restore", "--on", CONTEXT)
        assert mortals.settled() == [], (at, when, again, killed["steps"][-3:], answer["out"])
    record_property("kill_points", len(points))


def test_what_would_refuse_it_is_a_part_of_the_plan(mortals, tmp_path):
    spec = tmp_path / "none-allowed.yaml"
    spec.write_text(mortals.spec.read_text().replace("maxGpuNodes: 1", "maxGpuNodes: 0"))
    shown = mortals.order(tmp_path / "a", "drill", str(spec), "--on", CONTEXT, "--under", "suspended", "--dry-run")
    assert shown["code"] == 2, shown["out"]
    assert "CronJob inference/gpu-nightly-off is suspended for the length of the drill" in shown["out"]
    assert "at stake: 1 GPU node(s)" in shown["out"]
    assert "1 GPU nodes are on; the spec allows 0" in shown["out"]
    assert shown["steps"] == []


@pytest.mark.parametrize(
    ("under", "code", "words"),
    [
        (
            ["image-gone+pull-secret-expired"],
            3,
            "cannot be there together: image-gone and pull-secret-expired both set",
        ),
        (["suspended+"], 2, "the name of a fault is missing beside a +"),
        (["suspended", "image-gone+suspended"], 2, "suspended is named twice"),
        (["registry-quota"], 3, "it needs registry"),
    ],
    ids=["clash", "half", "twice", "lever"],
)
def test_faults_that_cannot_be_had_are_refused_before_anything_is_changed(mortals, tmp_path, under, code, words):
    words_of = [word for name in under for word in ("--under", name)]
    answer = mortals.order(
        tmp_path / "a", "drill", str(mortals.spec), "--on", CONTEXT, *words_of, "--watch", "1s", "--yes"
    )
    assert (answer["code"], answer["steps"]) == (code, []), answer["out"]
    assert words in answer["out"]


def test_restore_is_told_where_to_look_and_says_what_it_did_not_find(mortals, tmp_path):
    nowhere = mortals.order(tmp_path / "a", "restore", "--on", CONTEXT, "-n", "inferense")
    assert nowhere["code"] == 2
    assert "there is no namespace inferense here" in nowhere["out"]
    nothing = mortals.order(tmp_path / "a", "restore", "--on", CONTEXT, "--run", "20200101-000000-abcdef-0")
    assert (nothing["code"], nothing["out"].strip()) == (0, "nothing is left of a run 20200101-000000-abcdef-0")


#: What is given to the executor of a cluster that nobody has manifests of, and how a program may say it again.
LIVE = {
    "by-key": "Tulip7-by-its-key",
    "URL": "postgres://app:Tulip7-in-a-url@db/x",
    "settings.env": "LEVEL=debug\nDB=Tulip7-in-a-line\n",
    "login.json": json.dumps({"auths": {"m": {"auth": base64.b64encode(b"bot:Tulip7-in-auth").decode()}}}),
}
SAYS_ALL = """
echo "$ONE $URL"; cut -d= -f2 /given/settings.env
sed 's/.*"auth": "\\([^"]*\\).*/\\1/' /given/login.json | base64 -d; echo; printf '%s' "$ONE" | base64 -w0
exit 7
"""


def test_what_the_secrets_of_a_real_cluster_hold_is_in_nothing_that_a_drill_leaves(mortals, tmp_path):
    kube, container = mortals.cluster.kube, {"name": "off", "command": ["sh", "-c", SAYS_ALL], "args": []}
    container |= {
        "env": [{"name": "ONE", "valueFrom": {"secretKeyRef": {"name": "given", "key": "by-key"}}}],
        "envFrom": [{"secretRef": {"name": "given"}}],
        "volumeMounts": [{"name": "given", "mountPath": "/given"}],
    }
    with mortals.cluster.loop.entered():
        kube.create(r.SECRETS, {"metadata": {"name": "given", "namespace": "inference"}, "stringData": LIVE})
        was = kube.get(r.CRONJOBS, "gpu-nightly-off", "inference")
        pod = was["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        spec = {**pod, "volumes": [{"name": "given", "secret": {"secretName": "given"}}]}
        spec["containers"] = [{**{k: v for k, v in pod["containers"][0].items() if k == "image"}, **container}]
        told = {**was, "spec": {**was["spec"], "jobTemplate": {"spec": {"template": {"spec": spec}}}}}
        kube.replace(r.CRONJOBS, told)
    try:
        answer = mortals.drill(tmp_path / "a", [])
    finally:
        with mortals.cluster.loop.entered():
            now = kube.get(r.CRONJOBS, "gpu-nightly-off", "inference")
            kube.replace(r.CRONJOBS, {**now, "spec": was["spec"]})
            kube.delete(r.SECRETS, "given", "inference")
    record = next((tmp_path / "a").glob(".killcheck/runs/*/run.jsonl")).read_text()
    assert (answer["code"], "<redacted>" in record) == (1, True), answer["out"]
    files = [file.read_text() for file in tmp_path.rglob("*") if file.is_file()]
    for secret in ("Tulip7", base64.b64encode(b"Tulip7-by-its-key").decode()[:-4]):
        assert not [text for text in (answer["out"], *files) if secret in text]
    assert mortals.settled() == []
