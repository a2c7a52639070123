"""P3, ghosts, experiments through a kubeconfig: the cluster over TLS, EC2 and FIS a stand-in, killcheck a process."""

import os

import pytest
from cloud_wire_world import CONTEXT, KEYS, CloudWorld


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    before = dict(os.environ)
    os.environ |= {**KEYS, "AWS_EC2_METADATA_DISABLED": "true"}
    made = CloudWorld(tmp_path_factory.mktemp("cloud"))
    yield made
    made.close()
    os.environ.clear()
    os.environ |= before


def test_the_cloud_says_terminated(world, tmp_path):
    running = [name for name, state in world.states().items() if state == "running"]
    answer = world.drill(tmp_path / "a")
    assert (answer["code"], answer["drill"]["verdict"]) == (0, "survived"), answer["out"]
    reached = {row["phase"]: row["at_s"] for row in answer["drill"]["phases"]}
    assert reached["instance_gone"] is not None
    assert world.states()[running[0]] == "terminated"


def test_a_ghost_is_exposed_with_its_dollars(world, tmp_path):
    ghost = world.ghost()
    try:
        answer = world.drill(tmp_path / "a")
    finally:
        world.ec2.terminate_instances(InstanceIds=[ghost])
    assert (answer["code"], answer["drill"]["verdict"]) == (1, "exposed"), answer["out"]
    assert answer["drill"]["stuck_at"] == "instance_gone"
    assert f"a ghost bills: {ghost}: p4d.24xlarge (8 devices) is on" in answer["drill"]["cause"]
    assert "dollars an hour" in answer["drill"]["cause"]
    assert answer["drill"]["problems"] == []


def test_what_may_not_be_asked_is_named(world, tmp_path):
    world.stand_in.gate.refuse("ec2", "DescribeInstances", "denied")
    try:
        answer = world.drill(tmp_path / "a")
    finally:
        world.stand_in.gate.admit("ec2", "DescribeInstances")
    assert (answer["code"], answer["drill"]["verdict"]) == (3, "inconclusive"), answer["out"]
    assert "P3 unproven: ec2:DescribeInstances: access denied (UnauthorizedOperation)" in answer["drill"]["why"]
    assert "it needs ec2:DescribeInstances (ci/aws-policy.json)" in answer["drill"]["why"]


def test_machines_that_did_not_consent_are_told_of_nothing(world, tmp_path):
    world.withdraw()
    before = len(world.stand_in.gate.seen)
    answer = world.drill(tmp_path / "a", "--under", "spot-queue-message")
    assert answer["code"] == 3, answer["out"]
    assert "has not consented: tag it killcheck.dev/consent=true" in answer["drill"]["why"]
    assert not any(one.action == "SendMessage" for one in world.stand_in.gate.seen[before:])


def test_a_message_in_the_queue_that_the_spec_names(world, tmp_path):
    world.consent()
    answer = world.drill(tmp_path / "a", "--under", "spot-queue-message")
    assert answer["drill"] is not None, answer["out"]
    assert "SpotInterrupted" in answer["drill"]["bites"]["spot-queue-message"]
    assert any(note.startswith("spot-queue-message gave 120 s: ") for note in answer["drill"]["notes"])
    assert answer["drill"]["problems"] == []


STRANGER = b"""<GetCallerIdentityResponse><GetCallerIdentityResult><Account>999999999999</Account><Arn>arn</Arn>
<UserId>u</UserId></GetCallerIdentityResult></GetCallerIdentityResponse>"""


# -- experiments, and what another machine takes back ------------------------------------------------------
@pytest.mark.weekly
def test_another_machine_takes_an_experiment_back(world, tmp_path):
    world.consent()
    world.allow_experiments()
    world.killed_by("spot-fis", tmp_path)
    fis, gate = world.stand_in.fis, world.stand_in.gate
    (template,), (experiment,) = fis.templates, fis.experiments.values()
    words = ["restore", "--on", CONTEXT, "--run", experiment["tags"]["killcheck.dev/run"]]
    by_hand = "by hand: aws fis list-experiment-templates --region us-east-1 --endpoint-url "

    code, out = world.elsewhere(tmp_path / "no-credentials", *words)
    assert (code, "NoCredentialsError" in out, by_hand in out) == (5, True, True), out
    gate.refuse("fis", "*", "denied")
    code, out = world.elsewhere(tmp_path / "denied", *words, **KEYS)
    assert (code, "access denied (AccessDeniedException)" in out, by_hand in out) == (5, True, True), out
    assert "it needs fis:ListExperimentTemplates (ci/aws-policy.json)" in out
    gate.admit("fis", "*")
    gate.answers["sts", "GetCallerIdentity"] = lambda query: ("text/xml", STRANGER)
    code, out = world.elsewhere(tmp_path / "stranger", *words, **KEYS)
    assert (code, "these credentials are of 999999999999: nothing is done in any other" in out) == (5, True), out
    del gate.answers["sts", "GetCallerIdentity"]
    assert list(fis.templates) == [template]
    assert experiment["state"]["status"] == "running"

    code, out = world.elsewhere(tmp_path / "right", *words, **KEYS)
    assert (code, "undone: an experiment template of FIS (1)" in out) == (0, True), out
    assert fis.templates == {}
    assert experiment["state"]["status"] == "stopped"
    assert world.elsewhere(tmp_path / "again", *words, **KEYS)[0] == 0
