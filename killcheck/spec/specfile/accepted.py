"""The exposures that a team lives with for a while: ``killcheck.accepted.yaml`` beside ``killcheck.yaml``.

Each has an owner, a reason and a last day, and becomes a rule of the policy, before the spec's own rules. A day after
its last one it says nothing any more. What may *not* live here: what a drill found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from killcheck.spec.killpath import API_VERSION, Outcome, Rule
from killcheck.spec.specfile import shape
from killcheck.spec.specfile.errors import SpecError
from killcheck.spec.specfile.shape import fitted, one_document
from killcheck.text.files import enclosed
from killcheck.text.problems import Problem

if TYPE_CHECKING:
    from killcheck.spec.specfile.accepted_models import ExposureModel

__all__ = ["beside", "dump", "read", "rules"]

_HEAD = f"""\
# Exposures that somebody decided to live with for a while; killcheck accept writes this file.
# Each is a drill after which the GPUs stay on. After its last day (until) it fails the gate again.
apiVersion: {API_VERSION}
kind: Accepted
"""
_WRITES = " (killcheck accept writes one)"


def beside(spec: Path) -> Path:
    """Where the accepted exposures of a spec are: ``killcheck.accepted.yaml`` for ``killcheck.yaml``."""
    return spec.with_name(f"{spec.stem}.accepted.yaml")


def read(file: Path) -> tuple[Rule, ...]:
    """The rules of a file; none where there is no such file. Raises SpecError with every problem and its line."""
    if file.is_symlink() and not enclosed(file, file.parent):
        said = "a link that leads out of the spec's folder, not followed: put the file itself there"
        raise SpecError([Problem(str(file), 0, "", said)])
    return rules(shape.read(file), file) if file.exists() else ()


def rules(text: str, file: Path) -> tuple[Rule, ...]:
    """The rules of a file's text. Raises SpecError with every problem and its line."""
    from killcheck.spec.specfile.accepted_models import AcceptedModel

    document = one_document(text, str(file), what="file of accepted exposures", hint=_WRITES)
    return tuple(_rule(one) for one in fitted(document, AcceptedModel).exposures)


def dump(exposures: Iterable[Rule]) -> str:
    """The file's text; what :func:`read` gives back."""
    from yaml import safe_dump

    told = [
        {
            "layer": rule.layer,
            "fault": rule.fault,
            "cause": list(rule.causes),
            "owner": rule.owner,
            "reason": rule.reason,
            "until": rule.until.isoformat() if rule.until else None,
        }
        for rule in exposures
    ]
    document: dict[str, Sequence[Any]] = {"exposures": told}
    return _HEAD + safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def _rule(one: ExposureModel) -> Rule:
    return Rule(Outcome.KNOWN, one.layer, one.fault, tuple(one.cause), one.owner, one.reason, one.until)
