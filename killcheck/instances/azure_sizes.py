"""What the name of an Azure VM size says, as Karpenter on AKS (node auto-provisioning) reads it for its labels.

Sources: Azure/skewer vmsize.go (the scheme of names, and the GPU of sizes whose name has none), Azure/
karpenter-provider-azure pkg/apis/v1beta1/labels.go and pkg/providers/instancetype/instancetype.go: `sku-family` is the
first letter alone (`N` of every size with GPUs), `sku-series` has the letters around the number, `sku-version` no `v`.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from killcheck.text import lazy_re

__all__ = ["Size", "size_of"]

_NAME = lazy_re.compile(
    r"(?:Standard_)?(?P<family>[A-Z])(?P<sub>[A-Z]{0,2})\d+(?:-\d+)?(?P<features>[a-zP]*)"
    r"(?:_NDR)?(?:_(?:xl_)?(?P<gpu>[A-Z]+\d+[A-Z]*))?(?:_v(?P<version>\d))?"
)
#: The GPU of series whose names have none.
_UNNAMED = {
    "NCs_v3": "V100",
    "NCrs_v3": "V100",
    "NDrs_v2": "V100",
    "NDasr_v4": "A100",
    "NVs_v3": "M60",
    "NVas_v4": "MI25",
}


class Size(Struct, frozen=True):
    """The parts of a name; empty: it has no such part."""

    family: str = ""
    series: str = ""
    version: str = ""
    gpu: str = ""


@lru_cache(maxsize=1024)
def size_of(name: str) -> Size:
    """``Standard_NC24ads_A100_v4``: N, NCads_v4, 4, A100. A name of another kind has no parts."""
    found = _NAME.fullmatch(name)
    if found is None:
        return Size()
    version = found["version"] or ""
    series = found["family"] + found["sub"] + found["features"] + (f"_v{version}" if version else "")
    return Size(found["family"], series, version or "1", found["gpu"] or _UNNAMED.get(series, ""))
