"""Whether a registry lets a switch's image in: nobody here has its logins, so every pull here is let in.

What others of the same manifests pull with a secret, a switch pulls without only where the registry is open to it. It
is the founding story's end by another way: fired on schedule, and in ImagePullBackOff.
Source: kubernetes.io/docs, pull an image from a private registry; docs/concepts/containers/images.
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.entries import Becomes, Entry, Status, leaves
from killcheck.images.reference import InvalidReference, Reference, parse
from killcheck.kube.objects import Obj, dig, name_of, ref_of
from killcheck.kube.workloads import PodTemplate, templates
from killcheck.ledger.stakes import Stakes, home_of

__all__ = ["entries"]

#: Registries with repositories of many owners, most of them open: of one owner's alone more can be said.
_SHARED = frozenset(
    {
        "docker.io",
        "gcr.io",
        "ghcr.io",
        "lscr.io",
        "mcr.microsoft.com",
        "nvcr.io",
        "public.ecr.aws",
        "quay.io",
        "registry.gitlab.com",
        "registry.k8s.io",
    }
)
_SETTLES = (
    "give its pods or their ServiceAccount that login (imagePullSecrets), drill it on a cluster that pulls "
    "(--on CONTEXT), or say under assume: why it needs none"
)


@leaves("credentials", "logins of registries: whether one lets in who pulls without", Becomes.OPEN)
def entries(stakes: Stakes) -> Iterator[Entry]:
    """An open entry for each switch that pulls without a login what others of its owner are pulled with, or with one
    that is in another namespace."""
    with_logins = dict(_pulled_with_logins(stakes))
    for obj in stakes.switching():
        images = [one for template in templates(obj) if not _logins(stakes, obj, template) for one in _images(template)]
        closed = next((one for one in images if _owner(one) in with_logins), None)
        if closed is not None:
            other, secret = with_logins[_owner(closed)]
            because = (
                f"it pulls {closed.repository} without a login, and {other} pulls from {_owner(closed)} with Secret "
                f"{secret}: no registry was asked"
            )
            yield Entry(ref_of(obj), Status.NOT_MODELLED, because, _SETTLES)
        else:
            yield from _elsewhere(stakes, obj)


def _elsewhere(stakes: Stakes, obj: Obj) -> Iterator[Entry]:
    """A switch whose logins are Secrets of other namespaces alone: the kubelet passes over what is not in the pod's."""
    for name in {name for template in templates(obj) for name in _logins(stakes, obj, template)}:
        homes = {
            home_of(one) for one in stakes.objects if str(one.get("kind")).endswith("Secret") and name_of(one) == name
        }
        if homes and home_of(obj) not in homes:
            because = (
                f"it pulls with Secret {name}, which is in namespace {min(homes)} and not in {home_of(obj)}: without "
                "a login, and no registry was asked"
            )
            yield Entry(ref_of(obj), Status.NOT_MODELLED, because, _SETTLES)
            return


def _pulled_with_logins(stakes: Stakes) -> Iterator[tuple[str, tuple[str, str]]]:
    """(owner of images, (who pulls them, the Secret with which))."""
    for obj in stakes.objects:
        for template in templates(obj):
            for secret in _logins(stakes, obj, template)[:1]:
                yield from ((_owner(image), (ref_of(obj), secret)) for image in _images(template))


def _logins(stakes: Stakes, obj: Obj, template: PodTemplate) -> list[str]:
    """The pull secrets of a pod: its own, or else its account's (the ServiceAccount admission plugin)."""
    own = template.spec.get("imagePullSecrets") or ()
    account = stakes.accounts.get((home_of(obj), str(template.spec.get("serviceAccountName") or "default")))
    given = own or dig(account, "imagePullSecrets", default=())
    return [str(entry.get("name")) for entry in given if isinstance(entry, dict)]


def _images(template: PodTemplate) -> Iterator[Reference]:
    for kind in ("initContainers", "containers"):
        for container in dig(template.spec, kind, default=()):
            try:
                yield parse(str(container.get("image", "")))
            except InvalidReference:
                continue


def _owner(image: Reference) -> str:
    """Whose image it is: its registry, where that is one team's; of a shared one the first part of its path too."""
    return image.host if image.host not in _SHARED else f"{image.host}/{image.path.partition('/')[0]}"
