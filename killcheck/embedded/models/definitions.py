"""The CustomResourceDefinitions in `crds/`: what the models' own resources look like to clients."""

from __future__ import annotations

from functools import cache
from importlib import resources

from killcheck.kube.objects import Obj
from killcheck.text.yamlfile import documents

__all__ = ["crds"]


@cache
def crds() -> tuple[Obj, ...]:
    """Every CustomResourceDefinition that an embedded cluster has from the start; shared by all, and read-only."""
    folder = resources.files("killcheck.embedded.models").joinpath("crds")
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".yaml")), key=lambda one: one.name)
    return tuple(document.value for one in files for document in documents(one.read_text(encoding="utf-8"), one.name))
