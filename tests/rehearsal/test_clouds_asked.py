"""Programs that ask a cloud's command line: what they asked is kept, and nothing is proven by it."""

from __future__ import annotations

import pytest
from rehearsal.conftest import NOW

from killcheck.executor.cloud_lines import wrong_in
from killcheck.lint import asking
from killcheck.rehearsal.record import Outcome
from killcheck.rehearsal.stage import rehearse

CLI = "amazon/aws-cli:2.18.0"
STOP = "aws ec2 stop-instances --instance-ids 'i-1 2' \"$(printf 'a\\tb')\""


def _asked(path, script):
    path.does(script, image=CLI)
    objects = path.objects()
    seen = rehearse(objects, NOW)
    world, _ = asking.world_of(objects, NOW, rehearsed=seen)
    found = [f for f in asking.lint(world).findings if f.probe in ("cloud-call", "no-effect", "fails-when-fired")]
    return seen["CronJob/gpu-lab/lights-out"], found


def test_its_words_are_kept_as_they_were(path):
    seen, found = _asked(path, f"set -e\n{STOP}")
    (call,) = seen.first.clouds
    assert call.argv == ("aws", "ec2", "stop-instances", "--instance-ids", "i-1 2", "a\tb")
    assert seen.first.outcome is Outcome.ENDED
    assert (seen.known, seen.refused.exit_code) == (False, 254)
    assert [(f.probe, f.unproven) for f in found] == [("cloud-call", True)]


def test_a_refusal_that_nobody_hears(path):
    _, (finding,) = _asked(path, f"{STOP} || echo next time")
    assert (finding.probe, finding.unproven) == ("cloud-call", False)
    assert "ends with exit code 0" in finding.message


def test_a_command_line_that_the_cli_does_not_take(path):
    pytest.importorskip("botocore")
    _, found = _asked(
        path, "set -e\naws autoscaling update-auto-scaling-group --auto-scaling-group-name a --max-sizes 0"
    )
    assert [f.message.partition(": ")[2] for f in found] == [
        "autoscaling update-auto-scaling-group has no option --max-sizes; did you mean max-size?"
    ]
    empty = "aws eks update-nodegroup-config --cluster-name c --nodegroup-name n --scaling-config minSize=0,maxSize=0"
    assert "maxSize is at least 1" in (wrong_in(empty.split()) or "")


@pytest.mark.parametrize(
    "line",
    [
        "aws --region eu-west-1 ec2 stop-instances --instance-ids i-1 --no-hibernate",
        "aws ec2 stop-instances --instance-id i-1 --output text --query x",
        "aws eks update-nodegroup-config --cluster-name c --nodegroup-name n --scaling-config minSize=0",
        "aws s3 sync . s3://b --delete",
        "gcloud compute instances stop a --zone b",
    ],
)
def test_others_are_not_accused(line):
    assert wrong_in(line.split()) is None


@pytest.mark.parametrize(
    ("script", "lacks"),
    [
        ("", "nothing here gives it a region or a login"),
        ("export AWS_DEFAULT_REGION=eu-west-1\n", "nothing here gives it a login"),
        ("export AWS_DEFAULT_REGION=eu-west-1 AWS_PROFILE=ops\n", ""),
    ],
)
def test_what_nothing_gives_the_aws_cli_is_said(path, script, lacks):
    _, (finding,) = _asked(path, f"set -e\n{script}{STOP}")
    assert finding.unproven
    assert (lacks in finding.message) if lacks else ("gives it" not in finding.message)
