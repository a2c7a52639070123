"""A developer's AWS sign-in as files in a home, and the portal it is signed in to - a stand-in, on loopback.

Both kinds of profile: ``sso_session`` (a token that its client renews while it can) and legacy (one that it cannot).
Sources: AWS CLI user guide "Configuring IAM Identity Center authentication"; botocore/credentials.py, tokens.py and
utils.py (cache file: sha1 of the session's name or, legacy, of the start URL; both must not have expired locally);
IAM Identity Center portal API GetRoleCredentials; OIDC API CreateToken.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs

from msgspec import Struct, field

__all__ = ["Kind", "Portal", "SignIn"]

Kind = Literal["sso-session", "legacy"]

#: How long IAM Identity Center lets a session live where nobody set it otherwise, in hours.
SESSION_HOURS = 8.0


class SignIn(Struct, frozen=True):
    """Somebody signed in: what lies in their home after ``aws sso login``.

    ``kind``: how their profile is written. ``until``: when the session ends (UTC). The token is not a secret of anyone:
    the stand-in's portal alone knows it.
    """

    kind: Kind
    until: datetime
    profile: str = "dev"
    region: str = "us-east-1"
    account: str = "123456789012"
    role: str = "Developer"
    session: str = "corp"
    start_url: str = "https://corp.awsapps.com/start"
    token: str = "stand-in-sso-token"  # noqa: S105 - nobody's

    @property
    def config(self) -> str:
        """``~/.aws/config``."""
        role = f"sso_account_id = {self.account}\nsso_role_name = {self.role}\nregion = {self.region}\n"
        if self.kind == "legacy":
            return f"[profile {self.profile}]\nsso_start_url = {self.start_url}\nsso_region = {self.region}\n{role}"
        return (
            f"[profile {self.profile}]\nsso_session = {self.session}\n{role}\n[sso-session {self.session}]\n"
            f"sso_start_url = {self.start_url}\nsso_region = {self.region}\n"
            "sso_registration_scopes = sso:account:access\n"
        )

    @property
    def cache_name(self) -> str:
        """The file in ``~/.aws/sso/cache``."""
        what = self.start_url if self.kind == "legacy" else self.session
        return hashlib.sha1(what.encode()).hexdigest() + ".json"  # noqa: S324 - that is how botocore names it

    @property
    def cache(self) -> dict[str, Any]:
        """What that file holds."""
        held = {
            "startUrl": self.start_url,
            "region": self.region,
            "accessToken": self.token,
            "expiresAt": f"{self.until:%Y-%m-%dT%H:%M:%SZ}",
        }
        if self.kind == "sso-session":
            registered = self.until + timedelta(days=60)
            held |= {
                "clientId": "stand-in",
                "clientSecret": "stand-in",
                "refreshToken": f"{self.token}-refresh",
                "registrationExpiresAt": f"{registered:%Y-%m-%dT%H:%M:%SZ}",
            }
        return held

    def files(self) -> dict[str, str]:
        """Path below the home to text."""
        return {".aws/config": self.config, f".aws/sso/cache/{self.cache_name}": json.dumps(self.cache)}

    def write(self, home: Path) -> None:
        """Lay the files into a home, which must be a scratch one."""
        for name, text in self.files().items():
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o600)


class Portal(Struct):
    """The portal and its OIDC service as a WSGI application; what it does not know goes to ``app``.

    ``now`` is the clock; ``sessions`` maps an access token to when its session ends; no session outlives ``limit``.
    ``issue(account, role, until)`` makes the role's credentials: (access key id, secret, session token). A sign-in by
    device code is approved at once, as if its person sat in front of the browser.
    """

    app: Callable[..., Iterable[bytes]]
    now: Callable[[], datetime]
    issue: Callable[[str, str, datetime], tuple[str, str, str]]
    sessions: dict[str, datetime] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    #: What was refused to whoever had a session that ``limit`` alone had ended.
    cut_off: list[str] = field(default_factory=list)
    role_hours: float = 1.0
    limit: datetime | None = None

    def begin(self, token: str, until: datetime) -> None:
        """A session lives until then."""
        self.sessions[token] = until

    def cut_short(self) -> list[str]:
        """The tokens whose session would go on, had ``limit`` not ended it."""
        return [token for token, until in self.sessions.items() if self.now() < until and not self._alive(token)]

    def end(self, token: str) -> None:
        """A session is over; no error where there was none."""
        self.sessions.pop(token, None)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """GetRoleCredentials; RegisterClient, StartDeviceAuthorization, CreateToken; anything else is passed on."""
        path = environ["PATH_INFO"]
        if path == "/federation/credentials":
            status, body, code = self._credentials(environ)
        elif path == "/token" and environ["REQUEST_METHOD"] == "POST":
            status, body, code = self._token(environ)
        elif path == "/client/register":
            status, body, code = (
                200,
                {
                    "clientId": "stand-in",
                    "clientSecret": "stand-in",
                    "clientIdIssuedAt": int(self.now().timestamp()),
                    "clientSecretExpiresAt": int(self.now().timestamp()) + 90 * 86400,
                },
                "",
            )
        elif path == "/device_authorization":
            status, body, code = (
                200,
                {
                    "deviceCode": "stand-in",
                    "userCode": "STAN-DSIN",
                    "verificationUri": "https://device.invalid/",
                    "verificationUriComplete": "https://device.invalid/?user_code=STAN-DSIN",
                    "expiresIn": 600,
                    "interval": 1,
                },
                "",
            )
        else:
            return self.app(environ, start_response)
        self.asked.append((path, status))
        text = json.dumps(body).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
        start_response(f"{status} Answer", [*headers, ("x-amzn-ErrorType", code)] if code else headers)
        return [text]

    def _credentials(self, environ: dict[str, Any]) -> tuple[int, dict[str, Any], str]:
        if self._refuses(str(environ.get("HTTP_X_AMZ_SSO_BEARER_TOKEN", "")), environ):
            return 401, {"message": "Session token not found or invalid"}, "UnauthorizedException"
        asked = parse_qs(environ.get("QUERY_STRING", ""))
        until = self.now() + timedelta(hours=self.role_hours)
        key, secret, token = self.issue(asked["account_id"][0], asked["role_name"][0], until)
        return (
            200,
            {
                "roleCredentials": {
                    "accessKeyId": key,
                    "secretAccessKey": secret,
                    "sessionToken": token,
                    "expiration": int(until.timestamp() * 1000),
                }
            },
            "",
        )

    def _token(self, environ: dict[str, Any]) -> tuple[int, dict[str, Any], str]:
        sent = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"{}")
        token = str(sent.get("refreshToken", "")).removesuffix("-refresh")
        if str(sent.get("grantType", "")).endswith("device_code"):
            token = f"stand-in-sso-{secrets.token_hex(8)}"
            self.begin(token, self.now() + timedelta(hours=SESSION_HOURS))
        if self._refuses(token, environ):
            return (
                400,
                {"error": "invalid_grant", "error_description": "Invalid refresh token provided"},
                ("InvalidGrantException"),
            )
        left = (self.sessions[token] - self.now()).total_seconds()
        # An access token lives for an hour at most; its client renews it for as long as the session lives.
        return (
            200,
            {
                "accessToken": token,
                "tokenType": "Bearer",
                "expiresIn": int(min(3600, left)),
                "refreshToken": f"{token}-refresh",
            },
            "",
        )

    def _refuses(self, token: str, environ: dict[str, Any]) -> bool:
        if token in self.cut_short():
            self.cut_off.append(str(environ["PATH_INFO"]))
        return not self._alive(token)

    def _alive(self, token: str) -> bool:
        until = self.sessions.get(token)
        return until is not None and self.now() < (until if self.limit is None else min(until, self.limit))
