"""ECR's authorization tokens: what ``GetAuthorizationToken`` gives a cluster to pull with, and what becomes of them.

Sources: ECR API reference "GetAuthorizationToken" (valid for 12 hours; base64 of ``AWS:password``); ECR user guide
"Private registry authentication" (a request without credentials gets 401 "no basic auth credentials", one with a token
whose time is over 403 "Your authorization token has expired. Reauthenticate and try again."). The kubelet's own
provider asks again after half a token's life (cloud-provider-aws, cmd/ecr-credential-provider/main.go).
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from killcheck.clock import wall_now
from killcheck.text import lazy_re

__all__ = ["LIFE", "USER", "TokenService", "docker_config", "registry_of"]

#: The user name that goes with every token.
USER = "AWS"
#: How long a token is good for.
LIFE = timedelta(hours=12)

_HOST = lazy_re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.(amazonaws\.com(\.cn)?|on\.aws)"
)


def registry_of(image: str) -> str | None:
    """The private ECR registry that an image reference (or a host) names; None for any other."""
    host = image.partition("/")[0]
    return host if _HOST.fullmatch(host) else None


def docker_config(host: str, password: str) -> str:
    """A ``.dockerconfigjson`` as ``kubectl create secret docker-registry --docker-username=AWS`` writes it."""
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    return json.dumps({"auths": {host: {"username": USER, "password": password, "auth": auth}}})


class TokenService(Struct):
    """The tokens of one account's registry; ``now`` is the clock. ``ask`` is how a node asks for one of its own.

    ``limit``: no token is good beyond that moment (None: each until its own end).
    """

    account: str
    region: str
    now: Callable[[], datetime] = wall_now
    ask: Callable[[], str | None] = lambda: None
    limit: datetime | None = None
    #: Ends, by password.
    issued: dict[str, datetime] = field(default_factory=dict)
    _nodes: tuple[str, datetime] | None = None

    @property
    def host(self) -> str:
        """The registry's host."""
        return f"{self.account}.dkr.ecr.{self.region}.amazonaws.com"

    # -- ECR's API -----------------------------------------------------------------------------------------
    def issue(self) -> tuple[str, datetime]:
        """A new token's password and its end."""
        password, end = f"stand-in-{secrets.token_hex(16)}", self.now() + LIFE
        self.issued[password] = end
        return password, end

    def answer(self, _query: Mapping[str, Any]) -> tuple[str, bytes]:
        """``GetAuthorizationToken``: content type and body."""
        password, end = self.issue()
        token = base64.b64encode(f"{USER}:{password}".encode()).decode()
        return "application/x-amz-json-1.1", json.dumps(
            {
                "authorizationData": [
                    {"authorizationToken": token, "expiresAt": end.timestamp(), "proxyEndpoint": f"https://{self.host}"}
                ]
            }
        ).encode()

    # -- the registry --------------------------------------------------------------------------------------
    def ends(self, user: str, password: str) -> datetime | None:
        """When a login's time is over; None: it never was one."""
        end = self.issued.get(password) if user == USER else None
        return min(end, self.limit) if end and self.limit else end

    def of_node(self) -> tuple[str, str] | None:
        """The login that the nodes' own credential provider has; None: it was refused one.

        A new one is asked for when half of the last one's life is over.
        """
        now = self.now()
        if self._nodes is None or now >= self._nodes[1]:
            self._nodes = None
            password = self.ask()
            if not password:
                return None
            self._nodes = (password, now + LIFE / 2)
        return USER, self._nodes[0]

    def end_tokens(self, until: str) -> None:
        """No token outlives that moment (RFC 3339); empty: each has its own end again. Nodes ask anew either way."""
        self.limit = datetime.fromisoformat(until) if until else None
        self._nodes = None
