"""Bringing a pod's containers up: order, images, back-offs, configuration, the start itself.

Source: pkg/kubelet/images/image_manager.go, kuberuntime/{kuberuntime_manager,kuberuntime_container}.go of Kubernetes
v1.36; recordings 02-07, 28b, 28c, 33, 35.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from killcheck.embedded.containerlog import ContainerLog
from killcheck.embedded.nodes import hooks, idle_containers, stopping
from killcheck.embedded.nodes.container import Container
from killcheck.embedded.nodes.environment import ConfigError, Context, command_line, environment
from killcheck.embedded.nodes.execution import Exit, Launch, NotRun, StartError
from killcheck.embedded.nodes.registry import Cached, PullError
from killcheck.embedded.nodes.volumes import mounts_of
from killcheck.entries import Becomes, leaves
from killcheck.images.reference import InvalidReference, Reference, parse
from killcheck.kube import lookups
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import annotations_of, dig, labels_of, name_of, namespace_of
from killcheck.kube.pod_annotations import EXECUTE
from killcheck.text.durations import go_duration

if TYPE_CHECKING:
    from killcheck.embedded.nodes.pod_worker import PodWorker

__all__ = ["advance", "go_duration"]

#: Seconds from a container's creation to its start, and from a failed start to the status that shows it.
START_S = 0.07
START_FAILED_S = 0.12
_ARCH = "kubernetes.io/arch"


def advance(life: PodWorker) -> None:
    """Do for the pod's containers what can be done now."""
    for container in life.ephemerals:  # they wait for nobody
        if container.state == "none" and not life.terminating:
            _start(life, container)
    for container in life.containers:
        if container.role == "main" or life.terminating:
            break
        if container.role == "sidecar":
            if not container.alive and not container.stopping:
                _start(life, container)
            if not (container.alive and container.passed_startup):
                return
        elif not container.succeeded:
            if not container.alive and container.restarts_by(life.policy):
                _start(life, container)
            return
    for container in life.containers:
        if container.role == "main" and not container.alive and container.restarts_by(life.policy):
            _start(life, container)


def _start(life: PodWorker, container: Container) -> None:
    if container.steps or _crash_backoff(life, container):
        return
    try:
        reference = parse(container.spec["image"])
    except InvalidReference as error:
        image = container.spec["image"]
        message = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {error}'
        life.event("Warning", "InspectFailed", message, container)
        _failed(life, container, "InvalidImageName", message, until=math.inf)
        return
    _obtain(life, container, reference)


def _crash_backoff(life: PodWorker, container: Container) -> bool:
    """Whether a container that ended has to wait before it starts again; counts the failure where it does not."""
    if container.state != "exited" or container.again:
        return False
    backoff, now = life.kubelet.crash_backoff, life.loop.monotonic()
    key = f"{life.uid}/{container.name}"
    until = backoff.until(key, container.finished_mono)
    if now < until:
        life.event(
            "Warning",
            "BackOff",
            f"Back-off restarting failed container {container.name} in pod "
            f"{name_of(life.pod)}_{namespace_of(life.pod)}({life.uid})",
            container,
        )
        container.reason = "CrashLoopBackOff"
        container.message = (
            f"back-off {go_duration(backoff.delay(key))} restarting failed container={container.name} "
            f"pod={name_of(life.pod)}_{namespace_of(life.pod)}({life.uid})"
        )
        life.pass_jittered(until - now)
        return True
    backoff.next(key, container.finished_mono, now)
    return False


def _obtain(life: PodWorker, container: Container, reference: Reference) -> None:
    image = container.spec["image"]
    policy = container.spec.get("imagePullPolicy", "IfNotPresent")
    cached = life.kubelet.images.get(reference)
    if policy != "Always" and cached is not None:
        life.event(
            "Normal",
            "Pulled",
            f'Container image "{image}" already present on machine and can be accessed by the pod',
            container,
        )
        _create(life, container, cached)
        return
    if policy == "Never":
        message = f'Container image "{image}" is not present with pull policy of Never'
        life.event("Warning", "ErrImageNeverPull", message, container)
        if not life.kubelet.described:
            life.kubelet.unknown(
                life.pod,
                f"whether its node has {image} (imagePullPolicy: Never) is not known: no manifest describes the node",
            )
        _failed(life, container, "ErrImageNeverPull", message, until=math.inf)
        return
    key = f"{life.uid}/{reference.canonical}"
    until = life.kubelet.image_backoff.until(key)
    if life.loop.monotonic() < until:
        life.event("Normal", "BackOff", f'Back-off pulling image "{image}"', container)
        why = (
            container.message
            if container.reason == "ErrImagePull"
            else container.message.partition("ErrImagePull: ")[2]
        )
        _failed(life, container, "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {why}', until)
        return
    _pull(life, container, reference, key)


def _pull(life: PodWorker, container: Container, reference: Reference, key: str) -> None:
    kubelet = life.kubelet
    life.event("Normal", "Pulling", f'Pulling image "{container.spec["image"]}"', container)
    begun = life.loop.monotonic()
    wait = max(0.0, kubelet.pulls_free_at - begun)
    try:
        found, seconds = kubelet.registry.pull(reference, kubelet.pull_secrets(life.pod), life.loop.now())
    except PullError as error:
        container.steps.append("pull")
        life.after(wait + error.seconds, _pull_failed, life, container, key, str(error))
        kubelet.pulls_free_at = begun + wait + error.seconds
        return
    container.steps.append("pull")
    kubelet.pulls_free_at = begun + wait + seconds
    life.after(wait + seconds, _pulled, life, container, found, seconds, wait)


def _pull_failed(life: PodWorker, container: Container, key: str, why: str) -> None:
    container.steps.clear()
    if life.terminating or life.kubelet.stopped:
        return
    now = life.loop.monotonic()
    life.kubelet.image_backoff.next(key, now, now)
    life.event("Warning", "Failed", f'Failed to pull image "{container.spec["image"]}": {why}', container)
    _failed(life, container, "ErrImagePull", why)


def _pulled(life: PodWorker, container: Container, found: Cached, seconds: float, waited: float) -> None:
    container.steps.clear()
    life.kubelet.image_arrived(found)
    if life.terminating or life.kubelet.stopped:
        return
    life.event(
        "Normal",
        "Pulled",
        f'Successfully pulled image "{container.spec["image"]}" in {_took(seconds)} '
        f"({_took(seconds + waited)} including waiting). Image size: {found.size} bytes.",
        container,
    )
    _create(life, container, found)


def _failed(life: PodWorker, container: Container, reason: str, message: str, until: float | None = None) -> None:
    """The error event of every failed start, and the reason that the next pass shows. ``until``: see ``retry``."""
    shown = (container.reason, container.message) == (reason, message)
    said = message if reason == "CreateContainerConfigError" else reason
    life.event("Warning", "Failed", f"Error: {said}", container)
    container.reason, container.message = reason, message
    life.retry(until if shown else None)


def _create(life: PodWorker, container: Container, cached: Cached) -> None:
    try:
        launch = _launch(life, container, cached)
    except ConfigError as error:
        until = math.inf if life.kubelet.references() else None
        _failed(life, container, "CreateContainerConfigError", str(error), until)
        life.kubelet.lacks(life.pod, str(error))
        return
    except KubeError:
        life.retry()
        return
    container.steps.append("create")
    container.image, container.image_id = cached.image, cached.image_id
    container.container_id = f"containerd://{life.kubelet.hex_id()}"
    life.event("Normal", "Created", "Container created", container)
    life.after(START_S, _run, life, container, launch)


def _run(life: PodWorker, container: Container, launch: Launch) -> None:
    container.steps.clear()
    if life.terminating or life.kubelet.stopped:
        return
    again = container.state == "exited"
    if again:
        container.last = container.terminated()
        container.restarts += 1
        container.previous_log = container.log
    container.log = ContainerLog()
    container.reason = container.message = ""
    container.again = False
    try:
        life.kubelet.check_command(launch)
        foreign = _foreign(life, launch)
        if not foreign and (life.kubelet.runs(life.pod) or _debugs(life, container)):
            container.running = life.kubelet.runtime.start(
                launch, lambda ended: life.exited(container, ended), lambda why: life.outcome_unknown(container, why)
            )
            container.ran = True
            life.kubelet.ran(launch)
    except StartError as error:
        _start_failed(life, container, str(error))
        return
    except NotRun as error:
        life.outcome_unknown(container, str(error))
    container.state = "running"
    container.exit = None
    container.started_at = life.loop.now()
    life.event("Normal", "Started", "Container started", container)
    if foreign:
        _foreign_ends(life, container, launch)
        return
    idle_containers.started(life, container)
    hooks.begin(life, container, "postStart", lambda good: None if good else _hook_failed(life, container))
    life.show()


def _foreign(life: PodWorker, launch: Launch) -> bool:
    """Whether an executor's image is for another architecture than its node's, by its name."""
    arch = labels_of(life.kubelet.node).get(_ARCH)
    arches = launch.contents.arches
    return bool(arch and arches) and arch not in arches and life.kubelet.runs(life.pod)


def _foreign_ends(life: PodWorker, container: Container, launch: Launch) -> None:
    """The kernel takes no program of another architecture (recorded: a line in the log, and exit code 1).

    A node that nobody described may well be of that architecture, unless the pod itself says which it takes.
    """
    if not life.kubelet.described and _ARCH not in repr(life.pod["spec"]):
        only = ", ".join(launch.contents.arches)
        life.outcome_unknown(
            container, f"whether its node is of {only}, as {launch.image} is by its name, is not known"
        )
        return
    said = f"exec {launch.argv[0] if launch.argv else launch.image}: exec format error\n".encode()
    container.log = ContainerLog(said, marks=((len(said), life.loop.now()),))
    life.after(0.0, life.exited, container, Exit(1))
    life.show()


def _hook_failed(life: PodWorker, container: Container) -> None:
    life.event("Normal", "Killing", "FailedPostStartHook", container)
    stopping.stop(life, container, life.grace_s)
    life.after(life.grace_s, life.kill_one, container, container.started_at)


def _debugs(life: PodWorker, container: Container) -> bool:
    """Somebody who adds a container to look around wants one that runs, beside hollow ones, too."""
    return container.role == "ephemeral" and annotations_of(life.pod).get(EXECUTE) != "false"


def _start_failed(life: PodWorker, container: Container, message: str) -> None:
    life.event("Warning", "Failed", f"Error: {message}", container)
    container.state = "exited"
    container.started_at = None
    container.finished_at = life.loop.now()
    container.finished_mono = life.loop.monotonic()
    container.exit = Exit(128, reason="StartError", message=message)
    if container.restarts_by(life.policy):
        container.reason, container.message = "RunContainerError", message
    life.pass_in(START_FAILED_S)


@leaves("network", "name servers of a pod's own, and proxies: what they know and let through", Becomes.OPEN)
def _launch(life: PodWorker, container: Container, cached: Cached) -> Launch:
    """Raises ConfigError."""
    spec, pod, kubelet = container.spec, life.pod, life.kubelet
    variables = environment(Context(pod, kubelet.node, kubelet.kube, life.pod_ip), spec)
    contents = kubelet.registry.contents(cached.reference)
    command, args = command_line(spec, variables)
    entrypoint = command if command is not None else list(contents.entrypoint)
    if command is None and not contents.known:
        entrypoint, args = [], []  # what the image starts is not known
    if args is not None:
        rest = args
    else:
        rest = [] if command is not None else list(contents.command)
    run_as = dig(spec, "securityContext", "runAsUser", default=dig(pod, "spec", "securityContext", "runAsUser"))
    if run_as is None and contents.user.isdigit():
        run_as = int(contents.user)
    if run_as in (None, 0) and dig(
        spec, "securityContext", "runAsNonRoot", default=dig(pod, "spec", "securityContext", "runAsNonRoot")
    ):
        _refuse_root(life, container, run_as, contents.user, known=contents.known)
    hosts = {name: alias["ip"] for alias in pod["spec"].get("hostAliases") or () for name in alias["hostnames"]}
    return Launch(
        pod,
        container.name,
        [*entrypoint, *rest],
        variables,
        mounts_of(spec, life.volumes or {}),
        contents,
        cached.reference.canonical,
        working_dir=spec.get("workingDir", ""),
        services=kubelet.services(),
        hostname=pod["spec"].get("hostname") or name_of(pod)[:63],
        hosts=hosts,
        cluster_dns=lookups.by_cluster(pod["spec"]),
        name_servers=tuple(lookups.own_servers(pod["spec"])),
        run_as=run_as,
        network=kubelet.network(pod),
        stdin=bool(spec.get("stdin")),
        tty=bool(spec.get("tty")),
        stdin_once=bool(spec.get("stdinOnce")),
        pod_ip=life.pod_ip,
        termination_path=spec.get("terminationMessagePath") or "/dev/termination-log",
    )


def _refuse_root(life: PodWorker, container: Container, run_as: int | None, user: str, *, known: bool) -> None:
    """pkg/kubelet/kuberuntime/security_context.go, verifyRunAsNonRoot. Raises ConfigError."""
    pod = f'"{name_of(life.pod)}_{namespace_of(life.pod)}({life.uid})", container: {container.name}'
    if run_as == 0:
        raise ConfigError(f"container's runAsUser breaks non-root policy (pod: {pod})")
    if known and user and not user.isdigit():
        raise ConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root "
            f"(pod: {pod})"
        )
    if known:
        raise ConfigError(f"container has runAsNonRoot and image will run as root (pod: {pod})")


def _took(seconds: float) -> str:
    """How long a pull took, to the millisecond, as Go prints it."""
    millis = round(seconds * 1000)
    if millis < 1000:
        return f"{millis}ms"
    whole, rest = divmod(millis, 1000)
    text = go_duration(whole)
    return text if not rest else text[:-1] + f".{rest:03d}".rstrip("0") + "s"
