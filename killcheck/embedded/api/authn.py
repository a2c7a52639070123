"""Who is asking: bearer tokens, client certificates, impersonation, and the anonymous rest.

Sources: k8s.io/apiserver/pkg/authentication and endpoints/filters/impersonation of Kubernetes v1.36; recording 10.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from msgspec import Struct, field, structs

from killcheck.embedded.api import status
from killcheck.embedded.api.http import Request, User
from killcheck.embedded.api.rbac import MASTERS, Attributes, Authorizer
from killcheck.embedded.api.tokens import Issuer, TokenRefused

__all__ = ["ANONYMOUS", "PEER", "Authenticator", "peer_header"]

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"

#: The field in which the TLS layer says whose certificate it has verified. Its name begins with a colon, which no
#: HTTP/1.1 header name may, so no client can send it; the TLS layer must still drop any name that begins so.
PEER = ":peer-certificate"

_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_USER = "impersonate-user"
_GROUP = "impersonate-group"
_UID = "impersonate-uid"
_EXTRA = "impersonate-extra-"
#: Where the token of a pod says which node it is on.
_OWN_NODE = "authentication.kubernetes.io/node-name"
_NODE = "system:node:"
_AUTHENTICATION = "authentication.k8s.io"


def peer_header(common_name: str, organizations: tuple[str, ...] = (), der: bytes = b"") -> dict[str, str]:
    """The header field for a verified client certificate: its CN is the user, its Os are the groups.

    ``der``: the certificate itself, whose SHA-256 is the credential's id.
    """
    told: dict[str, object] = {"cn": common_name, "o": list(organizations)}
    if der:
        told["id"] = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
    return {PEER: json.dumps(told)}


class Authenticator(Struct):
    """Finds the user of a request. ``static_tokens`` are bearer tokens that never end, as in a token file."""

    tokens: Issuer
    authorizer: Authorizer
    static_tokens: Mapping[str, User] = field(default_factory=dict)
    #: What a request would do; from v1.36 on whom it may be done as depends on that, too. None: before.
    attributes_of: Callable[[Request], Attributes] | None = None

    def authenticate(self, request: Request) -> User:
        """Who is asking, after impersonation.

        A trusted caller's ``request.user`` stands. No credentials: ``system:anonymous``. Raises StatusError 401 for
        credentials that are no good, 403 for an impersonation that is not allowed, 400 for a broken one.
        """
        user = request.user or self._certificate(request) or self._bearer(request) or ANONYMOUS
        if any(name.startswith("impersonate-") for name in request.headers):
            return self._impersonated(user, request)
        return user

    def _certificate(self, request: Request) -> User | None:
        peer = request.headers.get(PEER)
        if not peer:
            return None
        subject = json.loads(peer)
        extra = {_CREDENTIAL: [subject["id"]]} if subject.get("id") else {}
        return User(subject["cn"], (*subject["o"], AUTHENTICATED), extra=extra) if subject["cn"] else None

    def _bearer(self, request: Request) -> User | None:
        scheme, _, rest = request.headers.get("authorization", "").strip().partition(" ")
        token = rest.strip().partition(" ")[0]
        if scheme.lower() != "bearer" or not token:
            return None
        known = self.static_tokens.get(token)
        if known is not None:
            groups = known.groups if AUTHENTICATED in known.groups else (*known.groups, AUTHENTICATED)
            return User(known.name, groups, known.uid, known.extra)
        try:
            return self.tokens.authenticate(token).user
        except TokenRefused as refused:
            raise status.unauthorized() from refused

    # -- impersonation -------------------------------------------------------------------------------------
    def _impersonated(self, user: User, request: Request) -> User:
        """The user whom the headers ask to be. Repeated group headers arrive joined by commas."""
        headers = request.headers
        name, uid = headers.get(_USER, ""), headers.get(_UID, "")
        groups = [group.strip() for group in headers.get(_GROUP, "").split(",") if group.strip()]
        extra = {unquote(key.removeprefix(_EXTRA)): [value] for key, value in headers.items() if key.startswith(_EXTRA)}
        if not name:
            if groups or uid or extra:
                raise _without_user(groups, uid, extra)
            return user
        alone = not (groups or uid or extra)
        refused: status.StatusError | None = None
        constrained = self.attributes_of is not None and MASTERS not in user.groups
        for mode in _modes(user, name, alone=alone) if constrained else ():
            try:
                return self._constrained(user, request, mode, (name, groups, uid, extra))
            except status.StatusError as error:
                refused = refused or error
        try:
            self._allow_all(user, name, groups, uid, extra, verb="impersonate")
        except status.StatusError as error:
            raise refused or error from error
        return _become(name, groups, uid, extra)

    def _constrained(
        self, user: User, request: Request, mode: str, wanted: tuple[str, list[str], str, dict[str, list[str]]]
    ) -> User:
        """Raises StatusError 403 where a mode does not let him be ``wanted`` (name, groups, uid, extra)."""
        assert self.attributes_of is not None
        name, groups, uid, extra = wanted
        asked, own = self.attributes_of(request), mode == "associated-node"
        by = User(user.name, user.groups, user.uid, _keys_of(user)) if own else user
        self.authorizer.check(by, structs.replace(asked, verb=f"impersonate-on:{mode}:{asked.verb}"))
        if own:  # asked of every node at once (associatedNodeImpersonationAttributes)
            self._allow(by, "*", "nodes", verb=f"impersonate:{mode}", group=_AUTHENTICATION)
        else:
            self._allow_all(by, name, groups, uid, extra, verb=f"impersonate:{mode}")
        return _become(name, ["system:nodes"] if mode.endswith("-node") else groups, uid, extra)

    def _allow_all(
        self, user: User, name: str, groups: list[str], uid: str, extra: Mapping[str, list[str]], *, verb: str
    ) -> None:
        """Raises StatusError 403 for the first part of another's identity that may not be taken on.

        Users and groups are authentication.k8s.io's under the constrained verbs, and the core group's under the old.
        """
        account, node = _service_account(name), name.removeprefix(_NODE)
        of = "" if verb == "impersonate" else _AUTHENTICATION
        if account:
            self._allow(user, account[1], "serviceaccounts", verb=verb, group=of, namespace=account[0])
        elif node != name and of:
            self._allow(user, node, "nodes", verb=verb, group=of)
        else:
            self._allow(user, name, "users", verb=verb, group=of)
        if uid:
            self._allow(user, uid, "uids", verb=verb, group=_AUTHENTICATION)
        for one in groups:
            self._allow(user, one, "groups", verb=verb, group=of)
        for key, values in extra.items():
            for value in values:
                self._allow(user, value, "userextras", verb=verb, group=_AUTHENTICATION, subresource=key)

    def _allow(
        self,
        user: User,
        name: str,
        resource: str,
        *,
        verb: str,
        group: str = "",
        subresource: str = "",
        namespace: str = "",
    ) -> None:
        self.authorizer.check(user, Attributes(verb, group, resource, subresource, name, namespace))


def _modes(user: User, name: str, *, alone: bool) -> tuple[str, ...]:
    """Which constrained impersonations a user falls under, in turn (filters/impersonation/mode.go).

    ``alone``: nothing but the name is asked for.
    """
    if _service_account(name):
        return ("serviceaccount",) if alone else ()
    if name.startswith(_NODE):
        own = _service_account(user.name) and name.removeprefix(_NODE) in user.extra.get(_OWN_NODE, ())
        return (*(("associated-node",) if own else ()), "arbitrary-node") if alone else ()
    return ("user-info",)


def _keys_of(user: User) -> dict[str, list[str]]:
    return {"authentication.kubernetes.io/associated-node-keys": sorted(user.extra)}


def _become(name: str, groups: list[str], uid: str, extra: dict[str, list[str]]) -> User:
    account = _service_account(name)
    if account and not groups:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{account[0]}"]
    return User(name, _completed(name, groups), uid, extra)


def _service_account(name: str) -> tuple[str, str] | None:
    parts = name.split(":")
    if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"] and parts[2] and parts[3]:
        return parts[2], parts[3]
    return None


def _completed(name: str, groups: list[str]) -> tuple[str, ...]:
    if name == ANONYMOUS.name:
        return tuple(groups) if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return tuple(groups)
    return (*groups, AUTHENTICATED)


def _without_user(groups: list[str], uid: str, extra: Mapping[str, list[str]]) -> status.StatusError:
    """The whole of what was asked for, as Go prints it (endpoints/filters/impersonation)."""
    of_groups = f"[]string{{{', '.join(json.dumps(group) for group in groups)}}}" if groups else "[]string(nil)"
    pairs = ", ".join(
        f"{json.dumps(key)}:[]string{{{', '.join(map(json.dumps, values))}}}" for key, values in sorted(extra.items())
    )
    of_extra = f"map[string][]string{{{pairs}}}" if extra else "map[string][]string(nil)"
    what = f'&user.DefaultInfo{{Name:"", UID:{json.dumps(uid)}, Groups:{of_groups}, Extra:{of_extra}}}'
    return status.bad_request(f"requested {what} without impersonating a user name")
