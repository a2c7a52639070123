"""Every series of a drill, from before its trigger to its end: what alert rules are evaluated on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct, field

from killcheck.promql.evaluation import Labels, Matrix, Unsupported, Vector
from killcheck.witnesses.exported import ABOUT_GPUS, BUSY, DONE, GPU_METRICS, KNOWN, Sample

__all__ = ["BEFORE_S", "STEP_S", "History"]

#: How often Prometheus looks, in seconds (its operator's default; both for scrapes and for rules).
STEP_S = 30.0
#: How long before the trigger the GPUs count as having been there, in seconds: longer than any range in use.
BEFORE_S = 7 * 24 * 3600.0
#: At how many moments one rule may look, of all series and over all its evaluations: some seconds' work. An expression
#: is whoever's who wrote the manifests.
MOMENTS = 10_000_000


class _Series(Struct):
    """A value that holds from its moment until the next; None: the series is not there."""

    moments: list[tuple[float, float | None]] = field(default_factory=list)

    def set(self, at: float, value: float | None) -> None:
        """From ``at`` on."""
        if not self.moments or self.moments[-1][1] != value:
            self.moments.append((at, value))

    def at(self, when: float) -> float | None:
        """The value then."""
        found = None
        for moment, value in self.moments:
            if moment > when:
                break
            found = value
        return found


class History(Struct):
    """Every series of a drill. ``start`` is the trigger."""

    start: datetime
    #: The GPUs stayed on, whatever was seen: pods and nodes that were there at the trigger never go, no Job succeeds.
    stay_on: bool = False
    #: Nobody saw which labels kube-state-metrics exports.
    labels_taken: bool = True
    #: Nobody saw how dcgm-exporter is scraped.
    honours_taken: bool = True
    _series: dict[str, dict[Labels, _Series]] = field(default_factory=dict)
    _there: set[tuple[str, Labels]] = field(default_factory=set)
    _looked: int = 0

    # -- promql.Source -------------------------------------------------------------------------------------
    def known(self, name: str) -> bool:
        """What :meth:`record` makes."""
        return name in KNOWN

    def begin(self) -> None:
        """Another rule: its moments are counted anew."""
        self._looked = 0

    def spend(self, moments: int) -> None:
        """Count moments that are looked at. Raises Unsupported where they are more than :data:`MOMENTS`."""
        self._looked += moments
        if self._looked > MOMENTS:
            raise Unsupported(f"it looks at more than {MOMENTS:,} moments")

    def epoch(self, at: float) -> float:
        """Unix time."""
        return self.start.timestamp() + at

    def instant(self, name: str, at: float) -> Vector:
        """Values then."""
        found = ((labels, series.at(at)) for labels, series in self._series.get(name, {}).items())
        return {labels: value for labels, value in found if value is not None}

    def window(self, name: str, at: float, length: float) -> Matrix:
        """One sample a scrape, of those in (at - length, at] (Prometheus 3: left-open)."""
        first = math.floor((at - length) / STEP_S) + 1
        first = max(first, math.floor(-BEFORE_S / STEP_S))  # before that there is nothing
        self.spend(len(self._series.get(name, {})) * (math.floor(at / STEP_S) + 1 - first))
        moments = [n * STEP_S for n in range(first, math.floor(at / STEP_S) + 1)]
        found = {}
        for labels, series in self._series.get(name, {}).items():
            sampled = ((moment, series.at(moment)) for moment in moments)
            kept = [(moment, value) for moment, value in sampled if value is not None]
            if kept:
                found[labels] = kept
        return found

    def label_names(self) -> frozenset[str]:
        """Every label of every series."""
        return frozenset(label for by_labels in self._series.values() for labels in by_labels for label, _ in labels)

    def labels_of(self, name: str) -> dict[str, set[str]]:
        """The values of each label of a metric's series."""
        found: dict[str, set[str]] = {}
        for labels in self._series.get(name, {}):
            for label, value in labels:
                found.setdefault(label, set()).add(value)
        return found

    def texts(self, name: str, moments: Sequence[float]) -> Iterator[tuple[Labels, list[float | None]]]:
        """The series of a metric, each with its value at some moments."""
        for labels, series in self._series.get(name, {}).items():
            yield labels, [series.at(moment) for moment in moments]

    def names(self) -> frozenset[str]:
        """Every metric that has series."""
        return frozenset(self._series)

    # -- recording -----------------------------------------------------------------------------------------
    def record(self, now: datetime, samples: Iterable[Sample]) -> None:
        """Everything as it is now; called at every change, first when the trigger is pulled."""
        at = max(0.0, (now - self.start).total_seconds())
        seen: set[tuple[str, Labels]] = set()
        for name, labels, value in samples:
            if self.stay_on and (name in DONE or (at and name in ABOUT_GPUS)):
                continue
            key = (name, frozenset(labels.items()))
            seen.add(key)
            series = self._series.setdefault(name, {}).setdefault(key[1], _Series())
            if not series.moments and at == 0.0:
                series.set(-BEFORE_S, BUSY.get(name, 1.0) if name in GPU_METRICS else value)
            series.set(at, value)
        for name, gone in self._there - seen:
            if not (self.stay_on and name in ABOUT_GPUS):
                self._series[name][gone].set(at, None)
        self._there |= seen
