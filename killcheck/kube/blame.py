"""Which object a reader stumbled over: of a custom resource nobody here may know the schema, and so not the types.

What an API server would refuse is told when it is loaded (:mod:`killcheck.discover.shapes`). This is for the rest: one
object of a wrong shape is named and passed over, and never stops the others from being read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from killcheck.kube.objects import Obj, ref_of

__all__ = ["Stumble", "blamed", "blaming", "told"]

_T = TypeVar("_T")


class Stumble(ValueError):
    """A reader of another process stumbled over an object; its reference is the message."""


def blaming(work: Callable[..., _T], objects: Sequence[Obj], *rest: Any) -> _T:
    """What a worker makes of ``objects``. Raises Stumble, which comes home, for one that it stumbles over."""
    try:
        return work(objects, *rest)
    except (AttributeError, TypeError, ValueError, KeyError, IndexError) as error:
        over = blamed(error, objects)
        if over is None or isinstance(error, Stumble):
            raise
        raise Stumble(ref_of(over)) from error


def blamed(error: BaseException, among: Iterable[Obj]) -> Obj | None:
    """The object that a stumble was over: the one that was in hand, or a part of it, or what an API server made of it,
    innermost first; None: none."""
    among = list(among)
    by_ref = {ref_of(obj): obj for obj in among}
    if isinstance(error, Stumble):
        return by_ref.get(str(error))
    owners = {id(part): obj for obj in among for part in _parts(obj)}
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    hands = (value for frame in reversed(frames) for value in frame.f_locals.values())
    return next((over for value in hands if (over := owners.get(id(value)) or _known(value, by_ref)) is not None), None)


def _known(value: Any, by_ref: Mapping[str, Obj]) -> Obj | None:
    """The manifest of an object that an API server has, by its name."""
    whole = isinstance(value, dict) and isinstance(value.get("kind"), str) and isinstance(value.get("metadata"), dict)
    return by_ref.get(ref_of(value)) if whole and value["metadata"].get("resourceVersion") else None


def told(obj: Obj) -> str:
    """What is wrong with it, as far as can be told."""
    return f"{ref_of(obj)}: its fields have other types than fields of these names have elsewhere"


def _parts(value: Any) -> Iterator[Any]:
    """An object, and every mapping and list in it."""
    if isinstance(value, dict | list):
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from _parts(part)
