"""Leases of nodes as somebody outside watches them: a renewal every ten seconds of the cluster's time."""

from __future__ import annotations

from api_world import World

from killcheck.embedded.api.heartbeats import renewed
from killcheck.kube import resources as r
from killcheck.kube.objects import format_time, parse_time

NAMESPACE = "kube-node-lease"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def world_with_a_lease():
    world = World()
    world.kube.create(r.NAMESPACES, {"metadata": {"name": NAMESPACE}})
    lease = {
        "metadata": {"name": "gpu", "annotations": {"killcheck.dev/heartbeat": "until-stopped"}},
        "spec": {
            "holderIdentity": "gpu",
            "leaseDurationSeconds": 40,
            "renewTime": format_time(world.loop.now(), micro=True),
        },
    }
    world.kube.create(r.LEASES, lease, NAMESPACE)
    return world


def times(frames):
    return [parse_time(frame["object"]["spec"]["renewTime"]) for frame in frames if frame]


def test_each_renewal_comes_at_its_time_while_somebody_watches():
    world = world_with_a_lease()
    frames = world.watch(f"{LEASES}?watch=true")
    world.loop.run_until(lambda: False, 35)
    seen = times(frames)
    assert [(later - seen[0]).total_seconds() for later in seen] == [0, 10, 20, 30]
    versions = [frame["object"]["metadata"]["resourceVersion"] for frame in frames]
    assert len(set(versions)) == 4


def test_nothing_is_written_where_nobody_does_and_what_is_read_is_the_same():
    world = world_with_a_lease()
    revision = world.store.revision
    world.loop.run_until(lambda: False, 35)
    assert world.store.revision == revision
    written = world.kube.get(r.LEASES, "gpu", NAMESPACE)
    told = renewed(written, world.loop.now())["spec"]["renewTime"]
    assert (parse_time(told) - parse_time(written["spec"]["renewTime"])).total_seconds() == 30


def test_the_writing_ends_with_the_watch():
    world = world_with_a_lease()
    stream = world.raw("GET", f"{LEASES}?watch=true").stream
    world.loop.run_until(lambda: False, 15)
    stream.close()
    revision = world.store.revision
    world.loop.run_until(lambda: False, 60)
    assert world.store.revision == revision
