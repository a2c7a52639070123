"""P3: the cloud's word on instances, by id, from an export, from a program - and what it means not to know."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from killcheck.probes.cloud_bills import CloudBills

from killcheck import fixtures
from killcheck.clock import WallLoop
from killcheck.cloud.billed import billed
from killcheck.cloud.instances import Ec2, Exported, Instances, instance_id_of, region_of
from killcheck.lint import asking
from killcheck.spec import specfile
from killcheck.spec.cloud_access import CloudAccess
from killcheck.spec.killpath import Command
from killcheck.standins.aws import AMI, Ec2Machines
from killcheck.text.values import replace


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def machines(stand_in):
    return Ec2Machines(stand_in, lambda _: None, cluster="dev")


def launched(machines, **tags):
    return machines.launch("p4d.24xlarge", "us-east-1a", spot=True, tags=tags)


@pytest.mark.parametrize(
    ("provider_id", "instance", "region"),
    [
        ("aws:///us-east-1a/i-0123456789abcdef0", "i-0123456789abcdef0", "us-east-1"),
        ("aws:///us-gov-west-1b/i-01234567", "i-01234567", "us-gov-west-1"),
        ("gce://project/europe-west4-a/gpu-1", None, None),
        ("aws:///us-east-1a/fargate-ip-10", None, "us-east-1"),
    ],
)
def test_a_provider_id_says_which_instance_and_where(provider_id, instance, region):
    assert instance_id_of(provider_id) == instance
    if instance:
        assert region_of(provider_id) == region


def test_ec2_is_asked_once_for_all_of_them_and_says_when_each_is_gone(stand_in, machines):
    clock = Clock()
    ids = [f"aws:///us-east-1a/{launched(machines)}" for _ in range(3)]
    asked = Instances(Ec2(stand_in.aws()), clock)
    assert [asked.state(one) for one in ids] == ["running"] * 3
    machines.terminate(instance_id_of(ids[0]))
    assert asked.state(ids[0]) == "running"  # it was asked just now
    clock.now, before = 10.0, asked.asked
    assert [asked.state(one) for one in ids] == ["terminated", "running", "running"]
    assert asked.asked == before + 1
    assert asked.problem == ""


def test_an_instance_that_ec2_never_listed_is_unknown_and_one_that_it_forgot_is_gone():
    said = {"aws:///us-east-1a/i-00000001": "running"}

    class Word:
        def states(self, ids):
            return {one: said[one] for one in ids if one in said}

    clock = Clock()
    asked = Instances(Word(), clock)
    assert asked.state("aws:///us-east-1a/i-00000001") == "running"
    assert asked.state("aws:///us-east-1a/i-00000002") == "unknown"
    assert "does not list aws:///us-east-1a/i-00000002" in asked.problem
    said.clear()
    clock.now = 10.0
    assert asked.state("aws:///us-east-1a/i-00000001") == "terminated"


@pytest.mark.parametrize(
    ("how", "code"), [("denied", "UnauthorizedOperation"), ("expired", "RequestExpired"), ("revoked", "AuthFailure")]
)
def test_what_ec2_does_not_say_is_unproven_by_name(stand_in, machines, how, code):
    one = f"aws:///us-east-1a/{launched(machines)}"
    stand_in.gate.refuse("ec2", "DescribeInstances", how)
    asked = Instances(Ec2(stand_in.aws()), Clock())
    assert asked.state(one) == "unknown"
    assert asked.problem.startswith("P3 unproven: ec2:DescribeInstances: ")
    assert code in asked.problem


def test_another_clouds_machines_are_not_asked_of_ec2(stand_in):
    asked = Instances(Ec2(stand_in.aws()), Clock())
    assert asked.state("gce://project/europe-west4-a/gpu-1") == "unknown"
    assert "no provider id of EC2" in asked.problem


# -- others ------------------------------------------------------------------------------------------------
def test_an_export_is_read_anew_and_knows_each_clouds_words(tmp_path):
    file, clock = tmp_path / "states.json", Clock()
    asked = Instances(Exported(file=file), clock)
    for text, state in (
        ("RUNNING", "running"),
        ("TERMINATED", "terminated"),
        ("PowerState/stopped", "running"),
        ("PowerState/deallocated", "terminated"),
        ("STOPPING", "stopping"),
    ):
        clock.now += 10
        file.write_text(json.dumps({"gpu-1": text}))
        assert asked.state("gce://p/europe-west4-a/gpu-1") == state


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("[]", "expected a JSON object"),
        ('{"gpu-1": "sleepy"}', "'sleepy' is no state"),
        ('{"other": "running"}', "does not list"),
        (None, "No such file"),
    ],
)
def test_an_export_that_does_not_say_proves_nothing(tmp_path, text, problem):
    file = tmp_path / "states.json"
    if text is not None:
        file.write_text(text)
    asked = Instances(Exported(file=file), Clock())
    assert asked.state("gce://p/z/gpu-1") == "unknown"
    assert problem in asked.problem


def test_an_export_that_lists_nothing_at_all_is_no_evidence_that_anything_is_gone(tmp_path):
    """As a pipe prints it whose first command failed."""
    file, clock = tmp_path / "states.json", Clock()
    asked = Instances(Exported(file=file), clock)
    for said, state in (({"gpu-1": "running"}, "running"), ({}, "unknown"), ({"web-1": "running"}, "terminated")):
        clock.now += 10
        file.write_text(json.dumps(said))
        assert asked.state("gce://p/z/gpu-1") == state
        assert ("lists no machine at all" in asked.problem) == (state == "unknown")


def test_a_program_that_takes_too_long_leaves_no_child_behind(tmp_path):
    code = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    asked = Instances(Exported(command=Command(("/bin/sh", "-c", code), 2.0)), Clock())
    assert asked.state("gce://p/z/gpu-1") == "unknown"
    child, loop = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat"), WallLoop()

    def gone():
        """Nobody may have reaped it yet."""
        try:
            return child.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    for _ in range(6000):  # a signal that was sent takes a moment to arrive
        if gone():
            break
        loop.sleep(0.02)
    assert gone()


@pytest.mark.parametrize(
    ("code", "state", "problem"),
    [
        ('print(\'{"gpu-1": "terminated"}\')', "terminated", ""),
        ("import sys; print('no access', file=sys.stderr); sys.exit(3)", "unknown", "exit code 3: no access"),
        ("import time; time.sleep(30)", "unknown", "no answer within 0.5 s"),
        ("while True: print('x' * 65536)", "unknown", "printed more than 0 MiB and was stopped"),
    ],
)
def test_a_program_may_answer_for_the_cloud(code, state, problem, monkeypatch):
    monkeypatch.setattr("killcheck.cloud.instances.PRINTED_MOST", 1 << 18)
    timeout = 0.5 if "sleep" in code else 120
    asked = Instances(Exported(command=Command((sys.executable, "-c", code), timeout)), Clock())
    assert asked.state("gce://p/z/gpu-1") == state
    assert problem in asked.problem


def test_a_program_gets_what_its_spec_passes_on_and_nothing_else(monkeypatch):
    monkeypatch.setenv("AZURE_CONFIG_DIR", "/etc/azure")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/etc/gcloud")
    code = (
        "import json, os; print(json.dumps({'gpu-1': 'terminated' if os.environ.get('AZURE_CONFIG_DIR') == "
        "'/etc/azure' and 'HOME' in os.environ and 'CLOUDSDK_CONFIG' not in os.environ else 'running'}))"
    )
    monkeypatch.setenv("HOME", "/root")
    asked = Instances(
        Exported(command=Command((sys.executable, "-c", code), 120.0, pass_env=("AZURE_CONFIG_DIR",))), Clock()
    )
    assert asked.state("gce://p/z/gpu-1") == "terminated", asked.problem


# -- what bills behind the cluster's back -------------------------------------------------------------------
ACCESS = CloudAccess(region="us-east-1", cluster="dev")


def found(stand_in, known=(), access=ACCESS):
    return {(one.what, one.object): one for one in billed(access, known, aws=stand_in.aws())}


def test_a_running_instance_of_the_cluster_without_a_node_is_a_ghost(stand_in, machines):
    known, ghost = launched(machines), launched(machines)
    ec2 = stand_in.aws().client("ec2")
    ec2.run_instances(ImageId=AMI, InstanceType="p4d.24xlarge", MinCount=1, MaxCount=1)  # somebody else's
    ec2.run_instances(
        ImageId=AMI,
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "kubernetes.io/cluster/dev", "Value": "owned"}]}
        ],
    )  # no GPUs
    seen = found(stand_in, [f"aws:///us-east-1a/{known}"])
    assert [name for what, name in seen if what == "ghost-gpu"] == [ghost]
    assert seen["ghost-gpu", ghost].usd_per_hour == pytest.approx(21.957642)
    assert f"--instance-ids {ghost}" in seen["ghost-gpu", ghost].remedy
    machines.terminate(ghost)
    assert not [name for what, name in found(stand_in, [f"aws:///us-east-1a/{known}"]) if what == "ghost-gpu"]


def test_whose_instances_they_are_must_be_said(stand_in):
    seen = found(stand_in, access=CloudAccess(region="us-east-1"))
    assert seen["ghost-gpu", "account"].unproven
    assert "give cluster, tags or launchTemplates" in seen["ghost-gpu", "account"].message


def group(stand_in, name, **settings):
    aws = stand_in.aws()
    ec2 = aws.client("ec2")
    template = ec2.create_launch_template(
        LaunchTemplateName=name, LaunchTemplateData={"InstanceType": "p4d.24xlarge", "ImageId": AMI}
    )
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    aws.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName=name,
        MaxSize=4,
        VPCZoneIdentifier=subnet,
        MixedInstancesPolicy={
            "LaunchTemplate": {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateId": template["LaunchTemplate"]["LaunchTemplateId"],
                    "Version": "$Latest",
                },
                "Overrides": [{"InstanceType": "p4d.24xlarge"}],
            }
        },
        Tags=[{"Key": "eks:cluster-name", "Value": "dev", "PropagateAtLaunch": True}],
        **settings,
    )


def test_floors_and_settings_that_bring_an_instance_back(stand_in):
    group(stand_in, "warm", MinSize=1)
    group(stand_in, "wanted", MinSize=0, DesiredCapacity=1, NewInstancesProtectedFromScaleIn=True)
    group(stand_in, "stuck", MinSize=0)
    group(stand_in, "quiet", MinSize=0)
    stand_in.aws().client("autoscaling").suspend_processes(AutoScalingGroupName="stuck", ScalingProcesses=["Terminate"])
    seen = [(one.what, one.object, one.message) for one in billed(ACCESS, [], aws=stand_in.aws())]
    told = {
        name: [message for what, other, message in seen if other == name]
        for name in ("warm", "wanted", "stuck", "quiet")
    }
    assert told["quiet"] == []
    assert "its minimum is 1" in told["warm"][0]
    assert "protected from scale-in" in told["wanted"][0]
    assert "is replaced" in told["wanted"][1]
    assert "Terminate process is suspended" in told["stuck"][0]


def test_persistent_spot_requests_are_told_and_one_time_ones_are_not(stand_in):
    ec2 = stand_in.aws().client("ec2")
    for kind, wanted in (("persistent", "p4d.24xlarge"), ("one-time", "p4d.24xlarge"), ("persistent", "m5.large")):
        ec2.request_spot_instances(
            Type=kind, InstanceCount=1, LaunchSpecification={"ImageId": AMI, "InstanceType": wanted}
        )
    seen = [one for one in found(stand_in).values() if one.what == "comes-back"]
    assert len(seen) == 1
    assert "a persistent spot request for p4d.24xlarge" in seen[0].message


RESERVATION = """<DescribeCapacityReservationsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
<requestId>r</requestId><capacityReservationSet>{}</capacityReservationSet></DescribeCapacityReservationsResponse>"""
ITEM = """<item><capacityReservationId>{}</capacityReservationId><instanceType>{}</instanceType>
<totalInstanceCount>2</totalInstanceCount><availableInstanceCount>{}</availableInstanceCount><state>active</state></item>"""


def test_reserved_capacity_that_nothing_uses_bills(stand_in):
    items = (
        ITEM.format("cr-1", "p5.48xlarge", 2)
        + ITEM.format("cr-2", "p5.48xlarge", 0)
        + ITEM.format("cr-3", "m5.large", 2)
    )
    stand_in.gate.answers["ec2", "DescribeCapacityReservations"] = lambda _: (
        "text/xml",
        RESERVATION.format(items).encode(),
    )
    seen = {name: one for (what, name), one in found(stand_in).items() if what == "unused-reservation"}
    assert list(seen) == ["cr-1"]
    assert "2 of 2 reserved p5.48xlarge are unused" in seen["cr-1"].message
    assert seen["cr-1"].usd_per_hour > 50


def test_what_may_not_be_asked_is_unproven_and_the_rest_is_still_told(stand_in, machines):
    ghost = launched(machines)
    for action in ("DescribeSpotInstanceRequests", "DescribeAutoScalingGroups"):
        stand_in.gate.refuse("*", action, "denied")
    seen = found(stand_in)
    assert ("ghost-gpu", ghost) in seen
    for what in ("comes-back", "cloud-floor", "unused-reservation"):
        assert seen[what, "account"].unproven


# -- as lint tells it --------------------------------------------------------------------------------------
def test_lint_of_a_live_cluster_tells_what_bills_behind_its_back(stand_in, machines):
    known, ghost = launched(machines), launched(machines)
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "spec": {"providerID": f"aws:///us-east-1a/{known}"},
    }
    path = replace(specfile.load(fixtures.spec("dead-man")), cloud=ACCESS)
    probe = CloudBills(stand_in.aws())
    world, _ = asking.world_of([node], datetime.now(UTC), kill_path=path, live=True, listed=["Node"])
    told = {f.object: f for f in asking.lint(world, probes=[probe]).findings}
    assert f"ghost-gpu/{ghost}" in told
    assert "$21.96 an hour" in told[f"ghost-gpu/{ghost}"].message
    assert told["unused-reservation/account"].unproven
    blind, _ = asking.world_of([], datetime.now(UTC), kill_path=path, live=True, unread={"Node": "403"}, listed=[])
    assert [f.message for f in asking.lint(blind, probes=[probe]).findings] == [
        "not proven: Nodes could not be read: 403"
    ]


def test_a_machine_of_the_model_without_a_node_is_a_ghost_too(tmp_path):
    from test_founding_story import Prepared, run

    from killcheck import fixtures
    from killcheck.spec import specfile
    from killcheck.spec.killpath import Proof
    from killcheck.text.values import replace

    path = specfile.load(fixtures.spec("dead-man"))
    session = Prepared(fixture="dead-man", _kill_path=replace(path, proof=path.proof | {Proof.P3}))
    session.prepare = lambda cluster: cluster.embedded.cloud.ghost("p4d.24xlarge")
    drill, _ = run(tmp_path, session, "nightly-off")
    assert (str(drill.verdict), drill.stuck_at) == ("exposed", "instance_gone")
    assert "a ghost bills: i-" in drill.cause
    assert "p4d.24xlarge is on, and no Node or NodeClaim stands for it: 21.96 dollars an hour" in drill.cause


def test_a_machine_that_was_just_launched_may_be_about_to_join(tmp_path):
    from test_founding_story import Prepared, run

    from killcheck import fixtures
    from killcheck.spec import specfile
    from killcheck.spec.killpath import Proof
    from killcheck.text.values import replace

    def launch_late(cluster):
        cloud = cluster.embedded.cloud

        def launch(earlier=None):
            """Whenever the night ends, the newest was launched a moment ago."""
            if earlier:
                cloud.terminate(earlier.instance_id, by="test")
            cluster.loop.call_later(60.0, launch, cloud.ghost("p4d.24xlarge"))

        cluster.loop.call_later(1060.0, launch)

    path = specfile.load(fixtures.spec("dead-man"))
    session = Prepared(fixture="dead-man", _kill_path=replace(path, proof=path.proof | {Proof.P3}))
    session.prepare = launch_late
    drill, _ = run(tmp_path, session, "nightly-off")
    assert str(drill.verdict) == "inconclusive", (drill.why, drill.watched_s)
    assert "P3 unproven: i-" in drill.why
    assert "no Node or NodeClaim stands for it" in drill.why
