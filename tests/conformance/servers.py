"""An API server to ask: the embedded one, or any that a kubeconfig leads to. Both answer (status, warnings, body)."""

import json
import ssl
import urllib.error
import urllib.request
from base64 import b64decode
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import parse_qs, unquote

import yaml

from killcheck.embedded.api.authn import peer_header
from killcheck.embedded.api.http import Request
from killcheck.embedded.cluster import Cluster

#: Who asks, which shows in managedFields.
AGENT = "Python-urllib/3.11"
#: What a request takes, while controllers work; on a real cluster it is more.
REQUEST_S = 0.02
#: What the TLS layer says of the administrator's certificate.
CERTIFICATE = peer_header("kubernetes-admin", ("system:masters",))


class Embedded:
    """The embedded cluster, asked in process with bodies as they come over the wire."""

    def __init__(self, *, kubelets=True):
        """``kubelets=False``: nodes that are registered have none, as on a control plane alone."""
        self.cluster = Cluster(exec_mode="none")
        if not kubelets:
            self.cluster.nodes.tends = lambda _node: False

    def ask(self, method, path, body=None, content_type="application/json"):
        return self.ask_as(method, path, body, {"Content-Type": content_type})

    def ask_as(self, method, path, body, headers):
        """With headers beside the client's own, or in their place; an answer that is no JSON is text."""
        answer = self._handle(method, path, body, headers)
        said = answer.body
        return (
            answer.status,
            answer.headers.get("Warning"),
            _json(said)
            if isinstance(said, bytes)
            else json.loads(said)
            if isinstance(said, str) and said[:1] == "{"
            else said,
        )

    def _handle(self, method, path, body, headers):
        path, _, query = path.partition("?")
        sent = {"content-type": "application/json", "accept": "application/json", "user-agent": AGENT}
        sent |= {name.lower(): value for name, value in headers.items()}
        certificate = {} if "authorization" in sent else CERTIFICATE
        self.cluster.loop.sleep(REQUEST_S)
        return self.cluster.server.handle(
            Request(method, unquote(path), parse_qs(query, keep_blank_values=True), sent | certificate, body)
        )

    def watch(self, path, headers):
        """What a watch shows until its time is up."""
        frames, ended = [], []
        answer = self._handle("GET", path, None, headers)
        if answer.stream is None:
            return [_json(answer.body) if isinstance(answer.body, bytes) else answer.body]
        answer.stream.subscribe(frames.append, lambda: ended.append(True))
        self.cluster.loop.sleep(2)
        return frames

    def settle(self):
        self.cluster.loop.sleep(2)

    def wait(self, seconds):
        self.cluster.loop.sleep(seconds)

    def close(self):
        self.cluster.close()


class Real:
    """What a kubeconfig's current context leads to, asked with its client certificate."""

    def __init__(self, path):
        config = yaml.safe_load(Path(path).read_text())
        context = next(c for c in config["contexts"] if c["name"] == config["current-context"])["context"]
        cluster = next(c for c in config["clusters"] if c["name"] == context["cluster"])["cluster"]
        user = next(u for u in config["users"] if u["name"] == context["user"])["user"]
        self.url = cluster["server"]
        self.ssl = ssl.create_default_context(cafile=_file(cluster, "certificate-authority"))
        self.anonymous = ssl.create_default_context(cafile=_file(cluster, "certificate-authority"))
        self.token = user.get("token")
        if not self.token:
            self.ssl.load_cert_chain(_file(user, "client-certificate"), _file(user, "client-key"))

    def ask(self, method, path, body=None, content_type="application/json"):
        return self.ask_as(method, path, body, {"Content-Type": content_type})

    def ask_as(self, method, path, body, headers):
        """With headers beside the client's own, or in their place; an answer that is no JSON is text."""
        status, said, answer = self._open(method, path, body, headers)
        return status, ", ".join(said.get_all("Warning") or ()) or None, _json(answer)

    def watch(self, path, headers):
        """What a watch shows until its time is up."""
        status, _, said = self._open("GET", path, None, headers)
        return [json.loads(line) for line in said.splitlines()] if status == 200 else [_json(said)]

    def _open(self, method, path, body, headers):
        sent = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": AGENT} | headers
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        context = self.anonymous if "Authorization" in headers else self.ssl
        request = urllib.request.Request(self.url + path, body, sent, method=method)
        try:
            with urllib.request.urlopen(request, context=context, timeout=120) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def settle(self):
        """Its controllers need their time."""
        from killcheck.clock import WallLoop

        WallLoop().sleep(1.0)

    def wait(self, seconds):
        from killcheck.clock import WallLoop

        WallLoop().sleep(seconds)

    def close(self):
        """Nothing to close."""


def _file(section, name):
    if f"{name}-data" not in section:
        return section[name]
    with NamedTemporaryFile(delete=False) as file:
        file.write(b64decode(section[f"{name}-data"]))
    return file.name


def _json(data):
    try:
        return json.loads(data) if data[:1] == b"{" else data.decode()
    except ValueError:  # a stream, or bytes that are no text
        return data.decode(errors="replace")
