"""The registries that nodes pull from, modelled: what they have, what state they are in, and what nodes have cached.

Error texts are containerd's as the kubelet reports them: recordings 02, 02b, 02c (not found), 03 (refused), 03b (host
unknown), 03c (x509); 429 as in suxess-it/kubriX#1075; authorization as in containerd's remotes/docker/resolver.go;
ECR's refusals as in kubernetes/kops#16762 (no login) and awslabs/soci-snapshotter#1148 (a token past its end: 403).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct, field

from killcheck.images.contents import Contents, contents_of
from killcheck.images.reference import NEVER_THERE, Reference, parse
from killcheck.kube.objects import Obj, dig
from killcheck.text.jsontext import from_text
from killcheck.text.values import replace

__all__ = ["Cache", "Cached", "Host", "PullError", "Registry", "State", "Tokens", "credentials"]

State = Literal["up", "refusing", "unresolvable", "untrusted", "timing-out", "slow", "rate-limited", "unavailable"]

#: What a node asks for names, as in an AWS VPC.
RESOLVER = "10.0.0.2:53"
#: Seconds before a pull begins to move, bytes per second that it moves, seconds that a silent registry costs.
LATENCY_S = 0.3
BYTES_PER_S = 150_000_000
TIMEOUT_S = 30.0
SLOW_S = 300.0
#: Docker Hub answers under other names than its own.
_ENDPOINTS = {"docker.io": "registry-1.docker.io"}

#: (user, password) by registry host, out of pull secrets.
Credentials = dict[str, tuple[str, str]]


class PullError(Exception):
    """The pull failed; the message is what the container's status says. ``seconds``: how long it took to fail."""

    def __init__(self, message: str, seconds: float = 0.05) -> None:
        super().__init__(message)
        self.seconds = seconds


class Cached(Struct, frozen=True):
    """An image on a node: its canonical names, its size in bytes, and since when it is there."""

    reference: Reference
    digest: str
    size: int
    since: datetime

    @property
    def image_id(self) -> str:
        """``imageID`` of a container's status."""
        return f"{self.reference.repository}@{self.digest}"

    @property
    def image(self) -> str:
        """``image`` of a container's status: the canonical name, or the ID of one pulled by digest."""
        return self.reference.canonical


class Cache(Struct):
    """The images on one node."""

    images: dict[str, Cached] = field(default_factory=dict)
    #: Called when an image has come.
    on_arrival: Callable[[], None] = lambda: None

    def get(self, reference: Reference) -> Cached | None:
        """The image by its canonical name, or by digest under any name."""
        found = self.images.get(reference.canonical)
        if found is None and reference.digest:
            found = next(
                (
                    c
                    for c in self.images.values()
                    if c.digest == reference.digest and c.reference.repository == reference.repository
                ),
                None,
            )
        return found

    def put(self, cached: Cached) -> None:
        """The image is on the node now."""
        self.images[cached.reference.canonical] = cached
        self.on_arrival()

    def restore(self, images: Mapping[str, Cached]) -> None:
        """Images that were on the node are there again."""
        self.images.update(images)
        self.on_arrival()

    def evict(self, image: str) -> bool:
        """Remove one image; whether it was there."""
        return self.images.pop(parse(image).canonical, None) is not None

    def collect(self, in_use: Iterable[str] = ()) -> list[str]:
        """Image garbage collection under disk pressure: every image that no container uses goes."""
        kept = {parse(image).canonical for image in in_use}
        gone = [name for name in self.images if name not in kept]
        for name in gone:
            del self.images[name]
        return gone


class Tokens(Protocol):
    """A registry's own token service (ECR's): who may pull is whoever shows a token of it."""

    def ends(self, user: str, password: str) -> datetime | None:
        """When a login's time is over; None: it never was one."""

    def of_node(self) -> tuple[str, str] | None:
        """The login that the nodes' credential provider has; None: it gets none."""


class Host(Struct):
    """One registry. ``private``: its repositories (all: "*") answer only to ``users`` (name -> password, expiry)."""

    name: str
    state: State = "up"
    latency_s: float = LATENCY_S
    private: set[str] = field(default_factory=set)
    users: dict[str, tuple[str, datetime | None]] = field(default_factory=dict)
    #: A rate limit that counts anonymous pulls only, as Docker Hub's first one does.
    anonymous_only: bool = False

    @property
    def address(self) -> str:
        """An address that stands for the host in error texts: its own, or one out of TEST-NET-3."""
        name, _, port = self.name.partition(":")
        if name == "localhost":
            name = "127.0.0.1"
        numeric = name.replace(".", "").isdigit()
        ip = name if numeric else f"203.0.113.{int(hashlib.sha256(name.encode()).hexdigest(), 16) % 250 + 1}"
        return f"{ip}:{port or '443'}"

    @property
    def url(self) -> str:
        """Scheme and host as containerd calls it: plain HTTP on this machine only."""
        endpoint = _ENDPOINTS.get(self.name, self.name)
        local = self.name.partition(":")[0] in ("localhost", "127.0.0.1")
        return f"{'http' if local else 'https'}://{endpoint}"


class Registry:
    """Every registry there is. A repository that nobody described has every tag; see :attr:`assumed`."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.caches: dict[str, Cache] = {}
        #: Images that were pulled without anything being known of them.
        self.assumed: list[str] = []
        #: Whose tokens a host asks for, by its name; None: it has no such service.
        self.tokens: Callable[[str], Tokens | None] = lambda host: None
        #: How long what is in an image takes from its start until it is ready, in seconds, where it is not run.
        self.loads_s: dict[str, float] = {}
        self._missing: set[str] = set()
        self._known: dict[str, set[str]] = {}
        self._contents: dict[str, Contents] = {}

    # -- what is done to it -----------------------------------------------------------------------------
    def host(self, name: str) -> Host:
        """A registry by its host name; one that nobody spoke of is up."""
        state: State = "unresolvable" if name.partition(":")[0].endswith(".invalid") else "up"
        return self.hosts.setdefault(name, Host(name, state))

    def set_state(self, host: str, state: State) -> State:
        """Put a registry into a state; returns the one it was in."""
        entry = self.host(host)
        before, entry.state = entry.state, state
        return before

    def set_load(self, image: str, seconds: float | None) -> None:
        """How long what is in an image loads, from the next start on; None: as long as anything does."""
        if seconds is None:
            self.loads_s.pop(image, None)
        else:
            self.loads_s[image] = seconds

    def delete_tag(self, image: str) -> None:
        """The tag (or digest) is gone from its registry."""
        self._missing.add(parse(image).canonical)

    def restore_tag(self, image: str) -> None:
        """The tag is back."""
        self._missing.discard(parse(image).canonical)

    def delete_repository(self, image: str) -> None:
        """The repository is gone, with every tag."""
        self._missing.add(parse(image).repository)

    def only_tags(self, repository: str, tags: Iterable[str]) -> None:
        """The repository has these tags and no other."""
        self._known[parse(repository).repository] = set(tags)

    def describe(self, image: str, contents: Contents) -> None:
        """Say what an image contains, in place of what the catalogue says."""
        self._contents[parse(image).canonical] = contents

    def pull_anyway(self, image: str, now: datetime) -> str | None:
        """Have an image from now on that could not be pulled: why not, as the pull says it; None: it could.

        Raises InvalidReference.
        """
        reference = parse(image)
        try:
            self.pull(reference, {}, now)
        except PullError as error:
            self.host(reference.host).state = "up"
            self._missing -= {reference.canonical, reference.repository}
            self.describe(image, replace(self.contents(reference), gone_since=None))
            return str(error)
        return None

    def make_private(self, repository: str, user: str, password: str, expires: datetime | None = None) -> None:
        """The repository answers only to this user (and those named before), until ``expires``."""
        reference = parse(repository)
        host = self.host(reference.host)
        host.private.add(reference.path)
        host.users[user] = (password, expires)

    def set_access(self, host: str, private: Iterable[str], users: dict[str, tuple[str, datetime | None]]) -> None:
        """Which repositories of a host are closed, and to whom they open."""
        entry = self.host(host)
        entry.private, entry.users = set(private), dict(users)

    def restore_cache(self, node: str, images: dict[str, Cached]) -> None:
        """Put images back that a node had."""
        self.cache(node).restore(images)

    def cache(self, node: str) -> Cache:
        """The images on a node."""
        return self.caches.setdefault(node, Cache())

    def preload(self, node: str, image: str, now: datetime) -> None:
        """Put an image on a node as if it had been pulled, whatever the registry says today."""
        reference = parse(image)
        self.cache(node).put(Cached(reference, self.digest_of(reference), self.contents(reference).size, now))

    # -- what kubelets ask ---------------------------------------------------------------------------------
    def contents(self, reference: Reference) -> Contents:
        """What the image contains."""
        return self._contents.get(reference.canonical) or contents_of(reference)

    def digest_of(self, reference: Reference) -> str:
        """The manifest digest: the one asked for, else one that stays the same for a name."""
        if reference.digest:
            return reference.digest
        return "sha256:" + hashlib.sha256(reference.canonical.encode()).hexdigest()

    def pull(self, reference: Reference, secrets: Credentials, now: datetime) -> tuple[Cached, float]:
        """Pull an image: what arrived and how many seconds it took. Raises PullError."""
        host = self.host(reference.host)
        name = reference.canonical
        head = f'failed to pull and unpack image "{name}"'
        resolving = f'{head}: failed to resolve reference "{name}"'
        self._reach(host, reference, resolving)
        authenticated = self._authorize(host, reference, secrets, resolving, now)
        if host.state == "rate-limited" and not (authenticated and host.anonymous_only):
            raise PullError(self._too_many(host, reference, head, authenticated), 0.3)
        contents = self.contents(reference)
        if self._absent(reference, contents, now):
            raise PullError(f"rpc error: code = NotFound desc = {resolving}: {name}: not found")
        if not contents.known and name not in self.assumed:
            self.assumed.append(name)
        seconds = host.latency_s + contents.size / BYTES_PER_S + (SLOW_S if host.state == "slow" else 0.0)
        return Cached(reference, self.digest_of(reference), contents.size, now), seconds

    def would_refuse(self, image: str, now: datetime) -> str | None:
        """What a pull of an image would be told at this moment; None: it would arrive. Nothing is pulled."""
        assumed = list(self.assumed)
        try:
            self.pull(parse(image), {}, now)
        except PullError as error:
            return str(error)
        finally:
            self.assumed = assumed
        return None

    # -- inside --------------------------------------------------------------------------------------------
    def _reach(self, host: Host, reference: Reference, resolving: str) -> None:
        ask = f"{host.url}/v2/{reference.path}/manifests/{reference.version}"
        failed = f'{resolving}: failed to do request: Head "{ask}"'
        endpoint = host.url.partition("://")[2].partition(":")[0]
        if host.state == "refusing":
            raise PullError(f"{failed}: dial tcp {host.address}: connect: connection refused")
        if host.state == "unresolvable":
            raise PullError(f"{failed}: dial tcp: lookup {endpoint} on {RESOLVER}: no such host")
        if host.state == "untrusted":
            raise PullError(f"{failed}: {_x509(endpoint)}")
        if host.state == "timing-out":
            raise PullError(f"{failed}: dial tcp {host.address}: i/o timeout", TIMEOUT_S)
        if host.state == "unavailable":
            raise PullError(f"{resolving}: unexpected status from HEAD request to {ask}: 503 Service Unavailable", 0.3)

    def _authorize(
        self,
        host: Host,
        reference: Reference,
        secrets: Credentials,
        resolving: str,
        now: datetime,
    ) -> bool:
        """Whether the pull is somebody's. Raises PullError where the repository asks for more."""
        tokens = self.tokens(host.name)
        if tokens is not None:
            return self._by_token(tokens, host, reference, secrets.get(host.name) or tokens.of_node(), resolving, now)
        given = secrets.get(host.name)
        known = host.users.get(given[0]) if given else None
        good = bool(given and known and known[0] == given[1] and (known[1] is None or now < known[1]))
        if reference.path not in host.private and "*" not in host.private:
            return good or (given is not None and not host.users)
        if good:
            return True
        if given and known and known[1] is not None and now >= known[1]:
            raise self._refused(host, reference, resolving, "403 Forbidden")
        why = "authorization failed: no basic auth credentials"
        if given or host.name == "docker.io":
            why = "server message: insufficient_scope: authorization failed"
        raise PullError(
            f"{resolving}: pull access denied, repository does not exist or may require authorization: {why}", 0.3
        )

    def _by_token(  # noqa: PLR0917 - one pull, told in full
        self,
        tokens: Tokens,
        host: Host,
        reference: Reference,
        login: tuple[str, str] | None,
        resolving: str,
        now: datetime,
    ) -> bool:
        """Whether a token opens the registry. A HEAD has no body: why it was refused stays at the registry."""
        if login is None or not all(login):
            raise PullError(
                f"{resolving}: pull access denied, repository does not exist or may require authorization: "
                "authorization failed: no basic auth credentials",
                0.3,
            )
        end = tokens.ends(*login)
        if end is None:
            raise self._refused(host, reference, resolving, "401 Unauthorized")
        if now >= end:
            raise self._refused(host, reference, resolving, "403 Forbidden")
        return True

    @staticmethod
    def _refused(host: Host, reference: Reference, resolving: str, status: str) -> PullError:
        ask = f"{host.url}/v2/{reference.path}/manifests/{reference.version}"
        return PullError(f"{resolving}: unexpected status from HEAD request to {ask}: {status}", 0.3)

    def _too_many(self, host: Host, reference: Reference, head: str, authenticated: bool) -> str:
        url = f"{host.url}/v2/{reference.path}/manifests/{self.digest_of(reference)}"
        limit = "pull rate limit" if authenticated else "unauthenticated pull rate limit"
        return (
            f"{head}: failed to copy: httpReadSeeker: failed open: unexpected status code {url}: 429 Too Many Requests"
            f" - Server message: toomanyrequests: You have reached your {limit}."
            " https://www.docker.com/increase-rate-limit"
        )

    def _absent(self, reference: Reference, contents: Contents, now: datetime) -> bool:
        if reference.canonical in self._missing or reference.repository in self._missing:
            return True
        if reference.tag.startswith(NEVER_THERE):
            return True
        tags = self._known.get(reference.repository)
        if tags is not None and not reference.digest:
            return reference.tag not in tags
        return contents.gone_since is not None and now >= contents.gone_since


def credentials(secrets: Iterable[Obj]) -> Credentials:
    """What pull secrets hold, by registry host; a secret that cannot be read holds nothing, as for the kubelet."""
    found: Credentials = {}
    for secret in secrets:
        raw = dig(secret, "data", ".dockerconfigjson", default="")
        try:
            auths = from_text(base64.b64decode(raw)).get("auths", {})
        except (ValueError, binascii.Error, AttributeError):
            continue
        for url, entry in auths.items():
            host = url.partition("://")[2] or url
            host = host.partition("/")[0]
            found["docker.io" if host == "index.docker.io" else host] = _login(entry)
    return found


def _login(entry: Obj) -> tuple[str, str]:
    if entry.get("username"):
        return str(entry["username"]), str(entry.get("password", ""))
    try:
        user, _, password = base64.b64decode(entry.get("auth", "")).decode().partition(":")
    except (ValueError, binascii.Error):
        return "", ""
    return user, password


def _x509(endpoint: str) -> str:
    if endpoint.replace(".", "").isdigit():
        return f"x509: cannot validate certificate for {endpoint} because it doesn't contain any IP SANs"
    return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
