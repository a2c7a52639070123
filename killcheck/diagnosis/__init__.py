"""Why a drill got stuck: what a person would find after ten minutes of kubectl, with the evidence and the remedy.

Rules are asked in order, the most specific first; each reads conditions, container statuses, events and logs and
answers with a :class:`Diagnosis` or None. What may *not* live here: verdicts, and any call that changes something.
"""

from __future__ import annotations

from killcheck.diagnosis import executor, nodes, targets
from killcheck.diagnosis.case import Case, Diagnosis
from killcheck.diagnosis.credentials import cloud_credentials
from killcheck.diagnosis.ecr import ecr_login
from killcheck.diagnosis.queues import held_not_drained
from killcheck.spec.phases import words_of
from killcheck.text.values import replace

__all__ = ["Case", "Diagnosis", "diagnose", "executor_fails"]

#: Something that came on again is the matter, whatever else is to be seen.
_RULES = (
    targets.made_again,
    targets.scaled_back,
    cloud_credentials,
    ecr_login,
    held_not_drained,
    *executor.RULES,
    *targets.RULES,
    *nodes.RULES,
)

#: Rules whose remedies make the layer survive what was done to it.
_LASTING = (ecr_login, held_not_drained)


def executor_fails(case: Case) -> bool:
    """Whether it is to be seen that the executor fails, however little time has passed."""
    return any(rule(case) is not None for rule in executor.FAILURES)


def diagnose(case: Case) -> Diagnosis:
    """The first rule that recognises what happened; an honest 'do not know' with all the evidence otherwise."""
    own = case.layer.explain(case.stuck_at)
    if own is not None:
        return Diagnosis(own.cause, own.evidence, own.remedy, own.failures, lasting=own.lasting)
    for rule in _RULES:
        found = rule(case)
        if found is not None:
            return replace(found, lasting=rule in _LASTING)
    return Diagnosis(
        cause=f"stuck before {words_of(case.stuck_at)}, and nothing that Kubernetes says explains it",
        evidence=tuple(case.last_words()),
        remedy="read the timeline in the run record; the objects are still there while the drill has not healed",
    )
