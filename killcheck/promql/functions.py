"""The functions of PromQL that are understood, on plain values and samples.

Sources: prometheus/prometheus promql/functions.go (extrapolatedRate, instantValue, funcChanges, funcResets,
funcRound, quantile), promql/engine.go (aggregations).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

__all__ = ["AGGREGATES", "OF_TIME", "OF_VALUES", "OVER_TIME", "PARAMETER_OVER_TIME", "RATES", "quantile"]

#: A moment in seconds since the trigger, and the value there.
Samples = Sequence[tuple[float, float]]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    middle = _mean(values)
    return _mean([(value - middle) ** 2 for value in values])


def quantile(q: float, values: Sequence[float]) -> float:
    """As Prometheus interpolates; infinite outside 0 to 1."""
    if not values or math.isnan(q):
        return math.nan
    if not 0 <= q <= 1:
        return math.inf if q > 1 else -math.inf
    ordered, rank = sorted(values), q * (len(values) - 1)
    low, high = math.floor(rank), min(math.floor(rank) + 1, len(values) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "count": lambda values: float(len(values)),
    "avg": _mean,
    "group": lambda values: 1.0,
    "stddev": lambda values: math.sqrt(_variance(values)),
    "stdvar": _variance,
}
OVER_TIME: Mapping[str, Callable[[Sequence[float]], float]] = {
    "avg_over_time": _mean,
    "min_over_time": min,
    "max_over_time": max,
    "sum_over_time": sum,
    "count_over_time": lambda values: float(len(values)),
    "last_over_time": lambda values: values[-1],
    "present_over_time": lambda values: 1.0,
    "stddev_over_time": lambda values: math.sqrt(_variance(values)),
    "stdvar_over_time": _variance,
    "changes": lambda values: float(sum(a != b for a, b in pairwise(values))),
    "resets": lambda values: float(sum(b < a for a, b in pairwise(values))),
}
#: With a number before the range.
PARAMETER_OVER_TIME: Mapping[str, Callable[[float, Sequence[float]], float]] = {"quantile_over_time": quantile}


def _extrapolated(samples: Samples, start: float, end: float, *, counter: bool, per_second: bool) -> float | None:
    """``rate``, ``increase`` and ``delta``: the difference over a range, stretched to its edges. None: too few."""
    if len(samples) < 2:
        return None
    (first_at, first), (last_at, last) = samples[0], samples[-1]
    difference = last - first
    if counter:
        difference += sum(a for (_, a), (_, b) in pairwise(samples) if b < a)
    sampled, to_start, to_end = last_at - first_at, first_at - start, end - last_at
    between = sampled / (len(samples) - 1)
    threshold = between * 1.1
    if to_start >= threshold:
        to_start = between / 2
    if counter and difference > 0 and first >= 0:
        to_start = min(to_start, sampled * first / difference)
    if to_end >= threshold:
        to_end = between / 2
    stretched = difference * (sampled + to_start + to_end) / sampled
    return stretched / (end - start) if per_second else stretched


def _of_last_two(samples: Samples, *, counter: bool) -> float | None:
    if len(samples) < 2:
        return None
    (before_at, before), (at, value) = samples[-2], samples[-1]
    difference = value if counter and value < before else value - before
    return difference / (at - before_at) if counter else difference


#: Of the samples of a range that goes from ``start`` to ``end``; None: no value.
RATES: Mapping[str, Callable[[Samples, float, float], float | None]] = {
    "rate": lambda samples, start, end: _extrapolated(samples, start, end, counter=True, per_second=True),
    "increase": lambda samples, start, end: _extrapolated(samples, start, end, counter=True, per_second=False),
    "delta": lambda samples, start, end: _extrapolated(samples, start, end, counter=False, per_second=False),
    "irate": lambda samples, start, end: _of_last_two(samples, counter=True),
    "idelta": lambda samples, start, end: _of_last_two(samples, counter=False),
}


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _log(base: Callable[[float], float]) -> Callable[[float], float]:
    return lambda value: base(value) if value > 0 else (-math.inf if value == 0 else math.nan)


def _whole(cut: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: float(cut(value)) if math.isfinite(value) else value


#: Of each value by itself, and what further numbers they take.
OF_VALUES: Mapping[str, tuple[Callable[..., float], int, int]] = {
    "abs": (abs, 0, 0),
    "ceil": (_whole(math.ceil), 0, 0),
    "floor": (_whole(math.floor), 0, 0),
    "exp": (math.exp, 0, 0),
    "ln": (_log(math.log), 0, 0),
    "log2": (_log(math.log2), 0, 0),
    "log10": (_log(math.log10), 0, 0),
    "sqrt": (_root, 0, 0),
    "sgn": (lambda value: float((value > 0) - (value < 0)), 0, 0),
    "round": (lambda value, to=1.0: math.floor(value / to + 0.5) * to if to else math.nan, 0, 1),
    "clamp": (lambda value, low, high: max(low, min(high, value)), 2, 2),
    "clamp_min": (max, 1, 1),
    "clamp_max": (min, 1, 1),
}


def _moment(value: float) -> datetime:
    return datetime.fromtimestamp(value, UTC)


#: Of a value that is a Unix time (without an argument: of now), in UTC.
OF_TIME: Mapping[str, Callable[[float], float]] = {
    "minute": lambda value: float(_moment(value).minute),
    "hour": lambda value: float(_moment(value).hour),
    "day_of_week": lambda value: float(_moment(value).isoweekday() % 7),
    "day_of_month": lambda value: float(_moment(value).day),
    "day_of_year": lambda value: float(_moment(value).timetuple().tm_yday),
    "month": lambda value: float(_moment(value).month),
    "year": lambda value: float(_moment(value).year),
}
