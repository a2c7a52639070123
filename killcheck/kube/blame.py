"""Which object a reader stumbled over: of a custom resource nobody here may know the schema, and so not the types.

What an API server would refuse is told when it is loaded (:mod:`killcheck.discover.shapes`). This is for the rest: one
object of a wrong shape is named and passed over, and never stops the others from being read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from killcheck.kube.objects import Obj, ref_of

__all__ = ["blamed", "told"]


def blamed(error: BaseException, among: Iterable[Obj]) -> Obj | None:
    """The object that a stumble was over: the one that was in hand, or a part of it, innermost first; None: none."""
    owners = {id(part): obj for obj in among for part in _parts(obj)}
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    hands = (value for frame in reversed(frames) for value in frame.f_locals.values())
    return next((owners[id(value)] for value in hands if id(value) in owners), None)


def told(obj: Obj) -> str:
    """What is wrong with it, as far as can be told."""
    return f"{ref_of(obj)}: its fields have other types than fields of these names have elsewhere"


def _parts(value: Any) -> Iterator[Any]:
    """An object, and every mapping and list in it."""
    if isinstance(value, dict | list):
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from _parts(part)
