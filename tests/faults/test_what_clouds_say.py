"""The stand-in of aws on the PATH says what the real one would, as botocore makes its messages."""

import os
import subprocess

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from killcheck.faults.machine.cloud_answers import refusing


@pytest.fixture
def said(tmp_path):
    """said(answer, *arguments): the exit code and what was written on standard error."""

    def run(answer, *arguments):
        program = tmp_path / "aws"
        program.write_text(refusing("aws", answer).replace("@CALLS@", str(tmp_path / "calls")))
        program.chmod(0o755)
        env = {"PATH": os.environ["PATH"], "AWS_REGION": "eu-west-1"}
        done = subprocess.run(
            [str(program), *arguments], capture_output=True, text=True, env=env, timeout=120, check=False
        )
        return done.returncode, done.stderr.strip()

    return run


STOP = ("--region", "us-west-2", "ec2", "stop-instances", "--instance-ids", "i-0123456789abcdef0")
RESIZE = ("autoscaling", "set-desired-capacity", "--auto-scaling-group-name", "gpu", "--desired-capacity", "0")


@pytest.mark.parametrize(
    ("answer", "call", "code", "operation", "text", "retries"),
    [
        (
            "denied",
            STOP,
            "UnauthorizedOperation",
            "StopInstances",
            "You are not authorized to perform this operation.",
            0,
        ),
        ("expired", STOP, "RequestExpired", "StopInstances", "Request has expired.", 0),
        ("throttled", STOP, "RequestLimitExceeded", "StopInstances", "Request limit exceeded.", 2),
        (
            "denied",
            RESIZE,
            "AccessDenied",
            "SetDesiredCapacity",
            "User is not authorized to perform this operation because no identity-based policy allows it",
            0,
        ),
        (
            "expired",
            RESIZE,
            "ExpiredToken",
            "SetDesiredCapacity",
            "The security token included in the request is expired",
            0,
        ),
        ("throttled", RESIZE, "Throttling", "SetDesiredCapacity", "Rate exceeded", 2),
        (
            "denied",
            ("eks", "update-nodegroup-config"),
            "AccessDeniedException",
            "UpdateNodegroupConfig",
            "User is not authorized to perform this operation because no identity-based policy allows it",
            0,
        ),
    ],
)
def test_a_refusal_is_botocores_own(said, answer, call, code, operation, text, retries):
    response = {"Error": {"Code": code, "Message": text}}
    if retries:
        response["ResponseMetadata"] = {"MaxAttemptsReached": True, "RetryAttempts": retries}
    assert said(answer, *call) == (254, str(ClientError(response, operation)))


def test_so_is_an_endpoint_out_of_reach(said):
    for call, url in (
        (STOP, "https://ec2.us-west-2.amazonaws.com/"),
        (RESIZE, "https://autoscaling.eu-west-1.amazonaws.com/"),
    ):
        assert said("unreachable", *call) == (255, str(EndpointConnectionError(endpoint_url=url)))


def test_without_credentials_it_says_how_to_come_by_some(said):
    assert said("signed-out", *STOP) == (
        253,
        'Unable to locate credentials. You can configure credentials by running "aws configure".',
    )
