"""What of the manifests was not read, and why: as data, since a switch or a holder may be in what nobody read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs

from killcheck.kube.objects import Obj
from killcheck.kube.resources import by_kind
from killcheck.text import lazy_re
from killcheck.text.shown import brief

__all__ = ["SPEC", "Cause", "Skipped", "kind_of", "names_accelerators", "outside", "summed_up"]

#: What a document is, and no object of Kubernetes.
SPEC = "a killcheck spec"
#: Built-in kinds that run programs.
_RUN = frozenset(
    {"Pod", "ReplicationController", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"}
)
#: So many are shown of a class before the rest is a number.
_SHOWN = 3
#: Without one of these words no line names an accelerator.
_WORDS = ("gpu", "tpu", "neuron", "accelerator", "gaudi", "ascend", "nvidia.com/mig", "shared")
#: So many characters before and after such a word are looked at.
_BESIDE = 128
#: Accelerators as text of any kind writes them: extended resources, node labels, what managed services call them, and
#: counts (a model's vocabulary has numbers of five digits beside its words).
_ACCELERATORS = lazy_re.compile(
    r"(?:nvidia|amd|gpu\.intel|habana|huawei)\.(?:com|ai)[/_](?:gpu|mig|gaudi|ascend|shared|pgpu)"
    r"|google\.com/tpu|aws\.amazon\.com/neuron|gke-(?:accelerator|tpu)|k8s\.amazonaws\.com/accelerator"
    r"|(?:\b(?:request|num|n)_?gpus?\b['\"]?\s*[:=]|\bgpus?(?:_?(?:count|per_?\w+))?['\"]?:)\s*['\"]?[1-9]\d{0,3}(?!\d)",
    re.IGNORECASE,
)


_POOLS = lazy_re.compile(
    r"\bkarpenter\.|\bNode(?:Pool|Claim|Overlay|Group|group)\b|\bMachine(?:Pool|Set|Deployment)\b|AgentPool\b"
    r"|\bComputeClass\b|\bClusterConfig\b|\.(?:crossplane|upbound)\.io\b|\bcluster\.x-k8s\.io\b|\bkops\.k8s\.io\b"
)


class Cause(StrEnum):
    """Why something was passed over."""

    BROKEN = "broken"
    REFUSED = "refused"
    TEMPLATE = "template"
    CHART = "chart"
    KUSTOMIZATION = "kustomization"
    UNLISTED = "unlisted"
    ELSEWHERE = "elsewhere"
    OUTSIDE = "outside"
    UNREADABLE = "unreadable"
    LEFT_OUT = "left-out"
    CONFIGURATION = "configuration"
    NO_MANIFEST = "no-manifest"
    SPEC = "spec"

    @property
    def many(self) -> str:
        """What several of them are called."""
        return _MANY[self]

    @property
    def may_hold(self) -> bool:
        """Whether a switch or a holder may be in there: everything but files that are certainly no manifests."""
        return self not in (Cause.CONFIGURATION, Cause.NO_MANIFEST, Cause.SPEC)

    @property
    def is_fault(self) -> bool:
        """Whether somebody wrote it for Kubernetes and Kubernetes would not read it: an error under ``strict``."""
        return self in (Cause.BROKEN, Cause.REFUSED, Cause.TEMPLATE, Cause.UNREADABLE)


_MANY = {
    Cause.BROKEN: "documents are not YAML",
    Cause.REFUSED: "documents no API server would take",
    Cause.TEMPLATE: "templates were not rendered",
    Cause.CHART: "Helm charts were not rendered",
    Cause.KUSTOMIZATION: "kustomizations were not rendered",
    Cause.UNLISTED: "manifests are not among the resources of the kustomization beside them",
    Cause.ELSEWHERE: "things are named and not here, and nothing is downloaded",
    Cause.OUTSIDE: "schedules act from outside Kubernetes",
    Cause.UNREADABLE: "files cannot be read",
    Cause.LEFT_OUT: "are left out as it was asked",
    Cause.CONFIGURATION: "are configurations of programs, not objects",
    Cause.NO_MANIFEST: "files are no manifests",
    Cause.SPEC: "are killcheck specs",
}


class Skipped(Struct, frozen=True):
    """A file, or a document of one, that was not loaded, and why.

    ``line`` is 1-based, 0 for the file as a whole. ``names_gpus``: its text names accelerators. ``files``: those that
    it would have changed, or been read beside: of a kustomization that was not rendered, all that its resources name.
    Of a chart they are its own.
    ``floors``: groups of machines with GPUs that a cluster's configuration always keeps, and how many.
    ``of``: the ``apiVersion`` and ``kind`` of a document that says them, as text where it is broken; empty: not known.
    ``document``: itself, where it is no object and says which machines a cluster has (eksctl's).
    ``launching``: what in it makes nodes, and is not evaluated (Terraform's, CloudFormation's, a script's);
    ``costing``: the same of what has no GPUs. ``starts``: what it starts from outside Kubernetes, and by what.
    ``names_pools``: its text names pools of nodes.
    """

    file: str
    line: int
    why: str
    cause: Cause = Cause.NO_MANIFEST
    names_gpus: bool = False
    files: tuple[str, ...] = ()
    floors: tuple[tuple[str, int], ...] = ()
    of: tuple[str, str] = ("", "")
    document: Obj | None = None
    launching: tuple[str, ...] = ()
    costing: tuple[str, ...] = ()
    starts: str = ""
    names_pools: bool = False

    def __post_init__(self) -> None:
        structs.force_setattr(self, "why", brief(self.why))

    @property
    def place(self) -> str:
        """``file:line``, or the file."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def matters(self) -> bool:
        """Whether a switch or a holder may be in there; a file of values that names GPUs asks for them somewhere."""
        return self.cause.may_hold or (self.cause is Cause.NO_MANIFEST and self.names_gpus)

    @property
    def undermines(self) -> bool:
        """Whether a drill of the rest proves nothing: Kubernetes objects that were not read, or GPUs unseen."""
        return self.cause.is_fault or (self.cause.may_hold and self.names_gpus and self.cause is not Cause.LEFT_OUT)

    @property
    def may_launch(self) -> bool:
        """Whether it :attr:`undermines` a fence: what launches machines is of no kind that is built in.

        Of what is named and not here nobody knows what it is, nor of what is broken.
        """
        if self.cause is Cause.LEFT_OUT or (self._built_in and self.cause is not Cause.BROKEN):
            return False
        return self.undermines or self.cause is Cause.ELSEWHERE or (self.cause.may_hold and self.names_pools)

    @property
    def may_switch(self) -> bool:
        """Whether a switch or a holder may be in there: it names GPUs, or its kind runs or scales something."""
        if self.names_gpus or not self.of[1]:
            return True
        return self.of[1] in _RUN if self._built_in else by_kind(*self.of) is not None

    @property
    def _built_in(self) -> bool:
        version, kind = self.of
        group = version.partition("/")[0] if "/" in version else ""
        return bool(kind) and ("." not in group or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io")))


def kind_of(obj: Any) -> tuple[str, str]:
    """The ``apiVersion`` and ``kind`` of whatever a document holds; empty where it says none."""
    said = obj if isinstance(obj, dict) else {}
    return str(said.get("apiVersion") or ""), str(said.get("kind") or "")


def names_accelerators(text: str) -> bool:
    """Whether a text of any form names accelerators."""
    lower = text.lower()
    return any(_ACCELERATORS.search(lower, *span) for word in _WORDS for span in _beside(word, lower))


def names_pools(text: str) -> bool:
    """Whether a text of any form names what launches machines for pods."""
    return _POOLS.search(text) is not None


def _beside(word: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a word is, with what its line has beside it: fast in files, and in lines, of megabytes."""
    at = text.find(word)
    while at >= 0:
        begin, end = max(0, at - _BESIDE), min(len(text), at + _BESIDE)
        line_ends = text.find("\n", at, end)
        yield max(begin, text.rfind("\n", begin, at) + 1), end if line_ends < 0 else line_ends
        at = text.find(word, at + _BESIDE // 2 if line_ends < 0 else line_ends)


def summed_up(skipped: Iterable[Skipped], *, verbose: bool = False) -> list[str]:
    """One line a cause, with how many there are, how many name GPUs, and the first few; all of them if ``verbose``."""
    by_cause: dict[Cause, list[Skipped]] = {}
    for one in skipped:
        by_cause.setdefault(one.cause, []).append(one)
    return [line for cause in Cause if cause in by_cause for line in _lines(cause, by_cause[cause], verbose)]


def _lines(cause: Cause, members: list[Skipped], verbose: bool) -> list[str]:
    if len(members) == 1 or verbose:
        read = cause in (Cause.CHART, Cause.KUSTOMIZATION)  # their reasons begin with what was not done
        return [f"{one.place}: {one.why}" if read else f"{one.place}: not read: {one.why}" for one in members]
    named = sorted(members, key=lambda one: not one.names_gpus)
    with_gpus = sum(one.names_gpus for one in members)
    which = f", {'all' if with_gpus == len(members) else with_gpus} of them naming GPUs" if with_gpus else ""
    first = named[0]
    more = ", ".join(one.place for one in named[1:_SHOWN])
    rest = f", and {len(members) - _SHOWN} more" if len(members) > _SHOWN else ""
    return [f"{len(members)} {cause.many}{which}: {first.place} ({first.why}), {more}{rest}"]


def outside(starts: str) -> str:
    """Why a file is passed over that starts something from outside Kubernetes."""
    return f"{starts}: a switch or a starter may be in there"
