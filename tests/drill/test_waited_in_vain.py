"""What a drill on somebody's cluster does not wait for after everything is put back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from killcheck.kube.errors import Unreachable
from killcheck.watch import steady

ENDED = {"kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "True"}]}}


@pytest.mark.parametrize(
    ("objects", "namespace", "vain"),
    [
        ([], None, True),  # deleted in the middle, with all that was in it
        ([], {"kind": "Namespace"}, False),
        ([], Unreachable("gone"), False),
        ([{"kind": "Job"}], None, False),
        ([ENDED], {"kind": "Namespace"}, True),
    ],
)
def test_what_went_with_its_namespace_is_not_waited_for(objects, namespace, vain):
    def find(_resource, _name):
        if isinstance(namespace, Exception):
            raise namespace
        return namespace

    target = SimpleNamespace(kind="Job", namespace="a")
    cluster = SimpleNamespace(real=True, kube=SimpleNamespace(find=find))
    scene = SimpleNamespace(cluster=cluster, objects_of=lambda _target: objects)
    path = SimpleNamespace(covered_by=lambda _layer: [target])
    assert steady.never_again(scene, path, None) is vain
