"""One small file a fault, or a family whose members differ in a line: a reversible sabotage of what a layer depends on.

What may *not* live here: healing that only the injecting process could do (an undo is data in the journal),
knowledge of one particular cluster, verdicts.

Other packages add faults by the entry point group ``killcheck.faults``: each names a :class:`Fault`, held to the same
contract.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from killcheck.capabilities.offered import Capability, lacking
from killcheck.faults.base import Fault, FaultError, Plan
from killcheck.faults.combination import apart, in_order, refuse_clashes
from killcheck.spec.killpath import KillPath, Layer
from killcheck.text.suggestions import did_you_mean, nearest

if TYPE_CHECKING:
    from killcheck.faults.shipped import ALL, CLOUD, ENGINE, MACHINE

__all__ = [
    "ALL",
    "CLOUD",
    "ENGINE",
    "GROUP",
    "MACHINE",
    "Fault",
    "FaultError",
    "Plan",
    "apart",
    "every",
    "in_order",
    "layer_of",
    "means_something",
    "named",
    "refuse_clashes",
    "resolved",
    "there",
]

#: Entry point group of faults from other packages.
GROUP = "killcheck.faults"


def __getattr__(name: str) -> Any:
    """What :mod:`killcheck.faults.shipped` has, the tables and every fault: imported when somebody asks for one."""
    if name[:1].isupper():
        from killcheck.faults import shipped

        if name in shipped.__all__:
            return getattr(shipped, name)
        for kind in (*shipped.ALL, *shipped.CLOUD, *shipped.ENGINE, *shipped.MACHINE):
            if kind.__name__ == name:
                return kind
    raise AttributeError(f"module {__name__} has no attribute {name}")


@cache
def _foreign() -> tuple[type[Fault], ...]:
    from importlib.metadata import entry_points

    found = []
    for entry in entry_points(group=GROUP):
        kind = entry.load()
        missing = [field for field in ("name", "simulates", "family") if not getattr(kind, field, "")]
        if not (isinstance(kind, type) and issubclass(kind, Fault)) or missing:
            raise FaultError(f"entry point {entry.name} of {GROUP} is no fault: {', '.join(missing) or 'not a Fault'}")
        found.append(kind)
    return tuple(found)


def every() -> tuple[type[Fault], ...]:
    """Those that come with killcheck, and other packages'. Raises FaultError for one that breaks the contract."""
    from killcheck.faults.shipped import ALL, CLOUD, ENGINE, MACHINE

    return (*ALL, *CLOUD, *ENGINE, *MACHINE, *_foreign())


def there(kind: type[Fault], kill_path: KillPath, capabilities: Collection[Capability] | None) -> bool:
    """Whether what a fault needs is there; ``capabilities`` None: the embedded cluster's, with all of its own.

    What acts on a cloud account only means something where the spec has a ``cloud:`` to act on.
    """
    from killcheck.faults.shipped import CLOUD, ENGINE

    if capabilities is not None:
        return not lacking(kind.needs, capabilities)
    if kind in ENGINE:
        return False
    return kind not in CLOUD or (kill_path.cloud is not None and bool(kill_path.cloud.endpoint))


def means_something(
    kind: type[Fault],
    kill_path: KillPath,
    layer: Layer,
    cron_job: Mapping[str, Any] | None = None,
) -> bool:
    """Whether a fault applies to a layer at all, to anything that the layer turns off, and to its executor.

    ``cron_job``: the layer's, where it has been read; None: nothing is known of its executor.
    """
    if kill_path.beyond(layer) and not kind.outside:
        return False  # it acts on something in a cluster or a Docker Engine
    return kind().unsuited(kill_path, layer, cron_job=None if cron_job is None else dict(cron_job)) is None


def named(name: str) -> Fault:
    """The fault that ``--under`` calls ``name``: ``FAULT@LAYER`` of a named layer, ``FAULT=2s..10m`` for a part of the
    night.

    Raises KeyError whose message names the nearest, or says what was expected.
    """
    name, timed, times = name.partition("=")
    if timed:
        return _for_a_while(named(name), times)
    name, at, where = name.partition("@")
    if at:
        from killcheck.faults.other_layer import OfNamedLayer

        return OfNamedLayer(named(name), where)
    kinds = every()
    for kind in kinds:
        if kind.name == name:
            return kind()
    near = nearest(name, [kind.name for kind in kinds], 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise KeyError(f"no fault is called {name}; {hint}killcheck faults lists them")


def resolved(words: Sequence[str], layers: Collection[str]) -> tuple[str, ...]:
    """The faults that are named in ``words`` as --under takes them, each looked up once; ``layers``: the spec's.

    Raises KeyError whose message names the nearest, ValueError for one that is said twice.
    """
    names = apart(words)
    for name in names:
        named(name)
        where = layer_of(name)
        if where and where not in layers:
            raise KeyError(f"{name}: the spec has no layer {where!r}{did_you_mean(where, layers)}")
    return names


def layer_of(name: str) -> str:
    """Which layer's fault ``--under`` calls ``name``; empty: the drilled one's."""
    return name.partition("=")[0].partition("@")[2]


def _for_a_while(fault: Fault, times: str) -> Fault:
    """Raises KeyError for times that are none, and for a fault that is of a whole night."""
    from killcheck.faults.timed import Timed, span

    if type(fault).night is not Fault.night:
        raise KeyError(f"{fault.name} is of a whole night: it has no times of its own")
    try:
        return Timed(fault, *span(times))
    except ValueError as error:
        raise KeyError(f"{fault.name}={times}: {error}") from None
