"""An engine as a :class:`~killcheck.kube.client.Transport`: the few kinds that a drill reads and writes.

Pods, containers and the node are what the engine says at that moment; Jobs are firings of this process, or the
containers that a dead one left; ConfigMaps and Leases are killcheck's own (:mod:`killcheck.engine.keepsakes`).
Anything else does not exist here (404).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from killcheck.clock import Loop
from killcheck.engine import changes
from killcheck.engine.commands import Commands
from killcheck.engine.connection import Engine, answered, inspected
from killcheck.engine.firings import Firing, job_of, left_over
from killcheck.engine.happenings import Happenings, is_ending
from killcheck.engine.keepsakes import Keepsakes
from killcheck.engine.projection import (
    CONTAINERS,
    GROUP,
    IMAGES,
    JOB_LABEL,
    NAMESPACE,
    TAGS,
    container_of,
    cron_job_of,
    devices,
    image_of,
    is_on,
    moment,
    name_in,
    node_of,
    pod_of,
    seconds,
    versioned,
)
from killcheck.engine.refusal import Refusal
from killcheck.engine.registry import Registry
from killcheck.kube import selectors
from killcheck.kube.client import Answer, Closer, Transport
from killcheck.kube.errors import ApiError, KubeError, NotFound
from killcheck.kube.objects import Obj, dig, key_of, labels_of, name_of

__all__ = ["EngineApi", "Schedule"]

#: Events kept for those who ask later.
EVENTS_KEPT = 400
#: The engine's actions that are worth telling, and what they are called in Kubernetes' manner.
_WARNINGS = ("oom", "die", "kill", "pause")


class Schedule(Struct, frozen=True):
    """A layer that is a container: its name, the container, what a firing runs inside it (none: a new one), when."""

    name: str
    container: str
    argv: tuple[str, ...] = ()
    schedule: str = ""
    time_zone: str = ""


class _Watcher(Struct):
    plural: str
    on_event: Callable[[Obj], None]
    on_end: Callable[[KubeError | None], None]


class EngineApi(Transport):
    """The API of one engine, for one process; callbacks run on ``loop``.

    ``schedules``: the layers that are containers. ``instance_type``: of the host, for its price.
    """

    #: A container's labels are what it was made with: no change can leave its mark there.
    keeps_labels = False

    def __init__(
        self,
        engine: Engine,
        loop: Loop,
        schedules: Sequence[Schedule] = (),
        *,
        instance_type: str = "",
    ) -> None:
        self.engine = engine
        self.loop = loop
        self.schedules = {one.name: one for one in schedules}
        self.instance_type = instance_type
        self.firings: dict[str, Firing] = {}
        self._events: deque[Obj] = deque(maxlen=EVENTS_KEPT)
        self._numbers = 0
        self._terminating: dict[str, str] = {}
        self._listed: dict[str, dict[tuple[str, str], Obj]] = {}
        self._containers: dict[str, Obj] = {}
        self._watchers: list[_Watcher] = []
        self._happenings: Happenings | None = None
        writer = token_hex(4)
        self._kept = {
            "configmaps": Keepsakes(engine.api, "configmap", writer),
            "leases": Keepsakes(engine.api, "lease", writer),
        }
        self._commands = Commands(engine.api)
        self._info = self._ask_info()

    def close(self) -> None:
        """Follow no more; idempotent."""
        self._watchers.clear()
        self._rest()

    # -- the protocol --------------------------------------------------------------------------------------
    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
    ) -> Answer:
        """One request, one answer. Raises Unreachable."""
        try:
            return Answer(201 if method == "POST" else 200, self._handle(method, path, query, body))
        except Refusal as refusal:
            return refusal.answer()
        except ApiError as error:
            return Refusal(error.code, error.reason or "InternalError", error.message).answer()

    def watch(
        self,
        path: str,
        query: Mapping[str, str],
        on_event: Callable[[Obj], None],
        on_end: Callable[[KubeError | None], None],
    ) -> Closer:
        """Open a watch: first whatever has changed since the last list, then what happens."""
        plural = path.strip("/").split("/")[-1]
        watcher = _Watcher(plural, on_event, on_end)
        try:
            self._follow()
            before = self._listed.get(plural, {})
            now = {key_of(obj): obj for obj in self._list(plural)}
        except KubeError as error:
            return self.loop.call_soon(on_end, error).cancel
        for key, obj in before.items():
            if key not in now:
                self.loop.call_soon(self._send, watcher, "DELETED", obj)
        for key, obj in now.items():
            if dig(before.get(key), "metadata", "resourceVersion") != obj["metadata"]["resourceVersion"]:
                self.loop.call_soon(self._send, watcher, "MODIFIED" if key in before else "ADDED", obj)
        self._watchers.append(watcher)
        return lambda: self._unwatch(watcher)

    # -- requests ------------------------------------------------------------------------------------------
    def _handle(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Any:
        if method == "GET" and path in ("/version", "/apis", "/api/v1", f"/apis/{GROUP}/v1"):
            return self._about(path)
        parts = [unquote(part) for part in path.strip("/").split("/")]
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        if parts[:1] == ["namespaces"] and len(parts) > 2:
            if parts[1] != NAMESPACE and method != "POST":
                raise Refusal(404, "NotFound", f'no namespace "{parts[1]}": a Docker Engine has {NAMESPACE} alone')
            parts = parts[2:]
        plural, name, sub = [*parts, "", "", ""][:3]
        if plural == "selfsubjectaccessreviews":  # who reaches the engine may do everything
            return {**body, "status": {"allowed": True}}
        if sub == "log":
            return self._log(name)
        if method == "GET" and not name:
            return self._listing(plural, query)
        if method == "GET":
            return self._get(plural, name)
        return self._write(method, plural, name or name_of(body or {}), body or {})

    def _about(self, path: str) -> Obj:
        if path == "/version":
            return {"gitVersion": f"Docker Engine {self.engine.version}"}
        if path == "/apis":
            return {"groups": [{"name": GROUP}]}
        if path == "/api/v1":
            return {"resources": []}
        return {
            "resources": [
                {"name": one.plural, "kind": one.kind, "namespaced": one.namespaced}
                for one in (CONTAINERS, IMAGES, TAGS)
            ]
        }

    def _listing(self, plural: str, query: Mapping[str, str]) -> Obj:
        items = self._list(plural)
        self._listed[plural] = {key_of(obj): obj for obj in items}
        wanted = query.get("labelSelector", "")
        if wanted:
            selector = selectors.parse_labels(wanted)
            items = [obj for obj in items if selector.matches(labels_of(obj))]
        return {"kind": "List", "metadata": {"resourceVersion": "0"}, "items": items}

    def _list(self, plural: str) -> list[Obj]:
        if plural in self._kept:
            return self._kept[plural].every()
        lists: dict[str, Callable[[], list[Obj]]] = {
            "pods": self._pods,
            "containers": lambda: [container_of(c) for c in self.inspected()],
            "nodes": lambda: [self._node()],
            "namespaces": lambda: [_namespace()],
            "events": lambda: list(self._events),
            "jobs": self._jobs,
            "cronjobs": lambda: [self._cron_job(name) for name in self.schedules],
            "replicasets": list,
            "images": self._images,
        }
        if plural not in lists:
            raise _nothing(plural)
        return lists[plural]()

    def _get(self, plural: str, name: str) -> Obj:
        if plural == "tags":
            return Registry.of(name, self.engine.host).get(name)
        if plural in self._kept:
            return self._kept[plural].get(name)
        if plural == "containers":
            return container_of(self._inspect(name))
        if plural == "cronjobs":
            return self._cron_job(name)
        if plural == "images":
            with answered():
                return image_of(self.engine.api.inspect_image(name))  # type: ignore[no-untyped-call]
        for obj in self._list(plural):
            if name_of(obj) == name:
                return obj
        raise Refusal(404, "NotFound", f'{plural} "{name}" not found')

    def _write(self, method: str, plural: str, name: str, body: Obj) -> Obj:
        if plural in self._kept:
            return self._keep(method, plural, name, body)
        if plural == "containers" and method in ("PATCH", "PUT"):
            return self._write_container(method, name, body)
        if plural == "containers" and method == "DELETE":
            return self._remove_container(name, body)
        if plural == "containers" and method == "POST":
            return changes.copied(self.engine.api, name, body)
        if plural == "images" and method == "PATCH":
            with answered():
                inspect = self.engine.api.inspect_image(name)  # type: ignore[no-untyped-call]
            _unchanged(image_of(inspect), body)
            return changes.patch_image(self.engine.api, inspect, body)
        if plural == "tags" and method in ("POST", "DELETE"):
            image = dig(body, "spec", "image", default=name)
            registry = Registry.of(image, self.engine.host)
            return registry.put(body) if method == "POST" else registry.delete(image)
        if plural == "jobs" and method == "POST":
            return self._fire(body)
        if plural == "jobs" and method == "DELETE":
            return self._end_job(name)
        raise Refusal(405, "MethodNotAllowed", f"{method} {plural}: a Docker Engine has nothing like it")

    def _keep(self, method: str, plural: str, name: str, body: Obj) -> Obj:
        shelf = self._kept[plural]
        if method == "POST":
            return shelf.create(body)
        if method == "PUT":
            return shelf.replace(body)
        if method == "DELETE":
            return shelf.delete(name, body.get("preconditions") or {})
        found = shelf.get(name)
        kept = {k: v for k, v in body.items() if k not in ("metadata", "kind", "apiVersion")}
        return shelf.replace({**found, **kept})

    # -- containers ----------------------------------------------------------------------------------------
    def _inspect(self, name: str) -> Obj:
        with answered():
            return dict(self.engine.api.inspect_container(name))

    def exposed(self, name: str) -> list[str]:
        """The TCP ports that a container listens on, as far as it says so."""
        inspect = self._inspect(name)
        ports = {
            *(dig(inspect, "Config", "ExposedPorts", default={}) or {}),
            *(dig(inspect, "HostConfig", "PortBindings", default={}) or {}),
        }
        return sorted(port.partition("/")[0] for port in ports if not port.endswith("/udp"))

    def inspected(self) -> list[Obj]:
        """Every container, running or not, from the engine's own list."""
        api = self.engine.api
        with answered():
            found = [inspected(api, one["Id"]) for one in api.containers(all=True)]
        return [one for one in found if one is not None]  # else: gone between the two questions

    def _write_container(self, method: str, name: str, body: Obj) -> Obj:
        if method == "PUT":
            changes.make_so(self.engine.api, name, body)
            return container_of(self._inspect(name))
        inspect = self._inspect(name)
        _unchanged(container_of(inspect), body)
        changes.patch_container(self.engine.api, inspect, body)
        return container_of(self._inspect(name))

    def _remove_container(self, name: str, options: Obj) -> Obj:
        found = container_of(self._inspect(name))
        wanted = dig(options, "preconditions", "uid")
        if wanted and wanted != found["metadata"]["uid"]:
            raise Refusal(409, "Conflict", f'container "{name}" is another one')
        with answered():
            self.engine.api.remove_container(found["metadata"]["uid"], force=True, v=True)
        return found

    def _pods(self) -> list[Obj]:
        pods = [self._pod(c) for c in self.inspected() if not self._ours(c)]
        return [*pods, *(versioned(dict(firing.pod)) for firing in self.firings.values())]

    def _pod(self, inspect: Obj) -> Obj:
        return pod_of(inspect, self._node_name, terminating_since=self._terminating.get(inspect["Id"], ""))

    def _ours(self, inspect: Obj) -> bool:
        """A firing's container is that firing's pod."""
        return (dig(inspect, "Config", "Labels", default={}) or {}).get(JOB_LABEL) in self.firings

    # -- the host, images, what fires ----------------------------------------------------------------------
    def _ask_info(self) -> Obj:
        with answered(self.engine.host):
            return dict(self.engine.api.info())

    @property
    def _node_name(self) -> str:
        return str(self._info.get("Name") or "docker")

    def _node(self) -> Obj:
        self._info = self._ask_info()
        return node_of(self._info, sum(devices(c) for c in self.inspected()), self.instance_type)

    def _images(self) -> list[Obj]:
        with answered():
            found = self.engine.api.images()
            return [image_of(self.engine.api.inspect_image(one["Id"])) for one in found]  # type: ignore[no-untyped-call]

    def _cron_job(self, name: str) -> Obj:
        found = self.schedules.get(name)
        if found is None:
            raise Refusal(404, "NotFound", f'cronjobs "{name}" not found')
        try:
            inspect = self._inspect(found.container)
        except NotFound as error:
            raise Refusal(404, "NotFound", f"layer {name}: {error.message}") from error
        return cron_job_of(inspect, name, found.argv, found.schedule, found.time_zone)

    def _jobs(self) -> list[Obj]:
        live = [versioned(dict(firing.job)) for firing in self.firings.values()]
        dead = [job_of(inspect) for inspect in left_over(self.engine.api).values() if not self._ours(inspect)]
        commands = [job for job in self._commands.jobs() if name_of(job) not in self.firings]
        return [*live, *dead, *commands]

    def _fire(self, job: Obj) -> Obj:
        if name_of(job) in self.firings or left_over(self.engine.api, name_of(job)):
            raise Refusal(409, "AlreadyExists", f'jobs "{name_of(job)}" already exists')
        firing = Firing(job, self.engine, self.loop, self._node_name, self._told)
        self.firings[name_of(job)] = firing
        self._told("jobs", versioned(dict(firing.job)))
        firing.start()
        return versioned(dict(firing.job))

    def _end_job(self, name: str) -> Obj:
        firing = self.firings.pop(name, None)
        if firing is not None:
            firing.remove()
            self._frame("pods", "DELETED", versioned(dict(firing.pod)))
            self._frame("jobs", "DELETED", versioned(dict(firing.job)))
            return (self._commands.take_away(name) if firing.inside else None) or firing.job
        left = left_over(self.engine.api, name)
        if not left:
            command = self._commands.take_away(name)
            if command is None:
                raise Refusal(404, "NotFound", f'jobs "{name}" not found')
            return command
        with answered():
            for identity in left:
                self.engine.api.remove_container(identity, force=True, v=True)
        return job_of(next(iter(left.values())))

    def _log(self, name: str) -> str:
        for firing in self.firings.values():
            if name_of(firing.pod) == name:
                return firing.output.decode("utf-8", "replace")
        with answered():
            return bytes(self.engine.api.logs(name, tail=400)).decode("utf-8", "replace")

    # -- watching ------------------------------------------------------------------------------------------
    def _follow(self) -> None:
        if self._happenings is not None:
            return
        info = self._ask_info()
        self._containers = {c["Id"]: c for c in self.inspected()}
        known = {identity: str(dig(c, "State", "Status")) for identity, c in self._containers.items()}
        happenings = Happenings(self.engine, self.loop, self._changed, self._broken)
        happenings.start(known, seconds(str(info.get("SystemTime", ""))))
        self._happenings = happenings

    def _unwatch(self, watcher: _Watcher) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)
        if not self._watchers:
            self._rest()

    def _rest(self) -> None:
        if self._happenings is not None:
            self._happenings.stop()
            self._happenings = None

    def _broken(self, error: KubeError) -> None:
        self._rest()
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.on_end(error)

    def _changed(self, identity: str, inspect: Obj | None, event: Obj) -> None:
        """One container's newest state. One that died and was removed at once did end: the event says so."""
        action = str(event.get("Action", ""))
        at = moment(_time_of(event))
        before = self._containers.get(identity)
        if is_ending(event):
            self._terminating[identity] = at
            if before is not None and is_on(before) and (inspect is None or not is_on(inspect)):
                # It has ended by the time that it is looked at: that it was told to is seen first all the same.
                self._say(before, event, at)
                if not self._ours(before):
                    self._frame("pods", "MODIFIED", self._pod(before))
                if inspect is not None:
                    self.loop.call_soon(self._changed, identity, inspect, {})
                return
        elif action in ("die", "start", "destroy"):
            self._terminating.pop(identity, None)
        if inspect is None and before is not None and action == "die":
            inspect = _ended(before, event, at)
        if inspect is None:
            if before is not None and action in ("destroy", ""):
                self._gone(identity, before)
            return
        self._containers[identity] = inspect
        if event and action:
            self._say(inspect, event, at)
        if not self._ours(inspect):
            self._frame("pods", "MODIFIED" if before else "ADDED", self._pod(inspect))
        self._frame("containers", "MODIFIED" if before else "ADDED", container_of(inspect))

    def _gone(self, identity: str, before: Obj) -> None:
        """The engine removes no container whose processes live."""
        ended = _ended(before, {}, moment(dig(before, "State", "FinishedAt")) or moment(before.get("Created")))
        self._containers.pop(identity, None)
        self._terminating.pop(identity, None)
        if not self._ours(before):
            self._frame("pods", "DELETED", self._pod(ended))
        self._frame("containers", "DELETED", container_of(ended))

    def _say(self, inspect: Obj, event: Obj, at: str) -> None:
        self._numbers += 1
        action, attributes = str(event["Action"]), dict(dig(event, "Actor", "Attributes", default={}))
        told = {k: attributes[k] for k in ("signal", "exitCode", "execDuration") if k in attributes}
        network = attributes.get("name", "") if event.get("Type") == "network" else ""
        message = " ".join(
            [
                f"container {name_in(inspect)}: {action}",
                *([f"network {network}"] if network else []),
                *(f"{k}={v}" for k, v in told.items()),
            ]
        )
        self._told(
            "events",
            versioned(
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "reason": action.partition(":")[0].capitalize(),
                    "message": message,
                    "type": "Warning" if action in _WARNINGS else "Normal",
                    "count": 1,
                    "metadata": {
                        "name": f"{name_in(inspect)}.{self._numbers}",
                        "namespace": NAMESPACE,
                        "creationTimestamp": at,
                    },
                    "involvedObject": {
                        "kind": "Pod",
                        "namespace": NAMESPACE,
                        "name": name_in(inspect),
                        "uid": inspect["Id"],
                    },
                    "firstTimestamp": at,
                    "lastTimestamp": at,
                    "source": {"component": "docker"},
                }
            ),
        )

    def _told(self, plural: str, obj: Obj) -> None:
        if plural == "events":
            self._events.append(obj)
        self._frame(plural, "MODIFIED", obj)

    def _frame(self, plural: str, kind: str, obj: Obj) -> None:
        for watcher in list(self._watchers):
            if watcher.plural == plural:
                self._send(watcher, kind, obj)

    def _send(self, watcher: _Watcher, kind: str, obj: Obj) -> None:
        if watcher in self._watchers:
            watcher.on_event({"type": kind, "object": obj})


def _ended(before: Obj, event: Obj, at: str) -> Obj:
    code = str(dig(event, "Actor", "Attributes", "exitCode", default=dig(before, "State", "ExitCode", default=0)))
    state = {
        **(before.get("State") or {}),
        "Running": False,
        "Paused": False,
        "Restarting": False,
        "Status": "exited",
        "ExitCode": int(code) if code.isdigit() else 1,
        "FinishedAt": at,
    }
    return {**before, "State": state}


def _namespace() -> Obj:
    return versioned({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "uid": NAMESPACE}})


def _nothing(plural: str) -> Refusal:
    return Refusal(404, "NotFound", f"the server could not find the requested resource: no {plural} on a Docker Engine")


def _unchanged(found: Obj, patch: Obj) -> None:
    told = dig(patch, "metadata", "resourceVersion")
    if told and told != found["metadata"]["resourceVersion"]:
        raise Refusal(409, "Conflict", f"{found['kind']} {name_of(found)} has been modified; look again")


def _time_of(event: Obj) -> str:
    from datetime import UTC, datetime

    nano = int(event.get("timeNano") or 0)
    when = datetime.fromtimestamp(nano // 1_000_000_000, UTC).replace(microsecond=nano // 1000 % 1_000_000)
    return when.isoformat().replace("+00:00", "Z")
