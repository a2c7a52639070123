"""A small HTTPS server that does what a test tells it: answers, breaks connections, streams frames, stays silent."""

from __future__ import annotations

import json
import queue
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

from killcheck.embedded.pki import Identity, Pki

#: In every user of these tests: must never be told to anybody.
SECRET = "s3cr3t-t0ken-of-somebody"


@dataclass(frozen=True)
class Seen:
    """A request as it arrived. ``peer``: the common name on the client certificate."""

    method: str
    path: str
    query: dict[str, str]
    headers: Any
    body: Any
    peer: str

    @property
    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/json"


class Break:
    """Reset the connection instead of answering."""


class Stream:
    """An answer of 200 whose chunks the test sends."""

    def __init__(self) -> None:
        self._steps: queue.Queue[bytes | type[Break] | None] = queue.Queue()

    def event(self, kind: str, name: str, version: int) -> None:
        meta = {"name": name, "namespace": "a", "resourceVersion": str(version), "uid": name}
        self.raw(json.dumps({"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", "metadata": meta}}) + "\n")

    def raw(self, text: str) -> None:
        self._steps.put(text.encode())

    def end(self) -> None:
        self._steps.put(None)

    def break_off(self) -> None:
        self._steps.put(Break)

    def play(self, handler: BaseHTTPRequestHandler) -> None:
        while (step := self._steps.get()) is not None:
            if isinstance(step, type):
                reset(handler)
                return
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(step), step))
        handler.wfile.write(b"0\r\n\r\n")


def reset(handler: BaseHTTPRequestHandler) -> None:
    """Close with a RST, as a peer that died does."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    socket.socket.close(handler.connection)
    handler.close_connection = True


Answering = Callable[[Seen], Reply | Stream | Break]


class HttpsServer:
    """Listens on loopback; ``answer`` decides, ``seen`` is what came."""

    def __init__(self, pki: Pki) -> None:
        self.pki = pki
        self.seen: list[Seen] = []
        self.answer: Answering = lambda seen: Reply(200, {"gitVersion": "v1.36.2"})
        self._streams: list[Stream] = []
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._server.socket = pki.server_context().wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def stream(self) -> Stream:
        stream = Stream()
        self._streams.append(stream)
        return stream

    def stop(self) -> None:
        for stream in self._streams:
            stream.end()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                seen = _read(self)
                outer.seen.append(seen)
                answer = outer.answer(seen)
                if isinstance(answer, Break):
                    reset(self)
                    return
                self.send_response(200 if isinstance(answer, Stream) else answer.status)
                if isinstance(answer, Stream):
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    answer.play(self)
                    return
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                headers = {"Content-Type": answer.kind, "Content-Length": str(len(body)), **answer.headers}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *args: object) -> None: ...

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that give up are what these tests are about."""


def _read(handler: BaseHTTPRequestHandler) -> Seen:
    parts = urlsplit(handler.path)
    length = int(handler.headers.get("Content-Length") or 0)
    body = json.loads(handler.rfile.read(length)) if length else None
    assert isinstance(handler.connection, ssl.SSLSocket)
    subject = (handler.connection.getpeercert() or {}).get("subject", ())
    peer = next((value for part in subject for key, value in part if key == "commonName"), "")
    return Seen(handler.command, parts.path, dict(parse_qsl(parts.query)), handler.headers, body, peer)


def kubeconfig(
    path: Path,
    url: str,
    pki: Pki,
    user: dict[str, Any],
    *,
    context: str = "here",
    **cluster: Any,
) -> Path:
    """A kubeconfig with one context."""
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {"server": url, "certificate-authority-data": base64_of(pki.ca_pem), **cluster},
                    }
                ],
                "users": [{"name": "somebody", "user": user}],
                "contexts": [{"name": context, "context": {"cluster": "c", "user": "somebody"}}],
                "current-context": context,
            }
        )
    )
    return path


def base64_of(text: str) -> str:
    import base64

    return base64.b64encode(text.encode()).decode()


def certificate_user(identity: Identity) -> dict[str, str]:
    return {
        "client-certificate-data": base64_of(identity.certificate_pem),
        "client-key-data": base64_of(identity.key_pem),
    }
