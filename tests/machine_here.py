"""A kill path of this very machine, in a folder: a file that says what is on, and programs that turn it off and on."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["made", "made_clouded"]

SPEC = """\
apiVersion: killcheck/v1
kind: KillPath
name: vm
targets:
  - name: box
    count: {argv: [cat, state]}
    start: {argv: [./start.sh]}
    instanceType: g5.xlarge
layers:
  - name: nightly-stop
    type: command
    covers: [box]
    command: {argv: [./stop.sh], timeout: 60s}
    schedule: "0 3 * * *"
  - name: hold
    type: sentinel
    covers: [box]
    sentinel:
      path: HOLD
      starters: [{argv: [./starter.sh]}]
deadlines: {executorFinished: 60s, instanceGone: 75s, held: 1s}
proof: [P3, P4]
consent:
  contexts: [host]
  commands: [cat state, "./*.sh"]
"""
SCRIPTS = {
    "start.sh": "echo 1 > state",
    "stop.sh": "echo 0 > state",
    "starter.sh": "[ -e hold ] && exit 0\necho 1 > state",
}


def made(folder: Path) -> Path:
    (folder / "killcheck.yaml").write_text(SPEC.replace("HOLD", str(folder / "hold")))
    (folder / "state").write_text("1\n")
    for name, text in SCRIPTS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


GCLOUD = """#!/bin/sh
case "$*" in
*list*) cat state ;;
*start*) echo 1 > state ;;
*stop*) echo 0 > state ;;
esac
"""


def made_clouded(folder: Path) -> dict[str, str]:
    """The same machine where everything is asked of a cloud's command line; returns its environment."""
    spec = made(folder) / "killcheck.yaml"
    spec.write_text(
        spec.read_text()
        .replace("[cat, state]", "[gcloud, compute, instances, list]")
        .replace("commands: [cat state,", "commands: [gcloud compute instances list,")
    )
    for name, call in (("stop.sh", "stop"), ("start.sh", "start"), ("starter.sh", "start")):
        (folder / name).write_text(f"#!/bin/sh\nexec gcloud compute instances {call} box\n")
    tools = folder / "tools"
    tools.mkdir()
    (tools / "gcloud").write_text(GCLOUD)
    (tools / "gcloud").chmod(0o755)
    (folder / "tmp").mkdir()
    return {"PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(folder / "tmp")}
