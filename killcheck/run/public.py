"""The calls of the public API: what the command does, as functions that answer with typed results.

What may *not* live here: anything that the command cannot do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from killcheck import faults
from killcheck.drill.sequence import Options
from killcheck.fence import FenceReport
from killcheck.lint.asking import LintResult
from killcheck.results import Matrix
from killcheck.run import matrix as cells
from killcheck.run import parallel, reading
from killcheck.run.chosen import chosen
from killcheck.run.matrix import judged
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import ExecMode, Session
from killcheck.safety.consent import Plan
from killcheck.spec import specfile
from killcheck.spec.killpath import KillPath
from killcheck.verdict import DrillResult

__all__ = ["load_spec", "read_results", "run_drill", "run_fence", "run_lint", "run_matrix"]

Approve = Callable[[Plan], bool]


def nobody(_plan: Plan) -> bool:
    return False


def load_spec(path: Path | str) -> KillPath:
    """The kill path that a ``killcheck.yaml`` describes. Raises SpecError, whose message names file and line."""
    return specfile.load(path)


def run_drill(
    spec: Path | str | None = None,
    *,
    layer: str,
    under: Sequence[str] = (),
    manifests: Sequence[Path | str] = (),
    on: str = "embedded",
    exec_mode: ExecMode | None = None,
    kubeconfig: Path | str | None = None,
    approve: Approve = nobody,
    horizon_s: float | None = None,
) -> DrillResult:
    """Pull one layer's trigger under zero or more faults, and watch until proof or deadline.

    ``layer`` and ``under`` are names as the command takes them. ``manifests``: files and folders that the embedded
    cluster is made of; without ``spec`` the kill path is found in them. ``on``: ``embedded``, or a kubeconfig context
    that the spec's consent names. There ``approve`` is asked before anything is changed, and nobody approves unless
    it is given. ``exec_mode``: how executors' commands run on the embedded cluster. ``horizon_s``: how many seconds to
    watch at most where the GPUs stay on.

    Raises SpecError, ManifestError, SessionError, ClusterError, KubeError, ConsentError, Declined, and KeyError for a
    layer or a fault that does not exist. What was not seen is no error: the verdict is inconclusive.
    """
    session = _session(spec, manifests, on, exec_mode, kubeconfig)
    session.kill_path.layer(layer)
    names = faults.resolved(under, session.layer_names) if under else ()
    planned = PlannedDrill(layer, names, Options(horizon_s=horizon_s))
    return Run(session, [planned], approve=approve).execute().drills[0]


def run_matrix(
    spec: Path | str | None = None,
    *,
    layers: Sequence[str] = (),
    under: Sequence[str] = (),
    manifests: Sequence[Path | str] = (),
    on: str = "embedded",
    exec_mode: ExecMode | None = None,
    kubeconfig: Path | str | None = None,
    approve: Approve = nobody,
) -> Matrix:
    """Every layer undisturbed and under every fault that applies; ``layers`` and ``under`` narrow it (``a+b``: both).

    Arguments and errors are those of :func:`run_drill`.
    """
    session = _session(spec, manifests, on, exec_mode, kubeconfig)
    for layer in layers:
        session.kill_path.layer(layer)
    named = {word: faults.resolved([word], session.layer_names) for word in under}
    planned = cells.plan(
        session.kill_path,
        only_layers=layers,
        only_faults=[word for word in named if not {"+", "@"} & set(word)],
        together=[names for word, names in named.items() if {"+", "@"} & set(word)],
        capabilities=session.capabilities,
        objects=() if session.real else session.objects,
    )
    result = Run(session, planned, approve=approve, workers=parallel.drilling()).execute()
    return judged(session.kill_path, planned, result.drills)


def run_lint(
    spec: Path | str | None = None,
    *,
    manifests: Sequence[Path | str] = (),
    on: str = "embedded",
    kubeconfig: Path | str | None = None,
) -> LintResult:
    """What every probe finds, by reading alone. Raises SpecError, ManifestError, SessionError, KubeError."""
    return reading.findings(_session(spec, manifests, on, None, kubeconfig))


def run_fence(
    spec: Path | str | None = None,
    *,
    manifests: Sequence[Path | str] = (),
    on: str = "embedded",
    kubeconfig: Path | str | None = None,
) -> FenceReport:
    """What could be launched at worst, by the spec's ceiling; dollars are an hour's.

    Raises SpecError, ManifestError, SessionError, KubeError, AccountError.
    """
    return reading.fences(_session(spec, manifests, on, None, kubeconfig))


def read_results(document: str) -> list[DrillResult]:
    """The drills of a ``killcheck.result/v1`` document (what ``--json`` printed). Raises ValueError for another."""
    said = json.loads(document)
    if not isinstance(said, dict) or said.get("schema") != "killcheck.result/v1":
        raise ValueError("expected a JSON document of schema killcheck.result/v1")
    return [DrillResult.from_json(one) for one in said["drills"]]


def _session(
    spec: Path | str | None,
    manifests: Sequence[Path | str],
    on: str,
    exec_mode: ExecMode | None,
    kubeconfig: Path | str | None,
) -> Session:
    return chosen(
        spec=Path(spec) if spec is not None else None,
        manifests=[Path(one) for one in manifests],
        on=on,
        exec_mode=exec_mode,
        kubeconfig=Path(kubeconfig) if kubeconfig is not None else None,
    )
