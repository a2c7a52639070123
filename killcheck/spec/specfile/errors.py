"""What is wrong with a spec, or with a file beside it."""

from __future__ import annotations

from killcheck.text.problems import FileProblems

__all__ = ["SpecError"]


class SpecError(FileProblems):
    """The spec cannot be used; ``problems`` are all that is wrong with it, in the file's order."""
