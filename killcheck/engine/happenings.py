"""What happens on an engine: its event stream, told on the loop as each container's newest state - and its silence.

Beside the stream the engine's own list is asked every few seconds: an engine that does not answer, or a stream that
missed something, is noticed. While nobody can be sure, nobody is told anything but that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from killcheck.clock import Loop
from killcheck.engine.connection import HEARTBEAT_S, Engine, answered
from killcheck.kube.errors import KubeError, NotFound, Unreachable
from killcheck.kube.objects import Obj, dig

if TYPE_CHECKING:
    from docker import APIClient

__all__ = ["Happenings"]

#: Signals by which somebody tells a container to end (docker stop, docker kill).
_ENDING = ("15", "9", "2", "3")
#: Seconds that an answer of a living engine may take.
PATIENCE_S = 10

Changed = Callable[[str, Obj | None, Obj], None]
Broken = Callable[[KubeError], None]


class Happenings:
    """Follows one engine. ``changed(id, inspect, event)`` and ``broken(error)`` are called on the loop.

    ``inspect`` is None for a container that is no more. ``since``: the engine's own time to begin at.
    """

    def __init__(self, engine: Engine, loop: Loop, changed: Changed, broken: Broken) -> None:
        self._engine = engine
        self._loop = loop
        self._changed = changed
        self._broken = broken
        self._stop = threading.Event()
        self._stream: Any = None
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()

    def start(self, known: dict[str, str], since: str) -> None:
        """Begin. ``known``: the state of each container by id at the engine's time ``since``. Raises KubeError."""
        self._known = dict(known)
        api = self._engine.another(timeout_s=PATIENCE_S)
        stream_api = self._engine.another(timeout_s=24 * 3600)
        with answered(self._engine.host):
            follow: Any = stream_api.events
            self._stream = follow(since=since, decode=True)
        for work, connection in ((self._listen, stream_api), (self._ask, api)):
            threading.Thread(target=self._watched, args=(work, connection), daemon=True, name="engine").start()

    def stop(self) -> None:
        """No more is told; idempotent."""
        self._stop.set()
        stream, self._stream = self._stream, None
        if stream is not None:
            _shut(stream)

    # -- on their threads ----------------------------------------------------------------------------------
    def _watched(self, work: Callable[[APIClient], None], api: APIClient) -> None:
        try:
            work(api)
        except KubeError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a thread that dies unseen would look like a quiet engine
            self._fail(Unreachable(f"the Docker Engine at {self._engine.host} said what is not understood: {error!r}"))
        finally:
            api.close()

    def _fail(self, error: KubeError) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._loop.post(self._broken, error)

    def _listen(self, _: APIClient) -> None:
        api = self._engine.another(timeout_s=PATIENCE_S)
        try:
            with answered(self._engine.host):
                for event in self._stream:
                    if self._stop.is_set():
                        return
                    self._heard(api, event)
        finally:
            api.close()
        if not self._stop.is_set():
            raise Unreachable(f"the Docker Engine at {self._engine.host} closed its event stream")

    def _heard(self, api: APIClient, event: Obj) -> None:
        kind, actor = event.get("Type"), event.get("Actor") or {}
        if kind == "container":
            identity = str(actor.get("ID", ""))
        elif kind == "network":
            identity = str(dig(actor, "Attributes", "container", default=""))
        else:
            return
        if not identity or str(event.get("Action", "")).startswith(("exec_create", "exec_start", "top")):
            return
        self._look(api, identity, event)

    def _look(self, api: APIClient, identity: str, event: Obj) -> None:
        with self._lock:
            try:
                with answered(self._engine.host):
                    found: Obj | None = api.inspect_container(identity)
            except NotFound:
                found = None
            if found is None:
                self._known.pop(identity, None)
            else:
                self._known[identity] = str(dig(found, "State", "Status"))
            self._loop.post(self._tell, identity, found, event)

    def _tell(self, identity: str, found: Obj | None, event: Obj) -> None:
        if not self._stop.is_set():
            self._changed(identity, found, event)

    def _ask(self, api: APIClient) -> None:
        """Whether it lives, and whether its list agrees with what the events told."""
        while not self._stop.wait(HEARTBEAT_S):
            with answered(self._engine.host):
                listed = {str(one["Id"]): str(one.get("State", "")) for one in api.containers(all=True)}
            with self._lock:
                before = dict(self._known)
            for identity in {*listed, *before}:
                if listed.get(identity) != before.get(identity):
                    self._look(api, identity, {})


def is_ending(event: Obj) -> bool:
    """Whether an event is somebody telling a container to end."""
    told = event.get("Action") == "kill"
    return told and dig(event, "Actor", "Attributes", "signal", default="") in _ENDING


def _shut(stream: Any) -> None:
    """End a stream that another thread waits on; over ssh it cannot be ended, and its daemon thread is left to it."""
    from docker.errors import DockerException

    with suppress(DockerException, OSError, AttributeError):
        stream.close()
