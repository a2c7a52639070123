"""The one command to type next, where a drill of manifests ends without a spec: a newcomer's last line."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from killcheck.verdict import EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from killcheck.lint.asking import LintResult
    from killcheck.probes import World
    from killcheck.results import Matrix
    from killcheck.run.session import Session

__all__ = ["after_drill", "after_lint", "after_matrix"]


def after_lint(world: World, result: LintResult, manifests: Sequence[Path]) -> str | None:
    """What to type after manifests were read without a spec; None: there are findings, each with its fix."""
    from killcheck.discover import unknown_holders
    from killcheck.discover.finding import NAME_IT, next_step
    from killcheck.run.no_layer import write_one

    path = world.kill_path
    unseen = world.loaded.unseen if world.loaded else ()
    if not path.targets:
        named = [one for one in unseen if one.names_gpus]
        return NAME_IT if not named and unknown_holders(world.objects) else next_step(named or unseen)
    if not path.layers:
        return write_one(manifests, unseen)
    if result.at_or_above("error"):
        return None
    words = shlex.join(word for one in manifests for word in ("--manifests", str(one)))
    return f"next: killcheck drill {words} --exec host   (its programs run, in a sandbox of this host)"


def after_drill(session: Session, code: int, *, sabotaged: bool = False) -> str | None:
    """What to type after a drill that ended with this exit code; None: there is a spec, or a cluster of somebody's.

    ``sabotaged``: every drill was under a fault, of which nothing is known by reading.
    """
    from killcheck.run.chosen import arguments

    if not session.manifests or session.spec is not None or session.real:
        return None
    words = shlex.join(arguments(session))
    if code == EXIT_CODES["proven"] or (sabotaged and session.exec_mode and code == EXIT_CODES["exposed"]):
        return f"next: killcheck gate {words}   (lint, fences and faults too)"
    if session.exec_mode is None:
        return f"next: killcheck drill {words} --exec host   (its programs run, in a sandbox of this host)"
    if code in (EXIT_CODES["exposed"], EXIT_CODES["inconclusive"]):
        return f"next: killcheck lint {words}   (what to mend, with file and line)"
    return None


def after_matrix(found: Matrix) -> str | None:
    """What to type after a matrix of which a cell is exposed; None: none is."""
    if not any(cell.result.verdict == "exposed" for cell in found.failures()):
        return None
    return "next: killcheck report --html report.html   (each night's timeline, cause and remedy)"
