"""``killcheck.yaml`` at the file boundary: read into a :class:`~killcheck.killpath.KillPath`, written, its schema."""

from __future__ import annotations

from killcheck.specfile.file import Problem, SpecError, dump, is_spec, json_schema, load, loads

__all__ = ["Problem", "SpecError", "dump", "is_spec", "json_schema", "load", "loads"]
