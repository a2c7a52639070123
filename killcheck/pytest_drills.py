"""What the pytest plugin's fixtures hand out; imported only when a test asks for a drill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from killcheck import faults
from killcheck.drill import Options
from killcheck.pytest_settings import setting
from killcheck.reports.terminal import span
from killcheck.run import PlannedDrill, Run
from killcheck.session import Session
from killcheck.verdict import DrillResult, Verdict

__all__ = ["Drills", "explain", "session_for"]


def session_for(config: pytest.Config) -> Session:
    """The session that options, environment and ini name. Raises pytest.UsageError for what does not fit."""
    said = [Path(p) for p in config.getoption("--killcheck-manifests")]
    manifests = said or list(config.getini("killcheck_manifests"))
    mode = setting(config, "exec")
    if mode not in ("", "host", "docker", "none"):
        raise pytest.UsageError(f"--killcheck-exec is host, docker or none, not {mode!r}")
    spec, kubeconfig = setting(config, "spec"), setting(config, "kubeconfig")
    session = Session(
        spec=Path(spec) if spec else None, on=setting(config, "on") or "embedded", manifests=manifests,
        exec_mode=mode or None,  # type: ignore[arg-type]
        kubeconfig=Path(kubeconfig) if kubeconfig else None)
    if setting(config, "fixture"):
        session.fixture = setting(config, "fixture")
    return session


class Drills:
    """The ``drill`` fixture: callable, and remembers what it did for the report."""

    def __init__(self, session: Session, request: pytest.FixtureRequest) -> None:
        self.session = session
        self.request = request
        self.results: list[DrillResult] = []

    @property
    def last(self) -> DrillResult | None:
        """The newest result."""
        return self.results[-1] if self.results else None

    def __call__(self, layer: str, *, under: Sequence[str] = (), watch_s: float | None = None) -> DrillResult:
        """Drill ``layer`` under faults; ``watch_s``: seconds to watch while GPUs stay on (default: as the CLI does)."""
        folder = self.request.getfixturevalue("tmp_path_factory").mktemp("killcheck")
        planned = PlannedDrill(layer, faults.apart(under) if under else (), Options(horizon_s=watch_s))
        result = Run(self.session, [planned], folder=folder).execute().drills[0]
        self.results.append(result)
        _tell_allure(result)
        self.request.node.user_properties.append(("killcheck", _row(result)))
        if result.verdict is Verdict.INCONCLUSIVE:
            reason = f"inconclusive: {result.why}"
            if self.request.config.getoption("--killcheck-allow-inconclusive"):
                pytest.skip(reason)
            pytest.fail(reason, pytrace=False)
        return result

    def describe(self, report: Any, excinfo: Any) -> None:
        """Add what a person needs to a failed report."""
        for result in self.results:
            report.sections.append(("killcheck", explain(result)))
        if report.failed and self.results and excinfo is not None and excinfo.errisinstance(AssertionError):
            said = str(excinfo.value).splitlines()[0] if str(excinfo.value) else "the assertion does not hold"
            report.longrepr = f"{said}\n\n{explain(self.results[-1])}"


def _tell_allure(result: DrillResult) -> None:
    """Steps and attachments, where allure-pytest is installed; without its --alluredir they go nowhere."""
    try:
        import allure
    except ImportError:
        return
    for phase in result.phases:
        at = span(phase["at_s"]) if phase["at_s"] is not None else "never"
        with allure.step(f"{phase['phase']}: {at}"):
            pass
    allure.attach(explain(result), f"{result.layer}: timeline", allure.attachment_type.TEXT)
    allure.attach(json.dumps(result.to_json(), indent=2), f"{result.layer}: result", allure.attachment_type.JSON)


def explain(result: DrillResult) -> str:
    """A result as a person reads it: verdict, cause, remedy, evidence, phases."""
    lines = [f"{_row(result)}", f"  {result.why}"]
    if result.cause:
        lines += [f"  stuck before {result.stuck_at}", f"  cause:  {result.cause}", f"  remedy: {result.remedy}"]
        lines += [f"    {line}" for line in result.evidence]
    for phase in result.phases:
        at = span(phase["at_s"]) if phase["at_s"] is not None else "never"
        limit = f" (deadline {span(phase['deadline_s'])})" if phase["deadline_s"] is not None else ""
        lines.append(f"  {phase['phase']:<18} {at}{limit}")
    return "\n".join(lines)


def _row(result: DrillResult) -> str:
    under = f" under {', '.join(result.faults)}" if result.faults else ""
    zero = f", GPUs off after {span(result.seconds_to_zero)}" if result.seconds_to_zero is not None else ""
    return f"{result.layer}{under}: {result.verdict}{zero}"
