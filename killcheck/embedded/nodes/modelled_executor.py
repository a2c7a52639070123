"""Executors as models: what reading a command finds that it asks of the API is asked, in the cluster's time.

No process is started, so a scenario costs what its API calls cost. It is a model: a script's conditions are not
evaluated, its retries are the Job's. What cannot be read is not run, and so its outcome unknown - never assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from killcheck.clock import Loop, Timer
from killcheck.embedded.api.http import Request
from killcheck.embedded.api.server import ApiServer
from killcheck.embedded.containerlog import ContainerLog, LogKeeper
from killcheck.embedded.nodes import commands
from killcheck.embedded.nodes.execution import Exit, Launch, NotRun, Runtime
from killcheck.entries import Assumption
from killcheck.executor import ApiCall, Reading, proxies, read
from killcheck.executor.proxies import API_NAMES
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of
from killcheck.text.jsontext import from_text

__all__ = ["ModelledRuntime"]

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
#: Seconds that a call takes, and that a client without a patience of its own waits for an answer.
CALL_S = 0.05
PATIENCE_S = 30.0
#: What glibc's resolver takes to give up: two tries of 5 s for a domain of the search list, two for the name as it is.
RESOLVER_S = 20.0
#: Bytes of a container's log that are kept.
LOG_LIMIT = 1 << 16


class ModelledRuntime(Runtime):
    """``kube`` reads the ConfigMaps that containers mount; ``server`` is asked with the pod's own token."""

    def __init__(self, kube: Kube, server: ApiServer, loop: Loop) -> None:
        self.kube = kube
        self.server = server
        self.loop = loop
        self.assumptions = (
            Assumption("executors were modelled by what reading their commands finds: no command was run"),
        )
        self._running: set[_Modelled] = set()
        self._versions: dict[str, str] = {"": "v1"}

    def start(
        self,
        launch: Launch,
        on_exit: Callable[[Exit], None],
        on_unknown: Callable[[str], None],
    ) -> _Modelled:
        """Start a container. Raises StartError where its program is not there, NotRun where it cannot be read."""
        commands.check(launch)
        found = self._read(launch)
        if found.not_understood or found.outside:
            raise NotRun(f"it cannot be modelled: {'; '.join((*found.not_understood, *found.outside))}")
        if not launch.cluster_dns or launch.hosts or proxies.proxy_for(launch.env, API_NAMES[2]):
            raise NotRun("it cannot be modelled: its way to the API server is its own (DNS, host aliases, a proxy)")
        if not found.calls:
            raise NotRun("it cannot be modelled: reading finds no API call in it")
        made = _Modelled(self, launch, found, on_exit, on_unknown)
        self._running.add(made)
        made.begin()
        return made

    def release(self, pod_uid: str) -> None:
        """Nothing is kept of a pod."""

    def pod_gone(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Stop every model; idempotent."""
        for made in list(self._running):
            made.stop()

    # -- inside --------------------------------------------------------------------------------------------
    def _read(self, launch: Launch) -> Reading:
        namespace = namespace_of(launch.pod)
        spec = copy(launch.pod["spec"])
        every = [*spec.get("initContainers", ()), *spec.get("containers", ())]
        spec["containers"] = [one for one in every if one["name"] == launch.container]
        spec["initContainers"] = []
        maps = {(namespace, name_of(one)): one for one in self.kube.list(r.CONFIGMAPS, namespace).items}
        return read(spec, namespace, maps)

    def version(self, group: str) -> str:
        """The version in which a group is served. Raises NotFound."""
        if group not in self._versions:
            for entry in self.kube.call("GET", "/apis").body.get("groups") or ():
                self._versions[str(entry["name"])] = str(dig(entry, "preferredVersion", "version"))
        if group not in self._versions:
            raise NotFound(404, {"reason": "NotFound", "message": f"no API group {group}"})
        return self._versions[group]

    def forget(self, made: _Modelled) -> None:
        """It has ended."""
        self._running.discard(made)


class _Modelled:
    """One container: a call after the other, each with the token that is in the pod."""

    def __init__(
        self,
        runtime: ModelledRuntime,
        launch: Launch,
        found: Reading,
        on_exit: Callable[[Exit], None],
        on_unknown: Callable[[str], None],
    ) -> None:
        self.runtime = runtime
        self.launch = launch
        self.found = found
        self._on_exit = on_exit
        self._on_unknown = on_unknown
        self._left = [call for call in found.calls if call.verb != "watch"]
        self._log = LogKeeper(LOG_LIMIT)
        self._timer: Timer | None = None
        self._ended = False

    # -- the Running protocol ------------------------------------------------------------------------------
    def terminate(self) -> None:
        """A shell that waits for a program dies of SIGTERM."""
        self._exit(143, 15)

    def kill(self) -> None:
        """SIGKILL."""
        self._exit(137, 9)

    def log(self) -> ContainerLog:
        """What a program says of a refusal, as curl does."""
        return self._log.log()

    # -- what happens --------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Look for its programs and its token, then at the network, then make its calls."""
        contents = self.launch.contents
        missing = [
            tool
            for tool in self.found.tools
            if contents.known and "/" not in tool and not contents.find(tool, self.launch.env.get("PATH", ""))
        ]
        if missing:
            self._fail_in(CALL_S, 127, f"sh: {missing[0]}: not found")
        elif not self._token():
            self._fail_in(CALL_S, 1, f"cat: {TOKEN}: No such file or directory")
        else:
            self._timer = self.runtime.loop.call_later(CALL_S, self._step)

    def stop(self) -> None:
        """The cluster is closed: nobody is told."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self.runtime.forget(self)

    def _token(self) -> str:
        for mount in self.launch.mounts:
            base = mount.path.rstrip("/")
            if TOKEN.startswith(base + "/"):
                found = mount.volume.files.get(TOKEN[len(base) + 1 :])
                if found is not None:
                    return found.content.decode()
        return ""

    def _step(self) -> None:
        network = self.launch.network
        if network.dns != "allow":
            self._fail_in(RESOLVER_S, 6, "curl: (6) Could not resolve host: kubernetes.default.svc")
        elif network.api == "drop":
            self._fail_in(
                PATIENCE_S,
                28,
                "curl: (28) Failed to connect to kubernetes.default.svc port 443 after 30000 ms: Timeout was reached",
            )
        elif network.api == "refuse":
            self._fail_in(CALL_S, 7, "curl: (7) Failed to connect to kubernetes.default.svc port 443: refused")
        elif not self._left:
            self._exit(0, 0)
        else:
            try:
                status = self._make(self._left.pop(0))
            except _CannotModelError as error:
                self._ended = True
                self.runtime.forget(self)
                self._on_unknown(f"it cannot be modelled: {error}")
                return
            if status >= 400:
                # Whether anyone sees it is what reading says of the script.
                code = 0 if self.found.false_green else 22
                self._fail_in(CALL_S, code, f"curl: (22) The requested URL returned error: {status}")
            else:
                self._timer = self.runtime.loop.call_later(CALL_S, self._step)

    def _fail_in(self, seconds: float, code: int, says: str) -> None:
        self._log.add(f"{says}\n".encode(), self.runtime.loop.now())
        self._timer = self.runtime.loop.call_later(seconds, self._exit, code, 0)

    def _exit(self, code: int, signal: int) -> None:
        if self._ended:
            return
        self.stop()
        self._on_exit(Exit(code, signal))

    # -- calls ---------------------------------------------------------------------------------------------
    def _make(self, call: ApiCall) -> int:
        """Make one; its HTTP status."""
        if not call.resource or (call.named and not call.name and not call.selector):
            raise _CannotModelError(f"the object of '{call}' is only known when it runs")
        try:
            version = self.runtime.version(call.group)
        except NotFound:
            return 404
        resource = r.Resource(call.group, version, call.resource, "", bool(call.namespace))
        if call.verb in ("get", "list"):
            return self._ask("GET", resource.path(call.namespace, call.name or None, call.subresource or None))[0]
        if call.verb == "create":
            return self._ask("POST", resource.path(call.namespace), self._body(call))[0]
        for name in self._names(call, resource):
            path = resource.path(call.namespace, name, call.subresource or None)
            if call.verb == "delete":
                status = self._ask("DELETE", path)[0]
            elif call.verb == "patch":
                status = self._ask("PATCH", path, self._body(call), "application/merge-patch+json")[0]
            elif call.verb == "update":
                whole = copy(self._ask("GET", path)[1])
                whole.setdefault("spec", {}).update(self._body(call).get("spec", {}))
                status = self._ask("PUT", path, whole)[0]
            else:
                raise _CannotModelError(f"'{call}' is a verb without a model")
            if status >= 400:
                return status
        return 200

    def _names(self, call: ApiCall, resource: r.Resource) -> list[str]:
        if call.name:
            return [call.name]
        query = {"labelSelector": [call.selector]} if call.selector else {}
        status, listed = self._ask("GET", resource.path(call.namespace), query=query)
        return [name_of(one) for one in listed.get("items", ())] if status < 400 else []

    @staticmethod
    def _body(call: ApiCall) -> Obj:
        if call.replicas is not None:
            return {"spec": {"replicas": call.replicas}}
        try:
            found = from_text(call.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise _CannotModelError(f"what '{call}' writes is only known when it runs")
        return found

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str = "application/json",
        query: dict[str, list[str]] | None = None,
    ) -> tuple[int, Obj]:
        headers = {"authorization": f"Bearer {self._token()}", "content-type": kind}
        answer = self.runtime.server.handle(Request(method, path, query or {}, headers, body, None))
        return answer.status, answer.body if isinstance(answer.body, dict) else {}


class _CannotModelError(Exception):
    """The call depends on what only a run would show."""
