"""Which runs have come to their end, by what this user of this machine knows: an old journal of theirs is a copy.

A journal that was signed stays signed. Who may write ConfigMaps can keep what one said in the middle of its run, and
put it there again when the run is long over: nothing is done on the word of that. What is kept here is an empty file
for each run, beside the journal's key (:mod:`killcheck.safety.keys`), outside of every checkout.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from killcheck.safety.keys import KeyProblem, key_path
from killcheck.text import lazy_re

__all__ = ["finish", "is_finished"]

_RUN = lazy_re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def finish(run: str) -> None:
    """All that a run changed is put back. Where that cannot be kept its objects' marks tell it alone."""
    with suppress(KeyProblem, OSError):
        file = _file(run)
        if file is not None:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.touch(mode=0o600)


def is_finished(run: str) -> bool:
    """Whether a run is known here to have come to its end with everything put back."""
    try:
        file = _file(run)
        return file is not None and file.exists()
    except (KeyProblem, OSError):
        return False


def _file(run: str) -> Path | None:
    return key_path().parent / "finished" / run if _RUN.fullmatch(run) else None
