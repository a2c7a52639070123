"""What a person is told to run instead is made from what a journal says, and anybody may have written that."""

from __future__ import annotations

import json
import shlex

import pytest

from killcheck.safety.changes import Undo
from killcheck.safety.vocabulary import by_hand, objection

PLACE = {"region": "eu-north-1", "endpoint": "", "account": "123456789012", "profile": ""}
LIST = "aws fis list-experiments --region eu-north-1"
WEB = "/apis/apps/v1/namespaces/shop/deployments/web"
#: Words that a shell takes for more than a word.
SHELL = ("; id", "$(id)", "`id`", "\nid", " | id", "' id '", " --profile=prod", "/x?y#z")


def stop(run="run-1", action="fis:StopExperiment", **place):
    return by_hand(Undo("aws", action, {**PLACE, **place}), run)


def test_in_an_account_a_person_is_told_where_and_what():
    tagged = ", and stop-experiment --id ... those tagged killcheck.dev/run=run-1 that still run"
    assert stop() == LIST + tagged
    for own in ("https://fis.eu-north-1.amazonaws.com", "http://127.0.0.1:4566/", "http://[::1]:80"):
        assert stop(endpoint=own) == f"{LIST} --endpoint-url {own}{tagged}"


@pytest.mark.parametrize("words", SHELL)
def test_nothing_else_reaches_a_persons_shell_from_an_account(words):
    said = [
        stop(run="run-1" + words),
        stop(region="eu-north-1" + words),
        stop(endpoint="https://fis.amazonaws.com" + words),
        stop(endpoint=f"https://a{words}.amazonaws.com"),
        stop(action="fis:StopExperiment" + words),
    ]
    assert said == [""] * 5


@pytest.mark.parametrize(
    "place",
    [
        {"region": ""},
        {"region": "EU-NORTH-1"},
        {"endpoint": "https://evil.example"},
        {"endpoint": "https://amazonaws.com.evil.example"},
        {"endpoint": "http://fis.amazonaws.com"},
        {"endpoint": "https://key:secret@fis.amazonaws.com"},
        {"endpoint": "https://fis.amazonaws.com/path"},
        {"endpoint": "https://[::1"},
        {"endpoint": "file:///etc/shadow"},
    ],
)
def test_a_place_that_is_never_asked_is_not_passed_on(place):
    assert stop(**place) == ""
    assert stop(action="fis:CreateExperimentTemplate") == ""


@pytest.mark.parametrize("words", SHELL)
def test_a_patch_is_one_word_to_a_shell_whatever_is_in_it(words):
    body = {"metadata": {"labels": {words: words}}}
    told = shlex.split(by_hand(Undo("merge", WEB, body)))
    assert told[:6] == ["kubectl", "patch", "deployments.apps", "web", "-n", "shop"]
    assert told[6:8] == ["--type=merge", "-p"]
    assert [json.loads(word) for word in told[8:]] == [body]


@pytest.mark.parametrize("words", [*SHELL, "--all", "-A", "..", "%2e%2e", ""])
@pytest.mark.parametrize("place", ["/apis/apps/v1/namespaces/shop/deployments/{}", "/apis/apps/v1/namespaces/{}/a/b"])
def test_a_path_that_is_none_is_neither_told_nor_done(place, words):
    undo = Undo("merge", place.format(words), {"spec": {}})
    assert by_hand(undo) == ""
    assert objection(undo) is not None
