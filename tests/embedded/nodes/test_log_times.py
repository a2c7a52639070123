"""Lines of containers' logs have the cluster's time at which they came: of processes, also of an earlier run."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest
from node_world import World, pod

from killcheck.embedded.nodes.host_runtime import HostRuntime
from killcheck.embedded.nodes.in_containers import _timed
from killcheck.kube import resources as r
from killcheck.kube.objects import parse_time

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")


@pytest.fixture
def host():
    with World(exec_mode="none") as world:
        runtime = world.nodes.runtime = HostRuntime(world.loop, world.wire)
        for kubelet in world.nodes.kubelets.values():
            kubelet.runtime = runtime
        yield world


def log(world, **query):
    return str(world.kube.call("GET", r.PODS.path("team", "job", "log"), query=query).body)


def stamped(text):
    """(time, line) of each."""
    return [(parse_time(line[:19] + "Z"), line.partition(" ")[2]) for line in text.splitlines()]


def test_a_process_that_sleeps_writes_lines_hours_apart(host):
    script = "echo a; echo b; sleep 3600; echo c; sleep 600; printf d"
    host.add(pod("job", policy="Never", command=["sh", "-c", script]))
    host.run_until_over("job", 90_000)
    lines = stamped(log(host, timestamps="true"))
    assert [line for _, line in lines] == ["a", "b", "c", "d"]
    first = lines[0][0]
    assert [round((when - first).total_seconds(), -1) for when, _ in lines] == [0, 0, 3600, 4200]
    begun = parse_time(host.pod("job")["status"]["startTime"])
    assert begun <= first < begun + timedelta(seconds=30)
    assert log(host, sinceTime=(first + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")) == "c\nd"
    assert log(host, sinceSeconds="300") == "d"
    assert log(host) == "a\nb\nc\nd"
    host.run(3600)
    assert log(host, sinceSeconds="300") == ""


def test_a_line_is_there_when_it_is_whole(host):
    host.add(pod("job", policy="Never", command=["sh", "-c", "echo a; printf b; sleep 1000; echo c; sleep 1000"]))
    host.run(500)
    assert log(host) == "a\n"
    host.run(1000)
    (first, _), (second, text) = stamped(log(host, timestamps="true"))
    assert (text, round((second - first).total_seconds(), -1)) == ("bc", 1000)


def test_the_run_before_keeps_its_times(host):
    host.add(pod("job", policy="OnFailure", command=["sh", "-c", "date +%s; sleep 100; exit 1"]))
    host.run(150)
    assert host.pod("job")["status"]["containerStatuses"][0]["restartCount"] == 1
    runs = [stamped(log(host, timestamps="true", previous=flag)) for flag in ("true", "false")]
    for [(when, said)] in runs:
        assert abs(when.timestamp() - int(said)) <= 1
    assert runs[1][0][0] - runs[0][0][0] >= timedelta(seconds=100)


def test_a_hollow_container_has_written_nothing(host):
    host.add(pod("job", image="nginx:1"))
    host.run(60)
    assert "running" in host.state("job")
    assert log(host, timestamps="true", sinceSeconds="10") == ""


def test_an_engines_times_become_the_clusters():
    virtual, wall = datetime(2030, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    plain, stamps = (
        b"early\nlong\nlate\nlas",
        (
            b"2025-12-31T23:59:59.999999999Z early\n2026-01-01T00:00:02.5Z lo2026-01-01T00:00:02.5Z ng\n"
            b"2026-01-01T00:00:09Z late\n2026-01-01T00:00:09Z last"
        ),
    )
    made = _timed(plain, stamps, (virtual, wall), virtual + timedelta(seconds=5))
    assert [(line.text, (line.when - virtual).total_seconds()) for line in made.lines()] == [
        ("early\n", 0),
        ("long\n", 2.5),
        ("late\n", 5),
        ("las", 5),
    ]
