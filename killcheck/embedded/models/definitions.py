"""The CustomResourceDefinitions in `crds/`: what the models' own resources look like to clients."""

from __future__ import annotations

from functools import cache
from importlib import resources

from killcheck.kube.objects import Obj, copy
from killcheck.text.yamlfile import documents

__all__ = ["crds"]


@cache
def _shipped() -> tuple[Obj, ...]:
    folder = resources.files("killcheck.embedded.models").joinpath("crds")
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".yaml")), key=lambda one: one.name)
    return tuple(document.value for one in files for document in documents(one.read_text(encoding="utf-8"), one.name))


def crds() -> list[Obj]:
    """Every CustomResourceDefinition that an embedded cluster has from the start; the caller's to change."""
    return [copy(obj) for obj in _shipped()]
