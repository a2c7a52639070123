"""``killcheck fence --live``: what it says before, while and after a canary is out."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands.drill import go_on
from killcheck.commands.saying import say

if TYPE_CHECKING:
    from killcheck.commands.fence_subject import Subject
    from killcheck.fence import Ask, FenceReport
    from killcheck.fence.live import Canary, CanaryResult
    from killcheck.safety.consent import Plan

__all__ = ["run"]

_EXIT = {"held": 0, "refused": 0, "launched": 1, "unproven": 3}
#: From best to worst.
_ORDER = (0, 3, 1, 5)


def run(subject: Subject, report: FenceReport, options: dict[str, Any]) -> int:
    """Send it out, print everything, return the exit code: the worse of the evaluation's and the canary's."""
    from killcheck import fence
    from killcheck.clock import wall_now
    from killcheck.fence.flight import fly
    from killcheck.fence.live import CanaryRefused
    from killcheck.run.runner import Declined, state_dir

    assert subject.cluster is not None
    assert subject.kill_path is not None
    if not options["as_json"]:
        _show(report, options)
    canary = _canary(subject, options)
    expected = fence.would(
        subject.objects,
        canary.devices,
        namespace=canary.namespace,
        catalogue=subject.catalogue,
        account=subject.account,
        doubts=subject.doubts,
        nodes=subject.nodes,
    )
    try:
        result = fly(
            subject.cluster,
            subject.kill_path,
            canary,
            expected,
            run=f"{wall_now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
            folder=state_dir(),
            approve=_approve(canary, options),
            kubeconfig=str(options["kubeconfig"] or ""),
        )
    except CanaryRefused as error:
        return _refused(report, canary, error.expected, str(error), options)
    if result is None:
        raise Declined("the plan was not approved: nothing was changed")
    code = _worse(report.exit_code, 5 if result.left else _EXIT[result.outcome])
    if options["as_json"]:
        _print(
            report,
            canary,
            {
                "outcome": result.outcome,
                "expected": expected.outcome,
                "evidence": list(result.evidence),
                "waited_s": round(result.waited_s, 1),
                "left": list(result.left),
            },
            code,
        )
    else:
        _tell(canary, expected, result)
    for line in result.left:
        say(f"killcheck: could not be taken back: {line}", err=True)
    return code


def _canary(subject: Subject, options: dict[str, Any]) -> Canary:
    from killcheck.fence.live import Canary
    from killcheck.text.durations import parse_duration

    assert subject.cluster is not None
    assert subject.kill_path is not None
    try:
        deadline_s = parse_duration(options["deadline"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    most = subject.ceiling.max_devices_per_node
    if options["ask"] is None and most is None:
        raise click.UsageError("--ask N: no ceiling says how many devices a node may have (fences.maxDevicesPerNode)")
    places = (options["namespace"], *subject.kill_path.consent.namespaces, *subject.kill_path.namespaces)
    namespace = next((place for place in places if place), "")
    if not namespace:
        raise click.UsageError("--namespace NAME: the spec names none")
    return Canary(
        subject.cluster.kube, subject.cluster.loop, namespace, options["ask"] or (most or 0) + 1, deadline_s=deadline_s
    )


def _approve(canary: Canary, options: dict[str, Any]) -> Callable[[Plan], bool]:
    def approve(plan: Plan) -> bool:
        """Show the plan on standard error, and have a person (or --yes) say whether to go on."""
        from killcheck.reports.terminal import Terminal

        # Standard output is the document's where one is asked for.
        Terminal(color=False if options["no_color"] else None, file=sys.stderr).plan(plan)
        if not options["yes"]:
            if not sys.stdin.isatty():
                say("killcheck: not a terminal: say --yes to make a pod on a real cluster", err=True)
                return False
            if not go_on():
                return False
        say(f"killcheck: {canary.namespace}/{canary.name} is out, for {canary.deadline_s:.0f} s at most", err=True)
        return True

    return approve


def _worse(*codes: int) -> int:
    return max(codes, key=_ORDER.index)


def _show(report: FenceReport, options: dict[str, Any]) -> None:
    from killcheck.reports.fences_terminal import show

    show(report, color=False if options["no_color"] else None)


def _refused(report: FenceReport, canary: Canary, expected: Ask, why: str, options: dict[str, Any]) -> int:
    """It was not sent out: that it would launch is an exposure, that nobody knows is nothing proven."""
    code = _worse(report.exit_code, 1 if expected.outcome == "launches" else 3)
    if options["as_json"]:
        _print(report, canary, {"outcome": "not sent", "expected": expected.outcome, "evidence": [why]}, code)
    else:
        say(f"\ncanary: not sent out: {why}")
    return code


def _tell(canary: Canary, expected: Ask, result: CanaryResult) -> None:
    say(f"\ncanary: {canary.devices} x {canary.resource} in {canary.namespace}: {result.outcome}")
    for line in result.evidence:
        say(f"  {line}")
    say(f"  expected: {expected.outcome}: {expected.by}")


def _print(report: FenceReport, canary: Canary, told: dict[str, Any], code: int) -> None:
    verdict = {0: "safe", 1: "exposed", 3: "unproven", 5: "dirty"}[code]
    asked = {"namespace": canary.namespace, "resource": canary.resource, "devices": canary.devices}
    click.echo(
        json.dumps(report.document() | {"verdict": verdict, "exit_code": code, "canary": {**asked, **told}}, indent=2)
    )
