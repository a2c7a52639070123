"""The founding story end to end, with AWS on loopback; and what a drill says that wants P3 and is told nothing."""

import json
from contextlib import contextmanager
from datetime import timedelta

import pytest
from killcheck.fixtures.story import CHAPTERS

from killcheck import events, faults, fixtures
from killcheck.drill.sequence import Options
from killcheck.run import matrix
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec import specfile
from killcheck.spec.cloud_access import CloudAccess
from killcheck.spec.killpath import Proof
from killcheck.text.values import replace

RESULTS = ("s3://eval-runs/evals/nightly/results.json", "s3://eval-runs/evals/nightly/run.log")


class Prepared(Session):
    """A session whose cluster is prepared first, and looked at last."""

    prepare = look = staticmethod(lambda cluster: None)

    @contextmanager
    def cluster(self, planned=None):
        with super().cluster(planned) as (cluster, kill_path):
            self.prepare(cluster)
            yield cluster, kill_path
            self.look(cluster)


def run(tmp_path, session, layer, *under):
    told = []
    planned = PlannedDrill(layer, under, Options(horizon_s=3600.0))
    result = Run(session, [planned], sinks=[told.append], folder=tmp_path).execute()
    return result.drills[0], told


def drilled(tmp_path, fixture, layer, *under, prepare=lambda cluster: None, look=lambda cluster: None):
    session = Prepared(fixture=fixture)
    session.prepare, session.look = prepare, look
    return run(tmp_path, session, layer, *under)


def with_cloud(tmp_path, *under, prepare=lambda cluster: None, results=()):
    """The reference path, with the cloud beneath it and nobody who runs anything."""
    path = specfile.load(fixtures.spec("dead-man"))
    cloud = CloudAccess(endpoint="stand-in", region="us-east-1", cluster="dev", results=results)
    session = Prepared(fixture="dead-man", _kill_path=replace(path, cloud=cloud, proof=path.proof | {Proof.P3}))
    session.prepare = prepare
    return run(tmp_path, session, "nightly-off", *under)


def objects(cluster):
    s3 = cluster.capabilities.aws.client("s3")
    listed = s3.list_objects_v2(Bucket="eval-runs").get("Contents", [])
    return {one["Key"]: s3.get_object(Bucket="eval-runs", Key=one["Key"])["Body"].read() for one in listed}


def test_mended_the_laptop_dies_and_everything_ends_as_it_must(tmp_path):
    left = {}

    def look(cluster):
        left.update(
            objects(cluster),
            portal=cluster.capabilities.stand_in.portal.asked,
            states={
                one["State"]["Name"]
                for page in cluster.capabilities.aws.client("ec2").describe_instances()["Reservations"]
                for one in page["Instances"]
            },
        )

    drill, told = drilled(tmp_path, "founding-story", "nightly-off", "sso-expired", look=look)
    assert (str(drill.verdict), drill.off_by) == ("survived", "nightly-off"), drill.why
    reached = {row["phase"]: row["at_s"] for row in drill.phases}
    assert reached["instance_gone"] is not None
    assert "terminated" in left["states"]
    assert json.loads(left["evals/nightly/results.json"])["state"] == "cut"
    assert b"cut: " in left["evals/nightly/run.log"]
    assert any("the run's results are in S3, new since the trigger: s3://" in note for note in drill.notes)
    assert ("/federation/credentials", 401) in left["portal"]  # the laptop met the end of its session
    assert any(isinstance(e, events.FaultHealed) and not e.problem for e in told)
    assert not drill.dirty


@pytest.mark.parametrize("chapter", CHAPTERS[1:], ids=lambda chapter: chapter.layer)
@pytest.mark.one_in(2)
def test_each_failure_put_back_is_exposed_with_its_cause(tmp_path, chapter):
    drill, _ = drilled(tmp_path, chapter.path, chapter.layer, *chapter.faults)
    assert str(drill.verdict) == chapter.verdict == "exposed"
    assert chapter.cause in drill.cause
    assert list(drill.bites) == list(chapter.faults)


def test_results_that_nobody_left_are_lost_even_though_the_gpus_are_off(tmp_path):
    drill, _ = with_cloud(tmp_path, results=RESULTS)
    assert str(drill.verdict) == "exposed"
    assert drill.stuck_at == "results"
    assert "nothing was left at s3://eval-runs/evals/nightly/results.json" in drill.cause


def test_a_drill_that_wants_p3_and_may_not_ask_ec2_is_inconclusive_and_says_so(tmp_path):
    def refuse(cluster):
        cluster.capabilities.stand_in.gate.refuse("ec2", "DescribeInstances", "denied")

    drill, told = with_cloud(tmp_path, prepare=refuse)
    assert str(drill.verdict) == "inconclusive"
    assert "P3 unproven: ec2:DescribeInstances: " in drill.why
    assert "UnauthorizedOperation" in drill.why
    assert not any(isinstance(e, events.Triggered) for e in told)  # found out before anything was changed


@pytest.mark.weekly
def test_credentials_that_lapse_during_the_drill_leave_p3_unproven(tmp_path):
    def lapse_later(cluster):
        cluster.loop.call_later(180.0, cluster.capabilities.stand_in.gate.refuse, "ec2", "DescribeInstances", "expired")

    drill, _ = with_cloud(tmp_path, prepare=lapse_later)
    assert str(drill.verdict) == "inconclusive"
    assert "RequestExpired" in drill.why


def test_a_fault_of_sso_does_not_bite_where_no_session_ends(tmp_path):
    def deaf(cluster):
        stand_in = cluster.capabilities.stand_in
        stand_in.portal.begin("somebody", cluster.loop.now() + timedelta(hours=8))
        stand_in.limit_sessions = lambda until: None

    drill, _ = with_cloud(tmp_path, "sso-expired", prepare=deaf)
    assert str(drill.verdict) == "inconclusive"
    assert "sso-expired did not bite" in drill.why


@pytest.mark.parametrize("fault", ["static-key-revoked", "sts-expired", "web-identity-expired"])
def test_a_layer_that_shows_nothing_to_aws_has_nothing_to_lose_there(tmp_path, fault):
    drill, told = with_cloud(tmp_path, fault)
    assert str(drill.verdict) == "inconclusive"
    assert "shows nothing to AWS" in drill.why or "takes no role by web identity" in drill.why
    assert not any(isinstance(e, events.FaultInjected) for e in told)


def test_without_a_cloud_to_act_on_the_matrix_leaves_these_faults_out():
    path = specfile.load(fixtures.spec("dead-man"))
    names = {kind.name for kind in faults.CLOUD}
    assert not names & {name for cell in matrix.plan(path) for name in cell.faults}
    story = specfile.load(fixtures.spec("founding-story"))
    assert "sso-expired" in {name for cell in matrix.plan(story) for name in cell.faults}
