"""Firings: a Job on an engine is one run of a layer's container, its Pod that run - pulled, started, ended.

Either a new container made from the layer's (its image pulled where it is not there), or a command inside it. Each
runs on a thread of its own; what it comes to is told on the loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from killcheck.clock import Loop
from killcheck.engine import changes
from killcheck.engine.commands import Commands
from killcheck.engine.connection import Engine, answered, inspected
from killcheck.engine.projection import HOW, JOB_LABEL, NAMESPACE, SOURCE, creation, moment, pod_of, versioned
from killcheck.engine.refusal import Refusal
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.objects import Obj, annotations_of, copy, dig, format_time, labels_of, name_of

if TYPE_CHECKING:
    from docker import APIClient

__all__ = ["Firing", "Tell", "has", "job_of", "left_over", "pull"]

#: Told on the loop of each change: the kind of thing ("jobs", "pods", "events") and the object.
Tell = Callable[[str, Obj], None]

#: How much of a command's output is kept, in bytes.
OUTPUT_KEPT = 64_000


class Firing:
    """One firing of a Job; its objects change until it is over."""

    def __init__(self, job: Obj, engine: Engine, loop: Loop, node: str, tell: Tell) -> None:
        self.engine = engine
        self.loop = loop
        self._tell = tell
        self.output = b""
        self.container = ""
        self.gone = False
        self._making = threading.Lock()
        self._events = 0
        now = format_time(loop.now(), micro=True)
        template = dig(job, "spec", "template", default={})
        self.source = annotations_of(template).get(SOURCE, "")
        self.inside = annotations_of(template).get(HOW) == "exec"
        self.executor = (dig(template, "spec", "containers") or [{}])[0]
        if not self.source:
            raise Refusal(422, "Invalid", f"Job {name_of(job)} names no container that it is made from")
        self.job = copy(job)
        self.job["metadata"] |= {"namespace": NAMESPACE, "uid": f"job-{name_of(job)}", "creationTimestamp": now}
        self.job["status"] = {"startTime": now, "active": 1}
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name_of(job),
            "uid": f"job-{name_of(job)}",
            "controller": True,
        }
        self.pod: Obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name_of(job)}-run",
                "namespace": NAMESPACE,
                "uid": f"run-{name_of(job)}",
                "creationTimestamp": now,
                "labels": labels_of(job),
                "ownerReferences": [owner],
            },
            "spec": {**dig(template, "spec", default={}), "nodeName": node},
            "status": {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": now}],
            },
        }
        self._state({"waiting": {"reason": "ContainerCreating"}})

    def start(self) -> None:
        """Begin, on a thread of its own."""
        threading.Thread(target=self._run, name=f"firing {name_of(self.job)}", daemon=True).start()

    # -- on its thread -------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            api = self.engine.another(timeout_s=24 * 3600)
            if self.inside:
                self._run_inside(api)
            else:
                self._run_new(api)
        except KubeError as error:
            self.loop.post(self._refused, str(error))

    def _run_inside(self, api: APIClient) -> None:
        with answered():
            made = api.exec_create(
                self.source, self.executor["command"], tty=False, environment=self._environment() or None
            )
            with self._making:
                if self.gone:
                    return
                Commands(api).keep(self.job, made["Id"])
            begun = format_time(self.loop.now(), micro=True)
            stream = api.exec_start(made["Id"], stream=True)
            self.loop.post(self._started, begun)
            for chunk in stream:
                self.output = (self.output + chunk)[-OUTPUT_KEPT:]
            code = api.exec_inspect(made["Id"]).get("ExitCode")
        ended = format_time(self.loop.now(), micro=True)
        if code in (126, 127) and b"exec failed" in self.output:  # the runtime's words, not the program's
            why = self.output.decode("utf-8", "replace").strip()
            self.loop.post(self._ended, "1970-01-01T00:00:00Z", ended, 128, why)
            return
        self.loop.post(self._ended, begun, ended, -1 if code is None else int(code), "")

    def _run_new(self, api: APIClient) -> None:
        image = str(self.executor.get("image", ""))
        if not self._pulled(api, image):
            return
        with answered():
            source = api.inspect_container(self.source)
        try:
            with self._making:
                if self.gone:  # taken away while its image was being pulled
                    return
                self._make(api, source, image)
            with answered():
                api.start(self.container)
                begun = moment(api.inspect_container(self.container)["State"]["StartedAt"])
        except KubeError as error:
            now = format_time(self.loop.now(), micro=True)
            self.loop.post(self._ended, "1970-01-01T00:00:00Z", now, 128, str(getattr(error, "message", error)))
            return
        self.loop.post(self._started, begun)
        try:
            with answered():
                code = int(api.wait(self.container)["StatusCode"])
                state = api.inspect_container(self.container)["State"]
                self.output = api.logs(self.container)[-OUTPUT_KEPT:]
        except NotFound:
            if self.gone:
                return
            raise
        self.loop.post(self._ended, begun, moment(state["FinishedAt"]), code, "")

    def _pulled(self, api: APIClient, image: str) -> bool:
        try:
            if self.executor.get("imagePullPolicy") != "Always" and has(api, image):
                self.loop.post(self._say, "Normal", "Pulled", f'Container image "{image}" already present on machine')
                return True
            self.loop.post(self._say, "Normal", "Pulling", f'Pulling image "{image}"')
            pull(api, image)
        except KubeError as error:
            why = str(getattr(error, "message", error))
            self.loop.post(self._unpulled, image, why)
            return False
        self.loop.post(self._say, "Normal", "Pulled", f'Successfully pulled image "{image}"')
        return True

    def _make(self, api: APIClient, source: Obj, image: str) -> None:
        """A container like the layer's, that publishes no port, restarts never and is known as ours."""
        how = creation(source)
        config = how["config"]
        own = [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]
        if self.executor.get("command") not in (None, own):
            config |= {"Entrypoint": self.executor["command"], "Cmd": []}
        ours = {k: v for k, v in (config.get("Labels") or {}).items() if not k.startswith("com.docker.compose.")}
        ours |= {**labels_of(self.job), JOB_LABEL: name_of(self.job)}
        changed = self._environment()
        env = [one for one in config.get("Env") or [] if one.partition("=")[0] not in changed]
        env += [f"{name}={value}" for name, value in changed.items()]
        host = {
            k: v
            for k, v in config["HostConfig"].items()
            if k not in ("PortBindings", "RestartPolicy", "AutoRemove", "PublishAllPorts", "ContainerIDFile")
        }
        for network in how["networks"].values():
            network.pop("ipam", None)
            network.pop("aliases", None)
        self.container = changes.make(
            api, name_of(self.job), {**how, "config": config}, Image=image, Labels=ours, HostConfig=host, Env=env
        )

    def _environment(self) -> dict[str, str]:
        """What the Job says beside the container's own environment."""
        return {str(one["name"]): str(one.get("value", "")) for one in self.executor.get("env") or []}

    # -- on the loop ---------------------------------------------------------------------------------------
    def _started(self, begun: str) -> None:
        self._state({"running": {"startedAt": begun}}, phase="Running")

    def _ended(self, begun: str, ended: str, code: int, message: str) -> None:
        reason = "StartError" if message else ("Completed" if code == 0 else "Error")
        terminated = {"exitCode": code, "startedAt": begun, "finishedAt": ended, "reason": reason}
        self._state(
            {"terminated": {**terminated, **({"message": message} if message else {})}},
            phase="Succeeded" if code == 0 else "Failed",
        )
        done = (
            {"type": "Complete", "reason": "CompletionsReached"}
            if code == 0
            else {"type": "Failed", "reason": "ContainerFailed", "message": message or f"exit code {code}"}
        )
        self.job["status"] = {
            **self.job["status"],
            "active": 0,
            "conditions": [{**done, "status": "True", "lastTransitionTime": ended}],
        }
        self._told("jobs", self.job)

    def _unpulled(self, image: str, why: str) -> None:
        self._say("Warning", "Failed", f'Failed to pull image "{image}": {why}')
        self._state({"waiting": {"reason": "ErrImagePull", "message": why}})

    def _refused(self, why: str) -> None:
        self.pod["status"]["phase"] = "Failed"
        self._say("Warning", "FailedCreate", why)
        now = format_time(self.loop.now(), micro=True)
        self._ended("1970-01-01T00:00:00Z", now, 128, why)

    def _state(self, state: Obj, phase: str = "") -> None:
        status = {"name": "executor", "image": self.executor.get("image", ""), "restartCount": 0, "ready": False}
        self.pod["status"] = {
            **self.pod["status"],
            **({"phase": phase} if phase else {}),
            "containerStatuses": [{**status, "state": state}],
        }
        self._told("pods", self.pod)

    def _say(self, kind: str, reason: str, message: str) -> None:
        self._events += 1
        now = format_time(self.loop.now(), micro=True)
        self._told(
            "events",
            {
                "apiVersion": "v1",
                "kind": "Event",
                "type": kind,
                "reason": reason,
                "message": message,
                "count": 1,
                "metadata": {
                    "name": f"{name_of(self.pod)}.{self._events}",
                    "namespace": NAMESPACE,
                    "creationTimestamp": now,
                },
                "involvedObject": {
                    "kind": "Pod",
                    "namespace": NAMESPACE,
                    "name": name_of(self.pod),
                    "uid": self.pod["metadata"]["uid"],
                },
                "firstTimestamp": now,
                "lastTimestamp": now,
                "source": {"component": "docker"},
            },
        )

    def _told(self, kind: str, obj: Obj) -> None:
        if not self.gone:
            self._tell(kind, versioned(copy(obj)))

    # -- taking it away ------------------------------------------------------------------------------------
    def remove(self) -> None:
        """Its container goes, running or not. A command inside another container ends by itself (``Commands``)."""
        with self._making:
            self.gone = True
        with answered():
            for identity in left_over(self.engine.api, name_of(self.job)):
                self.engine.api.remove_container(identity, force=True, v=True)


def left_over(api: APIClient, job: str = "") -> dict[str, Obj]:
    """Containers of firings by id, as ``docker inspect`` has them: of one Job, or of all."""
    label = f"{JOB_LABEL}={job}" if job else JOB_LABEL
    found: dict[str, Obj] = {}
    with answered():
        for one in api.containers(all=True, filters={"label": label}):
            if (container := inspected(api, one["Id"])) is not None:
                found[one["Id"]] = container
    return found


def job_of(inspect: Obj) -> Obj:
    """The Job that a dead run left, as far as its container tells."""
    labels = dict(dig(inspect, "Config", "Labels", default={}) or {})
    pod = pod_of(inspect, "")
    return versioned(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": labels[JOB_LABEL],
                "namespace": NAMESPACE,
                "uid": f"job-{labels[JOB_LABEL]}",
                "labels": labels,
                "creationTimestamp": pod["metadata"]["creationTimestamp"],
            },
            "spec": {},
            "status": {},
        }
    )


def has(api: APIClient, image: str) -> bool:
    """Whether the engine has an image of that name. Raises KubeError."""
    try:
        with answered():
            api.inspect_image(image)  # type: ignore[no-untyped-call]
    except NotFound:
        return False
    return True


def pull(api: APIClient, image: str, *, anonymous: bool = False) -> None:
    """Pull an image. Raises KubeError with the registry's words, as ``docker pull`` prints them.

    ``anonymous``: without the logins that this user has.
    """
    repository, tag = _parts(image)
    with answered():
        nobody = {"auth_config": {"username": "", "password": ""}} if anonymous else {}
        ask: Any = api.pull
        lines = ask(repository, tag=tag, stream=True, decode=True, **nobody)
        said = next((str(line["error"]) for line in lines if "error" in line), "")
    if said:
        raise KubeError(said)


def _parts(image: str) -> tuple[str, str | None]:
    """An image reference as ``pull`` takes it: repository, and tag or digest."""
    if "@" in image:
        repository, _, digest = image.partition("@")
        return repository, digest
    head, slash, last = image.rpartition("/")
    name, _, tag = last.partition(":")
    return head + slash + name, tag or "latest"
