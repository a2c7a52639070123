"""Commands that were fired inside containers, kept on the engine: they go on when who fired them is dead.

Nothing calls such a command back (moby has no request for it), and what it does later - ``docker stop`` waits out a
container's grace - would undo what was put back. So it is written down before it begins, like a journal's ConfigMap,
and its Job is there until the command is over: whoever takes the Job away waits for that.
"""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING

from killcheck.engine.connection import answered
from killcheck.engine.keepsakes import Keepsakes
from killcheck.engine.projection import NAMESPACE, versioned
from killcheck.engine.refusal import Refusal
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, name_of

if TYPE_CHECKING:
    from docker import APIClient

__all__ = ["Commands"]

#: What holds a Job whose command runs still.
RUNNING = "docker.killcheck.dev/command-runs"


class Commands:
    """The commands that are known on one engine, each by its Job's name."""

    def __init__(self, api: APIClient) -> None:
        self._api = api
        self._kept = Keepsakes(api, "command", token_hex(4))
        self._unwanted: set[str] = set()

    def keep(self, job: Obj, identity: str) -> None:
        """Write down the command ``identity`` (an exec instance's) of a Job, before it begins. Raises KubeError."""
        meta = {key: job["metadata"].get(key) for key in ("name", "uid", "labels", "creationTimestamp")}
        self._kept.create({"metadata": meta, "command": identity})

    def jobs(self) -> list[Obj]:
        """The Jobs of all of them; one that is over and was taken away is forgotten here."""
        found = []
        for kept in self._kept.every():
            runs = self._runs(str(kept.get("command")))
            if not runs and name_of(kept) in self._unwanted:
                self._forget(name_of(kept))
            else:
                found.append(self._job(kept, runs=runs))
        return found

    def take_away(self, name: str) -> Obj | None:
        """The Job, which goes as soon as its command is over; None: there is none of that name."""
        self._unwanted.add(name)
        kept = next((one for one in self._kept.every() if name_of(one) == name), None)
        if kept is None:
            return None
        runs = self._runs(str(kept.get("command")))
        if not runs:
            self._forget(name)
        return self._job(kept, runs=runs)

    def _runs(self, identity: str) -> bool:
        try:
            with answered():
                return bool(self._api.exec_inspect(identity).get("Running"))
        except NotFound:  # it went with its container's life
            return False

    def _forget(self, name: str) -> None:
        try:
            self._kept.delete(name, {})
        except Refusal:  # somebody else was faster
            return

    def _job(self, kept: Obj, *, runs: bool) -> Obj:
        meta = {**kept["metadata"], "namespace": NAMESPACE}
        meta["labels"] = meta.get("labels") or {}
        if runs:
            meta["finalizers"] = [RUNNING]
        if name_of(kept) in self._unwanted:
            meta["deletionTimestamp"] = meta.get("creationTimestamp")
        return versioned({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {}, "status": {}})
