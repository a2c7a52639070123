"""What several faults read off images and their registries: whose they are, and how a kubelet says that it got none."""

from __future__ import annotations

from killcheck.faults.kubernetes.executor import containers, statuses
from killcheck.kube.objects import dig, name_of
from killcheck.layers.base import LayerRun, Stage

__all__ = ["NOWHERE", "host_of", "images_of_targets", "pull_failure"]

#: A registry that is nowhere: names below .invalid do not resolve (RFC 2606).
NOWHERE = "registry.killcheck.invalid"


def host_of(image: str) -> str:
    """The registry host of an image reference; Docker Hub where it names none."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def images_of_targets(stage: Stage, layer: LayerRun) -> dict[str, None]:
    """Those of the targets that a layer covers, each once."""
    targets = [target for target in stage.kill_path.covered_by(layer.layer) if target.kind]
    pods = [pod for pod in stage.scene.pods.values() if any(stage.scene.is_of(target, pod) for target in targets)]
    return dict.fromkeys(str(one["image"]) for pod in pods for one in containers(pod) if one.get("image"))


def pull_failure(stage: Stage, *marks: str) -> str | None:
    """The kubelet's waiting reason of the drill's executor, if it or its image names one of ``marks``."""
    for pod, status in statuses(stage):
        waiting = dig(status, "state", "waiting", default={})
        told = f"{status.get('image', '')} {waiting.get('message', '')}"
        if waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable") and any(
            mark in told for mark in marks
        ):
            return f"{name_of(pod)}: {waiting['reason']}: {waiting.get('message', '')}"
    return None
