"""A change as it is written down: what was changed, how it is taken back, how far that is. Data alone.

What may *not* live here: doing any of it (:mod:`killcheck.safety.undo`).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, structs

from killcheck.kube.objects import Obj

__all__ = ["FORESEEN", "LABEL", "MARK", "Entry", "State", "Undo"]

#: Label on everything that killcheck creates; the value is the run's id.
LABEL = "killcheck.dev/run"
#: The owner of what an executor was read to be about to change, and may have left alone
#: (:mod:`killcheck.safety.foreseen`).
FORESEEN = "the executor"
#: How the field manager's name begins that marks an object as changed (:mod:`killcheck.safety.marks`).
MARK = "killcheck.dev/undo."

State = Literal["intent", "applied", "undone", "verified", "failed"]


class Undo(Struct, frozen=True):
    """One call that takes a change back.

    ``action``: *delete* the object at ``path``; *sweep* what in the collection ``path`` carries the run's label;
    *merge*-patch ``body`` into it; *create* ``body`` again in the collection ``path``; *put* ``body`` at ``path``,
    made anew where it is gone, so that its ``spec`` is as there; *call* the method ``path`` of a capability with the
    arguments ``body``; *set* its attribute ``path`` to ``body``; *aws*: what :mod:`killcheck.cloud.account_undo` calls
    ``path``, done to what carries the run's tag in the account, region and at the endpoint that ``body`` names.
    ``uid``: only the object that we changed. ``left``: the merge patch that made the change; what is no longer as
    we left it is somebody else's, and not overwritten. ``manual``: what a person can run instead. ``transient``: an
    object that comes and goes (a pod); where it is gone, so is the change. ``ends_s``: what a *delete*d object owns
    must have come to its end too, before anything older is taken back, and may take so many seconds for it (an
    executor that is still at work turns off what is put back on, as soon as the fault that held it up is healed);
    0: it need not. ``owners``: whose the object's fields were before (managedFields), where that can be put back.
    ``marked``: the object carries the change's mark until it is back.
    """

    action: Literal["delete", "sweep", "merge", "create", "put", "call", "set", "aws"]
    path: str
    body: Any = None
    uid: str = ""
    left: Obj | None = None
    manual: str = ""
    transient: bool = False
    ends_s: float = 0.0
    owners: list[Obj] | None = None
    marked: bool = False


class Entry(Struct, frozen=True):
    """One change of a run. ``lever`` entries name a capability of the cluster (a registry) instead of an API call.

    ``expires``: when the janitor may undo it (RFC 3339). ``owner``: the fault or step that made it.
    """

    run: str
    number: int
    what: str
    undo: Undo
    expires: str
    state: State = "intent"
    problem: str = ""
    lever: str = ""
    owner: str = ""

    def to_json(self) -> Obj:
        """A JSON object."""
        return {**structs.asdict(self), "undo": structs.asdict(self.undo)}

    @classmethod
    def from_json(cls, data: Obj) -> Entry:
        """What :meth:`to_json` wrote. Raises KeyError or TypeError for anything else."""
        return cls(**{**data, "undo": Undo(**data["undo"])})
