"""A gate before a stand-in of AWS: credentials expire or are revoked, calls are denied or throttled, as AWS tells it.

A WSGI application around another (moto's server expires nothing and enforces little). It reads who signs from the
request, and answers a lapsed one with each service's own code and shape; every other request goes through untouched,
and is remembered. Loopback only.

Sources: EC2 API reference "Error codes" (RequestExpired 400, AuthFailure 401, UnauthorizedOperation 403,
RequestLimitExceeded 503); STS, IAM, Auto Scaling "Common errors" (ExpiredToken 403, InvalidClientTokenId 403,
AccessDenied 403, Throttling 400); S3 "Error responses" (ExpiredToken 400, InvalidAccessKeyId 403, AccessDenied 403,
SlowDown 503); JSON services (ExpiredTokenException 400, at EKS 403; UnrecognizedClientException 400;
AccessDeniedException 400; ThrottlingException 400).
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from killcheck.clock import wall_now
from killcheck.text import lazy_re

__all__ = ["Gate", "Lapse", "Seen", "code_of", "refusal", "text_of"]

Lapse = Literal["expired", "revoked", "denied", "throttled", "unimplemented"]
App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_CREDENTIAL = lazy_re.compile(r"Credential=([^/,\s]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request")
_EVERYTHING = "*"

#: Protocol families. Everything that is not named speaks JSON.
_EC2 = frozenset({"ec2"})
_QUERY = frozenset({"sts", "iam", "autoscaling", "monitoring", "elasticloadbalancing", "cloudformation", "rds", "sns"})
_S3 = frozenset({"s3"})

_MESSAGES: Mapping[Lapse, str] = {
    "expired": "The security token included in the request is expired",
    "revoked": "The security token included in the request is invalid.",
    "denied": "User is not authorized to perform this operation because no identity-based policy allows it",
    "throttled": "Rate exceeded",
    "unimplemented": "The stand-in of AWS does not implement this action",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One request: who signed (an access key id, or ``web-identity``, ``sso``, empty: nobody), for what, the status."""

    key: str
    service: str
    action: str
    status: int
    method: str = ""
    path: str = ""
    body: bytes = field(default=b"", repr=False)


def refusal(
    service: str,
    lapse: Lapse,
    *,
    action: str = "",
    wire: str = "",
) -> tuple[int, str, bytes, dict[str, str]]:
    """(status, content type, body, more headers) of a refusal in a service's own words.

    ``wire``: the protocol that the request was in where it tells (``json``, ``cbor``).
    """
    code, status = _code(service, lapse, action)
    text = _MESSAGES[lapse]
    if wire == "cbor":
        return status, "application/cbor", _cbor({"__type": code, "message": text}), {"smithy-protocol": "rpc-v2-cbor"}
    if service in _EC2 and not wire:
        body = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error><Code>{code}</Code><Message>'
            f"{escape(text)}</Message></Error></Errors><RequestID>killcheck</RequestID></Response>"
        )
        return status, "text/xml", body.encode(), {}
    if service in _S3 and not wire:
        body = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{escape(text)}</Message>'
            "<RequestId>killcheck</RequestId></Error>"
        )
        return status, "application/xml", body.encode(), {}
    if service in _QUERY and not wire:
        body = (
            f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{escape(text)}</Message></Error>"
            "<RequestId>killcheck</RequestId></ErrorResponse>"
        )
        return status, "text/xml", body.encode(), {}
    body = json.dumps({"__type": code, "message": text})
    return status, "application/x-amz-json-1.1", body.encode(), {"x-amzn-ErrorType": code}


def code_of(service: str, lapse: Lapse, action: str = "") -> str:
    """The error code with which a service refuses."""
    return _code(service, lapse, action)[0]


def text_of(lapse: Lapse) -> str:
    """The words with which most services refuse."""
    return _MESSAGES[lapse]


def _cbor(texts: Mapping[str, str]) -> bytes:
    """A map of texts, each below 256 bytes (RFC 8949: major types 5 and 3)."""
    packed = [bytes((0x78, len(text.encode()))) + text.encode() for pair in texts.items() for text in pair]
    return bytes((0xA0 | len(texts),)) + b"".join(packed)


def _code(service: str, lapse: Lapse, action: str) -> tuple[str, int]:
    if lapse == "unimplemented":
        return ("NotImplemented", 501) if service in _S3 else ("InvalidAction", 400)
    if service in _EC2:
        return {
            "expired": ("RequestExpired", 400),
            "revoked": ("AuthFailure", 401),
            "denied": ("UnauthorizedOperation", 403),
            "throttled": ("RequestLimitExceeded", 503),
        }[lapse]
    if service in _S3:
        return {
            "expired": ("ExpiredToken", 400),
            "revoked": ("InvalidAccessKeyId", 403),
            "denied": ("AccessDenied", 403),
            "throttled": ("SlowDown", 503),
        }[lapse]
    if action == "AssumeRoleWithWebIdentity" and lapse == "expired":
        return "ExpiredTokenException", 400
    if action == "AssumeRoleWithWebIdentity" and lapse == "revoked":
        return "InvalidIdentityToken", 400
    if service in _QUERY:
        return {
            "expired": ("ExpiredToken", 403),
            "revoked": ("InvalidClientTokenId", 403),
            "denied": ("AccessDenied", 403),
            "throttled": ("Throttling", 400),
        }[lapse]
    return {
        "expired": ("ExpiredTokenException", 403 if service == "eks" else 400),
        "revoked": ("UnrecognizedClientException", 403 if service == "eks" else 400),
        "denied": ("AccessDeniedException", 403 if service == "eks" else 400),
        "throttled": ("ThrottlingException", 429 if service == "eks" else 400),
    }[lapse]


class Gate:
    """The WSGI application. ``lapses`` maps who (an access key id, ``web-identity``, or ``*``) to what is the matter.

    ``calls`` maps (service, action), either of them ``*``, to the same for whoever calls. ``listeners`` are called
    with every request that got through, after its answer. ``answers`` maps (service, action) to what answers in
    place of the application: parsed query to (content type, body).
    """

    def __init__(self, app: App, now: Callable[[], datetime] = wall_now) -> None:
        self.app = app
        self.now = now
        self.lapses: dict[str, Lapse] = {}
        #: When temporary credentials end, by access key id.
        self.ends: dict[str, datetime] = {}
        self.calls: dict[tuple[str, str], Lapse] = {}
        self.answers: dict[tuple[str, str], Callable[[dict[str, list[str]]], tuple[str, bytes]]] = {}
        self.seen: list[Seen] = []
        self.listeners: list[Callable[[Seen], None]] = []
        self._lock = threading.Lock()

    # -- what is done to it -----------------------------------------------------------------------------
    def lapse(self, who: str, how: Lapse) -> None:
        """From now on ``who``'s credentials are refused."""
        self.lapses[who] = how

    def restore(self, who: str) -> None:
        """They work again; no error where they never lapsed."""
        self.lapses.pop(who, None)

    def refuse(self, service: str, action: str, how: Lapse) -> None:
        """From now on a call is refused, whoever makes it."""
        self.calls[service, action] = how

    def admit(self, service: str, action: str) -> None:
        """It is answered again."""
        self.calls.pop((service, action), None)

    def refused(self, who: str = "") -> list[Seen]:
        """The requests (of ``who``) that were refused here, oldest first."""
        return [one for one in self.seen if one.status >= 400 and (not who or one.key == who)]

    # -- WSGI ----------------------------------------------------------------------------------------------
    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Refuse, or pass on."""
        key, service = _signer(environ)
        body = _body(environ)
        action = _action(environ, body)
        if not key and action == "AssumeRoleWithWebIdentity":
            key, service = "web-identity", "sts"
        how = self._lapsed(key, service, action)
        if how is not None:
            return self._refuse(environ, start_response, (key, service, action), how)
        if (service, action) in self.answers:
            kind, text = self.answers[service, action](parse_qs(body.decode("latin-1")))
            self._remember(Seen(key, service, action, 200, environ["REQUEST_METHOD"], environ["PATH_INFO"]))
            start_response("200 OK", [("Content-Type", kind), ("Content-Length", str(len(text)))])
            return [text]
        told: list[int] = []

        def started(status: str, headers: list[tuple[str, str]], error: Any = None) -> Any:
            told.append(int(status.split(" ", 1)[0]))
            return start_response(status, headers, error) if error else start_response(status, headers)

        try:
            answer = list(self.app(environ, started))
        except NotImplementedError:
            return self._refuse(environ, start_response, (key, service, action), "unimplemented")
        seen = Seen(
            key, service, action, told[-1] if told else 0, environ["REQUEST_METHOD"], environ["PATH_INFO"], body[:4096]
        )
        self._remember(seen)
        for listener in list(self.listeners):
            listener(seen)
        return answer

    def _refuse(
        self,
        environ: dict[str, Any],
        start_response: Callable[..., Any],
        who: tuple[str, str, str],
        how: Lapse,
    ) -> Iterable[bytes]:
        key, service, action = who
        wire = "json" if "HTTP_X_AMZ_TARGET" in environ else ""
        if environ.get("HTTP_SMITHY_PROTOCOL") == "rpc-v2-cbor":
            wire = "cbor"
        status, kind, text, more = refusal(service, how, action=action, wire=wire)
        self._remember(Seen(key, service, action, status, environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        start_response(f"{status} Refused", [("Content-Type", kind), ("Content-Length", str(len(text))), *more.items()])
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else text]

    def _lapsed(self, key: str, service: str, action: str) -> Lapse | None:
        for known in ((service, action), (service, _EVERYTHING), (_EVERYTHING, action)):
            if known in self.calls:
                return self.calls[known]
        if key in self.ends and self.now() >= self.ends[key]:
            return "expired"
        return (self.lapses.get(key) or self.lapses.get(_EVERYTHING)) if key else None

    def _remember(self, seen: Seen) -> None:
        with self._lock:
            self.seen.append(seen)


def _signer(environ: Mapping[str, Any]) -> tuple[str, str]:
    """(access key id, service) from the signature; empty where nobody signed."""
    found = _CREDENTIAL.search(str(environ.get("HTTP_AUTHORIZATION", "")))
    if found:
        return found.group(1), found.group(4)
    signed = parse_qs(str(environ.get("QUERY_STRING", ""))).get("X-Amz-Credential", [""])[0].split("/")
    return (signed[0], signed[3]) if len(signed) == 5 else ("", "")


def _body(environ: dict[str, Any]) -> bytes:
    """The request's body, put back for whoever reads it next."""
    size = int(environ.get("CONTENT_LENGTH") or 0)
    if not size:
        return b""
    body: bytes = environ["wsgi.input"].read(size)
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _action(environ: Mapping[str, Any], body: bytes) -> str:
    """The API action: of a query in the body or the URL, of JSON in a header; else method and path (REST)."""
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    if target:
        return target.rpartition(".")[2]
    if "/operation/" in str(environ.get("PATH_INFO")):  # rpc-v2-cbor
        return str(environ["PATH_INFO"]).rpartition("/")[2]
    for text in (str(environ.get("QUERY_STRING", "")), body[:4096].decode("latin-1")):
        if "Action=" in text:
            found = parse_qs(text).get("Action")
            if found:
                return found[0]
    return f"{environ.get('REQUEST_METHOD')} {environ.get('PATH_INFO')}"
