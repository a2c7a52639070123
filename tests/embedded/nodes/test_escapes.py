"""A stranger's program in the sandbox tries to get out, as root's child and as another user's: each attempt fails."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from host_world import Host, namespaces_work
from node_world import pod

from killcheck.embedded.nodes import host_runtime, process
from killcheck.embedded.nodes.spawnerclient import NoSandbox
from killcheck.kube import resources as r

HERE = Path(__file__).parent
OTHER = 54321

LEVELS = [
    pytest.param(
        level,
        user,
        marks=[
            pytest.mark.skipif(not namespaces_work(), reason="no user namespaces here"),
            pytest.mark.skipif(user != "own" and os.geteuid() != 0, reason="only root can be another user"),
            pytest.mark.skipif(level == "bubblewrap" and not shutil.which("bwrap"), reason="no bubblewrap here"),
            pytest.mark.skipif(level == "bubblewrap" and user == "own" and os.geteuid() == 0, reason="not for root"),
        ],
    )
    for level in ("namespaces", "bubblewrap")
    for user in ("own", "another")
]


def roots_to_the_kernel():
    """Whether this user is root outside its own namespace: the kernel counts no processes of that one (fork(2))."""
    inside, outside, _ = Path("/proc/self/uid_map").read_text().split()[:3]
    return os.geteuid() != 0 and (int(inside), int(outside)) == (os.geteuid(), 0)


def run(argv):
    home = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    return subprocess.run(
        argv,
        cwd="/",
        env=home | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def run_as_another(argv):
    """With an interpreter that another user may execute too."""
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    before = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"]
    if run([*before, python, "-c", "import killcheck.kube, cryptography, click"]).returncode:
        pytest.skip("another user cannot read this installation")
    return run([*before, python, *argv])


def escaped(level, user):
    """What a sandbox of one level let be done."""
    argv = [str(HERE / "sandboxed.py"), level]
    done = run_as_another(argv) if user == "another" else run([sys.executable, *argv])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


REFUSED = ("EPERM", "EACCES", "EROFS")


@pytest.mark.parametrize(("level", "user"), LEVELS)
def test_nothing_gets_out(level, user):
    found = escaped(level, user)
    assert (found["unknown"], found["level"]) == ([], level)
    tried = json.loads(found["log"])
    assert tried["rights"] == [0, 0, 0, 0, 0, 1, 2]
    refused = (
        "remount",
        "bind",
        "unmount",
        "write to a library",
        "write to a program",
        "mode of a program",
        "unshare",
        "unshare mounts",
        "clone",
        "setns",
        "chroot",
        "ptrace",
        "memory of another",
        "block device",
        "kernel's memory",
        "keyring",
        "a key",
        "kernel's settings",
        "sysrq",
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "io_uring_setup",
        "open_tree",
        "fsopen",
        "mount_setattr",
        "pidfd_getfd",
        "open_by_handle_at",
        "shmget",
        "limits raised",
        "new link",
        "raw packets",
        "out-of-memory score",
        "real time",
        "priority",
        "overlay's mark",
        "words into a terminal",
        "first process",
    )
    assert {name: tried[name] for name in refused if tried[name] not in REFUSED} == {}
    missing = ("clone3", "memfd_create", "open_tree_attr", "another machine's calls", "x32's calls")
    assert {name: tried[name] for name in missing} == dict.fromkeys(missing, "ENOSYS")
    assert (tried["open files"], tried["groups of processes"]) == ([], [])
    assert (tried["link to a program"], tried["users' map"] in ("EPERM", "EINVAL")) == ("EXDEV", True)
    assert [tried[name] for name in ("hypervisor", "packets", "kernel's ciphers")] == ["EAFNOSUPPORT"] * 3
    absent = ("a host's file through it", "its working directory", "passwords", "private keys", "a host's file")
    assert {name: tried[name] for name in absent} == dict.fromkeys(absent, "ENOENT")
    assert tried["root of the first process"] is True
    assert (tried["host's processes"], tried["homes"], tried["system"], tried["set-user-ID"]) == ([], [], [], [])
    assert (tried["abstract socket"], tried["loopback"]) == ("ECONNREFUSED", "ECONNREFUSED")
    assert tried["loopback, IPv6"] in ("ECONNREFUSED", "EADDRNOTAVAIL", "ENETUNREACH", "EAFNOSUPPORT")
    assert tried["interfaces"] == ["lo"]
    assert set(tried["devices"]) <= {
        "null",
        "zero",
        "full",
        "random",
        "urandom",
        "tty",
        "fd",
        "stdin",
        "stdout",
        "stderr",
        "shm",
        "termination-log",
    }
    assert tried["kernel's keys"] in ("", "ENOENT", "EACCES")
    assert tried["other user"] == "EINVAL"
    assert tried["core dumps"] == 0
    assert tried["forks"] == ("no end" if roots_to_the_kernel() else ["EAGAIN", True])
    assert tried["full disk"][0] == "ENOSPC"
    assert tried["full disk"][1] <= 256
    assert (tried["full volume"][0], tried["full volume"][1] <= 4) == ("ENOSPC", True)
    assert (tried["outlive"], found["left"]) == ("begun", [])


# -- what is done for it before it begins ------------------------------------------------------------------
@pytest.fixture
def walled():
    if not namespaces_work():
        pytest.skip("no user namespaces here")
    with Host("namespaces") as world:
        yield world


@pytest.mark.parametrize(
    "mount",
    [
        {"name": "script", "mountPath": "/data/way/file", "subPath": "word"},
        {"name": "script", "mountPath": "/data/way"},
        {"name": "script", "mountPath": "/data/file", "subPath": "word"},
        {"name": "data", "mountPath": "/elsewhere", "subPath": "way"},
        {"name": "data", "mountPath": "/elsewhere", "subPath": "way/below"},
        {"name": "script", "mountPath": "/dev/fd/1", "subPath": "word"},
        {"name": "script", "mountPath": "/../../../../../../..@/file", "subPath": "word"},
    ],
    ids=lambda mount: mount["mountPath"] + mount.get("subPath", ""),
)
def test_a_link_in_a_volume_leads_nothing_out(walled, mount, tmp_path):
    """An init container lays links to this host's folder and file; what is mounted next must not follow them."""
    (tmp_path / "file").write_text("kept")
    walled.add(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "script", "namespace": "team"},
            "data": {"word": "overwritten", "way": "overwritten"},
        }
    )
    mount = mount | {"mountPath": mount["mountPath"].replace("@", str(tmp_path))}
    lay = f"ln -s {tmp_path} /data/way; ln -s {tmp_path}/file /data/file"
    data = {"name": "data", "mountPath": "/data"}
    made = pod(
        "job",
        policy="Never",
        command=["sh", "-c", "cat /elsewhere/file; touch /elsewhere/new /data/way/new"],
        volumeMounts=[data, mount],
        volumes=[{"name": "data", "emptyDir": {}}, {"name": "script", "configMap": {"name": "script"}}],
    )
    made["spec"]["initContainers"] = [
        {"name": "lay", "image": "localhost:5000/rec/executor:1", "command": ["sh", "-c", lay], "volumeMounts": [data]}
    ]
    walled.add(made)
    walled.loop.run_until(
        lambda: bool(walled.nodes.unknown) or walled.pod("job")["status"].get("phase") in ("Succeeded", "Failed"), 600
    )
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"
    if not walled.nodes.unknown:
        assert "kept" not in walled.log("job")


def test_folders_in_folders_without_end_stop_nothing_that_comes_after(walled):
    """Deeper than Python goes by itself: for the pod's other container, and when the pod goes."""
    nest = "import os\nos.chdir('/data')\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}], "image": "python:3.12"}
    made = pod("job", policy="Never", command=["ls", "/data"], volumes=[{"name": "data", "emptyDir": {}}], **mounts)
    made["spec"]["initContainers"] = [{"name": "nest", "command": ["python3", "-c", nest], **mounts}]
    walled.add(made)
    assert walled.loop.run_until(lambda: walled.pod("job")["status"].get("phase") == "Succeeded", 600), walled.pod(
        "job"
    )
    assert walled.log("job") == "d\n"
    walled.kube.delete(r.PODS, "job", "team")
    assert walled.run_pod("echo still here") == (0, "still here\n")


@pytest.mark.parametrize("script", ["yes", "yes >&2", "cat /dev/zero"])
def test_endless_output_is_stopped_and_told(walled, script, monkeypatch):
    monkeypatch.setattr(process, "OUTPUT_LIMIT", 2 << 20)
    walled.add(pod("job", policy="Never", command=["sh", "-c", script]))
    assert walled.loop.run_until(lambda: bool(walled.nodes.unknown), 3600)
    assert walled.nodes.unknown[0].endswith("it wrote more than 2 MiB and was stopped")
    assert walled.host.processes == {}


def test_all_that_runs_has_so_much_memory_together(walled, monkeypatch):
    monkeypatch.setattr(process, "MEMORY_IN_ALL", 96 << 20)
    holding = "import time; held = bytearray(b'x') * (60 << 20); time.sleep(600); print('held')"
    for name in ("one", "two"):
        walled.add(pod(name, image="python:3.12", policy="Never", command=["python3", "-c", holding]))
    assert walled.loop.run_until(lambda: bool(walled.nodes.unknown), 300)
    assert "took more than 96 MiB of memory: stopped" in walled.nodes.unknown[0]
    assert len(walled.host.processes) == 1


def test_a_machine_without_a_sandbox_runs_nothing(walled, monkeypatch):
    def refuse(*_):
        raise NoSandbox("user namespaces: operation not permitted")

    monkeypatch.setattr(host_runtime, "SpawnerClient", refuse)
    walled.add(pod("job", policy="Never", command=["sh", "-c", "echo ran"]))
    assert walled.loop.run_until(lambda: bool(walled.nodes.unknown), 3600)
    assert "--exec unisolated" in walled.nodes.unknown[0]
    assert walled.host.level is None
