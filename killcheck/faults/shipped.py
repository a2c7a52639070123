"""The faults that come with killcheck: every one that a module of the four folders defines.

Importing this imports all of them; :mod:`killcheck.faults` does it when the first one is asked for.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from killcheck.faults.base import Fault

__all__ = ["ALL", "CLOUD", "ENGINE", "FAMILIES", "MACHINE"]

#: The order in which families are listed; one that is not named here comes last.
FAMILIES = (
    "image",
    "credentials",
    "network",
    "schedule",
    "admission",
    "rivals",
    "drain",
    "spot",
    "orchestrator",
)


def _in(folder: str) -> tuple[type[Fault], ...]:
    """The faults that the modules of a folder define, family by family, else in the order of files and lines."""
    package = import_module(f"killcheck.faults.{folder}")
    found: list[type[Fault]] = []
    for entry in iter_modules(package.__path__, f"{package.__name__}."):
        module = import_module(entry.name)
        found += [
            kind
            for name, kind in vars(module).items()
            if isinstance(kind, type)
            and issubclass(kind, Fault)
            and kind.__module__ == module.__name__
            and not name.startswith("_")
            and hasattr(kind, "name")
        ]
    places = {family: place for place, family in enumerate(FAMILIES)}
    return tuple(sorted(found, key=lambda kind: places.get(kind.family, len(places))))


#: Of what is in Kubernetes.
ALL = _in("kubernetes")
#: Of what a Docker Engine runs: with ``--on docker``, and on kind, whose nodes are containers.
ENGINE = _in("docker")
#: Of a cloud account, or of a stand-in of one: only where the spec has a ``cloud:`` section.
CLOUD = _in("aws")
#: Of what is outside Kubernetes: programs of a machine, what they call, what starts them.
MACHINE = _in("machine")
