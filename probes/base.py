"""What a probe is, and what it answers: findings with their evidence, their place and their remedy."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from killcheck.kube.objects import Obj, dig, name_of, namespace_of, ref_of
from killcheck.text.yamlfile import Path, format_path

if TYPE_CHECKING:
    from killcheck.probes.world import World

__all__ = ["NOT_PROVEN", "SEVERITIES", "At", "Basis", "Evidence", "Finding", "Probe", "Severity", "merge_patch"]

Severity = Literal["error", "warning", "note"]
Basis = Literal["read", "seen"]
#: SARIF's, the worst first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
#: How the message of a finding begins that says what could not be answered.
NOT_PROVEN = "not proven: "
#: How much of a value is shown as evidence.
_SHOWN = 200


class Evidence(NamedTuple):
    """What was read: an object (``CronJob/inference/nightly-off``), the path of a field in it, its value as text."""

    object: str
    path: str
    value: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong with one object. ``unproven``: the question could not be answered; what was missing is said.

    ``patch`` is a command that mends it, where one is safe to give. ``line`` is 1-based, 0 where there is no file.
    """

    probe: str
    severity: Severity
    object: str
    message: str
    remedy: str
    evidence: tuple[Evidence, ...] = ()
    patch: str = ""
    file: str = ""
    line: int = 0
    unproven: bool = False
    failures: tuple[int, ...] = field(default=(), compare=False)
    #: How many GPUs it is about, where that says what comes first.
    gpus: int = field(default=0, compare=False)
    #: How it is known: a field or a command was ``read``, or what a program did was ``seen`` in a rehearsal.
    basis: Basis = field(default="read", compare=False)
    #: What of it an embedded cluster has no measure of, a sentence: no drill there disproves it.
    unmeasured: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """What is quoted begins no line of its own: it would be read as killcheck's word."""
        for name in ("object", "message", "file"):
            said = getattr(self, name)
            if "\n" in said or "\r" in said:
                object.__setattr__(self, name, " ".join(said.split()))

    @property
    def question(self) -> str:
        """What it says, and of what could not be answered what that was."""
        return self.message.removeprefix(NOT_PROVEN)

    def to_json(self) -> dict[str, Any]:
        """As the JSON document has it (schema killcheck.result/v1, an entry of ``findings``)."""
        return {
            "probe": self.probe,
            "severity": self.severity,
            "object": self.object,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": [entry._asdict() for entry in self.evidence],
            "patch": self.patch or None,
            "file": self.file or None,
            "line": self.line or None,
            "unproven": self.unproven,
            "failures": list(self.failures),
            "basis": self.basis,
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Finding:
        """What :meth:`to_json` wrote. Raises KeyError for what is missing."""
        return cls(
            said["probe"],
            said["severity"],
            said["object"],
            said["message"],
            said["remedy"],
            tuple(Evidence(**entry) for entry in said["evidence"]),
            said.get("patch") or "",
            said.get("file") or "",
            said.get("line") or 0,
            unproven=said.get("unproven", False),
            failures=tuple(said.get("failures", ())),
            basis=said.get("basis", "read"),
        )


class At(NamedTuple):
    """A line of a script: ``number`` (1-based) of the text at ``path`` of ``obj``. ``file``: what it is called in its
    container, empty for a command line; ``points``: whether the finding is best mended there."""

    obj: Obj
    path: Path
    number: int
    text: str
    file: str = ""
    points: bool = True

    def __str__(self) -> str:
        of = f" of {self.file}" if self.file else ""
        return f"line {self.number}{of}: {self.text}"


class Probe(ABC):
    """One read-only question. ``claim`` is what holds where it finds nothing, in one sentence.

    ``failures`` are rows of the catalogue of failures, ``sources`` where the facts come from, ``needs`` the kinds that
    must be readable for an answer, ``live`` whether only a running cluster can tell.
    """

    id: ClassVar[str]
    claim: ClassVar[str]
    remedy: ClassVar[str]
    #: Asked only where a person wants it: it needs something to ask with, or goes to the network.
    on_request: ClassVar[bool] = False
    #: Answered by what a rehearsal saw alone.
    rehearsed: ClassVar[bool] = False
    severity: ClassVar[Severity] = "error"
    failures: ClassVar[tuple[int, ...]]
    sources: ClassVar[tuple[str, ...]]
    needs: ClassVar[tuple[str, ...]] = ()
    live: ClassVar[bool] = False

    @abstractmethod
    def ask(self, world: World) -> Iterable[Finding]:
        """The findings; nothing is changed."""

    def finding(
        self,
        world: World,
        obj: Obj,
        path: Path,
        message: str,
        *,
        remedy: str = "",
        severity: Severity | None = None,
        patch: str = "",
        also: Iterable[tuple[Obj, Path]] = (),
        seen: bool = False,
        unmeasured: str = "",
        at: At | None = None,
    ) -> Finding:
        """A finding about the field at ``path`` of ``obj``; ``also`` are further fields that bear it out. ``seen``: in
        a rehearsal, where the question can be answered by reading too. ``unmeasured``: as Finding has it. ``at``: the
        line of a script that did it, which is told, and pointed at."""
        file, line = world.place(obj, path)
        if at is not None:
            message += f" ({at})"
            file, line = world.place_within(at.obj, at.path, at.number) if at.points else (file, line)
        return Finding(
            self.id,
            severity or self.severity,
            ref_of(obj),
            message,
            remedy or self.remedy,
            tuple(_evidence([(obj, path), *also])),
            patch,
            file,
            line,
            failures=self.failures,
            basis="seen" if seen or self.rehearsed else "read",
            unmeasured=unmeasured,
        )

    def unproven(self, world: World, obj: Obj | None, message: str, *, remedy: str = "") -> Finding:
        """What could not be answered, and why."""
        file, line = world.place(obj, ()) if obj else ("", 0)
        return Finding(
            self.id,
            "note",
            ref_of(obj) if obj else "",
            NOT_PROVEN + message,
            remedy or self.remedy,
            (),
            "",
            file,
            line,
            unproven=True,
            failures=self.failures,
        )


def _evidence(fields: Iterable[tuple[Obj, Path]]) -> Iterator[Evidence]:
    for obj, path in fields:
        value = dig(obj, *path)
        if obj.get("kind") == "Secret" and path[:1] != ("metadata",):
            text = "(not shown)"
        else:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
        yield Evidence(ref_of(obj), format_path(path), text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def merge_patch(obj: Obj, patch: dict[str, Any]) -> str:
    """The kubectl command for a merge patch of ``obj``."""
    namespace = f"-n {namespace_of(obj)} " if namespace_of(obj) else ""
    body = json.dumps(patch, separators=(",", ":"))
    return f"kubectl {namespace}patch {str(obj.get('kind', '')).lower()} {name_of(obj)} --type merge -p '{body}'"
