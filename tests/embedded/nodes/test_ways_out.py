"""A machine that has no sandbox says so, names the ways out that are its own, and starts nothing."""

import pytest
from host_world import Host
from node_world import pod

from killcheck.embedded.nodes import host_runtime, isolation
from killcheck.embedded.nodes.isolation import ways_out


def system(folder, **files):
    for name, text in files.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "user", "named", "unnamed"),
    [
        (
            {"proc__sys__kernel__apparmor_restrict_unprivileged_userns": "1\n"},
            1000,
            ["sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0", "run as root"],
            ["container"],
        ),
        ({"proc__sys__kernel__apparmor_restrict_unprivileged_userns": "0\n"}, 1000, ["run as root"], ["sysctl"]),
        ({"proc__sys__kernel__unprivileged_userns_clone": "0\n"}, 1000, ["kernel.unprivileged_userns_clone=1"], []),
        ({"proc__sys__user__max_user_namespaces": "0\n"}, 1000, ["user.max_user_namespaces=15000"], []),
        ({"run__.containerenv": ""}, 0, ["privileged container"], ["run as root", "sysctl"]),
    ],
    ids=["Ubuntu", "Ubuntu, allowed", "Debian", "none at all", "a container's root"],
)
def test_the_ways_out_are_those_of_this_machine(tmp_path, monkeypatch, files, user, named, unnamed):
    monkeypatch.setattr(isolation.os, "geteuid", lambda: user)
    said = ways_out(system(tmp_path, **files))
    assert [word for word in ("--exec docker", "--exec unisolated", *named) if word not in said] == []
    assert [word for word in unnamed if word in said] == []


def test_what_takes_linux_is_refused_elsewhere_and_not_tried(monkeypatch):
    """macOS: no helper is started, no program runs, and what works there is named."""
    monkeypatch.setattr(isolation.sys, "platform", "darwin")
    monkeypatch.setattr(host_runtime, "SpawnerClient", lambda *_: pytest.fail("a helper was started"))
    with Host("sandbox") as world:
        world.add(pod("job", policy="Never", command=["sh", "-c", "echo ran"]))
        assert world.loop.run_until(lambda: bool(world.nodes.unknown), 3600)
        told = world.nodes.unknown[0]
        assert world.host.level is None
    assert "a sandbox takes Linux, and this is darwin" in told
    assert "--exec docker" in told
    assert "sysctl" not in told
