"""What busybox' applets refuse is refused, whatever this host's programs of the same name can do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from killcheck.embedded.nodes import applets, shims
from killcheck.embedded.nodes.execution import Launch
from killcheck.images.contents import contents_of
from killcheck.images.reference import parse


@pytest.fixture(scope="module")
def guards(tmp_path_factory):
    """Each applet's guard; what it stands for says what it is given."""
    folder = tmp_path_factory.mktemp("applets")
    real = folder / "real"
    real.write_text("#!/bin/sh\nprintf '%s ' \"$@\"\n")
    real.chmod(0o755)
    wiring = shims.Wiring("", 0, "", "/bin/bash", "", "", "")
    for name in applets.APPLETS:
        file = folder / name
        file.write_text(shims.applet(name, wiring, str(real), "/nowhere"))
        file.chmod(0o755)
    return folder


def _call(guards: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run([guards / words[0], *words[1:]], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip() or done.stderr.strip()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wget", "-q", "--method=PATCH", "--body-data", "{}", "u"], "wget: unrecognized option: method"),
        (["wget", "--ca-certificate=ca", "u"], "wget: unrecognized option: ca-certificate"),
        (["date", "-d", "2 hours ago", "+%s"], "date: invalid date '2 hours ago'"),
        (["date", "-u", "-d", "yesterday"], "date: invalid date 'yesterday'"),
        (["date", "--date=tomorrow"], "date: invalid date 'tomorrow'"),
        (["date", "--date", "now"], "date: invalid date 'now'"),
        (["date", "-d", "+8 hours"], "date: invalid date '+8 hours'"),
        (["date", "-d", "2026-01-01 03:00 UTC"], "date: invalid date '2026-01-01 03:00 UTC'"),
        (["date", "-d", ""], "date: invalid date ''"),
        (["date", "--iso-8601=seconds"], "date: unrecognized option: iso-8601"),
        (["grep", "-oP", "x"], "grep: unrecognized option: P"),
        (["xargs", "-d", "\\n", "rm"], "xargs: unrecognized option: d"),
        (["base64", "--decode"], "base64: unrecognized option: decode"),
        (["timeout", "--foreground", "5", "x"], "timeout: unrecognized option: foreground"),
        (["sort", "--unique"], "sort: unrecognized option: unique"),
    ],
)
def test_what_an_applet_does_not_know_is_refused(guards, words, said):
    assert _call(guards, *words) == (1, said)


@pytest.mark.parametrize(
    "words",
    [
        ["wget", "-qO-", "--header", "Authorization: Bearer -x", "--post-data={}", "-T", "5", "http://x/"],
        ["wget", "--user-agent", "--method", "http://x/"],
        ["date", "-u", "+%Y-%m-%dT%H:%M:%SZ"],
        ["date", "-u", "-d", "@1767225600", "+%H"],
        ["date", "-d@5"],
        ["date", "-d", "2026-01-01 03:00:00"],
        ["date", "-d", "2026-01-01T03:00:00Z", "+%s"],
        ["date", "-d", "Jan 5 03:00:00 2026"],
        ["date", "-Iseconds"],
        ["grep", "-qE", "a|b", "-"],
        ["grep", "--", "-P", "file"],
        ["grep", "-e", "-P"],
        ["xargs", "-r", "-n1", "kubectl", "delete", "-d"],
        ["xargs", "-I{}", "sh", "-c", "x"],
        ["head", "-1"],
        ["tail", "-n", "+2"],
        ["sort", "-t,", "-k2,2nr"],
        ["sed", "-i.bak", "-e", "s/a/b/"],
        ["timeout", "-s", "KILL", "5", "curl", "--max-time", "5"],
    ],
)
def test_what_it_knows_is_passed_on_as_it_is(guards, words):
    assert _call(guards, *words) == (0, " ".join(words[1:]))


def test_a_format_of_its_own_is_nothing_that_another_date_could_answer(guards):
    code, said = _call(guards, "date", "-D", "%s", "-d", "5 days ago")
    assert (code, "/nowhere/date" in said) == (126 + 1, True)


def _launch(image, *argv, **env):
    return Launch({}, "main", list(argv), env, [], contents_of(parse(image)), image)


def test_only_applets_that_are_spoken_of_are_guarded():
    launch = _launch("alpine:3.20", "sh", "-c", "date +%s | grep -q 1; kubectl update-timeout", LINE="head -1")
    assert applets.called(launch, sorted(applets.APPLETS)) == {"date", "grep", "head"}
    assert applets.called(launch, ["ls", "cat"]) == frozenset()


@pytest.mark.parametrize(
    ("image", "path", "is_one"),
    [
        ("alpine/k8s:1.33.1", "/bin/date", True),
        ("alpine/k8s:1.33.1", "/usr/bin/curl", False),
        ("busybox:1.36", "/bin/wget", True),
        ("debian:12-slim", "/usr/bin/date", False),
    ],
)
def test_which_commands_of_an_image_are_applets(image, path, is_one):
    contents = contents_of(parse(image))
    assert path in contents.commands
    assert (path in contents.applets) is is_one
