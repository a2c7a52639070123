"""What an engine is asked when a firing is taken away early, or falls silent itself: with a stand-in of its SDK."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from requests.exceptions import ConnectionError as NoAnswer

from killcheck.clock import VirtualLoop
from killcheck.engine.firings import Firing
from killcheck.engine.projection import HOW, SOURCE
from killcheck.engine.refusal import Refusal
from killcheck.engine.registry import Registry
from killcheck.engine.rehearsal import _run, _watch
from killcheck.kube.errors import Unreachable

NOW = datetime(2026, 1, 15, tzinfo=UTC)


class Sdk:
    """Notes what it is asked; ``meanwhile`` happens while an image is pulled, or a command got ready."""

    def __init__(self, **answers):
        self.asked, self.removed = [], []
        self.meanwhile = lambda: None
        self.answers = answers

    def __getattr__(self, name):
        def asked(*args, **_more):
            self.asked.append(name)
            if name == "remove_container":
                self.removed.append(args[0])
            if name in ("pull", "exec_create"):
                self.meanwhile()
            found = self.answers.get(name, {"Id": "made"})
            if isinstance(found, Exception):
                raise found
            return found

        return asked


@pytest.mark.parametrize(
    ("how", "begins"), [("new", ("create_container_from_config", "start")), ("exec", ("exec_start",))]
)
def test_a_firing_that_was_taken_away_before_it_began_never_begins(how, begins):
    """Its image takes long to pull; the drill is over by then, and everything has been put back."""
    sdk = Sdk(containers=[], pull=[])
    engine = SimpleNamespace(api=sdk, another=lambda timeout_s: sdk)
    template = {
        "metadata": {"annotations": {SOURCE: "cron", HOW: how}},
        "spec": {"containers": [{"image": "cron:1", "command": ["true"], "imagePullPolicy": "Always"}]},
    }
    firing = Firing(
        {"metadata": {"name": "off"}, "spec": {"template": template}},
        engine,
        VirtualLoop(NOW),
        "node",
        lambda kind, obj: None,
    )
    sdk.meanwhile = firing.remove
    firing._run()
    assert firing.gone
    assert {"pull", "exec_create"} & set(sdk.asked)
    assert not set(begins) & set(sdk.asked)


@pytest.mark.parametrize(
    ("state", "said", "starts"),
    [({"Running": True}, b"", True), ({"Running": False, "ExitCode": 127}, b"sh: curl: not found", False)],
)
def test_what_is_not_waited_for_any_longer_is_looked_at(state, said, starts):
    sdk = Sdk(wait=NoAnswer(), inspect_container={"State": state}, logs=said)
    assert _watch(SimpleNamespace(api=sdk, host="here"), "made").starts is starts


def test_what_a_killed_rehearsal_left_goes_and_one_under_way_elsewhere_stays():
    ages = {"left": 300, "elsewhere": 3}
    sdk = Sdk(
        info={"SystemTime": "2026-01-15T00:00:00.123456789Z"},
        wait={"StatusCode": 0},
        logs=b"",
        containers=[{"Id": name, "Created": int(NOW.timestamp()) - age} for name, age in ages.items()],
    )
    assert _run(SimpleNamespace(api=sdk, host="here"), "off:1", [], {}).starts is True
    assert sdk.removed == ["left", "made"]


def test_an_engine_that_went_away_has_not_started_anything():
    sdk = Sdk(wait=NoAnswer(), inspect_container=NoAnswer())
    with pytest.raises(Unreachable):
        _watch(SimpleNamespace(api=sdk, host="here"), "made")


class Answers(Registry):
    """A registry with two tags of one manifest; what it answers to the question for the second's digest."""

    def __init__(self, digest, status):
        super().__init__("http://registry.example.com")
        self.digest, self.status_of_other = digest, status

    def _ask(self, method, path, headers=None, body=None):
        if path.endswith("/tags/list"):
            return SimpleNamespace(status=200, data=b'{"tags": ["1", "latest"]}', headers={})
        status = self.status_of_other if method == "HEAD" else 200
        found = {"docker-content-digest": self.digest} if self.digest and status == 200 else {}
        return SimpleNamespace(status=status, data=b"{}", headers=found)


@pytest.mark.parametrize(("status", "tags"), [(200, ["1", "latest"]), (404, ["1"])])
def test_every_tag_that_goes_with_a_manifest_is_known_before_it_is_deleted(status, tags):
    found = Answers("sha256:1", status).get("registry.example.com/off:1")
    assert found["spec"]["tags"] == tags


@pytest.mark.parametrize(
    ("digest", "status", "why"),
    [("sha256:1", 429, "answers 429 for off:latest"), ("", 200, "gives registry.example.com/off:1 no digest")],
)
def test_where_a_registry_does_not_tell_which_tags_go_none_is_deleted(digest, status, why):
    """The other tag would go with this one, and nobody would put it back; or be put back as what it never was."""
    with pytest.raises(Refusal, match=why):
        Answers(digest, status).get("registry.example.com/off:1")
