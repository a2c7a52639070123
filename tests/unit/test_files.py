"""A checkout is a stranger's: what its links point at on this machine is not read, and no file is read without end."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from killcheck.clock import WallLoop
from killcheck.cluster.kind import Kind
from killcheck.executor import scripts
from killcheck.kube import manifests
from killcheck.machine import units
from killcheck.machine.modelled import Machine
from killcheck.run.kept import own_ignore
from killcheck.safety.journal import state_dir
from killcheck.safety.local_locks import Locks
from killcheck.spec import specfile
from killcheck.spec.killpath import Command
from killcheck.spec.specfile import SpecError
from killcheck.text import files
from killcheck.text.files import add_to, bytes_of, enclosed, lines_of, opened, own, put, text_of

OURS = "#!/bin/sh\n# aws_secret: canary\ngcloud compute instances start x\n"
MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {a: canary}\n"


@pytest.fixture
def checkout(tmp_path):
    """A folder of a pull request, with links to what is ours: by file, by folder, by a chain, into .git, in a circle."""
    (tmp_path / "home").mkdir()
    for name in ("key", "key.sh", "key.service"):
        (tmp_path / "home" / name).write_text(OURS)
    (tmp_path / "home" / "key.yaml").write_text(MANIFEST.replace("NAME", "ours"))
    folder = tmp_path / "checkout"
    for inner in (".git", "machine/srv/data", "..2026"):
        (folder / inner).mkdir(parents=True)
    (folder / ".git" / "config").write_text(OURS)
    for place in (folder, folder / "machine" / "srv" / "data"):
        for name in ("key", "key.sh", "key.yaml", "key.service"):
            (place / name).symlink_to(tmp_path / "home" / name)
        (place / "chain.sh").symlink_to("key.sh")
        (place / "home").symlink_to(tmp_path / "home")
        (place / "git.sh").symlink_to(folder / ".git" / "config")
        (place / "circle.sh").symlink_to("circle.sh")
        (place / "memory").symlink_to("/proc/self/environ")
    (folder / "..2026" / "own.yaml").write_text(MANIFEST.replace("NAME", "own"))
    (folder / "own.yaml").symlink_to("..2026/own.yaml")  # as a ConfigMap is mounted
    (folder / "own.sh").write_text("./key.sh; ./chain.sh; ../home/key.sh; home/key.sh; /proc/1/root/key.sh; ./git.sh\n")
    (folder / "machine" / "srv" / "data" / "own").write_text("own")
    return folder


def test_no_link_of_a_folder_leads_out_of_it_or_into_what_is_hidden(checkout):
    found = {str(file.relative_to(checkout)) for file in checkout.rglob("*") if enclosed(file, checkout)}
    plain = {".git/config", "..2026/own.yaml", "own.sh", "machine/srv/data/own"}
    assert found == plain | {"own.yaml"}
    assert not enclosed(checkout / "home" / "key", checkout)
    assert not enclosed(checkout / ".." / "home" / "key", checkout)


def test_manifests_are_not_read_through_links_that_lead_out(checkout):
    loaded = manifests.load([checkout])
    assert [one.obj["metadata"]["name"] for one in loaded.manifests] == ["own"]
    told = {one.file: one.why for one in loaded.skipped}
    assert told[str(checkout / "key.yaml")] == f"a link that leads out of {checkout}, not followed: name that file too"
    named = manifests.load([checkout, checkout / "key.yaml"])  # a person names what a stranger may not
    assert {one.obj["metadata"]["name"] for one in named.manifests} == {"own", "ours"}


def test_programs_see_and_name_nothing_that_links_lead_to(checkout):
    machine = Machine(None, WallLoop(), checkout, _prefilled=True)
    seen = {name: file.content for mount in machine.mounts() for name, file in mount.volume.files.items()}
    assert sorted(seen) == ["own.sh", "own.yaml"]
    assert sorted(machine._overlay["/srv/data"]) == ["own"]
    assert [name for name, _ in scripts.texts(Command(("./own.sh",)), checkout)] == ["./own.sh", "own.sh"]
    assert scripts.own_script(Command(("./key.sh",)), checkout) is None
    (checkout / "x.service").write_text("[Service]\nExecStart=/opt/key.sh\n[Install]\nWantedBy=default.target\n")
    assert units.read([checkout], beside=checkout, deployed=False).starters == ()


def test_a_file_without_an_end_is_one_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST", 2**20)
    long = tmp_path / "long.yaml"
    long.write_bytes(MANIFEST.encode() + b"# x\n" * 2**18)
    with pytest.raises(OSError, match="larger than 1 mebibytes"):
        text_of(long)
    (tmp_path / "own.yaml").write_text(MANIFEST)
    loaded = manifests.load([tmp_path])
    assert [(one.file, one.why) for one in loaded.skipped] == [(str(long), "larger than 1 mebibytes")]
    with pytest.raises(SpecError, match="larger than 1 mebibytes"):
        specfile.load(long)


def test_a_text_has_its_lines_ended_alike_and_no_mark_before_it(tmp_path):
    file = tmp_path / "windows.yaml"
    file.write_bytes(b"\xef\xbb\xbfkind: Job\r\nmetadata:\r  name: \xc3\xa9\n")
    assert text_of(file, "utf-8-sig") == "kind: Job\nmetadata:\n  name: é\n"


def test_what_is_no_utf_8_is_refused_unless_replaced(tmp_path):
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"name: \xe9\n")
    with pytest.raises(UnicodeDecodeError):
        text_of(file)
    assert text_of(file, errors="replace") == "name: �\n"


@pytest.mark.parametrize("linked", [".killcheck", ".killcheck/runs", ".killcheck/locks", ".killcheck/locks/a.lock"])
def test_nothing_is_written_where_a_link_of_the_checkout_leads(tmp_path, monkeypatch, linked):
    work, file = tmp_path / "work", tmp_path / "home" / "a.lock"
    (work / linked).parent.mkdir(parents=True)
    file.parent.mkdir()
    file.write_text("ours")
    (work / linked).symlink_to(file if linked.endswith("lock") else file.parent)
    monkeypatch.chdir(work)
    with pytest.raises(OSError, match="is a link, and nothing is written through it"):
        Locks(state_dir(), "run", [("", "a", "a target")]).acquire()
    assert [path.name for path in file.parent.iterdir()] == ["a.lock"]
    assert file.read_text() == "ours"


def test_a_links_own_end_may_be_anywhere_above_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "linked").symlink_to("work")
    monkeypatch.chdir(tmp_path / "linked")
    assert own(Path(".killcheck")) == Path(".killcheck")
    assert own(tmp_path / "linked/.killcheck") == tmp_path / "linked/.killcheck"


@pytest.mark.parametrize("linked", ["new.yaml", "out", "out.yaml", "/dev/null"])
def test_no_document_is_written_where_a_link_of_the_checkout_leads(tmp_path, monkeypatch, linked):
    """Dangling, a folder's, a file's of somebody else, or a device's; one that stays in the folder is somebody's own order."""
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    (home / "out.yaml").write_text("ours")
    led, linked = home / linked, linked.rpartition("/")[2]
    (work / linked).symlink_to(home if linked == "out" else led)
    (work / "latest").symlink_to("night")
    monkeypatch.chdir(work)
    with pytest.raises(OSError, match="is a link that leads out of this folder"):
        put(Path("out/new.yaml" if linked == "out" else linked), "theirs")
    put(Path("latest"), "kept\ud800")
    (work / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="leads in a circle"):
        put(Path("circle"), "theirs")
    (work / "circle").unlink()
    assert [(file.name, file.read_text()) for file in home.iterdir()] == [("out.yaml", "ours")]
    assert sorted(file.name for file in work.iterdir()) == sorted([linked, "latest", "night"])


@pytest.mark.parametrize("fails", [errno.EBUSY, errno.EACCES])
def test_a_file_that_none_can_take_the_place_of_is_written_over_and_whole_or_as_it_was(tmp_path, monkeypatch, fails):
    """A file that is mounted by itself, or lies in a folder that may not be written."""

    def refused(self, _other):
        raise OSError(fails, os.strerror(fails), str(self))

    monkeypatch.setattr(Path, "replace", refused)
    put_there = tmp_path / "spec.yaml"
    with pytest.raises(OSError, match=os.strerror(fails)) as none:
        put(put_there, "new")
    assert none.value.filename == str(put_there)
    put_there.write_text("old and longer")
    put(put_there, "new")
    assert put_there.read_text() == "new"
    os.link(put_there, tmp_path / "another")
    with pytest.raises(OSError, match="has other names"):
        put(put_there, "newer")
    (tmp_path / "another").unlink()
    synced = []
    monkeypatch.setattr(os, "fsync", lambda _descriptor: synced.append(1) if synced else synced.append(0) or _full())
    with pytest.raises(OSError, match="No space left"):
        put(put_there, "newer")
    assert put_there.read_text() == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["spec.yaml"]


def _full():
    raise OSError(errno.ENOSPC, "No space left")


def test_a_dangling_link_is_not_made_a_file(tmp_path):
    (tmp_path / ".gitignore").symlink_to(tmp_path / "elsewhere")
    own_ignore(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    own_ignore(tmp_path / "new")
    assert (tmp_path / "new/.gitignore").read_text().endswith("\n*\n")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "to a pipe"])
def test_what_is_no_file_is_not_waited_for(tmp_path, kind):
    file = tmp_path / "file"
    if kind == "folder":
        file.mkdir()
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / "pipe")
        file.symlink_to("pipe")
    with pytest.raises(OSError, match="is no regular file"):
        opened(file)


def test_a_pipe_is_read_as_long_as_somebody_writes_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_OTHER_END_MS", 20)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for waits in (text_of, bytes_of, lambda file: list(lines_of(file))):
        with pytest.raises(OSError, match="nobody writes to") as refused:
            waits(pipe)
        assert refused.value.errno == errno.ENXIO
    for waits in (put, add_to):
        with pytest.raises(OSError, match="nobody reads") as refused:
            waits(pipe, "a document")
        assert not isinstance(refused.value, BrokenPipeError)  # which is not told: whoever read has gone
    reading, writing = os.pipe()
    late = threading.Timer(0.1, lambda: (os.write(writing, b"a: 1\n"), os.close(writing)))
    late.start()
    try:
        assert text_of(f"/dev/fd/{reading}") == "a: 1\n"
    finally:
        late.join()
        os.close(reading)


@pytest.mark.parametrize("brought", ["link", "file"])
def test_a_kubeconfig_of_a_kind_cluster_is_written_anew_over_what_came_with_the_checkout(
    tmp_path, monkeypatch, brought
):
    ours = tmp_path / "ours"
    ours.write_text("ours")
    kind = Kind("killcheck", tmp_path / "kind")
    kind.folder.mkdir()
    if brought == "link":
        kind.kubeconfig.symlink_to(ours)
    else:
        kind.kubeconfig.write_text("theirs")
    monkeypatch.setattr(Kind, "_kind", lambda self, *argv: "kind's own")
    kind.export()
    assert (ours.read_text(), kind.kubeconfig.read_text()) == ("ours", "kind's own")
    assert kind.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert list(kind.folder.iterdir()) == [kind.kubeconfig]
