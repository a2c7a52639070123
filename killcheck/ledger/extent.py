"""What nobody built and no code can say, since nothing in a manifest shows it; the rest says it of itself.

`docs/reference/extent.md` is made of this list and of what is marked by :func:`killcheck.entries.leaves`.
"""

from __future__ import annotations

from killcheck.entries import Becomes, Unknown

__all__ = ["UNSEEN"]


def _unseen(area: str, what: str) -> Unknown:
    return Unknown(area, what, Becomes.UNSEEN)


UNSEEN: tuple[Unknown, ...] = (
    _unseen("worker fleets", "offers of a real market: they are its stand-in's, which rents what the spec lists"),
    _unseen("worker fleets", "what a machine bills that is stopped and not ended: its disk"),
    _unseen("spot", "how often a type is reclaimed, and when spot is to be had again"),
    _unseen("spot", "the spec's own command that gives a notice, where no stand-in of its cloud answers it"),
    _unseen("spot", "traffic out of the cloud; bills by label and owner"),
    _unseen("clouds", "what an account of GCP or Azure lets be launched: quotas, rights"),
    _unseen("clouds", "node groups of EKS from manifests: what they may launch is read, no drill has their nodes"),
    _unseen("credentials", "a cloud's trust in the cluster's issuer of tokens"),
)
