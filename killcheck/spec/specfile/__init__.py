"""``killcheck.yaml`` at the file boundary: read into a kill path, written, its schema."""

from __future__ import annotations

from killcheck.spec.specfile.load import Problem, SpecError, dump, is_spec, json_schema, load, loads

__all__ = ["Problem", "SpecError", "dump", "is_spec", "json_schema", "load", "loads"]
