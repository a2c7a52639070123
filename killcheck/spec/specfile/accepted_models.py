"""The shape of ``killcheck.accepted.yaml`` as pydantic models: imported only where there is such a file.

What may *not* live here: what an exposure means; that is in :mod:`killcheck.spec.specfile.accepted`.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["AcceptedModel", "ExposureModel"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class ExposureModel(_Strict):
    """One exposure that somebody lives with: by layer, fault and cause, signed until a day."""

    layer: Annotated[str, Field(min_length=1)]
    fault: Annotated[str, Field(min_length=1)]
    cause: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    owner: Annotated[str, Field(min_length=2)]
    reason: Annotated[str, Field(min_length=3)]
    until: date


class AcceptedModel(_Strict):
    """The whole file."""

    apiVersion: Literal["killcheck/v1"]
    kind: Literal["Accepted"]
    exposures: list[ExposureModel]
