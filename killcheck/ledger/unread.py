"""What a switch read and nobody here could: a Secret's content, a volume that a driver fills from a store.

A placeholder is refused wherever it is used: that says nothing of the switch. It matters only where the program may
have come to grief over it: it was started, it found its commands, and it was not refused as somebody who is known.
Source: secrets-store-csi-driver.sigs.k8s.io (inline ``csi`` volumes; the driver asks the store when it mounts one).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from killcheck.executor.refusals import RefusalKind, refusal
from killcheck.kube import secret_text
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, ref_of

__all__ = ["stood_in"]

#: How a shell ends that finds no such command, or may not run it.
_NO_COMMAND = (126, 127)
_SETTLES = "put a Secret that is good into the manifests, or drill it on a real cluster (--on CONTEXT)"


def stood_in(objects: Iterable[Obj], pods: Iterable[Obj], logs: Mapping[tuple[str, str], str]) -> list[str]:
    """What failed pods read and what was not known of it, a sentence each.

    ``objects``: the manifests; ``logs``: by pod and container, what was said.
    """
    secrets = {(namespace_of(one), name_of(one)): one for one in objects if secret_text.unread(one) is not None}
    found: dict[str, str] = {}
    for pod in pods:
        texts = [text for (name, _), text in logs.items() if name == name_of(pod)]
        if not _ran(pod):
            continue
        for what, how, empty in _unknown(pod, secrets):
            if not _was_known(texts, nobody_too=empty):
                who = ref_of({"kind": "Pod"} | pod)
                found.setdefault(what, f"{who} read {what}, whose content is not known here ({how}): {_SETTLES}")
    return list(found.values())


def _unknown(pod: Obj, secrets: Mapping[tuple[str, str], Obj]) -> Iterator[tuple[str, str, bool]]:
    """(what, how it came to be unknown, whether nothing stood in its place) of all that a pod is given."""
    for name in secret_text.secrets_of(pod["spec"]):
        secret = secrets.get((namespace_of(pod), name))
        if secret is not None:
            yield f"Secret/{namespace_of(pod)}/{name}", secret_text.unread(secret) or "", not secret.get("data")
    for volume in dig(pod, "spec", "volumes", default=[]):
        driver = dig(volume, "csi", "driver")
        if driver:
            yield f"volume {volume.get('name')}", f"CSI driver {driver} fills it", True


def _ran(pod: Obj) -> bool:
    """Whether a pod's program was started, and not for want of a command in vain."""
    statuses = dig(pod, "status", "containerStatuses", default=[])
    ended = [end for one in statuses for key in ("state", "lastState") if (end := dig(one, key, "terminated"))]
    running = any(dig(status, "state", "running") for status in statuses)
    return bool(running or ended) and not any(map(_found_nothing, ended))


def _found_nothing(end: Obj) -> bool:
    """Whether a container ended because there was no such program."""
    return end.get("exitCode") in _NO_COMMAND or end.get("reason") in ("StartError", "ContainerCannotRun")


def _was_known(texts: Iterable[str], *, nobody_too: bool) -> bool:
    """Whether the API server knew who asks, and would not have it. A 403 without a name may be nobody's."""
    said = [one for one in map(refusal, texts) if one is not None and one.kind is RefusalKind.FORBIDDEN]
    return any(
        "system:serviceaccount:" in one.line if nobody_too else "system:anonymous" not in one.line for one in said
    )
