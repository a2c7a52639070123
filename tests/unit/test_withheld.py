"""What is digested of a manifest: everything but the values that a digest would give away."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from killcheck.run.subjects import of_manifests
from killcheck.run.withheld import withheld_text


def job(script="true", **env):
    listed = [{"name": name, "value": value} for name, value in env.items()]
    pod = {"containers": [{"name": "off", "command": ["sh", "-c", script], "env": listed}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "off", "namespace": "gpu"}, "spec": pod}


def config(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def digest(obj):
    return of_manifests([obj])


#: A manifest with a secret in it.
WAYS = {
    "a variable": lambda secret: job(API_TOKEN=secret),
    "a key of a ConfigMap": lambda secret: config(DB_PASSWORD=secret),
    "an argument": lambda secret: job(f"off --password={secret} --all"),
    "an argument apart": lambda secret: job(f"off --api-token '{secret}' --all"),
    "an assignment": lambda secret: job(f"export ADMIN_PWD={secret}; off"),
    "an address": lambda secret: job(f"curl https://ops:{secret}@example.com/off"),
    "a user": lambda secret: job(f"curl -u ops:{secret} https://example.com/off"),
    "a header": lambda secret: job(f"curl -H 'Authorization: Bearer {secret}' https://example.com/off"),
    "a file in a ConfigMap": lambda secret: config(**{"app.yaml": f"user: ops\npassword: {secret}\nreplicas: 0\n"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_password_can_not_be_guessed_by_a_digest(way):
    assert digest(WAYS[way]("1234")) == digest(WAYS[way]("hunter2"))


SCRIPT = "set -e; export ADMIN_PWD=1234; kubectl -n gpu scale deploy/llm --replicas=0 --token=$(cat /t) && secret=off"


@settings(max_examples=60)
@given(at=st.integers(0, len(SCRIPT) - 1), char=st.characters(codec="ascii", exclude_categories=["Cc"]))
def test_whatever_else_changes_shows(at, char):
    """Also beside a password: another command, another object, another number."""
    hidden = {
        position
        for value, where in (("1234", SCRIPT.index("1234")), ("off", SCRIPT.rindex("off")))
        for position in range(where, where + len(value))
    }
    changed = SCRIPT[:at] + char + SCRIPT[at + 1 :]
    if changed != SCRIPT and at not in hidden:
        assert digest(job(changed)) != digest(job(SCRIPT))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("off --password=x", "off --password=x; kubectl scale deploy/llm --replicas=1"),
        ("off --token=x&& a", "off --token=x|| a"),
        ("kubectl delete secret gpu-token", "kubectl delete secret web-token"),
        ("PASSWORD=$(cat /a) off", "PASSWORD=$(cat /b) off"),
        ("off --token=/run/a", "off --token=/run/b"),
        ("kind: Secret\ndata:\n  a: b\n---\nreplicas: 0", "kind: Secret\ndata:\n  a: b\n---\nreplicas: 1"),
        ("off --secret-name a", "off --secret-name b"),
    ],
)
def test_no_password_hides_another_command(before, after):
    assert digest(job(before)) != digest(job(after))


@pytest.mark.parametrize("field", ["secretName", "serviceAccountName", "tokenExpirationSeconds"])
def test_what_only_names_a_secret_is_none(field):
    one, other = (job() | {"spec": {"volumes": [{"secret": {field: name}}]}} for name in ("a", "b"))
    assert digest(one) != digest(other)


def test_a_script_that_is_called_a_token_is_digested():
    one, other = (config(refresh_token=f"#!/bin/sh\nkubectl scale --replicas={n}\n") for n in "01")
    assert digest(one) != digest(other)


def test_it_says_what_it_left_out():
    assert withheld_text("curl -u ops:hunter2 x") == "curl -u ops:<withheld> x"


@pytest.mark.parametrize(
    "unit",
    ["a-", "--a-", "-", "secret=", "password ", "a://", "a:@", " -u a", "mysql ", "mysql a -", "sshpass-", "x://:"],
)
def test_a_long_text_of_one_thing_costs_no_more_than_its_length(unit):
    """A pull request writes what it likes into a manifest: a pattern that tries every beginning anew takes minutes."""
    before = time.process_time()
    withheld_text(unit * (60_000 // len(unit)))
    assert time.process_time() - before < 1.5
