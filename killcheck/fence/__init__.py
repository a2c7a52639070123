"""Fences: what could be launched at worst, through which door, and whether that stays under a ceiling.

Everything here judges plain objects and exported files; only :mod:`killcheck.fence.live` touches a cluster. What is not
known is *unproven*, never safe.
"""

from killcheck.fence.account import Account, AccountError
from killcheck.fence.ceiling import Ceiling
from killcheck.fence.evaluate import evaluate, would
from killcheck.fence.inside import Ask, Finding
from killcheck.fence.report import FenceReport, FenceResult

__all__ = [
    "Account",
    "AccountError",
    "Ask",
    "Ceiling",
    "FenceReport",
    "FenceResult",
    "Finding",
    "evaluate",
    "would",
]
