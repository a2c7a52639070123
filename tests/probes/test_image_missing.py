"""The question to a registry, asked of one that is really there: a small one on loopback, with a token service."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from killcheck.probes import Finding
from killcheck.probes.image_missing import ImageMissing
from killcheck.probes.oci import Registries, credentials_for

from killcheck import fixtures
from killcheck.images.reference import parse
from killcheck.kube import manifests
from killcheck.lint import asking

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
USER, PASSWORD = "robot", "hunter2-of-the-robot"
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DIGEST = "sha256:" + "ab" * 32


class Handler(BaseHTTPRequestHandler):
    """``/v2/open/...`` for everybody, ``private`` for a token, ``basic`` for a password, and some that are ill."""

    server: Registry

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.seen.append((self.command, self.path, self.headers.get("Authorization", "")))
        url = urlsplit(self.path)
        if url.path == "/token":
            self._token(parse_qs(url.query))
        else:
            self._image(url.path.removeprefix("/v2/"))

    def _token(self, query: dict[str, list[str]]) -> None:
        said = self.headers.get("Authorization")
        if said not in (None, f"Basic {BASIC}"):
            self._answer(401, {})
        elif query["scope"] == ["repository:private/off:pull"] and said is None:
            self._answer(200, {"token": "for-nobody"})
        else:
            self._answer(200, {"token": "for-the-robot" if said else "for-anybody"})

    def _image(self, path: str) -> None:
        said, family = self.headers.get("Authorization"), path.partition("/")[0]
        realm = (
            f'Bearer realm="http://{self.headers["Host"]}/token",service="here",scope="repository:{family}/off:pull"'
        )
        if family in ("private", "open", "forbidden") and said is None:
            self._answer(401, {"errors": [{"code": "UNAUTHORIZED"}]}, {"WWW-Authenticate": realm})
        elif said != {"private": "Bearer for-the-robot", "basic": f"Basic {BASIC}"}.get(family, said):
            self._answer(401, {}, {"WWW-Authenticate": 'Basic realm="here"' if family == "basic" else realm})
        elif family in ("forbidden", "busy", "ill"):
            self._answer({"forbidden": 403, "busy": 429, "ill": 503}[family], {})
        elif "nowhere" in path:
            self._answer(404, {"errors": [{"code": "NAME_UNKNOWN"}]})
        elif "/blobs/" in path:
            self._answer(200, {"architecture": "arm64", "os": "linux"})
        elif path.endswith(("/manifests/1.2", f"/manifests/{DIGEST}")):
            entries = [("amd64", "linux"), ("arm64", "linux"), ("unknown", "unknown")]
            index = {"mediaType": INDEX, "manifests": [{"platform": {"architecture": a, "os": o}} for a, o in entries]}
            self._answer(200, index, {"Docker-Content-Digest": DIGEST})
        elif path.endswith("/manifests/arm"):
            self._answer(200, {"mediaType": MANIFEST, "config": {"digest": "sha256:c0"}})
        else:
            self._answer(404, {"errors": [{"code": "MANIFEST_UNKNOWN"}]})

    def _answer(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(text)


class Registry(ThreadingHTTPServer):
    """``seen``: method, path and Authorization of every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str, str]] = []
        self.host = f"127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def findings(image: str, *, secret: dict[str, Any] | None = None, arch: str = "") -> list[Finding]:
    """What the probe says of the reference path's switch with another image; ``secret`` are the auths of its secret."""
    objects = manifests.load(fixtures.path("dead-man")).objects
    for obj in objects:
        if obj["kind"] == "CronJob":
            spec = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]
            spec["containers"][0]["image"] = image
            spec["nodeSelector"] = {"kubernetes.io/arch": arch} if arch else {}
            spec["imagePullSecrets"] = [{"name": "pull"}] if secret is not None else []
    if secret:
        data = base64.b64encode(json.dumps({"auths": secret}).encode()).decode()
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "pull", "namespace": "inference"},
                "type": "kubernetes.io/dockerconfigjson",
                "data": {".dockerconfigjson": data},
            }
        )
    world, _ = asking.world_of(objects, NOW)
    return [f for f in asking.lint(world, probes=[ImageMissing()]).findings if f.probe == "image-missing"]


def test_an_image_that_is_there_is_asked_for_once_and_with_its_token(registry: Registry) -> None:
    assert findings(f"{registry.host}/open/off:1.2", arch="amd64") == []
    assert [(method, auth) for method, _, auth in registry.seen] == [
        ("HEAD", ""),
        ("GET", ""),
        ("HEAD", "Bearer for-anybody"),
        ("GET", "Bearer for-anybody"),
    ]
    assert "scope=repository%3Aopen%2Foff%3Apull" in registry.seen[1][1]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("open/off:1.3", "no such tag"),
        ("open/nowhere:1.2", "no such repository"),
        ("forbidden/off:1.2", "403"),
        ("busy/off:1.2", "429"),
        ("private/off:1.2", "a login is wanted"),
        ("basic/off:1.2", "a login is wanted"),
    ],
)
def test_refusals_are_told_apart(registry: Registry, path: str, words: str) -> None:
    (found,) = findings(f"{registry.host}/{path}")
    assert words in found.message
    assert not found.unproven
    assert found.severity == ("warning" if "429" in words else "error")


@pytest.mark.parametrize("family", ["private", "basic"])
def test_the_pods_own_pull_secret_opens_it(registry: Registry, family: str) -> None:
    image = f"{registry.host}/{family}/off@{DIGEST}"
    assert findings(image, secret={registry.host: {"auth": BASIC}}) == []
    assert findings(image, secret={f"https://{registry.host}/v2/": {"username": USER, "password": PASSWORD}}) == []
    wrong = base64.b64encode(b"robot:of-yesterday").decode()
    (found,) = findings(image, secret={registry.host: {"auth": wrong}})
    assert "pull secret pull is refused" in found.message


def test_a_pull_secret_that_is_not_here_leaves_the_question_open(registry: Registry) -> None:
    (found,) = findings(f"{registry.host}/private/off:1.2", secret={})
    assert found.unproven
    assert "pull secret pull cannot be read" in found.message


def test_a_registry_that_is_ill_or_not_there_proves_nothing(registry: Registry) -> None:
    (found,) = findings(f"{registry.host}/ill/off:1.2")
    assert found.unproven
    assert "answers 503" in found.message
    (found,) = findings("127.0.0.1:1/open/off:1.2")
    assert found.unproven
    assert "did not answer" in found.message


@pytest.mark.parametrize(
    ("tag", "arch", "wrong"),
    [("1.2", "arm64", False), ("1.2", "riscv64", True), ("arm", "arm64", False), ("arm", "amd64", True)],
)
def test_the_platform_is_that_of_the_nodes(registry: Registry, tag: str, arch: str, wrong: bool) -> None:
    found = findings(f"{registry.host}/open/off:{tag}", arch=arch)
    assert ["exec format error" in f.message for f in found] == ([True] if wrong else [])


def test_no_credential_is_told_to_anyone_else(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    found = findings(f"{registry.host}/private/off:9", secret={registry.host: {"auth": BASIC}})
    assert found
    told = caplog.text + str(found)
    assert PASSWORD not in told
    assert BASIC not in told
    assert "for-the-robot" not in told
    registry.seen.clear()
    findings(f"{registry.host}/open/off:1.2", secret={"other.example.com": {"auth": BASIC}})
    assert not [auth for _, _, auth in registry.seen if BASIC in auth]


@pytest.mark.parametrize(
    ("entry", "image", "same"),
    [
        ("ghcr.io", "ghcr.io/a/b", True),
        ("https://ghcr.io", "ghcr.io/a/b", True),
        ("cr.io", "ghcr.io/a/b", False),
        ("ghcr.io", "cr.io/a/b", False),
        ("*.dkr.ecr.eu-west-1.amazonaws.com", "1.dkr.ecr.eu-west-1.amazonaws.com/a", True),
        ("*.amazonaws.com", "1.dkr.ecr.eu-west-1.amazonaws.com/a", False),
        ("https://index.docker.io/v1/", "nginx", True),
        ("ghcr.io/team", "ghcr.io/team/b", True),
        ("ghcr.io/team", "ghcr.io/teammate/b", False),
    ],
)
def test_entries_of_a_pull_secret_are_for_their_own_host(entry: str, image: str, same: bool) -> None:
    reference = parse(image)
    found = credentials_for(reference.host, reference.path, [{"auths": {entry: {"auth": BASIC}}}])
    assert (found == BASIC) is same


def test_a_login_over_plain_http_elsewhere_is_not_made() -> None:
    question = Registries()
    question.close()
    from killcheck.probes.oci import _Question

    asked = _Question(None, parse("registry.example.com/a:1"), BASIC)  # type: ignore[arg-type]
    answer = asked._authorize('Bearer realm="http://tokens.example.com/t",service="x"')
    assert answer is not None
    assert answer.state == "unknown"
