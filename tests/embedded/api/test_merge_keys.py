"""How server-side apply owns what has another shape in one kind than in the others."""

from __future__ import annotations

import pytest

from killcheck.embedded.api.kinds import Registry
from killcheck.embedded.api.mergekeys import ApplyLists


def lists(kind: str) -> ApplyLists:
    return ApplyLists(next(one for one in Registry().all() if one.resource.kind == kind))


@pytest.mark.parametrize(
    ("kind", "path", "keys"),
    [
        ("Job", ("status", "conditions"), None),
        ("Deployment", ("status", "conditions"), ("type",)),
        ("ValidatingAdmissionPolicy", ("spec", "variables"), ("name",)),
        ("MutatingAdmissionPolicy", ("spec", "variables"), None),
    ],
)
def test_lists(kind, path, keys):
    assert lists(kind).keys(path) == keys
    assert lists(kind).items_are_atomic(path) is (kind == "ValidatingAdmissionPolicy")


def test_objects():
    """k8s.io/api: a PersistentVolume's claimRef says structType=granular, whatever its type says of itself."""
    assert not lists("PersistentVolume").is_atomic(("spec", "claimRef"))
    assert lists("Event").is_atomic(("involvedObject",))
