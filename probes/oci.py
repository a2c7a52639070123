"""A registry asked whether an image is there, as a kubelet would ask: OCI distribution with its token dance.

Sources: opencontainers/distribution-spec v1.1 (pull, error codes), distribution's token authentication, Kubernetes'
``images`` page (how entries of a pull secret are matched to a host). Credentials go to the registry that they are for
and to the token service that it names over TLS, and nowhere else; no message repeats them.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from killcheck.images.reference import Reference
from killcheck.text import lazy_re

if TYPE_CHECKING:
    import urllib3

__all__ = ["TIMEOUT_S", "Answer", "Registries", "credentials_for"]

#: Seconds for each request (an image takes five at most: manifest, token, manifest again, its text, its config).
TIMEOUT_S = 10.0
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_ACCEPT = ", ".join((*_INDEXES, *_MANIFESTS))
_CHALLENGE = lazy_re.compile(r'(\w+)="([^"]*)"')
#: Bytes of a manifest or a config that are read at most.
_MOST = 4 * 1024 * 1024

State = Literal["there", "no-tag", "no-repository", "unauthorized", "denied", "limited", "unknown"]


class Answer(Struct, frozen=True):
    """``digest`` and ``platforms`` (``linux/amd64``) of what is there; ``detail``: why nobody knows."""

    state: State
    digest: str = ""
    platforms: tuple[str, ...] = ()
    detail: str = ""


def credentials_for(host: str, path: str, configs: Iterable[Mapping[str, Any]]) -> str | None:
    """base64 of user:password for an image, of the first docker config that has an entry for its host.

    Entries match by host (a ``*`` stands for part of a label) and, where they have one, by the beginning of the path.
    """
    for config in configs:
        auths = config.get("auths")
        for entry, values in auths.items() if isinstance(auths, dict) else ():
            plain = str(entry).removeprefix("https://").removeprefix("http://").rstrip("/")
            where, _, prefix = plain.partition("/")
            where = "docker.io" if where in ("index.docker.io", "registry-1.docker.io") else where
            prefix = "" if prefix in ("v1", "v2") else prefix
            same = len(where.split(".")) == len(host.split(".")) and fnmatchcase(host, where)
            if same and (not prefix or path == prefix or path.startswith(f"{prefix}/")) and isinstance(values, dict):
                found = _basic(values)
                if found:
                    return found
    return None


def _basic(values: Mapping[str, Any]) -> str | None:
    if values.get("auth"):
        try:
            base64.b64decode(str(values["auth"]), validate=True)
        except (ValueError, binascii.Error):
            return None
        return str(values["auth"])
    if values.get("username") and values.get("password"):
        return base64.b64encode(f"{values['username']}:{values['password']}".encode()).decode()
    return None


class Registries:
    """Asks registries; close it when done. Loopback registries speak HTTP, as for every container runtime."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        import urllib3

        retries = urllib3.Retry(total=3, connect=0, read=0, status=0, other=0, redirect=3, raise_on_redirect=False)
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(total=timeout_s), retries=retries)

    def close(self) -> None:
        """Give the connections back."""
        self._pool.clear()

    def ask(self, reference: Reference, basic: str | None = None) -> Answer:
        """Whether an image can be pulled with these credentials, its digest and its platforms. Never raises."""
        import urllib3

        try:
            return _Question(self._pool, reference, basic).answer()
        except urllib3.exceptions.HTTPError as error:
            return Answer("unknown", detail=f"{reference.host} did not answer ({_kind(error)})")


def _kind(error: Exception) -> str:
    """What went wrong, without addresses and tokens."""
    reason = getattr(error, "reason", None)
    return type(reason if isinstance(reason, Exception) else error).__name__


class _Question:
    def __init__(self, pool: urllib3.PoolManager, reference: Reference, basic: str | None) -> None:
        self.pool = pool
        self.reference = reference
        self.basic = basic
        self.authorization = ""
        host = "registry-1.docker.io" if reference.host == "docker.io" else reference.host
        self.root = f"{'http' if _is_loopback(host) else 'https'}://{host}/v2/{reference.path}"

    def answer(self) -> Answer:
        """What the registry says of the reference, asked with the credentials given, where there are any."""
        url = f"{self.root}/manifests/{self.reference.version}"
        head = self._request("HEAD", url)
        if head.status == 401:
            problem = self._authorize(head.headers.get("WWW-Authenticate", ""))
            if problem:
                return problem
            head = self._request("HEAD", url)
        if head.status != 200:
            return self._refused(head.status, url)
        digest = head.headers.get("Docker-Content-Digest", "")
        return Answer("there", digest, self._platforms(url))

    def _refused(self, status: int, url: str) -> Answer:
        if status == 404:
            codes = [str(error.get("code")) for error in _json(self._request("GET", url)).get("errors") or ()]
            return Answer("no-repository" if "NAME_UNKNOWN" in codes else "no-tag")
        states: dict[int, State] = {401: "unauthorized", 403: "denied", 429: "limited"}
        return Answer(states.get(status, "unknown"), detail=f"{self.reference.host} answers {status}")

    def _request(self, method: str, url: str) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": _ACCEPT}
        if self.authorization:
            headers["Authorization"] = self.authorization
        return self.pool.request(method, url, headers=headers)

    def _authorize(self, challenge: str) -> Answer | None:
        """Get what the challenge asks for; an Answer where it cannot be had."""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            self.authorization = f"Basic {self.basic}"
            return None if self.basic else Answer("unauthorized")
        said = dict(_CHALLENGE.findall(rest))
        realm = urlsplit(said.get("realm", ""))
        if kind.lower() != "bearer" or not (realm.scheme == "https" or _is_loopback(realm.netloc)):
            return Answer("unknown", detail=f"{self.reference.host} asks for a login that is not understood")
        scope = said.get("scope", f"repository:{self.reference.path}:pull")
        query = {"service": said.get("service", ""), "scope": scope}
        headers = {"Authorization": f"Basic {self.basic}"} if self.basic else {}
        answer = self.pool.request("GET", f"{said['realm']}?{urlencode(query)}", headers=headers)
        if answer.status in (401, 403, 429):
            return self._refused(answer.status, "")
        body = _json(answer)
        token = body.get("token") or body.get("access_token")
        if answer.status != 200 or not token:
            return Answer("unknown", detail=f"the token service of {self.reference.host} answers {answer.status}")
        self.authorization = f"Bearer {token}"
        return None

    def _platforms(self, url: str) -> tuple[str, ...]:
        """Of an index what it lists, of a manifest what its config says; empty where it does not tell."""
        manifest = _json(self._request("GET", url))
        if manifest.get("manifests"):
            found = [entry.get("platform") or {} for entry in manifest["manifests"]]
        else:
            config = (manifest.get("config") or {}).get("digest")
            found = [_json(self._request("GET", f"{self.root}/blobs/{config}"))] if config else []
        known = [p for p in found if p.get("architecture") not in (None, "unknown")]  # attestations are for no platform
        return tuple(dict.fromkeys(f"{p.get('os')}/{p['architecture']}" for p in known))


def _json(answer: urllib3.BaseHTTPResponse) -> dict[str, Any]:
    try:
        found = json.loads(answer.data[:_MOST]) if answer.data else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_loopback(netloc: str) -> bool:
    host = urlsplit(f"//{netloc}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
