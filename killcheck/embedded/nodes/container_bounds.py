"""What keeps a stranger's program in where an engine runs it: what its container is made with, and who looks after it.

No capability and none to be had, limits on processes, memory, files and the log; what an engine cannot limit - the disk
as a whole, output, how long it takes - is looked at while it runs.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any

from killcheck.clock import wall_seconds
from killcheck.embedded.nodes.confinement import OPEN_FILES, PROCESSES
from killcheck.embedded.nodes.execution import Launch
from killcheck.embedded.nodes.streams import OUTPUT_LIMIT
from killcheck.engine.connection import Engine, answered
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, dig
from killcheck.kube.quantities import parse

__all__ = ["DISK_MOST", "MEMORY_MOST", "WALL_MOST_S", "Watch", "bounds"]

#: Bytes of memory of one container, whatever its manifest allows; an engine takes no less than the least.
MEMORY_MOST = 4 << 30
MEMORY_LEAST = 6 << 20
#: Bytes of one file; of everything that a container writes beside its log; of each volume that its image wants.
FILE_MOST = 256 << 20
DISK_MOST = 1 << 30
VOLUME_MOST = 256 << 20
#: Wall seconds that one container may take: the cluster's time stands still for no longer.
WALL_MOST_S = 3600.0
#: Wall seconds between two looks at the disk.
LOOK_S = 1.0


def bounds(launch: Launch, volumes: Sequence[str] = ()) -> dict[str, Any]:
    """The part of an engine's HostConfig that keeps a container in; ``volumes``: the paths its image wants any at."""
    memory = _memory(launch)
    limits = {"core": 0, "fsize": FILE_MOST, "nofile": OPEN_FILES}
    return {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "PidsLimit": PROCESSES,
        "Memory": memory,
        "MemorySwap": memory,
        "Ulimits": [{"Name": name, "Soft": most, "Hard": most} for name, most in limits.items()],
        "LogConfig": {"Type": "json-file", "Config": {"max-size": f"{OUTPUT_LIMIT >> 20}m", "max-file": "1"}},
        "Tmpfs": dict.fromkeys(volumes, f"size={VOLUME_MOST},mode=1777"),
    }


def _memory(launch: Launch) -> int:
    """Bytes that it may hold: what its manifest says, within bounds."""
    spec = launch.pod["spec"]
    containers: list[Obj] = [*spec.get("initContainers", ()), *spec["containers"]]
    own = next((c for c in containers if c["name"] == launch.container), {})
    said = dig(own, "resources", "limits", "memory")
    return MEMORY_MOST if said is None else max(MEMORY_LEAST, min(MEMORY_MOST, int(parse(said))))


class Watch:
    """Looks after a running container until :meth:`close`; ``over`` is told, once, what it took too much of."""

    def __init__(self, engine: Engine, identity: str, over: Callable[[str], None]) -> None:
        self.identity = identity
        self._over = over
        self._done = threading.Event()
        self._attached: socket.socket | None = None
        name = identity[:12]
        threading.Thread(target=self._look, args=(engine,), name=f"size of {name}", daemon=True).start()
        threading.Thread(target=self._listen, args=(engine,), name=f"output of {name}", daemon=True).start()

    def close(self) -> None:
        """Nobody need look any more; idempotent."""
        self._done.set()
        if self._attached is not None:  # to a container that had ended before, an engine says nothing, for ever
            with suppress(OSError):
                self._attached.shutdown(socket.SHUT_RDWR)

    def _stop(self, why: str) -> None:
        if not self._done.is_set():
            self._done.set()
            self._over(f"it {why} and was stopped")

    def _look(self, engine: Engine) -> None:
        """How long it runs, and what it has written to the disk."""
        began = wall_seconds()
        try:
            with answered(), closing(engine.another()) as api:
                while not self._done.wait(LOOK_S):
                    if wall_seconds() - began > WALL_MOST_S:
                        self._stop(f"ran for more than {WALL_MOST_S / 60:.0f} minutes")
                        return
                    listed = api.containers(all=True, size=True, filters={"id": self.identity})
                    if any((one.get("SizeRw") or 0) > DISK_MOST for one in listed):
                        self._stop(f"wrote more than {DISK_MOST >> 20} MiB to its disk")
        except KubeError:
            return  # whoever waits for its end says so

    def _listen(self, engine: Engine) -> None:
        """How much it says, the engine's frames around it included: whoever writes by the byte is no cheaper."""
        said = 0
        wanted = {"stdout": 1, "stderr": 1, "stream": 1, "logs": 1}
        try:
            with answered(), closing(engine.another(timeout_s=24 * 3600)) as api:
                stream = api.attach_socket(self.identity, params=wanted)
                with closing(stream._response):  # the SDK keeps there what holds the connection
                    self._attached = stream._sock
                    while not self._done.is_set() and (part := stream.read(1 << 18)):
                        said += len(part)
                        if said > OUTPUT_LIMIT:
                            self._stop(f"filled more than {OUTPUT_LIMIT >> 20} MiB with its output")
        except KubeError:
            return  # as above
