"""Registry texts as recorded on containerd: situations 02, 02b, 02c, 03, 03b, 03c, 35."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from killcheck.embedded.nodes.registry import PullError, Registry, credentials
from killcheck.images.reference import InvalidReference, parse

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DIGEST = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"


@pytest.fixture
def registry():
    return Registry()


def refused(registry, image, secrets=None):
    with pytest.raises(PullError) as raised:
        registry.pull(parse(image), secrets or {}, NOW)
    return str(raised.value)


@pytest.mark.parametrize(
    ("image", "canonical"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.12-slim", "docker.io/library/python:3.12-slim"),
        ("bitnami/kubectl:1.31.4", "docker.io/bitnami/kubectl:1.31.4"),
        ("index.docker.io/library/python:3", "docker.io/library/python:3"),
        ("localhost:5000/rec/executor:1", "localhost:5000/rec/executor:1"),
        ("ghcr.io/a/b", "ghcr.io/a/b:latest"),
        (f"python:3.12@{DIGEST}", f"docker.io/library/python@{DIGEST}"),
    ],
)
def test_names_are_completed_as_containerd_completes_them(image, canonical):
    assert parse(image).canonical == canonical


def test_upper_case_in_a_repository_is_told(registry):
    with pytest.raises(InvalidReference, match=r"repository name \(rec/Executor\) must be lowercase"):
        parse("localhost:5000/rec/Executor:1")


@pytest.mark.parametrize("image", ["", "a b", "x:", "x:@", "-x/y", "x@sha256:12", "http://x/y"])
def test_what_is_no_reference_is_refused(image):
    with pytest.raises(InvalidReference, match="invalid reference format"):
        parse(image)


def test_a_deleted_tag_and_a_deleted_repository_read_alike(registry):
    registry.delete_tag("localhost:5000/rec/gone:1")
    registry.delete_repository("localhost:5000/rec/never-existed:1")
    for name in ("localhost:5000/rec/gone:1", "localhost:5000/rec/never-existed:1"):
        assert refused(registry, name) == (
            f'rpc error: code = NotFound desc = failed to pull and unpack image "{name}": failed to resolve reference '
            f'"{name}": {name}: not found'
        )
    assert registry.pull(parse("localhost:5000/rec/gone:2"), {}, NOW)
    registry.restore_tag("localhost:5000/rec/gone:1")
    assert registry.pull(parse("localhost:5000/rec/gone:1"), {}, NOW)


def test_a_deleted_digest_is_named_by_its_digest(registry):
    name = f"localhost:5000/library/python@{DIGEST}"
    registry.delete_tag(name)
    assert refused(registry, name).endswith(f'failed to resolve reference "{name}": {name}: not found')


@pytest.mark.parametrize(
    ("state", "image", "tail"),
    [
        (
            "refusing",
            "127.0.0.1:5999/rec/executor:1",
            'failed to do request: Head "http://127.0.0.1:5999/v2/rec/executor/manifests/1": dial tcp 127.0.0.1:5999: '
            "connect: connection refused",
        ),
        (
            "unresolvable",
            "registry.invalid/rec/executor:1",
            'failed to do request: Head "https://registry.invalid/v2/rec/executor/manifests/1": dial tcp: lookup '
            "registry.invalid on 10.0.0.2:53: no such host",
        ),
        (
            "untrusted",
            "203.0.113.7:5000/rec/executor:1",
            'failed to do request: Head "https://203.0.113.7:5000/v2/rec/executor/manifests/1": x509: cannot validate '
            "certificate for 203.0.113.7 because it doesn't contain any IP SANs",
        ),
        (
            "unavailable",
            "ghcr.io/team/executor:1",
            "unexpected status from HEAD request to https://ghcr.io/v2/team/executor/manifests/1: 503 Service Unavailable",
        ),
    ],
)
def test_a_registry_that_does_not_answer(registry, state, image, tail):
    registry.set_state(parse(image).host, state)
    assert refused(registry, image) == (
        f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {tail}'
    )


def test_a_silent_registry_costs_its_time_out(registry):
    registry.set_state("ghcr.io", "timing-out")
    with pytest.raises(PullError, match="i/o timeout") as raised:
        registry.pull(parse("ghcr.io/team/executor:1"), {}, NOW)
    assert raised.value.seconds == 30


def test_set_state_answers_what_to_put_back(registry):
    assert registry.set_state("docker.io", "refusing") == "up"
    assert registry.set_state("docker.io", "up") == "refusing"
    assert registry.pull(parse("busybox"), {}, NOW)


def test_a_rate_limit_says_toomanyrequests_and_may_spare_those_who_log_in(registry):
    registry.set_state("docker.io", "rate-limited")
    said = refused(registry, "busybox")
    assert "429 Too Many Requests - Server message: toomanyrequests: You have reached your unauthenticated pull" in said
    registry.host("docker.io").anonymous_only = True
    registry.host("docker.io").users["team"] = ("secret", None)
    assert registry.pull(parse("busybox"), {"docker.io": ("team", "secret")}, NOW)


def test_a_private_repository_needs_a_login_that_has_not_expired(registry):
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/executor:1"
    host = parse(image).host
    registry.make_private(image, "AWS", "token", expires=NOW + timedelta(hours=12))
    assert "pull access denied, repository does not exist or may require authorization" in refused(registry, image)
    good = {host: ("AWS", "token")}
    assert registry.pull(parse(image), good, NOW)
    with pytest.raises(PullError, match="403 Forbidden"):
        registry.pull(parse(image), good, NOW + timedelta(hours=13))
    assert "insufficient_scope" in refused(registry, image, {host: ("AWS", "wrong")})


def test_pull_secrets_are_read_as_docker_writes_them():
    auth = base64.b64encode(b"team:secret").decode()
    config = {"auths": {"https://index.docker.io/v1/": {"auth": auth}, "ghcr.io": {"username": "a", "password": "b"}}}
    secret = {"data": {".dockerconfigjson": base64.b64encode(json.dumps(config).encode()).decode()}}
    broken = {"data": {".dockerconfigjson": "%%%"}}
    assert credentials([broken, secret]) == {"docker.io": ("team", "secret"), "ghcr.io": ("a", "b")}


def test_a_cache_forgets_what_nothing_uses(registry):
    registry.preload("cpu-1", "busybox:1", NOW)
    registry.preload("cpu-1", "alpine:3", NOW)
    cache = registry.cache("cpu-1")
    assert cache.collect(in_use=["docker.io/library/alpine:3"]) == ["docker.io/library/busybox:1"]
    assert cache.get(parse("alpine:3"))
    assert cache.evict("alpine:3")
    assert not cache.evict("alpine:3")


def test_version_tags_of_bitnami_are_gone_since_september_2025(registry):
    name = "docker.io/bitnami/kubectl:1.31.4"
    assert refused(registry, "bitnami/kubectl:1.31.4").endswith(f"{name}: not found")
    before = datetime(2025, 9, 28, tzinfo=UTC)
    assert registry.pull(parse("bitnami/kubectl:1.31.4"), {}, before)
    assert registry.pull(parse("bitnamilegacy/kubectl:1.31.4"), {}, NOW)


def test_only_images_that_nothing_is_known_of_are_assumed(registry):
    registry.pull(parse("ghcr.io/team/executor:1"), {}, NOW)
    registry.pull(parse("python:3.12-slim"), {}, NOW)
    assert registry.assumed == ["ghcr.io/team/executor:1"]


def test_a_repository_may_have_some_tags_only(registry):
    registry.only_tags("ghcr.io/team/executor", ["1.2", "1.3"])
    assert registry.pull(parse("ghcr.io/team/executor:1.2"), {}, NOW)
    assert refused(registry, "ghcr.io/team/executor:latest").endswith("not found")


def test_a_tag_that_a_drill_asks_for_in_place_of_one_that_is_gone_is_nowhere():
    with pytest.raises(PullError, match="not found"):
        Registry().pull(parse("ghcr.io/team/off:killcheck-gone-ab12"), {}, NOW)
