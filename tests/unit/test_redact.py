"""No secret survives redaction, and nothing else is lost."""

from __future__ import annotations

import pytest

from killcheck.redact import redact

TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl"  # the parts say so themselves


@pytest.mark.parametrize(("text", "secret"), [
    (f"token: {TOKEN}", TOKEN),
    ("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
    ('{"authorization": "Basic dXNlcjpwYXNz"}', "dXNlcjpwYXNz"),
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENG", "wJalrXUtnFEMIK7MDENG"),
    ("key AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE"),
    ("password: hunter22", "hunter22"),
    ("https://user:s3cret@registry.example/v2/", "s3cret"),
    ("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIK\n-----END EC PRIVATE KEY-----", "MHcCAQEEIK"),
])
def test_secrets_go(text, secret):
    assert secret not in redact(text)


def test_ordinary_words_stay():
    text = 'curl: (22) The requested URL returned error: 403; secrets "pull" not found; token request refused'
    assert redact(text) == text
