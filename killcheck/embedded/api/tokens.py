"""ServiceAccount tokens: signed JWTs, what makes one valid, and how long the API server remembers that it was.

Sources: pkg/serviceaccount/{claims,jwt,legacy}.go and registry/core/serviceaccount/storage/token.go of Kubernetes
v1.36; recordings 10, 26 and 26b (a success is remembered for 10 s; a token works until 60 s after its ``exp``).
``cryptography`` signs. The rest is here, since an executor meets what a real API server refuses, in its words and by
the cluster's clock: a JWT library has checks, a clock and words of its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from msgspec import Struct, field

from killcheck.clock import Loop
from killcheck.embedded.api import status
from killcheck.embedded.api.http import User
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig, format_time, name_of, namespace_of, parse_time, uid_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["AUDIENCE", "OTHER_AUDIENCE", "Authenticated", "Issuer", "TokenRefused", "service_account_user", "user_info"]

#: Issuer and default audience of a cluster made with kubeadm, as recorded.
AUDIENCE = "https://kubernetes.default.svc"
#: The default of kubeadm's other releases, taken as well: which one a cluster has is in no manifest.
OTHER_AUDIENCE = f"{AUDIENCE}.cluster.local"
LEGACY_ISSUER = "kubernetes/serviceaccount"
#: ``--authentication-token-cache``: how long a success is remembered; failures are not.
SUCCESS_TTL_S = 10.0
#: go-jose's leeway on ``exp``, ``nbf`` and ``iat``, and Kubernetes' on the deletion of bound objects.
LEEWAY_S = 60
MIN_EXPIRATION_S = 600
MAX_EXPIRATION_S = 1 << 32
DEFAULT_EXPIRATION_S = 3600
#: What the projected volume asks for. A pod's token asked for so is extended to a year (and says ``warnafter``).
POD_TOKEN_EXPIRATION_S = 3607
EXTENDED_EXPIRATION_S = 365 * 24 * 3600
#: The label with which a legacy token is declared invalid.
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
#: Answers remembered before the dead ones are dropped.
CACHE_SIZE = 2048

SECRETS = ("", "secrets")
SERVICE_ACCOUNTS = ("", "serviceaccounts")
PODS = ("", "pods")
NODES = ("", "nodes")


class TokenRefused(Exception):
    """The token is not good; the message says why in Kubernetes' words, empty where it is no token of this cluster."""


class Authenticated(Struct, frozen=True):
    """Whom a token stands for, and the audiences that both sides agree on."""

    user: User
    audiences: tuple[str, ...]


class _Binding(Struct):
    """What a token is bound to besides its ServiceAccount."""

    pod: Obj | None = None
    node: Obj | None = None
    secret: Obj | None = None


class Issuer(Struct, dict=True):
    """Makes and checks the tokens of one cluster.

    ``key`` is a P-256 private key of ``cryptography``; without one a fresh key is made at the first use. ``rng`` makes
    the token ids, so that a seeded cluster names them the same in every run.
    """

    store: Store
    loop: Loop
    key: EllipticCurvePrivateKey | None = None
    rng: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - ids, not secrets
    issuer: str = AUDIENCE
    audiences: tuple[str, ...] = (AUDIENCE,)

    def __post_init__(self) -> None:
        self._remembered: dict[tuple[str, tuple[str, ...]], tuple[float, Authenticated]] = {}
        self._verified: dict[str, Obj] = {}
        self._kid = ""

    # -- making --------------------------------------------------------------------------------------------
    def issue(self, namespace: str, name: str, request: Obj) -> Obj:
        """Answer a TokenRequest for ServiceAccount ``name``: the request with its status filled in.

        Raises StatusError: 404 (no such ServiceAccount or bound object), 409 (its uid differs), 422 (bad lifetime),
        400 (bound to something that a token cannot be bound to).
        """
        account = self.store.get(SERVICE_ACCOUNTS, (namespace, name))
        if account is None:
            raise status.not_found("serviceaccounts", "", name)
        meta = _check_metadata(request, account)
        spec = _defaulted(dig(request, "spec", default={}), self.audiences)
        if causes := _spec_causes(spec):
            raise status.invalid("TokenRequest", "authentication.k8s.io", "", causes)
        bound = self._bind(namespace, name, spec.get("boundObjectRef"))
        seconds, warn_after = spec["expirationSeconds"], 0
        if bound.pod and seconds == POD_TOKEN_EXPIRATION_S and set(spec["audiences"]) <= set(self.audiences):
            seconds, warn_after = EXTENDED_EXPIRATION_S, seconds
        token = self.mint(account, spec["audiences"], seconds, bound, warn_after)
        now = self.loop.now()
        expires = format_time(now + timedelta(seconds=spec["expirationSeconds"]))
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": meta | {"creationTimestamp": format_time(now)},
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": expires},
        }

    def mint(
        self,
        account: Obj,
        audiences: Sequence[str],
        seconds: int,
        bound: _Binding | None = None,
        warn_after: int = 0,
    ) -> str:
        """A signed token for a ServiceAccount object, good for ``seconds``."""
        now = int(self.loop.now().timestamp())
        bound = bound or _Binding()
        private: Obj = {"namespace": namespace_of(account), "serviceaccount": _ref(account)}
        for what, obj in (("pod", bound.pod), ("node", bound.node), ("secret", bound.secret)):
            if obj is not None:
                private[what] = _ref(obj)
        if warn_after:
            private["warnafter"] = now + warn_after
        return self._sign(
            {
                "aud": list(audiences),
                "exp": now + seconds,
                "iat": now,
                "iss": self.issuer,
                "jti": self._uuid(),
                "kubernetes.io": private,
                "nbf": now,
                "sub": _username(namespace_of(account), name_of(account)),
            }
        )

    def legacy(self, account: Obj, secret: Obj) -> str:
        """The token without expiry that a ``kubernetes.io/service-account-token`` Secret holds."""
        prefix = "kubernetes.io/serviceaccount/"
        return self._sign(
            {
                "iss": LEGACY_ISSUER,
                prefix + "namespace": namespace_of(account),
                prefix + "secret.name": name_of(secret),
                prefix + "service-account.name": name_of(account),
                prefix + "service-account.uid": uid_of(account),
                "sub": _username(namespace_of(account), name_of(account)),
            }
        )

    # -- checking ------------------------------------------------------------------------------------------
    def authenticate(self, token: str, audiences: Sequence[str] = ()) -> Authenticated:
        """Whom ``token`` stands for towards ``audiences`` (default: the API server's own). Raises TokenRefused.

        A success is remembered for 10 s whatever happens to the objects meanwhile, as the real API server does.
        """
        key = (token, tuple(audiences) or self.audiences)
        now = self.loop.monotonic()
        found = self._remembered.get(key)
        if found and now < found[0]:
            return found[1]
        answer = self._check(token, key[1])
        if len(self._remembered) >= CACHE_SIZE:
            self._remembered = {k: v for k, v in self._remembered.items() if now < v[0]}
        self._remembered[key] = (now + SUCCESS_TTL_S, answer)
        return answer

    def review(self, review: Obj) -> Obj:
        """Answer a TokenReview. Raises StatusError 400 where it carries no token."""
        spec: Obj = dig(review, "spec", default={})
        token = spec.get("token") or ""
        if not token:
            raise status.bad_request("token is required for TokenReview in authentication")
        try:
            found = self.authenticate(token, spec.get("audiences") or ())
        except TokenRefused as refused:
            error = f"[invalid bearer token, {refused}]" if str(refused) else "invalid bearer token"
            answer: Obj = {"user": {}, "error": error}
        else:
            answer = {"authenticated": True, "user": user_info(found.user), "audiences": list(found.audiences)}
        return {
            "kind": "TokenReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": dig(review, "metadata", default={}),
            "spec": spec,
            "status": answer,
        }

    def jwks(self) -> Obj:
        """The public key as ``/openid/v1/jwks`` serves it; where that is, tells :meth:`discovery`."""
        numbers = self._private().public_key().public_numbers()
        x, y = (_encode(n.to_bytes(32, "big")) for n in (numbers.x, numbers.y))
        key = {"use": "sig", "kty": "EC", "kid": self._key_id(), "crv": "P-256", "alg": "ES256", "x": x, "y": y}
        return {"keys": [key]}

    def discovery(self, jwks_uri: str) -> Obj:
        """``/.well-known/openid-configuration``: how a third party checks these tokens."""
        return {
            "issuer": self.issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    # -- inside --------------------------------------------------------------------------------------------
    def _check(self, token: str, audiences: tuple[str, ...]) -> Authenticated:
        claims = self._claims(token)
        legacy = claims["iss"] == LEGACY_ISSUER
        theirs = claims.get("aud") or list(self.audiences)
        taken = (*audiences, OTHER_AUDIENCE) if audiences == self.audiences else audiences
        agreed = tuple(audience for audience in theirs if audience in taken)
        if not agreed:
            target = f"{_go_list(theirs)} is invalid for the target audiences {_go_list(audiences)}"
            raise TokenRefused(f"token audiences {target}")
        return Authenticated(self._legacy_user(token, claims) if legacy else self._bound_user(claims), agreed)

    def _claims(self, token: str) -> Obj:
        """The claims of a token that this cluster signed. Raises TokenRefused."""
        known = self._verified.get(token)
        if known is not None:
            return known
        head, body, signature = _parts(token)
        if body.get("iss") not in (self.issuer, LEGACY_ISSUER):
            raise TokenRefused
        if head.get("kid") not in (None, self._key_id()):
            raise TokenRefused("invalid signature, no keys found")
        if head.get("alg") != "ES256" or not self._good_signature(token.rpartition(".")[0], signature):
            raise TokenRefused("go-jose/go-jose: error in cryptographic primitive")
        if len(self._verified) >= CACHE_SIZE:
            self._verified.clear()
        self._verified[token] = body
        return body

    def _bound_user(self, claims: Obj) -> User:
        now = self.loop.now().timestamp()
        if now - LEEWAY_S > claims.get("exp", 0):
            raise TokenRefused("service account token has expired")
        if now + LEEWAY_S < claims.get("nbf", 0):
            raise TokenRefused("service account token is not valid yet")
        private: Obj = claims.get("kubernetes.io") or {}
        namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
        self._check_account(namespace, account)
        secret, pod, node = (private.get(what) for what in ("secret", "pod", "node"))
        if secret:
            self._check_bound(SECRETS, namespace, secret, "secret")
        if pod:
            self._check_bound(PODS, namespace, pod, "pod")
        elif node:
            self._check_bound(NODES, "", node, "node")
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims.get('jti', '')}"]}
        for what, ref in (("node", node), ("pod", pod)):
            if ref:
                extra[f"authentication.kubernetes.io/{what}-name"] = [ref["name"]]
                extra |= {f"authentication.kubernetes.io/{what}-uid": [ref["uid"]]} if ref.get("uid") else {}
        return service_account_user(namespace, account.get("name", ""), account.get("uid", ""), extra)

    def _check_account(self, namespace: str, ref: Obj) -> None:
        name = ref.get("name", "")
        found = self.store.get(SERVICE_ACCOUNTS, (namespace, name))
        if found is None:
            raise TokenRefused(f'serviceaccounts "{name}" not found')
        if uid_of(found) != ref.get("uid"):
            raise TokenRefused(f"service account UID ({uid_of(found)}) does not match claim ({ref.get('uid')})")
        if self._long_deleted(found):
            raise TokenRefused(f"service account {namespace}/{name} has been deleted")

    def _check_bound(self, table: tuple[str, str], namespace: str, ref: Obj, kind: str) -> None:
        found = self.store.get(table, (namespace, ref.get("name", "")))
        if found is None:
            raise TokenRefused("service account token has been invalidated")
        if uid_of(found) != ref.get("uid"):
            raise TokenRefused(
                f"{kind} UID ({uid_of(found)}) does not match service account {kind} ref claim ({ref.get('uid')})"
            )
        if self._long_deleted(found):
            raise TokenRefused("service account token has been invalidated")

    def _long_deleted(self, obj: Obj) -> bool:
        """Whether the object's deletion fell due more than the leeway ago."""
        when = dig(obj, "metadata", "deletionTimestamp")
        return bool(when) and (self.loop.now() - parse_time(when)).total_seconds() > LEEWAY_S

    def _legacy_user(self, token: str, claims: Obj) -> User:
        prefix = "kubernetes.io/serviceaccount/"
        namespace, secret_name = claims.get(prefix + "namespace", ""), claims.get(prefix + "secret.name", "")
        name, uid = claims.get(prefix + "service-account.name", ""), claims.get(prefix + "service-account.uid", "")
        secret = self.store.get(SECRETS, (namespace, secret_name))
        if secret is None or dig(secret, "metadata", "deletionTimestamp"):
            raise TokenRefused("Token has been invalidated")
        if dig(secret, "data", "token", default="") != base64.b64encode(token.encode()).decode():
            raise TokenRefused("Token does not match server's copy")
        account = self.store.get(SERVICE_ACCOUNTS, (namespace, name))
        if account is None:
            raise TokenRefused(f'serviceaccounts "{name}" not found')
        if dig(account, "metadata", "deletionTimestamp"):
            raise TokenRefused(f"ServiceAccount {namespace}/{name} has been deleted")
        if uid_of(account) != uid:
            raise TokenRefused(f"ServiceAccount UID ({uid_of(account)}) does not match claim ({uid})")
        if dig(secret, "metadata", "labels", INVALID_SINCE):
            raise TokenRefused(
                f"the token in secret {namespace}/{secret_name} for service account {namespace}/{name} has been marked "
                "invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the "
                f"'{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
            )
        return service_account_user(namespace, name, uid, {})

    def _bind(self, namespace: str, account: str, ref: Obj | None) -> _Binding:
        """The objects that a TokenRequest's ``boundObjectRef`` names. Raises StatusError."""
        if not ref:
            return _Binding()
        group, _, version = str(ref.get("apiVersion", "")).rpartition("/")
        kind, name = ref.get("kind", ""), ref.get("name", "")
        tables = {"Pod": PODS, "Secret": SECRETS, "Node": NODES}
        if group or kind not in tables:
            raise status.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        found = self.store.get(tables[kind], ("" if kind == "Node" else namespace, name))
        if found is None:
            raise status.not_found(tables[kind][1], "", name)
        if kind == "Pod" and dig(found, "spec", "serviceAccountName", default="default") != account:
            raise status.bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        if ref.get("uid") and ref["uid"] != uid_of(found):
            raise status.conflict(
                kind,
                "",
                name,
                (
                    f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
                    "The object might have been deleted and then recreated"
                ),
            )
        return self._binding(kind, found)

    def _binding(self, kind: str, found: Obj) -> _Binding:
        if kind == "Secret":
            return _Binding(secret=found)
        if kind == "Node":
            return _Binding(node=found)
        node_name = dig(found, "spec", "nodeName", default="")
        node = self.store.get(NODES, ("", node_name)) if node_name else None
        if node_name and node is None:
            node = {"metadata": {"name": node_name}}
        return _Binding(pod=found, node=node)

    # -- signing -------------------------------------------------------------------------------------------
    def _private(self) -> EllipticCurvePrivateKey:
        if self.key is None:
            from cryptography.hazmat.primitives.asymmetric import ec

            self.key = ec.generate_private_key(ec.SECP256R1())
        return self.key

    def _key_id(self) -> str:
        if not self._kid:
            numbers = self._private().public_key().public_numbers()
            point = numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")
            self._kid = _encode(hashlib.sha256(point).digest())
        return self._kid

    def _sign(self, claims: Obj) -> str:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        signed = f"{_encode_json({'alg': 'ES256', 'kid': self._key_id()})}.{_encode_json(claims)}"
        r, s = utils.decode_dss_signature(self._private().sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        token = f"{signed}.{_encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
        self._verified[token] = claims
        return token

    def _good_signature(self, signed: str, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        if len(signature) != 64:
            return False
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        try:
            self._private().public_key().verify(
                utils.encode_dss_signature(r, s), signed.encode(), ec.ECDSA(hashes.SHA256())
            )
        except InvalidSignature:
            return False
        return True

    def _uuid(self) -> str:
        return str(UUID(int=self.rng.getrandbits(128), version=4))


def service_account_user(namespace: str, name: str, uid: str = "", extra: dict[str, list[str]] | None = None) -> User:
    """The user that a ServiceAccount is to the API server."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(_username(namespace, name), groups, uid, extra or {})


def user_info(user: User) -> Obj:
    """A user as TokenReview, SelfSubjectReview and AdmissionReview write one: without empty fields."""
    info: Obj = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": user.extra}
    return {key: value for key, value in info.items() if value}


def _username(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def _ref(obj: Obj) -> Obj:
    return {key: value for key, value in (("name", name_of(obj)), ("uid", uid_of(obj))) if value}


def _check_metadata(request: Obj, account: Obj) -> Obj:
    """The answer's metadata; what the request says of name, namespace and uid must fit. Raises StatusError."""
    said: Obj = dig(request, "metadata", default={})
    name = name_of(account)
    texts = {"name": (name, "service account name"), "namespace": (namespace_of(account), "service account namespace")}
    for key, (want, what) in texts.items():
        if said.get(key) and said[key] != want:
            message = f'Invalid value: "{said[key]}": must match the {what} if specified'
            cause = {"reason": "FieldValueInvalid", "message": message, "field": f"metadata.{key}"}
            raise status.invalid("TokenRequest", "authentication.k8s.io", name, [cause])
    if said.get("uid") and said["uid"] != uid_of(account):
        raise status.conflict(
            "TokenRequest",
            "authentication.k8s.io",
            name,
            (
                f"the UID in the token request ({said['uid']}) does not match the UID of the service account "
                f"({uid_of(account)})"
            ),
        )
    return {"name": name, "namespace": namespace_of(account), "uid": uid_of(account)}


def _defaulted(spec: Obj, audiences: tuple[str, ...]) -> Obj:
    seconds = spec.get("expirationSeconds")
    return {
        "audiences": list(spec.get("audiences") or audiences),
        "expirationSeconds": DEFAULT_EXPIRATION_S if seconds is None else seconds,
        "boundObjectRef": _bound_ref(spec.get("boundObjectRef")),
    }


def _bound_ref(ref: Obj | None) -> Obj | None:
    if not ref:
        return None
    return {key: ref[key] for key in ("kind", "apiVersion", "name", "uid") if ref.get(key)}


def _spec_causes(spec: Obj) -> list[Obj]:
    seconds = spec["expirationSeconds"]
    if seconds < MIN_EXPIRATION_S:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > MAX_EXPIRATION_S:
        why = "may not specify a duration larger than 2^32 seconds"
    else:
        return []
    message = f"Invalid value: {seconds}: {why}"
    return [{"reason": "FieldValueInvalid", "message": message, "field": "spec.expirationSeconds"}]


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _encode_json(value: Any) -> str:
    return _encode(json.dumps(value, separators=(",", ":")).encode())


def _decoded(parts: Sequence[str]) -> Iterator[bytes]:
    for part in parts:
        yield base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


def _parts(token: str) -> tuple[Obj, Obj, bytes]:
    """Head, claims and signature of a compact JWT. Raises TokenRefused where it is none."""
    pieces = token.split(".")
    if len(pieces) != 3:
        raise TokenRefused
    try:
        head, body, signature = _decoded(pieces)
        parsed = json.loads(head), json.loads(body)
    except (binascii.Error, ValueError) as broken:
        raise TokenRefused from broken
    if not all(isinstance(part, dict) for part in parsed):
        raise TokenRefused
    return parsed[0], parsed[1], signature


def _go_list(values: Sequence[str]) -> str:
    """Go's ``%q`` of a list of strings."""
    return "[" + " ".join(json.dumps(value) for value in values) + "]"
