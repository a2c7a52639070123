"""An API server to ask: the embedded one, or any that a kubeconfig leads to. Both answer (status, warnings, body)."""

import json
import ssl
import urllib.error
import urllib.request
from base64 import b64decode
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import parse_qs

import yaml

from killcheck.embedded.api.authn import peer_header
from killcheck.embedded.api.http import Request
from killcheck.embedded.cluster import Cluster

#: Who asks, which shows in managedFields.
AGENT = "Python-urllib/3.11"
#: What the TLS layer says of the administrator's certificate.
CERTIFICATE = peer_header("kubernetes-admin", ("system:masters",))


class Embedded:
    """The embedded cluster, asked in process with bodies as they come over the wire."""

    def __init__(self):
        self.cluster = Cluster(exec_mode="none")

    def ask(self, method, path, body=None, content_type="application/json"):
        path, _, query = path.partition("?")
        answer = self.cluster.server.handle(
            Request(
                method,
                path,
                parse_qs(query, keep_blank_values=True),
                {"content-type": content_type, "accept": "application/json", "user-agent": AGENT, **CERTIFICATE},
                body,
            )
        )
        said = answer.body
        return (
            answer.status,
            answer.headers.get("Warning"),
            json.loads(said) if isinstance(said, str | bytes) and (said[:1] in (b"{", "{")) else said,
        )

    def settle(self):
        self.cluster.loop.sleep(2)

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
        self.token = user.get("token")
        if not self.token:
            self.ssl.load_cert_chain(_file(user, "client-certificate"), _file(user, "client-key"))

    def ask(self, method, path, body=None, content_type="application/json"):
        headers = {"Content-Type": content_type, "Accept": "application/json", "User-Agent": AGENT}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.ssl, timeout=120) as answer:
                return answer.status, answer.headers.get("Warning"), _json(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers.get("Warning"), _json(error.read())

    def settle(self):
        """Its controllers need their time."""
        from killcheck.clock import WallLoop

        WallLoop().sleep(1.0)

    def close(self):
        """Nothing to close."""


def _file(section, name):
    if f"{name}-data" not in section:
        return section[name]
    with NamedTemporaryFile(delete=False) as file:
        file.write(b64decode(section[f"{name}-data"]))
    return file.name


def _json(data):
    return json.loads(data) if data[:1] == b"{" else data.decode()
