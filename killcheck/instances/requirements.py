"""Karpenter's requirement algebra: which values of a label a NodePool allows, exactly as Karpenter computes it.

A requirement is a set of label values, kept as a list of values or as everything but a list (``complement``), with
integer bounds. Source: sigs.k8s.io/karpenter pkg/scheduling/requirement.go and requirements.go, v1.14, quirks
included: bounds beside ``NotIn`` make the operator read as ``NotIn``, an empty intersection reads as ``DoesNotExist``,
and both of these readmit types that lack the label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from killcheck.text import lazy_re

__all__ = ["NORMALIZED", "OPERATORS", "Operator", "Requirement", "RequirementError", "Requirements"]

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]

#: Every operator that Karpenter v1.14 knows (``Gte`` and ``Lte`` since 1.9).
OPERATORS: frozenset[str] = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"})

#: Old label names that Karpenter reads as today's.
NORMALIZED = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}

#: What Go's strconv.Atoi takes: no blanks, no underscores, ASCII digits.
_INTEGER = lazy_re.compile(r"[+-]?[0-9]+", re.ASCII)
_MAX_INT = 2**63 - 1


class RequirementError(ValueError):
    """A requirement that cannot be read: an operator that is not known, or values that do not fit it."""


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_MAX_INT - 1 <= number <= _MAX_INT else None


class Requirement(Struct, frozen=True):
    """The values allowed for one label. ``gte`` and ``lte`` are inclusive; ``min_values`` never narrows."""

    key: str
    values: frozenset[str] = frozenset()
    complement: bool = False
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    @classmethod
    def of(
        cls,
        key: str,
        operator: str,
        values: Iterable[str] = (),
        min_values: int | None = None,
    ) -> Requirement:
        """The requirement for one entry of a NodePool. Raises RequirementError."""
        key = NORMALIZED.get(key, key)
        texts = list(values)
        if operator not in OPERATORS:
            raise RequirementError(f"operator {operator!r} of {key} is not known")
        if operator in ("In", "NotIn"):
            return cls(key, frozenset(texts), operator == "NotIn", min_values=min_values)
        if operator in ("Exists", "DoesNotExist"):
            return cls(key, complement=operator == "Exists", min_values=min_values)
        bound = _integer(texts[0]) if len(texts) == 1 else None
        if bound is None or bound < 0:
            raise RequirementError(f"key {key} with operator {operator} must have a single positive integer value")
        if operator in ("Gt", "Gte"):
            if operator == "Gt" and bound == _MAX_INT:
                return cls(key)
            return cls(key, complement=True, gte=bound + (operator == "Gt"), min_values=min_values)
        return cls(key, complement=True, lte=bound - (operator == "Lt"), min_values=min_values)

    @property
    def operator(self) -> Operator:
        """How Karpenter reads it: bounds alone read as ``Exists``, bounds beside values as ``NotIn``."""
        if self.complement:
            return "NotIn" if self.values else "Exists"
        return "In" if self.values else "DoesNotExist"

    @property
    def lenient(self) -> bool:
        """Whether a type that lacks the label passes."""
        return self.operator in ("NotIn", "DoesNotExist")

    def has(self, value: str) -> bool:
        """Whether ``value`` is allowed."""
        return (value in self.values) != self.complement and self._within(value)

    def allows(self, offered: Iterable[str]) -> bool:
        """Whether something whose label can take the values ``offered`` (none: it lacks the label) passes."""
        lacks = True
        for value in offered:
            lacks = False
            if self.has(value):
                return True
        return lacks and self.lenient

    def intersection(self, other: Requirement) -> Requirement:
        """What both allow; the key is this one's."""
        gte, lte = _most(self.gte, other.gte), _least(self.lte, other.lte)
        minimum = _most(self.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, min_values=minimum)
        values = self._combined(other)
        bounded = Requirement(self.key, gte=gte, lte=lte)
        kept = frozenset(value for value in values if bounded._within(value))
        if self.complement and other.complement:
            return Requirement(self.key, kept, True, gte, lte, minimum)
        return Requirement(self.key, kept, min_values=minimum)

    def has_intersection(self, other: Requirement) -> bool:
        """Whether any value passes both (Karpenter does not look whether two complements really leave one)."""
        gte, lte = _most(self.gte, other.gte), _least(self.lte, other.lte)
        if gte is not None and lte is not None and gte > lte:
            return False
        if self.complement and other.complement:
            return True
        bounded = Requirement(self.key, gte=gte, lte=lte)
        return any(bounded._within(value) for value in self._combined(other))

    def serialized(self) -> Requirement:
        """What a NodeClaim keeps of it: beside bounds, a list of excluded values is lost."""
        if self.gte is not None or self.lte is not None:
            return Requirement(self.key, complement=True, gte=self.gte, lte=self.lte, min_values=self.min_values)
        return self

    def entries(self) -> list[dict[str, Any]]:
        """As a NodeClaim's ``spec.requirements`` spells it."""
        if self.gte is not None or self.lte is not None:
            bounds = (("Gte", self.gte), ("Lte", self.lte))
            spelt = [(name, [str(bound)]) for name, bound in bounds if bound is not None]
        else:
            spelt = [(self.operator, sorted(self.values))]
        found = []
        for operator, values in spelt:
            entry: dict[str, Any] = {"key": self.key, "operator": operator}
            if values:
                entry["values"] = values
            if self.min_values is not None:
                entry["minValues"] = self.min_values
            found.append(entry)
        return found

    def __str__(self) -> str:
        text = f"{self.key} {self.operator}"
        if self.values:
            shown = sorted(self.values)
            if len(shown) > 5:
                shown = [*shown[:5], f"and {len(shown) - 5} others"]
            text += f" [{' '.join(shown)}]"
        text += "" if self.gte is None else f" >={self.gte}"
        text += "" if self.lte is None else f" <={self.lte}"
        return text + ("" if self.min_values is None else f" minValues {self.min_values}")

    def _combined(self, other: Requirement) -> frozenset[str]:
        if self.complement:
            return self.values | other.values if other.complement else other.values - self.values
        return self.values - other.values if other.complement else self.values & other.values

    def _within(self, value: str) -> bool:
        if self.gte is None and self.lte is None:
            return True
        number = _integer(value)
        if number is None:
            return False
        return (self.gte is None or number >= self.gte) and (self.lte is None or number <= self.lte)


def _most(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


class Requirements(dict[str, Requirement]):
    """Requirements by key; adding to a key intersects."""

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]], labels: Mapping[str, str] | None = None) -> Requirements:
        """From a NodePool's ``requirements`` and labels (each label counts as ``In``). Raises RequirementError."""
        found = cls()
        for entry in entries:
            found.add(
                Requirement.of(
                    str(entry.get("key", "")),
                    str(entry.get("operator", "")),
                    [str(v) for v in entry.get("values") or ()],
                    entry.get("minValues"),
                )
            )
        for key, value in (labels or {}).items():
            found.add(Requirement.of(key, "In", (str(value),)))
        return found

    def add(self, *requirements: Requirement) -> None:
        """Intersect each with what is here for its key."""
        for requirement in requirements:
            existing = self.get(requirement.key)
            self[requirement.key] = requirement.intersection(existing) if existing else requirement

    def merged(self, other: Mapping[str, Requirement]) -> Requirements:
        """A copy with ``other`` added."""
        found = Requirements(self)
        found.add(*other.values())
        return found

    def conflicts(self, other: Mapping[str, Requirement]) -> list[str]:
        """The keys on which the two have nothing in common; keys that only one names never conflict."""
        return [
            key
            for key, mine in self.items()
            if key in other and not mine.has_intersection(other[key]) and not (mine.lenient and other[key].lenient)
        ]

    def undefined(self, incoming: Mapping[str, Requirement], well_known: Iterable[str]) -> list[str]:
        """The keys that ``incoming`` (a pod) asks for and that nothing here defines: no node would carry them."""
        known = frozenset(well_known)
        return [
            key
            for key, requirement in incoming.items()
            if key not in known and key not in self and not requirement.lenient
        ]

    def serialized(self) -> Requirements:
        """What a NodeClaim keeps of them."""
        return Requirements({key: requirement.serialized() for key, requirement in self.items()})

    def entries(self) -> list[dict[str, Any]]:
        """As ``spec.requirements``, in order of key."""
        return [entry for key in sorted(self) for entry in self[key].entries()]
