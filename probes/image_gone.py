"""Images that no registry serves any more."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.images.contents import contents_of
from killcheck.images.reference import InvalidReference, parse
from killcheck.kube.objects import dig

__all__ = ["SUNSET", "ImageGone"]

#: Hosts that were shut or are being shut, with what happened.
SUNSET = {
    "k8s.gcr.io": "k8s.gcr.io has been frozen since 2023 and only redirects: use registry.k8s.io",
    "registry.invalid": "this host cannot exist (RFC 2606)",
    "docker.pkg.github.com": "GitHub's old Docker registry was replaced by ghcr.io",
}


_TEMPLATE = ("spec", "jobTemplate", "spec", "template", "spec", "containers")


class ImageGone(Probe):
    """Tags that their publisher dropped, and registries that were shut: the pod waits in ImagePullBackOff for ever."""

    id = "image-gone"
    claim = "No executor needs an image that is known to be gone."
    remedy = "Use an image you build or mirror yourself, pinned by digest, in the cloud that the cluster runs in."
    failures = (1, 3)
    sources = (
        "bitnami/containers#83267",
        "incidentfox/incidentfox#472",
        "kubernetes.io/blog/2023/03/10/image-registry-redirect",
        "cloud.google.com/artifact-registry/docs/transition/setup-gcr-repo",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """Each container of each executor."""
        for cron_job in world.of("CronJob"):  # recipes' own too, the janitor's among them
            for number, container in enumerate(dig(cron_job, *_TEMPLATE, default=[])):
                why = _placeholder(str(container.get("image", "")))
                if why:
                    yield self.finding(world, cron_job, (*_TEMPLATE, number, "image"), f"{container['image']}: {why}")
        for one in world.layer_executors:
            for path, container in one.containers:
                why = _why_gone(str(container.get("image", "")), world)
                if why:
                    yield self.finding(world, one.owner, (*path, "image"), f"{container.get('image')}: {why}")


def _placeholder(image: str) -> str | None:
    """Nobody has said yet where the image is: the host of killcheck's recipes, or one that cannot exist (RFC 2606)."""
    try:
        host = parse(image).host
    except InvalidReference:
        return None
    if host == "registry.example.com" or host.rpartition(".")[2] in ("example", "invalid"):
        return "a placeholder, no registry can have that name: put your own in (kustomize: images:, newName and digest)"
    return None


def _why_gone(image: str, world: World) -> str | None:
    try:
        reference = parse(image)
    except InvalidReference as error:
        return str(error)
    if reference.host in SUNSET:
        return SUNSET[reference.host]
    contents = contents_of(reference)
    if contents.gone_since and contents.gone_since <= world.now:
        return f"cannot be pulled since {contents.gone_since:%Y-%m-%d} ({contents.source})"
    return None
