"""Pauses of what scales the targets: a switch may leave one behind, for a person to take off in the morning.

Before the layer's next firing everything is put on again on killcheck's own cluster, and what is paused cannot be. So
whoever puts it on there also takes off what was paused since. What may *not* live here: anything on a cluster that is
somebody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, annotations_of, dig, name_of, namespace_of, uid_of
from killcheck.spec.killpath import Target

__all__ = ["Pauses"]

#: How the annotations begin that pause a ScaledObject.
_PAUSED = "autoscaling.keda.sh/paused"


class Pauses:
    """The pauses of the scalers of ``targets``, as they are when this is made. Raises KubeError."""

    def __init__(self, kube: Kube, targets: Sequence[Target]) -> None:
        self.kube = kube
        self._targets = {(target.kind, target.namespace, target.object) for target in targets}
        self._before = {uid_of(scaler): _pauses(scaler) for scaler in self._scalers()}

    def take_off(self) -> None:
        """Pause every scaler as it was, or no longer; one that was not there before is left alone. Raises KubeError."""
        for scaler in self._scalers():
            now = _pauses(scaler)
            before = self._before.get(uid_of(scaler), now)
            if before != now:
                body = {"metadata": {"annotations": {key: before.get(key) for key in {*before, *now}}}}
                self.kube.patch(r.SCALEDOBJECTS, name_of(scaler), body, namespace_of(scaler))

    def _scalers(self) -> Iterator[Obj]:
        for namespace in sorted({namespace for kind, namespace, _ in self._targets if kind}):
            for scaler in self._of(namespace):
                ref = dig(scaler, "spec", "scaleTargetRef", default={})
                if (ref.get("kind") or "Deployment", namespace, ref.get("name")) in self._targets:
                    yield scaler

    def _of(self, namespace: str) -> Sequence[Obj]:
        try:
            return self.kube.list(r.SCALEDOBJECTS, namespace).items
        except NotFound:  # no KEDA
            return ()


def _pauses(scaler: Obj) -> dict[str, str]:
    return {key: value for key, value in annotations_of(scaler).items() if key.startswith(_PAUSED)}
