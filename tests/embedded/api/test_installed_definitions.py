"""CustomResourceDefinitions that a cluster begins with are what a POST of the same would have made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from killcheck.embedded import Cluster, crds
from killcheck.embedded.api.kinds import builtin
from killcheck.embedded.models import definitions
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, name_of

_MOMENTS = frozenset({"uid", "resourceVersion", "creationTimestamp", "lastTransitionTime", "time"})


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(one) for key, one in value.items() if key not in _MOMENTS}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


def _all(cluster: Cluster) -> dict[str, Obj]:
    """By name, with their managers."""
    shown, kind = cluster.server.managed.shown, next(k for k in builtin() if k.resource == r.CRDS)
    return {name_of(crd): shown(kind, ("", name_of(crd)), crd) for crd in cluster.kube.list(r.CRDS).items}


def test_what_is_read_is_what_is_written_for_people() -> None:
    read = (Path(definitions.__file__).parent / "crds.json").read_bytes()
    assert read == definitions.written(), "python -m killcheck.embedded.models.definitions makes it again"


def test_installed_is_as_posted() -> None:
    with Cluster(exec_mode="none") as cluster:
        installed = _all(cluster)
        for name in installed:
            cluster.kube.delete(r.CRDS, name)
        cluster.advance(5)
        assert not cluster.kube.list(r.CRDS).items
        for crd in crds():
            cluster.kube.create(r.CRDS, crd)
        posted = _all(cluster)
    assert _timeless(installed) == _timeless(posted)
    assert all(crd["metadata"]["managedFields"] and crd["metadata"]["uid"] for crd in installed.values())


def test_no_cluster_changes_what_they_share() -> None:
    before = repr(crds())
    with Cluster(exec_mode="none") as cluster:
        for crd in cluster.kube.list(r.CRDS).items:
            cluster.kube.patch(r.CRDS, name_of(crd), {"metadata": {"labels": {"a": "b"}}})
            cluster.kube.delete(r.CRDS, name_of(crd))
        cluster.advance(5)
    assert repr(crds()) == before
