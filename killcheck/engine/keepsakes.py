"""killcheck's own ConfigMaps and Leases on an engine, where another machine finds them: one empty volume a version.

A volume's name is unique and creating it is atomic, its labels hold whatever was given and never change. So object
``x`` in version 7 is the volume ``killcheck.x.7``; whoever creates version 8 first has written it (compare and swap);
the newest version counts, older ones are removed after it is there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from killcheck.engine.connection import answered
from killcheck.engine.refusal import Refusal
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, copy, name_of

if TYPE_CHECKING:
    from docker import APIClient

__all__ = ["Keepsakes"]

#: Labels of the volumes.
KIND, NAME, VERSION, CONTENT, TOKEN = (
    f"killcheck.dev/kept-{word}" for word in ("kind", "name", "version", "content", "token")
)


class Keepsakes:
    """All objects of one kind, kept as volumes."""

    def __init__(self, api: APIClient, kind: str, writer: str) -> None:
        self._api = api
        self._kind = kind
        self._writer = writer
        self._count = 0

    def every(self) -> list[Obj]:
        """Every object, in its newest version."""
        newest: dict[str, tuple[int, Obj]] = {}
        for version, obj, _ in self._all():
            if version > newest.get(name_of(obj), (0, {}))[0]:
                newest[name_of(obj)] = (version, obj)
        return [obj for _, obj in newest.values()]

    def get(self, name: str) -> Obj:
        """One object. Raises Refusal (404)."""
        return self._newest(name)[1]

    def create(self, obj: Obj) -> Obj:
        """A new object. Raises Refusal (409) where there is one."""
        if any(name_of(found) == name_of(obj) for found in self.every()):
            raise Refusal(409, "AlreadyExists", f'{self._kind} "{name_of(obj)}" already exists')
        obj = copy(obj)
        obj["metadata"].setdefault("uid", f"{self._kind}-{name_of(obj)}-{self._writer}-{self._count}")
        return self._write(obj, 1)

    def replace(self, obj: Obj) -> Obj:
        """A new version. Raises Refusal: 404, or 409 where ``metadata.resourceVersion`` is not the newest."""
        version, found = self._newest(name_of(obj))
        told = obj["metadata"].get("resourceVersion")
        if told and told != str(version):
            raise Refusal(409, "Conflict", f'{self._kind} "{name_of(obj)}" has been modified: version {version}')
        obj = copy(obj)
        obj["metadata"]["uid"] = found["metadata"]["uid"]
        return self._write(obj, version + 1)

    def delete(self, name: str, preconditions: Obj) -> Obj:
        """Remove it in every version. Raises Refusal: 404, or 409 where a precondition does not hold."""
        version, found = self._newest(name)
        for key in ("uid", "resourceVersion"):
            if preconditions.get(key) and preconditions[key] != found["metadata"][key]:
                raise Refusal(409, "Conflict", f'{self._kind} "{name}": another {key} than the precondition')
        self._drop(name, version)
        return found

    # -- inside --------------------------------------------------------------------------------------------
    def _all(self, name: str = "") -> list[tuple[int, Obj, str]]:
        wanted = [f"{KIND}={self._kind}", *([f"{NAME}={name}"] if name else [])]
        with answered():
            volumes = self._api.volumes(filters={"label": wanted}).get("Volumes") or []
        found = []
        for volume in volumes:
            labels = volume.get("Labels") or {}
            obj = json.loads(labels[CONTENT])
            obj["metadata"]["resourceVersion"] = labels[VERSION]
            found.append((int(labels[VERSION]), obj, str(volume["Name"])))
        return sorted(found, key=lambda one: one[0])

    def _newest(self, name: str) -> tuple[int, Obj]:
        found = self._all(name)
        if not found:
            raise Refusal(404, "NotFound", f'{self._kind} "{name}" not found')
        return found[-1][0], found[-1][1]

    def _write(self, obj: Obj, version: int) -> Obj:
        name = name_of(obj)
        obj["metadata"].pop("resourceVersion", None)
        self._count += 1
        token = f"{self._writer}-{self._count}"
        labels = {KIND: self._kind, NAME: name, VERSION: str(version), CONTENT: json.dumps(obj), TOKEN: token}
        with answered():
            made = self._api.create_volume(f"killcheck.{self._kind}.{name}.{version}", labels=labels)
        if (made.get("Labels") or {}).get(TOKEN) != token:  # somebody was faster
            raise Refusal(409, "Conflict", f'{self._kind} "{name}" has been modified')
        self._drop(name, version - 1)
        obj["metadata"]["resourceVersion"] = str(version)
        return obj

    def _drop(self, name: str, upto: int) -> None:
        for version, _, volume in self._all(name):
            if version <= upto:
                try:
                    with answered():
                        self._api.remove_volume(volume)
                except NotFound:
                    continue
