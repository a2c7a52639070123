"""What a kubelet says when a registry refuses its login, and what only looks so."""

import pytest

from killcheck.faults.kubernetes.pull_secret_expired import is_refusal

ECR = "403112345678.dkr.ecr.us-east-1.amazonaws.com/off:401"
PULL = f'p: ErrImagePull: failed to pull and unpack image "{ECR}": failed to resolve reference "{ECR}": '
HEAD = (
    "unexpected status from HEAD request to https://403112345678.dkr.ecr.us-east-1.amazonaws.com/v2/off/manifests/401"
)


@pytest.mark.parametrize(
    ("told", "ecr", "refusal"),
    [
        (f"{PULL}{HEAD}: 403 Forbidden", True, True),
        (
            f"{PULL}pull access denied, repository does not exist or may require authorization: authorization failed: no "
            "basic auth credentials",
            True,
            True,
        ),
        (f"{PULL}{HEAD}: 400 Bad Request", True, True),
        (f"{PULL}{HEAD}: 400 Bad Request", False, False),
        (
            f"{PULL}failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized",
            False,
            True,
        ),
        ("p: ErrImagePull: unauthorized: authentication required", False, True),
        (f"{PULL}not found", True, False),
        (f'p: ImagePullBackOff: Back-off pulling image "{ECR}"', True, False),
        (f"{PULL}{HEAD}: 500 Internal Server Error", True, False),
        ('p: ErrImagePull: failed to resolve reference "registry.example.com/denied:1": not found', False, False),
        ("p: ErrImagePull: dial tcp 10.0.0.1:443: i/o timeout", False, False),
    ],
)
def test_a_refusal_is_told_from_other_failures(told, ecr, refusal):
    assert is_refusal(told, ecr=ecr) is refusal
