"""Drawn requests and a real server's answers to them, in one compressed file."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import NamedTuple

from drawing import Sequence, Step


class Kept(NamedTuple):
    """``answers``: a list for each sequence, an answer for each step; an empty one is not compared."""

    version: str
    seed: int
    sequences: list[Sequence]
    answers: list[list[dict]]


def write(path: Path, kept: Kept) -> None:
    path.write_bytes(lzma.compress(json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode(), preset=9))


def read(path: Path) -> Kept:
    version, seed, drawn, answers = json.loads(lzma.decompress(path.read_bytes()))
    return Kept(
        version,
        seed,
        [Sequence(area, [Step(*step) for step in steps], settled) for area, steps, settled in drawn],
        answers,
    )
