"""The commands in the documentation, run: each ends with the exit code that is said, and prints what is said.

A ``console`` block is a shell session: lines that begin with ``$`` are run, in order, in one shell for the page; the
lines below one must be in what it prints, in that order. A comment that ends with ``exit N`` says that it fails.
``<!-- needs: X -->`` above a block: it is run apart from the others, where there is X, a program or what is made here:
``staging`` (a cluster of that name), ``aws`` (a stand-in with buckets), ``chat``, ``clone`` (its ``ci/`` in the
folder), and on the engine that KILLCHECK_TEST_DOCKER names ``engine`` (a server with GPUs and a cron container) and ``kind``.
On ``staging`` the spec in ``deploy`` has no nodes to wait for, and who is asked there answers y.
``<!-- file: F for: X -->`` above a block: it is the file F in the folder of
these; of all, where it is for none. ``runs/ID`` is the newest run. README is followed on a machine without curl, kubectl and Docker, not as root.
killcheck and pytest are each a process of their own, forked by one that has imported them (``forked.py``).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import forked
import pytest
from docker_host import VARIABLE, engine
from kind_stand import Stand
from poor_machine import poorer
from wire_world import CONTEXT, WireWorld

ROOT = Path(__file__).resolve().parents[2]
MARK = "@@killcheck-docs@@"
BLOCK = re.compile(r"(?:^<!-- needs: (?P<needs>[\w ]+) -->\n)?^```console\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^<!-- file: ([\w.]+) for: (\w*) -->\n^```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: What a reader waits for and a test does not.
SHORTER = re.compile(r"held: \d+[sm]")
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "ci/README.md"])
    if "```console" in page.read_text(encoding="utf-8")
]
#: Plugins of the environment of these tests, which whoever follows a page does not have.
NOT_THE_USERS = ("hypothesispytest", "anyio", "allure_pytest", "platformdirs", "timeout")
#: What is put before the commands of a session on ``staging``.
ANSWERED = r"""killcheck() {
  local code
  case "$*" in
    *--yes*|*--dry-run*|*--live*) command killcheck "$@" ;;
    drill*"--on staging"*|gate*"--on staging"*) printf 'y\n' | script -qec "$(printf '%q ' killcheck "$@")" /dev/null ;;
    *) command killcheck "$@" ;;
  esac
  code=$?
  case "$*" in demo*) cp ../killcheck.yaml deploy/killcheck.yaml ;; esac
  return $code
}"""
#: Each page with what its blocks need: nothing, or something.
SESSIONS = [
    (page, needs)
    for page in PAGES
    for needs in dict.fromkeys(found["needs"] or "" for found in BLOCK.finditer(page.read_text(encoding="utf-8")))
]


def steps(page, needs=""):
    """(command, expected exit code, expected lines) of a page's blocks with these needs."""
    found = []
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        for line in block["text"].splitlines() if (block["needs"] or "") == needs else ():
            if line.startswith("$ "):
                said = re.search(r"#.*\bexit (\d+)$", line)
                said_so = line[2:].replace("runs/ID", "runs/$(ls -t .killcheck/runs | head -n 1)")
                found.append((said_so, int(said[1]) if said else 0, []))
            elif line == ">" or line.startswith("> "):  # the command goes on
                found[-1] = (f"{found[-1][0]}\n{line[2:]}", *found[-1][1:])
            elif line.strip():
                found[-1][2].append(line)
    return found


def in_order(expected, printed):
    """The first expected line that is not in what was printed after those before it; None: all are."""
    rest = " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed).split())
    for line in expected:
        _, found, rest = rest.partition(" ".join(line.split()))
        if not found:
            return line
    return None


@pytest.fixture
def around(tmp_path):
    """around(needs): the environment in which a session runs. Skips where something that it needs is not there."""
    worlds = []

    def environment(needs):
        made = {
            **os.environ,
            "COLUMNS": "160",
            "NO_COLOR": "1",
            "HOME": str(tmp_path),
            "CI": "1",
            "PYTEST_ADDOPTS": " ".join(f"-p no:{name}" for name in NOT_THE_USERS),
        }
        made.pop("KUBECONFIG", None)
        for name in needs.split():
            if name == "staging":
                worlds.append(WireWorld(tmp_path, speed=1.0))
                config, spec = worlds[0].kubeconfig, worlds[0].spec
                config.write_text(config.read_text().replace(CONTEXT, "staging"))
                text = SHORTER.sub("held: 1s", spec.read_text().replace(CONTEXT, "staging"))
                spec.write_text(re.sub(r"(?m)^proof: .*", "proof: [P1, P4]", text))
                made["KUBECONFIG"] = str(config)
            elif name == "engine":
                made["DOCKER_HOST"] = containers(worlds).address
            elif name == "kind":
                worlds.append(Stand(containers(worlds), tmp_path))
                made.update(worlds[-1].environment)
            elif name == "clone":
                (tmp_path / "work").mkdir(exist_ok=True)
                (tmp_path / "work/ci").symlink_to(ROOT / "ci")
            elif name == "aws":
                worlds.append(pytest.importorskip("killcheck.standins.aws").StandIn())
                made.update(
                    worlds[-1].environment(), AWS_ACCESS_KEY_ID="AKIASTANDIN000000000", AWS_SECRET_ACCESS_KEY="s"
                )
                s3 = worlds[-1].aws().client("s3")
                for bucket in ("proofs", "locked", "evidence", "bucket"):
                    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=bucket == "locked")
            elif name == "chat":
                worlds.append(Chat())
                made["KILLCHECK_WEBHOOK"] = worlds[-1].address
            elif not shutil.which(name):
                pytest.skip(f"{name} is not installed")
        return made

    yield environment
    for world in reversed(worlds):
        world.close()


class Chat:
    """Takes what is posted to it, on loopback."""

    def __init__(self):
        class Taker(BaseHTTPRequestHandler):
            def do_POST(self):
                json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args):
                """Nothing is said."""

        self.server = HTTPServer(("127.0.0.1", 0), Taker)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def containers(worlds):
    """The engine that KILLCHECK_TEST_DOCKER names, nobody else's meanwhile, with a server with GPUs and what stops it."""
    if VARIABLE not in os.environ:
        pytest.skip(f"no Docker Engine is named by {VARIABLE}")
    lent = contextlib.ExitStack()
    worlds.append(lent)
    host = lent.enter_context(engine(os.environ[VARIABLE]))
    host.gpu_server()
    host.cron()
    return host


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The folder of the commands for all sessions on this machine as it is."""
    with forked.installed(tmp_path_factory.mktemp("bin")) as folder:
        yield folder


@pytest.mark.parametrize(
    ("page", "needs"), SESSIONS, ids=[f"{page.relative_to(ROOT)} {needs}".strip() for page, needs in SESSIONS]
)
def test_the_page_can_be_followed(page, needs, tmp_path, around, request):
    wanted = steps(page, needs)
    script = "\n".join(f"{command}\nprintf '\\n{MARK} %s\\n' $?" for command, _, _ in wanted)
    machine = (poorer() or ()) if page.name == "README.md" and not needs else ()
    folder, bin_ = tmp_path / "work", tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for name, whose, text in FILE.findall(page.read_text(encoding="utf-8")):
        if whose in ("", needs):
            (folder / name).write_text(SHORTER.sub("held: 1s", text))
    environment = around(needs)
    if "staging" in needs:
        script = f"{ANSWERED}\n{script}"
    if machine:
        bin_.mkdir()
        script = f"{forked.commands(bin_)}\n{script}"
    else:
        bin_ = request.getfixturevalue("shared")
    environment["PATH"] = f"{bin_}:{environment['PATH']}"
    done = subprocess.run(
        [*machine, "bash", "-c", script],
        check=False,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    outputs = re.split(rf"\n{MARK} (\d+)\n", done.stdout)
    assert len(outputs) == 2 * len(wanted) + 1, done.stdout
    for (command, code, lines), printed, got in zip(wanted, outputs[0::2], outputs[1::2], strict=False):
        assert int(got) == code, f"$ {command}\n{printed}"
        missing = in_order(lines, printed)
        assert missing is None, f"$ {command}\nnot printed: {missing}\n{printed}"


def test_a_wrong_page_is_noticed():
    assert in_order(["a b", "d"], "x a  b c") == "d"
    assert in_order(["a b", "c"], "x a  b c") is None
