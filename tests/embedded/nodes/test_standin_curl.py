"""A host without curl: the stand-in answers as curl does, says that it ran, and guesses at nothing."""

import http.server
import io
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading

import pytest
from node_world import PKI, no_thread_is_left, pod

from killcheck.embedded.nodes import standin_curl
from killcheck.embedded.nodes.hostprograms import HostPrograms
from killcheck.kube import resources as r

SA = "/var/run/secrets/kubernetes.io/serviceaccount"
CURL = f'curl -fsS --cacert {SA}/ca.crt -H "Authorization: Bearer $(cat {SA}/token)" --retry 3 --max-time 30'
TARGET = "https://kubernetes.default.svc/api/v1/namespaces/team/configmaps/target"
PATCHED = '-H \'Content-Type: application/merge-patch+json\' -X PATCH -d \'{"data":{"replicas":"0"}}\''


class NoCurl(HostPrograms):
    def find(self, name):
        return None if name == "curl" else super().find(name)


@pytest.fixture
def poor(host):
    host.host.host = NoCurl()
    return host


def test_it_patches_the_api_with_the_pods_own_token_and_is_declared(poor):
    poor.allow()
    code, log = poor.run_pod(f"set -eu\n{CURL} {PATCHED} {TARGET}")
    assert (code, '"replicas": "0"' in log) == (0, True)
    assert poor.kube.get(r.CONFIGMAPS, "target", "team")["data"] == {"replicas": "0"}
    assert any(said.startswith("this machine has no curl: killcheck's own stand-in") for said in poor.host.assumptions)


def test_it_fails_as_curl_does(poor):
    assert poor.run_pod(f"{CURL} {TARGET}") == (22, "curl: (22) The requested URL returned error: 403\n")


def test_what_it_does_not_know_leaves_the_outcome_unknown(poor):
    poor.add(pod("job", command=["sh", "-c", f"curl --socks5 there {TARGET}"], policy="Never"))
    assert poor.loop.run_until(lambda: bool(poor.nodes.unknown), 60)
    assert "calls curl, which" in poor.nodes.unknown[0]


# -- the same answers as curl's ----------------------------------------------------------------------------
class Echo(http.server.BaseHTTPRequestHandler):
    """Says what it was asked; ``/N`` answers with status N."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kept = [f"{n.lower()}: {v}" for n, v in self.headers.items() if n.lower() not in ("host", "user-agent")]
        said = "\n".join([f"{self.command} {self.path}", *sorted(kept), body.decode()]).encode()
        self.send_response(int(self.path[1:]) if self.path[1:].isdigit() else 200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = answer

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, address):
        """A client that has heard enough goes away."""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """What stands for ``@``: servers with TLS and without, a port where nobody listens, files."""
    folder = tmp_path_factory.mktemp("curl")
    (folder / "ca.pem").write_text(PKI.ca_pem)
    (folder / "body").write_text('{"a":\n1}\n')
    (folder / "heads").write_text("X-Key: k\nX-More: m\n")
    (folder / "both.pem").write_text(PKI.server.certificate_pem + PKI.server.key_pem)
    plain = Server(("127.0.0.1", 0), Echo)
    safe = Server(("127.0.0.1", 0), Echo)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    safe.socket = context.wrap_socket(safe.socket, server_side=True)
    threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in (plain, safe)]
    for thread in threads:
        thread.start()
    (folder / "url").write_text(f'url = "http://127.0.0.1:{plain.server_port}/k?a=b"')
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield {
            "@plain": f"http://127.0.0.1:{plain.server_port}",
            "@safe": f"https://kubernetes.default.svc:{safe.server_port}",
            "@to": f"kubernetes.default.svc:{safe.server_port}:127.0.0.1:{safe.server_port}",
            "@shut": f"http://127.0.0.1:{free.getsockname()[1]}",
            "@folder": str(folder),
        }
    for server, thread in zip((plain, safe), threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()
    no_thread_is_left()


#: (arguments, exit code, whether curl's standard error is compared too).
CASES = [
    ("-sS @plain/a?b=c", 0, True),
    ("-fsS @plain/403", 22, True),
    ("-f -s @plain/500", 22, True),
    ("-sS @plain/404", 0, True),
    ("--fail-with-body -sS @plain/409", 22, True),
    ("-sS -X PATCH -H Content-Type:x/y -d {} @plain/p", 0, True),
    ("-sSXPUT --data-raw @x @plain/p", 0, True),
    ("-sS -d @@folder/body @plain/p", 0, True),
    ("-sS --data-binary @@folder/body @plain/p", 0, True),
    ("-sS -d a=b -d c=d --url @plain", 0, True),
    ("-sS --json {} @plain/j", 0, True),
    ("-sS -H @@folder/heads -K @folder/url --data-binary @@folder/body", 0, True),
    ("-sS -H Accept: -H X-Empty; -H Content-Type:a/b -d x @plain/h", 0, True),
    ("-sSo /dev/null -w %{http_code}\\n @plain/418", 0, True),
    ("-fsS -w %{http_code} @plain/401", 22, True),
    ("-sS -w %{http_code} @shut", 7, False),
    ("-s @shut", 7, True),
    ("-sS -m 5 --connect-timeout 5 --connect-to @to --cacert @folder/ca.pem @safe/t", 0, True),
    ("-sSk --connect-to @to @safe/t", 0, True),
    ("-sS --connect-to @to @safe/t", 60, False),
    ("-sS --cacert @folder/none --connect-to @to @safe/t", 77, False),
    ("-sS http://nowhere.invalid/", 6, True),
    ("-sS -X DELETE @plain/x", 0, True),
    ("-sS -m soon @plain/x", 2, False),
    ("-sS", 2, False),
]


@pytest.mark.parametrize(("words", "code", "said"), CASES, ids=[words for words, _, _ in CASES])
def test_exit_code_output_and_complaint_are_curls(words, code, said, places, monkeypatch):
    argv = words.split(" ")
    for name, value in places.items():
        argv = [word.replace(name, value) for word in argv]
    asked = []
    monkeypatch.setattr(standin_curl, "ask", lambda question: asked.append(question) or "ok")
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if "proxy" not in k.lower()})
    out, complaint = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", complaint)
    got = standin_curl.main(argv)
    printed = out.buffer.getvalue().decode()
    assert (got, [q for q in asked if q.startswith("lacking")]) == (code, [])
    if shutil.which("curl"):
        real = subprocess.run(["curl", "-q", *argv], check=False, capture_output=True, env=dict(os.environ))
        assert (real.returncode, real.stdout.decode()) == (code, printed)
        assert not said or real.stderr.decode() == complaint.getvalue()


@pytest.mark.parametrize(
    "words",
    [
        "-v x",
        "-d @/nowhere http://x",
        "-u a:b http://x",
        "--resolve a:1:b http://x",
        "-w %{size_upload} http://x",
        "ftp://x",
        "a b",
    ],
)
def test_what_it_does_not_know_is_told_before_anything_is_sent(words, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(standin_curl, "ask", lambda question: asked.append(question) or "ok")
    with pytest.raises(SystemExit):
        standin_curl.main(words.split(" "))
    assert asked[-1] == "lacking curl"
    assert "does not know" in capsys.readouterr().err
