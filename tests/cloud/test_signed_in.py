"""Sign-ins that end, each met in a fresh process as a laptop would meet it; metadata for handlers that poll."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import urllib3

from killcheck.standins.ec2_metadata import Metadata
from killcheck.standins.serving import serve
from killcheck.standins.sso import SignIn

ASK = """
import boto3, sys
try:
    print(boto3.Session(profile_name="dev").client("sts").get_caller_identity()["Account"])
except Exception as error:
    print(type(error).__name__, getattr(error, "response", {}).get("Error", {}).get("Code", ""))
"""


def afresh(stand_in, home, **more):
    """What a program that starts now is told."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], **stand_in.environment(), **more}
    done = subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("kind", "said"), [("legacy", "UnauthorizedSSOTokenError"), ("sso-session", "TokenRetrievalError")]
)
@pytest.mark.one_in(2)
def test_an_sso_session_past_its_end(stand_in, tmp_path, kind, said):
    now = datetime.now(UTC)
    live, over = (SignIn(kind, now + timedelta(hours=h), token=f"t{h}") for h in (8, -1))
    for one, home in ((live, tmp_path / "live"), (over, tmp_path / "over")):
        one.write(home)
        stand_in.portal.begin(one.token, one.until)
    assert afresh(stand_in, tmp_path / "live") == "123456789012"
    assert afresh(stand_in, tmp_path / "over").startswith(said)


@pytest.mark.parametrize("kind", ["legacy", "sso-session"])
@pytest.mark.one_in(2)
def test_a_session_that_the_portal_ended_though_its_file_says_otherwise(stand_in, tmp_path, kind):
    one = SignIn(kind, datetime.now(UTC) + timedelta(hours=8))
    one.write(tmp_path)
    stand_in.portal.begin(one.token, one.until)
    stand_in.limit_sessions((datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    assert "Unauthorized" in afresh(stand_in, tmp_path)
    stand_in.limit_sessions("")
    assert afresh(stand_in, tmp_path) == "123456789012"


def test_role_credentials_outlive_their_session_until_their_own_end(stand_in, tmp_path):
    one = SignIn("sso-session", datetime.now(UTC) + timedelta(hours=8))
    one.write(tmp_path)
    stand_in.portal.begin(one.token, one.until)
    assert afresh(stand_in, tmp_path) == "123456789012"
    (key,) = stand_in.issued
    stand_in.portal.end(one.token)
    handed_out = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
    ask = ASK.replace('profile_name="dev"', "")

    def with_keys():
        env = {"HOME": str(tmp_path / "none"), "PATH": os.environ["PATH"], **stand_in.environment(), **handed_out}
        return subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True).stdout

    assert with_keys().strip() == "123456789012"
    stand_in.gate.ends[key] = datetime.now(UTC)
    assert with_keys().split() == ["ClientError", "ExpiredToken"]


def test_a_missing_sign_in_is_not_an_expired_one(stand_in, tmp_path):
    one = SignIn("sso-session", datetime.now(UTC) + timedelta(hours=8))
    one.write(tmp_path)
    (tmp_path / ".aws/sso/cache" / one.cache_name).unlink()
    assert afresh(stand_in, tmp_path).split()[0] in ("SSOTokenLoadError", "TokenRetrievalError")


# -- instance metadata -------------------------------------------------------------------------------------
ACTION = "/latest/meta-data/spot/instance-action"


@pytest.fixture
def metadata():
    clock = [datetime(2026, 11, 21, tzinfo=UTC)]
    served = Metadata(now=lambda: clock[0])
    with serve(served) as url, urllib3.PoolManager(retries=False) as pool:

        def ask(path, method="GET", **headers):
            return pool.request(method, url + path, headers={k.replace("_", "-"): v for k, v in headers.items()})

        yield served, ask, clock


def token(ask, ttl="60"):
    return ask("/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds=ttl)


def test_the_token_dance(metadata):
    _, ask, clock = metadata
    assert ask("/latest/meta-data/instance-id").status == 401
    assert token(ask, "0").status == token(ask, "21601").status == token(ask, "x").status == 400
    given = token(ask)
    assert given.headers["X-aws-ec2-metadata-token-ttl-seconds"] == "60"
    held = given.data.decode()
    assert ask("/latest/meta-data/instance-id", X_aws_ec2_metadata_token=held).data == b"i-0123456789abcdef0"
    clock[0] += timedelta(seconds=61)
    assert ask("/latest/meta-data/instance-id", X_aws_ec2_metadata_token=held).status == 401
    assert (
        ask("/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="60", X_Forwarded_For="10.0.0.1").status
        == 403
    )


def test_a_notice_is_404_until_it_is_there_and_its_time_is_fixed(metadata):
    served, ask, clock = metadata
    held = token(ask, "21600").data.decode()
    assert ask(ACTION, X_aws_ec2_metadata_token=held).status == 404
    served.interrupt()
    first = ask(ACTION, X_aws_ec2_metadata_token=held).json()
    assert first == {"action": "terminate", "time": "2026-11-21T00:02:00Z"}
    clock[0] += timedelta(seconds=30)
    served.interrupt()
    assert ask(ACTION, X_aws_ec2_metadata_token=held).json() == first
    served.clear()
    assert ask(ACTION, X_aws_ec2_metadata_token=held).status == 404
    served.recommend()
    said = ask("/latest/meta-data/events/recommendations/rebalance", X_aws_ec2_metadata_token=held)
    assert said.json() == {"noticeTime": "2026-11-21T00:00:30Z"}


def test_botocores_own_client_of_metadata_understands_it(metadata, monkeypatch):
    from botocore.utils import InstanceMetadataRegionFetcher

    served, _, _ = metadata
    with serve(served) as url:
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        assert InstanceMetadataRegionFetcher(base_url=url).retrieve_region() == "us-east-1"


def test_the_notice_of_a_sidecar_is_a_file(metadata, tmp_path):
    from killcheck.standins.ec2_metadata import Watched

    _, _, clock = metadata
    watched = Watched(Metadata(now=lambda: clock[0], required=False), tmp_path / "notice")
    with serve(watched) as url, urllib3.PoolManager(retries=False) as pool:

        def ask():
            return pool.request("GET", url + ACTION)

        assert ask().status == 404
        watched.file.touch()
        first = ask().json()
        clock[0] += timedelta(seconds=10)
        assert ask().json() == first == {"action": "terminate", "time": "2026-11-21T00:02:00Z"}
        watched.file.unlink()
        assert ask().status == 404
