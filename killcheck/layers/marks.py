"""What a sentinel is made of - a file, a ConfigMap's key, an annotation - and how it is set and lifted, on record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from killcheck.capabilities.errors import UndoProblem
from killcheck.capabilities.programs import Files
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, dig
from killcheck.kube.permissions import Permission
from killcheck.kube.resources import Resource
from killcheck.layers.base import LayerError, Stage
from killcheck.safety.journal import Undo
from killcheck.spec.killpath import Ref, Sentinel

__all__ = ["Mark", "mark_of"]


class Mark(ABC):
    """One sentinel. ``str()`` names it for a person."""

    @abstractmethod
    def prepare(self) -> None:
        """See that it can be set. Raises LayerError, KubeError."""

    @abstractmethod
    def is_set(self) -> bool:
        """Whether it is set now. Raises LayerError where that cannot be told, KubeError."""

    @abstractmethod
    def set(self) -> None:
        """Set it through the journal. Raises JournalError, LayerError, KubeError."""

    @abstractmethod
    def lift(self) -> None:
        """Lift it again before the drill is over; the journal's own undo then finds it lifted."""

    @abstractmethod
    def permissions(self) -> Sequence[Permission]:
        """What setting it needs."""


def mark_of(layer: str, sentinel: Sentinel, stage: Stage) -> Mark:
    """The mark that a spec's sentinel is."""
    if sentinel.path:
        return _File(layer, sentinel.path, stage)
    if sentinel.config_map is not None:
        return _Keyed(layer, sentinel.config_map, ("data", sentinel.key), sentinel.value, stage)
    assert sentinel.annotated is not None
    return _Keyed(layer, sentinel.annotated, ("metadata", "annotations", sentinel.key), sentinel.value, stage)


class _File(Mark):
    def __init__(self, layer: str, path: str, stage: Stage) -> None:
        self.layer = layer
        self.path = path
        self.stage = stage

    def __str__(self) -> str:
        return self.path

    @property
    def _files(self) -> Files:
        found = self.stage.cluster.capabilities.files
        if found is None:
            raise LayerError(
                f"layer {self.layer}: {self.path} is a file of a machine, and {self.stage.cluster.name} "
                "has none at hand"
            )
        return found

    def prepare(self) -> None:
        """Look at it once. Raises LayerError where that cannot be done."""
        self.is_set()

    def is_set(self) -> bool:
        """Whether it is set now. Raises LayerError where that cannot be told."""
        try:
            return self._files.there(self.path)
        except OSError as error:
            why = error.strerror or error
            raise LayerError(f"layer {self.layer}: whether {self.path} is there cannot be told: {why}") from error

    def set(self) -> None:
        """Set it, journalled. Raises LayerError, JournalError."""
        files, text = self._files, f"set by killcheck run {self.stage.run}\n"
        undo = Undo("call", "take_away", [self.path, text], manual=f"rm {self.path}")
        try:
            with self.stage.journal.change(f"set the sentinel {self.path}", undo, lever="files"):
                files.put(self.path, text)
        except OSError as error:
            self.stage.journal.never_happened()
            raise LayerError(f"layer {self.layer}: {self.path} cannot be set: {error.strerror or error}") from error

    def lift(self) -> None:
        """Take away what was set, and only that. Raises LayerError."""
        try:
            self._files.take_away(self.path, f"set by killcheck run {self.stage.run}\n")
        except UndoProblem as error:
            raise LayerError(str(error)) from error

    def permissions(self) -> Sequence[Permission]:
        """The rights that it takes."""
        return ()


class _Keyed(Mark):
    """A value at a path of an object."""

    def __init__(self, layer: str, ref: Ref, path: tuple[str, ...], value: str, stage: Stage) -> None:
        self.layer = layer
        self.ref = ref
        self.path = path
        self.value = value
        self.stage = stage
        self._before: str | None = None

    def __str__(self) -> str:
        return f"{self.ref} {self.path[-1]}={self.value}"

    @property
    def _resource(self) -> Resource:
        if self.ref.kind == "ConfigMap":
            return r.CONFIGMAPS
        return self.stage.cluster.kube.resource_for(self.ref.api_version, self.ref.kind)

    def _found(self) -> Obj:
        try:
            return self.stage.cluster.kube.get(self._resource, self.ref.name, self.ref.namespace)
        except NotFound:
            raise LayerError(
                f"layer {self.layer}: there is no {self.ref}; its starters would read it (create it, without the key)"
            ) from None

    def prepare(self) -> None:
        """Look at it once. Raises LayerError where that cannot be done."""
        self._found()

    def is_set(self) -> bool:
        """Whether it is set now. Raises LayerError where that cannot be told."""
        return bool(dig(self._found(), *self.path) == self.value)

    def _patch(self, value: str | None) -> Obj:
        patch: Obj = {self.path[-1]: value}
        for key in reversed(self.path[:-1]):
            patch = {key: patch}
        return patch

    def set(self) -> None:
        """Set it, journalled. Raises LayerError, JournalError."""
        self._before = dig(self._found(), *self.path)
        self.stage.journal.merge(
            self._resource, self.ref.name, self.ref.namespace, self._patch(self.value), f"set the sentinel {self}"
        )

    def lift(self) -> None:
        """Take away what was set, and only that. Raises LayerError."""
        self.stage.cluster.kube.patch(self._resource, self.ref.name, self._patch(self._before), self.ref.namespace)

    def permissions(self) -> Sequence[Permission]:
        """The rights that it takes."""
        resource = self._resource
        return [
            Permission(verb, resource.group, resource.plural, namespace=self.ref.namespace, name=self.ref.name)
            for verb in ("get", "patch")
        ]
