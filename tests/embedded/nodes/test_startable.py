"""Programs of this host that need more than a container sees stand for none of an image's, and are told of by name."""

import shutil
from pathlib import Path

import pytest

from killcheck.embedded.nodes import shells
from killcheck.embedded.nodes.execution import Launch
from killcheck.embedded.nodes.hostprograms import HostPrograms
from killcheck.images.contents import Contents

TRUE = Path(shutil.which("true", path="/usr/bin:/bin")).resolve().read_bytes()
#: What lies in a folder of PATH that no container sees, and what is said of it (empty: it may start).
THERE = {
    "a-wrapper": (b'#!/bin/sh\nexec "$(dirname "$0")/lib/real" "$@"\n', "alone without what is beside it"),
    "a-virtual-environment": (b"#!/home/me/venv/bin/ruby\n", "it is started by /home/me/venv/bin/ruby"),
    "a-version-manager": (b"#!/usr/bin/env -S zz-ruby -W\n", "it is started by zz-ruby"),
    "packages-of-this-host": (b"#!/usr/bin/python3\nimport yaml\n", "it is a script of /usr/bin/python3"),
    "a-library-elsewhere": (TRUE.replace(b"libc.so.6", b"libq.so.9"), "it needs libq.so.9"),
    "a-loader-elsewhere": (
        TRUE.replace(b"/lib64/ld-", b"/srv64/ld-").replace(b"/lib/ld-", b"/srv/ld-"),
        "started by /srv",
    ),
    "a-binary": (TRUE, ""),
}


@pytest.mark.parametrize(("content", "why"), THERE.values(), ids=THERE)
def test_what_cannot_start_in_a_container_is_no_program_of_this_host(tmp_path, content, why):
    program = tmp_path / "helm"
    program.write_bytes(content)
    program.chmod(0o755)
    host = HostPrograms((str(tmp_path),))
    assert (host.find("helm") is None) == bool(why)
    assert why in host.unseen.get("helm", "")
    assert not why or f"this machine's {program} cannot start in the sandbox" in host.unseen["helm"]
    assert HostPrograms((str(tmp_path), "/usr/bin", "/bin")).find("ls"), "what is elsewhere is found as before"


@pytest.mark.parametrize(("starts", "found"), [("/bin/bash", False), ("/bin/sh", True)])
def test_a_script_of_this_host_stands_for_a_program_where_the_image_has_its_interpreter(tmp_path, starts, found):
    script = tmp_path / "ldd"
    script.write_text(f"#!{starts}\n")
    host = HostPrograms(())
    host._found["ldd"] = str(script)
    image = Contents({"/usr/bin/sh": "dash", "/usr/bin/ldd": "ldd"})
    assert (shells.program("ldd", Launch({}, "c", [], {}, [], image, "zz:1"), host) is not None) == found
