"""killcheck pulls the switch that turns your GPUs off, sabotages what it depends on, and proves that the bill stops.

The public API is what ``__all__`` names; everything else may change. Each name is imported when it is first used, so
that ``import killcheck`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from killcheck.version import __version__

if TYPE_CHECKING:
    from killcheck.capabilities.cluster import ClusterError
    from killcheck.fence import FenceReport
    from killcheck.kube.errors import KubeError
    from killcheck.kube.manifests import ManifestError
    from killcheck.lint.asking import LintResult
    from killcheck.probes import Finding
    from killcheck.results import Matrix
    from killcheck.run.public import load_spec, read_results, run_drill, run_fence, run_lint, run_matrix
    from killcheck.spec.killpath import KillPath, Layer, NodePool, Outcome, Proof, Target
    from killcheck.spec.specfile import SpecError
    from killcheck.verdict import DrillResult, Verdict

__all__ = [
    "ClusterError",
    "DrillResult",
    "FenceReport",
    "Finding",
    "KillPath",
    "KubeError",
    "Layer",
    "LintResult",
    "ManifestError",
    "Matrix",
    "NodePool",
    "Outcome",
    "Proof",
    "SpecError",
    "Target",
    "Verdict",
    "__version__",
    "load_spec",
    "read_results",
    "run_drill",
    "run_fence",
    "run_lint",
    "run_matrix",
]

_HOMES = {
    "ClusterError": "killcheck.capabilities.cluster",
    "DrillResult": "killcheck.verdict",
    "FenceReport": "killcheck.fence",
    "Finding": "killcheck.probes",
    "KillPath": "killcheck.spec.killpath",
    "KubeError": "killcheck.kube.errors",
    "Layer": "killcheck.spec.killpath",
    "LintResult": "killcheck.lint.asking",
    "ManifestError": "killcheck.kube.manifests",
    "Matrix": "killcheck.results",
    "NodePool": "killcheck.spec.killpath",
    "Outcome": "killcheck.spec.killpath",
    "Proof": "killcheck.spec.killpath",
    "SpecError": "killcheck.spec.specfile",
    "Target": "killcheck.spec.killpath",
    "Verdict": "killcheck.verdict",
    "load_spec": "killcheck.run.public",
    "read_results": "killcheck.run.public",
    "run_drill": "killcheck.run.public",
    "run_fence": "killcheck.run.public",
    "run_lint": "killcheck.run.public",
    "run_matrix": "killcheck.run.public",
}


def __getattr__(name: str) -> Any:
    """What ``__all__`` names, from where it lives."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
