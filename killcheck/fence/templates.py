"""EC2 launch templates and launch configurations: which types a version of one launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from killcheck.fence import attributes
from killcheck.instances.launchable import Launchable
from killcheck.text.numbers import whole

__all__ = ["Chosen", "Templates", "named"]


class Chosen(Struct):
    """Types that some words choose: masks, and what is not known of them."""

    certain: int = 0
    possible: int = 0
    unknown: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, other: Chosen) -> None:
        """Either of the two."""
        self.certain |= other.certain
        self.possible |= other.possible
        for mine, theirs in (
            (self.unknown, other.unknown),
            (self.undecided, other.undecided),
            (self.notes, other.notes),
        ):
            mine += [text for text in theirs if text not in mine]


def named(types: Launchable, names: Iterable[str]) -> Chosen:
    """Types by name; one that the catalogue lacks is unknown, never empty."""
    chosen = Chosen()
    for name in names:
        bit = types.bits.get(name, 0)
        chosen.certain |= bit
        chosen.possible |= bit
        if not bit:
            chosen.unknown.append(f"instance type {name} is not in the catalogue")
    return chosen


class Templates:
    """What was exported of launch templates (all versions or some), and of launch configurations."""

    def __init__(self, types: Launchable) -> None:
        self.types = types
        self._versions: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._defaults: dict[str, str] = {}
        self._latest: dict[str, str] = {}
        self._configurations: dict[str, str] = {}

    def add_versions(self, versions: Iterable[Mapping[str, Any]]) -> None:
        """DescribeLaunchTemplateVersions."""
        for version in versions:
            number = str(version.get("VersionNumber", ""))
            for key in (version.get("LaunchTemplateId"), version.get("LaunchTemplateName")):
                if key:
                    self._versions.setdefault(key, {})[number] = version.get("LaunchTemplateData") or {}
                    if version.get("DefaultVersion"):
                        self._defaults[key] = number

    def add_templates(self, templates: Iterable[Mapping[str, Any]]) -> None:
        """DescribeLaunchTemplates."""
        for template in templates:
            for key in (template.get("LaunchTemplateId"), template.get("LaunchTemplateName")):
                if key:
                    self._defaults[key] = str(template.get("DefaultVersionNumber", ""))
                    self._latest[key] = str(template.get("LatestVersionNumber", ""))

    def add_configurations(self, configurations: Iterable[Mapping[str, Any]]) -> None:
        """DescribeLaunchConfigurations."""
        for one in configurations:
            self._configurations[str(one.get("LaunchConfigurationName"))] = str(one.get("InstanceType", ""))

    def configuration(self, name: str) -> Chosen:
        """The type of a launch configuration."""
        if name not in self._configurations:
            return Chosen(0, self.types.all, [f"launch configuration {name} was not exported"])
        return named(self.types, [self._configurations[name]])

    def resolve(self, specification: Mapping[str, Any]) -> Chosen:
        """What a LaunchTemplateSpecification launches by itself."""
        key = (
            specification.get("LaunchTemplateId")
            or specification.get("LaunchTemplateName")
            or specification.get("id")
            or specification.get("name")
            or ""
        )
        asked = str(specification.get("Version") or specification.get("version") or "$Default")
        known = self._versions.get(key, {})
        number = {"$Default": self._defaults.get(key, ""), "$Latest": self._newest(key)}.get(asked, asked)
        if number not in known:
            return Chosen(0, self.types.all, [f"launch template {key or '?'} version {asked} was not exported"])
        chosen = self._data(known[number], str(key))
        if asked in ("$Latest", "$Default"):
            chosen.notes.append(
                f"launch template {key} is followed at {asked}: whoever may write a version of it chooses the type"
            )
        return chosen

    def _newest(self, key: str) -> str:
        if self._latest.get(key):
            return self._latest[key]
        numbers = [number for number in self._versions.get(key, {}) if whole(number) is not None]
        return max(numbers, key=int, default="")

    def _data(self, data: Mapping[str, Any], key: str) -> Chosen:
        if data.get("InstanceRequirements"):
            certain, possible, undecided = attributes.select(data["InstanceRequirements"], self.types)
            return Chosen(certain, possible, undecided=undecided)
        if data.get("InstanceType"):
            return named(self.types, [data["InstanceType"]])
        return Chosen(unknown=[f"launch template {key} names no instance type"])
