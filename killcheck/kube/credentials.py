"""Who we are to an API server: tokens, client certificates and exec plugins, kept fresh; never nobody."""

from __future__ import annotations

import base64
import binascii
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from killcheck.clock import Loop
from killcheck.kube.errors import CredentialsError
from killcheck.kube.exec_plugin import ExecPlugin
from killcheck.kube.kubeconfig import Section, read_file
from killcheck.kube.objects import format_time
from killcheck.text import lazy_re
from killcheck.text.redaction import hide

__all__ = ["Credentials", "ExecLogin", "Login", "StoredLogin", "TokenFile", "from_user", "impersonation"]

#: An exec plugin's credentials are renewed this long before they expire, so that none expires on its way.
_AHEAD = timedelta(seconds=5)
#: What may stand in a header: anything else would be quoted by the error that it causes.
_HEADER_SAFE = lazy_re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Login:
    """What goes with a request: an ``Authorization`` value, a client certificate (PEM), or both."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires: datetime | None = None

    def __post_init__(self) -> None:
        hide(self.authorization.rpartition(" ")[2])

    def scrub(self, text: str) -> str:
        """``text`` without this login's token."""
        secret = self.authorization.rpartition(" ")[2]
        return text.replace(secret, "<token>") if secret else text


class Credentials(Protocol):
    """A source of logins; safe to use from several threads."""

    def login(self) -> Login:
        """A login that is good now. Raises CredentialsError; an empty login is never answered."""

    def renew(self, refused: Login) -> Login | None:
        """After a 401 for ``refused``: another login to try once, or None. Raises CredentialsError."""


class StoredLogin:
    """A login written down somewhere, read again once it has expired or was refused."""

    def __init__(self, read: Callable[[], Login], loop: Loop, what: str) -> None:
        self._read = read
        self._loop = loop
        self._what = what
        self._lock = threading.Lock()
        self._login = read()

    def login(self) -> Login:
        """What is stored. Raises CredentialsError where that has expired."""
        with self._lock:
            if self._expired():
                self._login = self._read()
            if self._expired():
                why = describe(self._login)
                raise CredentialsError(f"{self._what}: {why}: fetch a new kubeconfig, or log in again")
            return self._login

    def renew(self, refused: Login) -> Login | None:
        """What is stored by now, where that is something else."""
        with self._lock:
            self._login = self._read()
            return None if self._login == refused else self._login

    def _expired(self) -> bool:
        return self._login.expires is not None and self._loop.now() >= self._login.expires


class TokenFile:
    """A token in a file that somebody else rotates (a mounted ServiceAccount token): read for every request."""

    def __init__(self, path: Path, what: str, base: Login | None = None) -> None:
        self._path = path
        self._what = what
        self._base = base or Login()

    def login(self) -> Login:
        """The token as it is now. Raises CredentialsError where the file is missing or empty."""
        token = read_file(self._path, self._what).decode("utf-8", "replace").strip()
        return Login(bearer(token, f"{self._what}: {self._path}"), self._base.certificate, self._base.key)

    def renew(self, refused: Login) -> Login | None:
        """The token, where it has been rotated since."""
        login = self.login()
        return None if login == refused else login


class ExecLogin:
    """What an exec plugin says; run again when that expires, and once it is refused."""

    def __init__(self, plugin: ExecPlugin, loop: Loop, base: Login | None = None) -> None:
        self._plugin = plugin
        self._loop = loop
        self._base = base or Login()
        self._lock = threading.Lock()
        self._login: Login | None = None

    def login(self) -> Login:
        """The plugin's credentials. Raises CredentialsError where it has none to give."""
        with self._lock:
            login = self._login
            if login is None or (login.expires is not None and self._loop.now() >= login.expires - _AHEAD):
                login = self._login = self._run()
            return login

    def renew(self, refused: Login) -> Login | None:
        """What the plugin says now; not run again where another request has had it run since."""
        with self._lock:
            if self._login is None or self._login == refused:
                self._login = self._run()
            return self._login

    def _run(self) -> Login:
        issued = self._plugin.run()
        certificate, key = issued.certificate.encode(), issued.key.encode()
        ends = [issued.expires] if issued.expires else []
        if certificate:
            ends.append(certificate_end(certificate, str(self._plugin))[1])
        login = Login(
            bearer(issued.token, str(self._plugin)) if issued.token else "",
            certificate or self._base.certificate,
            key or self._base.key,
            min(ends) if ends else None,
        )
        if login.expires is not None and self._loop.now() >= login.expires:
            raise CredentialsError(
                f"{self._plugin} gave credentials that had expired at {format_time(login.expires)}: log in again"
            )
        return login


def bearer(token: str, what: str) -> str:
    """The header for a token. Raises CredentialsError, without quoting it, for one that no header can carry."""
    if not _HEADER_SAFE.fullmatch(token):
        raise CredentialsError(f"{what} does not hold a token: it is empty, or has characters that no token has")
    return f"Bearer {token}"


def certificate_end(pem: bytes, what: str) -> tuple[str, datetime]:
    """(common name, end of validity) of the first certificate. Raises CredentialsError where it is none."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CredentialsError(f"{what}: the client certificate is not a PEM certificate") from error
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else "?", certificate.not_valid_after_utc


def describe(login: Login) -> str:
    """``the client certificate (CN=admin) expired at ...`` of an expired login."""
    what = "the token"
    if login.certificate and not login.authorization:
        what = f"the client certificate (CN={certificate_end(login.certificate, 'client certificate')[0]})"
    return f"{what} expired at {format_time(login.expires) if login.expires else '?'}"


def from_user(user: Section, reload: Callable[[], Section], cluster: Section, loop: Loop) -> Credentials:
    """The credentials of a kubeconfig's user, in kubectl's order of precedence: token file, token, password, exec.

    ``reload`` reads the same user anew. Raises CredentialsError; also for a user without any credentials, since a
    request in nobody's name is never what was meant.
    """
    what = f"user {user.name} ({user.file})"
    token_file = user.path("tokenFile")
    if token_file:
        return TokenFile(token_file, f"{what}: tokenFile", _certificate(user))
    if user.fields.get("exec") and not user.text("token") and not user.text("username"):
        return ExecLogin(ExecPlugin.of(user, cluster), loop, _certificate(user))
    return StoredLogin(lambda: _stored(reload()), loop, what)


def _stored(user: Section) -> Login:
    what = f"user {user.name} ({user.file})"
    base = _certificate(user)
    if user.text("token"):
        return Login(bearer(user.text("token"), f"{what}: token"), base.certificate, base.key)
    if user.text("username"):
        pair = f"{user.text('username')}:{user.text('password')}".encode()
        return Login(f"Basic {base64.b64encode(pair).decode()}", base.certificate, base.key)
    if user.fields.get("auth-provider"):
        return _auth_provider(user, what)
    if not base.certificate:
        raise CredentialsError(f"{what} has no credentials: no token, no client certificate, no exec plugin")
    return base


def _certificate(user: Section) -> Login:
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if not certificate:
        return Login()
    what = f"user {user.name} ({user.file})"
    if not key:
        raise CredentialsError(f"{what}: there is a client certificate but no client-key")
    return Login("", certificate, key, certificate_end(certificate, what)[1])


def _auth_provider(user: Section, what: str) -> Login:
    """Only ``oidc`` is left in Kubernetes (gcp and azure were removed in 1.26); kubectl refreshes its token on use."""
    provider = user.fields["auth-provider"]
    config = provider.get("config") if isinstance(provider, dict) else None
    name = provider.get("name") if isinstance(provider, dict) else None
    if name != "oidc":
        raise CredentialsError(f"{what}: auth-provider {name} was removed from Kubernetes 1.26: use its exec plugin")
    token = str((config or {}).get("id-token") or "")
    return Login(bearer(token, f"{what}: id-token"), expires=_token_end(token))


def _token_end(token: str) -> datetime | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None  # no claims of its own: the server will say


def impersonation(user: Section) -> list[tuple[str, str]]:
    """The headers for ``as``, ``as-uid``, ``as-groups``, ``as-user-extra``: without them we would be somebody else."""
    headers = [("Impersonate-User", user.text("as"))] if user.text("as") else []
    if user.text("as-uid"):
        headers.append(("Impersonate-Uid", user.text("as-uid")))
    headers += [("Impersonate-Group", str(group)) for group in user.fields.get("as-groups") or ()]
    for key, values in (user.fields.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{key}", str(value)) for value in values]
    return headers
