"""Runs ``escapes.py`` in a sandbox of one level, as whoever runs this; prints what came of it. In a process of its own.

What it tries to reach is really there: a file, a variable, a process, a service on the loopback interface, an abstract
socket.
"""

import json
import os
import socket
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from host_world import Host  # noqa: E402
from node_world import no_thread_is_left, pod  # noqa: E402

from killcheck.embedded.nodes.hostprograms import python  # noqa: E402


def tried(level):
    mark, secret = f"killcheck-escape-{os.getpid()}", f"hush-{os.getpid()}"
    os.environ["KILLCHECK_TEST_SECRET"] = secret
    with (
        tempfile.NamedTemporaryFile() as file,
        socket.create_server(("127.0.0.1", 0)) as service,
        socket.socket(socket.AF_UNIX) as abstract,
        Host(level) as world,
    ):
        file.write(b"secret")
        file.flush()
        abstract.bind(f"\0{mark}")
        abstract.listen()
        facts = {"mark": mark, "secret": secret, "file": file.name, "port": service.getsockname()[1]}
        world.add(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "program", "namespace": "team"},
                "data": {"escapes.py": (HERE / "escapes.py").read_text(), "facts.json": json.dumps(facts)},
            }
        )
        world.add(
            pod(
                "job",
                image="python:3.12",
                policy="Never",
                command=["python3", "/program/escapes.py"],
                volumes=[
                    {"name": "program", "configMap": {"name": "program"}},
                    {"name": "work", "emptyDir": {"sizeLimit": "4Mi"}},
                ],
                volumeMounts=[{"name": "program", "mountPath": "/program"}, {"name": "work", "mountPath": "/work"}],
            )
        )
        world.loop.run_until(
            lambda: bool(world.nodes.unknown) or world.pod("job")["status"].get("phase") in ("Succeeded", "Failed"),
            3600,
        )
        log, unknown, level = world.log("job") if not world.nodes.unknown else "", world.nodes.unknown, world.host.level
    no_thread_is_left()
    left = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _read(path)]
    return {"log": log, "unknown": unknown, "level": level, "left": left, "python": python()}


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    sys.stdout.write(json.dumps(tried(sys.argv[1])))
