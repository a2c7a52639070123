"""An executor that ended well, and GPUs that are on: what it passed over, only tried, or was refused and hid."""

from __future__ import annotations

from collections.abc import Mapping

from killcheck.diagnosis.case import Case, Diagnosis
from killcheck.diagnosis.meanings import gone_group, meaning
from killcheck.executor import refusals
from killcheck.kube.objects import name_of, namespace_of, uid_of
from killcheck.text import lazy_re
from killcheck.text.jsontext import from_text

__all__ = ["false_green"]

#: How kubectl says that nothing was changed (cli-runtime, printers: ``(dry run)``, ``(server dry run)``).
_DRY = lazy_re.compile(r"\((?:server )?dry run\)|\(client dry run\)")

_FAILS = "let the executor fail when its call fails (curl -f, set -eu, no '|| true')"


def _refusal(log: str) -> str | None:
    """The message of the Status that the API answered with, or the line that tells of it."""
    begin, end = log.find("{"), log.rfind("}")
    try:
        return str(from_text(log[begin : end + 1])["message"])
    except (ValueError, KeyError, TypeError):
        return _line_with(log, '"message"', "forbidden", "unauthorized", "not found", "error")


def _line_with(log: str, *marks: str) -> str | None:
    for line in log.splitlines():
        if any(mark in line.lower() for mark in marks):
            return line.strip().strip('",')[:300]
    return None


def false_green(case: Case) -> Diagnosis | None:
    """The Job is Complete and the GPUs are on."""
    done = case.job_condition("Complete")
    if not done or case.stuck_at not in ("scale_written", "pods_terminating", "pods_gone"):
        return None
    if "scale_written" in case.timeline.reached:
        return None
    log = case.log()
    marked = any(mark in log for mark in ("Forbidden", "Unauthorized", "NotFound", "Failure"))
    told = refusals.refusal(log)
    why = _refusal(log) if marked else f"{meaning(told, case.pods)[0]}: {told.line}" if told is not None else ""
    on, off = _still_on(case)
    passed_over = ", ".join(on) if on and off and not why else ""
    words = refusals.last(log)[:200] if not why else ""
    halfway = _fewer(case) if not why and not passed_over else None
    tried = " - it asked for a dry run" if _DRY.search(words) else ""
    return Diagnosis(
        cause=f"false green: the Job is Complete, {passed_over or 'the GPUs'} {_are(on, passed_over)} on"
        + (f" - {why}" if why else halfway or tried),
        evidence=(
            f"Job {name_of(case.job)}: Complete, {done.get('reason', '')}",
            *(f"{name}: asks for {count} replica(s)" for name, count in on.items()),
            *(f"{name}: asks for none" for name in off),
            *case.log_lines(),
        ),
        remedy=_remedy(why, passed_over, words, halfway=bool(halfway), tried=bool(tried)),
        failures=(14,),
    )


def _remedy(why: str | None, passed_over: str, words: str, *, halfway: bool, tried: bool) -> str:
    if halfway:
        return "scale to 0: whatever is left holds its GPUs"
    if tried:
        return f'it said "{words}": take --dry-run away'
    gone = gone_group(why or "")
    if gone is not None:
        return f"{gone}; and {_FAILS}"
    return _to_act(passed_over, words)


def _fewer(case: Case) -> str | None:
    """What the executor wrote to a target that left some of it on; None: it is not known to have written."""
    own = f"Job {namespace_of(case.job)}/{name_of(case.job)}"
    for target in case.scene.kill_path.covered_by(case.layer.layer):
        count = case.scene.replicas(target) if target.kind else 0
        if count and any(case.scaled_by.get(uid_of(obj)) == own for obj in case.scene.objects_of(target)):
            return f" - it set {target} to {count}, not to 0"
    return None


def _to_act(passed_over: str, words: str) -> str:
    """What to do about an executor that ended well and left its targets on; ``words``: its last, where none failed."""
    if passed_over:
        return f"mend what the executor picks its targets by (a list, a selector, a name): it passes {passed_over} over"
    if words:
        return (
            f'it said "{words}", and nothing of a call that failed: mend what kept it from acting (a guard, a lock, a '
            f"selection that is empty), or {_FAILS}: never trust Complete, count the GPUs"
        )
    return f"{_FAILS}, and give it the rights it lacks: never trust Complete, count the GPUs"


def _are(on: Mapping[str, int], named: str) -> str:
    return "is" if named and len(on) == 1 else "are"


def _still_on(case: Case) -> tuple[dict[str, int], list[str]]:
    """(How many replicas each covered target asks for that asks for any, those that ask for none)."""
    targets = [t for t in case.scene.kill_path.covered_by(case.layer.layer) if t.kind]
    asked = {str(target): case.scene.replicas(target) for target in targets}
    return {name: count for name, count in asked.items() if count}, [name for name, count in asked.items() if not count]
