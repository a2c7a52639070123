"""On-demand prices of the families that AWS prices in proportion to their size, so that CPU nodes cost something too.

AWS' public price list, Linux, us-east-1, USD an hour; general-purpose families have had one price for years.
Types whose price is not in proportion, or not known, have none here: a price is never guessed.
"""

from __future__ import annotations

import re

__all__ = ["listed"]

#: USD an hour for the size called `large` (2 vCPUs); `xlarge` is twice that, `2xlarge` four times, `48xlarge` 96.
_LARGE = {
    "m5": 0.096, "m5a": 0.086, "m5d": 0.113, "m5n": 0.119, "m6i": 0.096, "m6a": 0.0864, "m6g": 0.077, "m6gd": 0.0904,
    "m6id": 0.11865, "m7i": 0.1008, "m7a": 0.11592, "m7g": 0.0816, "m7gd": 0.1068, "m7i-flex": 0.09576,
    "c5": 0.085, "c5a": 0.077, "c5d": 0.096, "c5n": 0.108, "c6i": 0.085, "c6a": 0.0765, "c6g": 0.068, "c6gd": 0.0768,
    "c6gn": 0.0864, "c6id": 0.1008, "c6in": 0.1134, "c7i": 0.08925, "c7a": 0.10264, "c7g": 0.0725, "c7gd": 0.0907,
    "c7gn": 0.1248, "c7i-flex": 0.08479,
    "r5": 0.126, "r5a": 0.113, "r5d": 0.144, "r5n": 0.149, "r6i": 0.126, "r6a": 0.1134, "r6g": 0.1008,
    "r6gd": 0.1152, "r6id": 0.1512, "r7i": 0.1323, "r7a": 0.15215, "r7g": 0.1071, "r7gd": 0.1361,
    "t3": 0.0832, "t3a": 0.0752, "t4g": 0.0672, "i3en": 0.226, "i4i": 0.172,
    "x2gd": 0.167, "x2idn": 0.208406, "x2iedn": 0.416812, "m4": 0.1, "r4": 0.133, "a1": 0.051, "i3": 0.156,
    "m8g": 0.08976, "c8g": 0.07976, "r8g": 0.11782, "r8gd": 0.14706, "i4g": 0.15444,
    "m6in": 0.13923, "m6idn": 0.15911, "r6in": 0.17433, "r6idn": 0.19539, "m5dn": 0.136, "r5dn": 0.167, "r5b": 0.149,
    "c5ad": 0.086, "m5ad": 0.103, "r5ad": 0.131, "m5zn": 0.1652, "z1d": 0.186, "r7iz": 0.186, "is4gen": 0.288,
    "im4gn": 0.18192, "d3": 0.2495, "d2": 0.345, "i2": 0.4265, "m8i": 0.10584, "c8i": 0.09371, "r8i": 0.13892,
    "m8a": 0.12172, "c8a": 0.10777, "r8a": 0.15976, "i7ie": 0.2599, "i7i": 0.1888, "x8g": 0.1954, "i8g": 0.1716,
    "m8i-flex": 0.10055, "c8i-flex": 0.08903, "r8i-flex": 0.13197, "c8gn": 0.1185,
    "h1": 0.117, "x1e": 0.417, "d3en": 0.263,
}

#: Sizes as multiples of `large`; burstable ones by their memory, which is what AWS prices them by.
_SMALL = {"nano": 1 / 16, "micro": 1 / 8, "small": 1 / 4, "medium": 1 / 2, "large": 1.0, "xlarge": 2.0}
_LARGER = re.compile(r"^([0-9]+)xlarge$")


def listed(instance_type: str) -> float | None:
    """The listed price of a type, USD an hour; None where this table does not know it."""
    family, _, size = instance_type.partition(".")
    large = _LARGE.get(family)
    if large is None:
        return None
    larger = _LARGER.match(size)
    multiple = 2.0 * int(larger[1]) if larger else _SMALL.get(size)
    return None if multiple is None else round(large * multiple, 6)
