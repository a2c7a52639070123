"""Probes: one small file a question about a kill path, answered by reading alone.

What may *not* live here: anything that changes a cluster, that runs what a manifest contains, or that goes to the
network unasked (:mod:`killcheck.probes.image_missing` asks registries, where the user said so).

A question is found by its file: every :class:`Probe` that a module here defines is asked, but for those that a person
must ask for (``on_request``); what only a rehearsal answers (``rehearsed``) is asked where there was one.
"""

from __future__ import annotations

from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

from killcheck.probes.base import SEVERITIES, Evidence, Finding, Probe, Severity
from killcheck.probes.world import Executor, World

__all__ = ["ALL", "REHEARSED", "SEVERITIES", "Evidence", "Executor", "Finding", "Probe", "Severity", "World", "named"]


def _every() -> tuple[Probe, ...]:
    found: list[Probe] = []
    for entry in iter_modules(__path__, f"{__name__}."):
        module = import_module(entry.name)
        found += [
            kind()
            for kind in vars(module).values()
            if isinstance(kind, type)
            and issubclass(kind, Probe)
            and kind.__module__ == module.__name__
            and not (isabstract(kind) or kind.on_request)
        ]
    return tuple(sorted(found, key=lambda probe: (SEVERITIES.index(probe.severity), probe.id)))


_EVERY = _every()
#: Every probe that is asked by itself, the gravest first.
ALL: tuple[Probe, ...] = tuple(probe for probe in _EVERY if not probe.rehearsed)
#: Those that only a rehearsal answers: asked where there was one.
REHEARSED: tuple[Probe, ...] = tuple(probe for probe in _EVERY if probe.rehearsed)


def named(probe: str) -> Probe:
    """The probe of that id. Raises KeyError, with the nearest."""
    for one in (*ALL, *REHEARSED):
        if one.id == probe:
            return one
    from killcheck.text.suggestions import did_you_mean

    raise KeyError(f"no probe is called {probe!r}{did_you_mean(probe, [one.id for one in (*ALL, *REHEARSED)])}")
