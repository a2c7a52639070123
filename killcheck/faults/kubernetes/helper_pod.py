"""Pods of our own that only have to be there: of which image, and how long they are waited for.

On a cluster that is somebody's an image of ours may not be had: nodes without a way out, registries that mirror what is
known. What is on the node already is: a ``pause`` that its runtime uses, the target's own image, the executor's. Those
are tried one after the other, and a pod that does not start says why within :data:`STARTS_WITHIN_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from killcheck.faults.base import FaultError
from killcheck.faults.kubernetes.executor import pod_spec
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, condition, dig, name_of, namespace_of, uid_of
from killcheck.kube.resources import Resource
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry
from killcheck.text import lazy_re

__all__ = ["PAUSE", "Helper", "helpers", "started", "why_it_waits"]

#: An image that runs everywhere and does nothing.
PAUSE = "registry.k8s.io/pause:3.10"
#: How long one of them may take to run, in seconds.
STARTS_WITHIN_S = 30.0
#: A pause image as runtimes and distributions name it: registry.k8s.io/pause, rancher/mirrored-pause, eks/pause.
_PAUSE = lazy_re.compile(r"(?:^|/)(?:mirrored-)?pause(?:-amd64|-arm64)?[:@]")
_BY_DIGEST = lazy_re.compile(r"[\w.-]+(?::\d+)?/.+@sha256:[0-9a-f]{64}")
#: Waits in an image that has a shell, and goes at once when it is told to.
_WAITS = ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]
#: What the kubelet says of a container that will not start as it is.
_NEVER = ("ErrImageNeverPull", "InvalidImageName", "CreateContainerError", "RunContainerError", "CrashLoopBackOff")
_NOT_PULLED = ("ErrImagePull", "ImagePullBackOff")


class Helper(Struct, frozen=True):
    """An image, the command that waits in it (none: its own does), and the secrets that its pods pull it with."""

    image: str
    command: Sequence[str] = ()
    secrets: Sequence[Obj] = ()

    def fill(self, spec: Obj) -> Obj:
        """A pod spec with the image in its only container."""
        [container] = spec["containers"]
        filled = container | {"image": self.image, "imagePullPolicy": "IfNotPresent"}
        filled |= {"command": list(self.command)} if self.command else {}
        return spec | {"containers": [filled]} | ({"imagePullSecrets": list(self.secrets)} if self.secrets else {})


def helpers(stage: Stage, layer: LayerRun, nodes: Iterable[Obj]) -> list[Helper]:
    """What may be tried on ``nodes``, the likeliest first; on a cluster of killcheck's own every node has the first."""
    if not stage.cluster.real:
        return [Helper(PAUSE)]
    found = [*_listed(nodes), *_running(stage), *_of_executor(layer), Helper(PAUSE)]
    return list({helper.image: helper for helper in reversed(found)}.values())[::-1]


def started(
    stage: Stage,
    resource: Resource,
    made: Callable[[Helper], Obj],
    pod: Callable[[], Obj | None],
    tried: Iterable[Helper],
) -> Obj:
    """Create what ``made`` answers with one helper after the other until its ``pod`` runs; that object.

    What did not start is deleted before the next is tried. Raises FaultError with what each waited for.
    """
    told = []
    for helper in tried:
        obj = stage.journal.create(resource, made(helper))
        if _runs(stage, pod, helper):
            return obj
        now = pod()
        told.append(f"{helper.image}: {_why(stage, now, obj)}")
        _take_away(stage, resource, obj, pod)
        if now is None or not dig(now, "spec", "nodeName"):
            break  # it is not its image that it waits for
    raise FaultError(f"a pod of our own does not start within {STARTS_WITHIN_S:.0f} s ({'; '.join(told)})")


def why_it_waits(pod: Obj) -> str | None:
    """Why a pod does not run, in the kubelet's or the scheduler's words; empty: nothing says so."""
    waiting = [dig(one, "state", "waiting", default={}) for one in dig(pod, "status", "containerStatuses", default=[])]
    said = [": ".join(filter(None, (w.get("reason"), w.get("message")))) for w in waiting if w]
    unscheduled = condition(pod, "PodScheduled") or {}
    return "; ".join(said) or str(unscheduled.get("message") or "")


# -- which image -------------------------------------------------------------------------------------------
def _listed(nodes: Iterable[Obj]) -> Iterator[Helper]:
    """A pause image that a node says it has (``status.images``; kubelets name the fifty largest)."""
    for node in nodes:
        for image in dig(node, "status", "images", default=[]):
            for name in image.get("names") or ():
                if _PAUSE.search(str(name)):
                    yield Helper(str(name))


def _running(stage: Stage) -> Iterator[Helper]:
    """The targets' own images: they run on these nodes."""
    for held in stage.scene.gpu_pods():
        pod = stage.scene.pods.get(held.name, held.namespace) or {}
        for status in dig(pod, "status", "containerStatuses", default=[]):
            yield Helper(_pinned(status), _WAITS, tuple(dig(pod, "spec", "imagePullSecrets", default=[])))


def _of_executor(layer: LayerRun) -> Iterator[Helper]:
    spec = pod_spec(layer)
    for container in spec.get("containers") or ():
        yield Helper(str(container.get("image")), _WAITS, tuple(spec.get("imagePullSecrets") or ()))


def _pinned(status: Obj) -> str:
    """The image of a container by its digest, where its node knows it by one."""
    by_digest = str(status.get("imageID", "")).rpartition("://")[2]
    return by_digest if _BY_DIGEST.fullmatch(by_digest) else str(status.get("image"))


# -- whether it runs ---------------------------------------------------------------------------------------
def _runs(stage: Stage, pod: Callable[[], Obj | None], helper: Helper) -> bool:
    def settled() -> bool:
        now = pod()
        return now is not None and (dig(now, "status", "phase") == "Running" or _gave_up(now))

    stage.wait(f"a pod of our own ({helper.image}) to start", settled, STARTS_WITHIN_S)
    now = pod()
    return now is not None and dig(now, "status", "phase") == "Running" and not _gave_up(now)


def _gave_up(pod: Obj) -> bool:
    """Whether its container will not start as it is."""
    reasons = {dig(one, "state", "waiting", "reason") for one in dig(pod, "status", "containerStatuses", default=[])}
    return bool(reasons & {*_NEVER, *_NOT_PULLED}) or dig(pod, "status", "phase") in ("Failed", "Succeeded")


def _why(stage: Stage, now: Obj | None, obj: Obj) -> str:
    if now is not None:
        return why_it_waits(now) or f"its pod is {dig(now, 'status', 'phase', default='there')}, and nothing says why"
    refusals = (
        str(event.get("message"))
        for event in stage.scene.events.values()
        if event.get("reason") == "FailedCreate" and name_of(obj) in str(event.get("involvedObject"))
    )
    return next(refusals, "no pod of it was made")


def _take_away(stage: Stage, resource: Resource, obj: Obj, pod: Callable[[], Obj | None]) -> None:
    """Delete what did not start, and wait until its pod is gone: the next has the same name."""

    def once() -> None:
        try:
            stage.cluster.kube.delete(
                resource, name_of(obj), namespace_of(obj), uid=uid_of(obj), propagation="Background"
            )
        except NotFound:
            return

    retry(stage.cluster.loop, once)
    stage.wait("a pod that did not start to be gone", lambda: pod() is None, STARTS_WITHIN_S)
