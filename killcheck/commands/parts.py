"""``--shard K/N``: the part of a matrix, or of a search, that one of several machines takes."""

from __future__ import annotations

import click

__all__ = ["part_of"]


def part_of(named: str) -> tuple[int, int]:
    """(K, N), from 1 on. Raises click.UsageError."""
    part, _, parts = named.partition("/")
    if not (part.isascii() and part.isdigit() and parts.isascii() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise click.UsageError(f"--shard {named}: expected K/N, such as 1/8 to 8/8")
    return int(part), int(parts)
