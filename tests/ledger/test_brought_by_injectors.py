"""What a switch's log says it missed, where an injector would have brought it."""

import base64
from types import SimpleNamespace

import pytest

from killcheck.clock import wall_seconds
from killcheck.faults.kubernetes.issuer_keys_rotated import _claims, _OldKeys
from killcheck.ledger.injection import _missed


@pytest.mark.parametrize(
    ("line", "missed"),
    [
        ("cat: /vault/secrets/token: No such file or directory", "/vault/secrets/token"),
        ("/bin/sh: 1: cannot open /vault/secrets/token: No such file", "/vault/secrets/token"),
        ("open /creds/key.json: ENOENT", "/creds/key.json"),
        ("dial tcp 127.0.0.1:8200: connect: connection refused", "127.0.0.1:8200"),
        ("http://localhost:8200 answered", None),
        ("deployment scaled", None),
    ],
)
def test_a_line_says_what_was_missed(line, missed):
    assert _missed(line) == missed


@pytest.mark.parametrize("part", ["/a", "/", "127.0.0.1:1 ", "not found "])
def test_a_long_line_is_read_once(part):
    began = wall_seconds()
    _missed(part * 50_000)
    assert wall_seconds() - began < 10.0


@pytest.mark.parametrize("issued", ['"soon"', "[]", "1e999", "null", "{}"])
def test_a_token_may_say_anything_of_itself(issued):
    body = base64.urlsafe_b64encode(f'{{"kubernetes.io": {{}}, "iat": {issued}}}'.encode()).decode().rstrip("=")
    asked = SimpleNamespace(headers={"authorization": f"Bearer a.{body}.c"}, method="GET", path="/api")
    answer = _OldKeys(100)(asked)
    assert (answer is None) == (issued != "1e999")
    deep = base64.urlsafe_b64encode(b"[" * 100_000).decode().rstrip("=")
    assert _claims(f"Bearer a.{deep}.c") == {}
