"""A certificate in the place of drills: each that is due, as the certificate has it, or nothing is proven of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from killcheck.proof.certificate import Certificate
from killcheck.results import Matrix, RunResult
from killcheck.run.gate import worst
from killcheck.run.matrix import judged
from killcheck.run.planned import PlannedDrill
from killcheck.spec.killpath import KillPath
from killcheck.text.values import replace
from killcheck.verdict import EXIT_CODES, DrillResult, Verdict, overall

__all__ = ["standing"]


def standing(
    found: Certificate, kill_path: KillPath, planned: Sequence[PlannedDrill], without: Iterable[str] = ()
) -> tuple[RunResult, Matrix]:
    """What a certificate says of these drills, judged by the policy of the kill path in hand.

    A drill that it has not is inconclusive. A certificate that is not good as a whole lets nothing pass.
    """
    said: dict[tuple[str, tuple[str, ...]], DrillResult] = {}
    for one in found.drills:
        if not one.title and (_key(one) not in said or not one.proven):  # of the same drill twice: the worse one
            said[_key(one)] = one
    results = [_accepted(said.get(_key(one)) or _missing(found, one), one) for one in planned]
    matrix = judged(kill_path, planned, results, left_out=without)
    verdict, code = overall(results)
    if matrix.failures():
        code = code or EXIT_CODES["exposed"]
    return RunResult(found.run, verdict, worst([code, found.exit_code]), tuple(results), None), matrix


def _key(drill: DrillResult | PlannedDrill) -> tuple[str, tuple[str, ...]]:
    return drill.layer, tuple(sorted(drill.faults))


def _missing(found: Certificate, due: PlannedDrill) -> DrillResult:
    why = f"{found.file} has no drill of it: certify a run of killcheck drill --matrix, or gate with --quick"
    return DrillResult(due.layer, due.faults, Verdict.INCONCLUSIVE, why)


def _accepted(result: DrillResult, due: PlannedDrill) -> DrillResult:
    return replace(result, accepted=due.accepted(result))
