"""What a worker needs, imported: once, by the process that all workers are forked from."""

from __future__ import annotations

from killcheck import faults
from killcheck.capabilities import cluster as _capabilities  # noqa: F401
from killcheck.cluster import embedded as _embedded  # noqa: F401
from killcheck.rehearsal import stage as _stage  # noqa: F401
from killcheck.run import explore as _explore  # noqa: F401
from killcheck.run import runner as _runner  # noqa: F401

__all__: list[str] = []

faults.every()
