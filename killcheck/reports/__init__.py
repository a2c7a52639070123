"""Reports: pure functions of the run record. Nothing here talks to a cluster.

What ``killcheck report`` offers is found by its file: every :class:`Report` that a module here has.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from killcheck.reports.base import Delivery, Place, Report, Told, Written

__all__ = ["Delivery", "Place", "Report", "Told", "Written", "every"]


@cache
def every() -> tuple[Report, ...]:
    """What the modules here offer, by the names of their options."""
    modules = [import_module(entry.name) for entry in iter_modules(__path__, f"{__name__}.")]
    found = {report.option: report for module in modules for report in vars(module).values() if _offered(report)}
    return tuple(found[option] for option in sorted(found))


def _offered(value: object) -> bool:
    return isinstance(value, Report)
