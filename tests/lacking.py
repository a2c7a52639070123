"""Programs that this machine has not: tests whose executors call them are skipped, and say so.

Killcheck's own rule is that a limit of its host is never the executor's fault: such a drill is inconclusive. So a test
that asks for another verdict fails there, and its failure says nothing. Where every program is installed, as CI does,
nothing of this acts: there each of these tests must pass.
"""

from __future__ import annotations

import os
from pathlib import Path

from killcheck.embedded.nodes.execution import NotRun
from killcheck.embedded.nodes.host_runtime import HostRuntime
from killcheck.embedded.nodes.hostprograms import HostPrograms

__all__ = ["KEPT", "LACKED", "begin", "called", "watch"]

#: What ``.ci/run`` installs for tests that are not marked themselves; curl has a stand-in, which cannot do everything.
LACKED = tuple(name for name in ("kubectl", "curl") if HostPrograms().find(name) is None)
#: Names the file in which processes that a test starts note what they could not run.
KEPT = "TESTS_LACKED_IN"


#: Where it is noted; what a test gives its processes for an environment says nothing of it.
_files: list[str] = []


def watch() -> None:
    """From now on notes each program of a pod or a machine, here or in a fork, whose outcome such a lack hides.

    Again: what follows is noted where the environment says now.
    """
    file = os.environ.get(KEPT)
    if not LACKED or file is None:
        return
    _files.append(file)
    if len(_files) > 1:
        return
    start = HostRuntime.start

    def note(why):
        found = [name for name in LACKED if f"calls {name}," in why]
        if found:
            with Path(_files[-1]).open("a") as out:
                out.write("".join(f"{name}\n" for name in found))

    def noted(runtime, launch, on_exit, on_unknown):
        def unknown(why):
            note(why)
            on_unknown(why)

        try:
            return start(runtime, launch, on_exit, unknown)
        except NotRun as error:
            note(str(error))
            raise

    HostRuntime.start = noted


def begin() -> None:
    """A test begins: nothing is noted."""
    if LACKED:
        Path(os.environ[KEPT]).write_text("")


def called() -> list[str]:
    """What was called since, and is not there."""
    return sorted(set(Path(os.environ[KEPT]).read_text().split())) if LACKED else []
