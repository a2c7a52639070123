"""What stands for an image's shell: the one that knows what the image's own knows, and no more."""

from __future__ import annotations

import pytest

from killcheck.clock import WallLoop
from killcheck.embedded.nodes import shells
from killcheck.embedded.nodes.beyond import lacked
from killcheck.embedded.nodes.execution import Launch
from killcheck.embedded.nodes.volumes import File, Mount, Volume
from killcheck.images.contents import Contents, contents_of
from killcheck.images.reference import parse


class _Host:
    """A host that has these programs."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def find(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.names else None


def _launch(script: str, *, contents: Contents | None = None, file: str = "") -> Launch:
    volume = Volume("scripts", "configMap", {"off.sh": File(file.encode())})
    argv = ["/bin/sh", "-c", script]
    return Launch({}, "main", argv, {}, [Mount(volume, "/scripts")], contents or Contents(None), "example.net/i:1")


@pytest.mark.parametrize(
    ("image", "shell"),
    [
        ("alpine/k8s:1.32.0", "ash"),
        ("busybox:1.36", "ash"),
        ("bitnami/kubectl:latest", "dash"),
        ("amazonlinux:2023", "bash"),
    ],
)
def test_sh_of_an_image_is_that_of_its_distribution(image, shell):
    commands = contents_of(parse(image)).commands
    assert next(commands[path] for path in ("/bin/sh", "/usr/bin/sh") if path in commands) == shell


@pytest.mark.parametrize(
    ("script", "stand_in"),
    [
        ("set -euo pipefail; kubectl get pods | wc -l", "bash"),
        ('[[ "$n" == gpu* ]] && echo "${n//-/_}"', "bash"),
        ("names=(a b); echo ${names[1]}", "dash"),
        ("while read -r n; do echo $n; done < <(kubectl get pods)", "dash"),
        ("cat <<< hello", "dash"),
        ("declare -A seen", "dash"),
        ("for ((i=0; i<3; i++)); do echo $i; done", "dash"),
        ("echo ${!name} ${name^^}", "dash"),
        ("mapfile -t names < list", "dash"),
    ],
)
def test_bash_stands_for_ash_where_nothing_is_bashs_alone(script, stand_in):
    host = _Host("bash", "dash", "sh")
    assert shells.program("ash", _launch(script), host) == f"/usr/bin/{stand_in}"
    assert shells.program("ash", _launch("sh /scripts/off.sh", file=script), host) == f"/usr/bin/{stand_in}"


def test_what_this_host_has_stands_in_for_the_rest():
    assert shells.program("dash", _launch(""), _Host("sh")) == "/usr/bin/sh"
    assert shells.program("ash", _launch(""), _Host("sh")) == "/usr/bin/sh"
    assert shells.program("bash", _launch(""), _Host("sh")) is None
    assert shells.program("jq", _launch(""), _Host("jq")) == "/usr/bin/jq"


@pytest.mark.parametrize(
    ("said", "missed"),
    [
        ("/bin/sh: 1: set: Illegal option -o pipefail", "a sh that knows pipefail"),
        ("off.sh: 12: [[: not found", "a sh that knows [["),
        ("/scripts/off.sh: 3: Bad substitution", "a sh that knows ${name/...}"),
        ("all done", None),
    ],
)
def test_shell_that_does_not_know_a_word_is_no_fault_of_an_image_that_nobody_knows(said, missed):
    for code in (0, 2):
        assert lacked(_launch(""), code, f"begun\n{said}\n") == missed
    assert lacked(_launch("", contents=contents_of(parse("debian:12"))), 2, said) is None


@pytest.mark.parametrize("part", ["a1B2", "  ", "\n", "((", "trap ", "if ", "x= "])
def test_a_long_text_is_read_once(part):
    """A token is one word of a thousand characters: what looks at each word from each of its letters takes seconds."""
    loop, text = WallLoop(), part * (100_000 // len(part))
    began = loop.monotonic()
    shells._BASH_ONLY.search(text)
    assert loop.monotonic() - began < 5


@pytest.mark.parametrize("text", ["a=(1 2)", "a+=(3)", "if (( x > 1 )); then :; fi", "  (( x ))", "cat <<< word"])
def test_what_only_bash_knows_is_seen(text):
    assert shells._BASH_ONLY.search(f"#!/bin/sh\nset -e\n{text}\n")
