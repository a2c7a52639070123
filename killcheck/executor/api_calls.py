"""API calls as RBAC sees them, read off URLs and off ``curl`` and ``wget`` commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct

from killcheck.executor.shell_script import UNKNOWN
from killcheck.kube.selectors import SelectorError, parse_labels
from killcheck.text import lazy_re
from killcheck.text.jsontext import from_text

__all__ = ["ApiCall", "HttpCommand", "call_of_url", "curl", "removes_only", "replicas_in", "wget"]


class ApiCall(Struct, frozen=True):
    """One request as the authorizer sees it. Empty ``name``: any, or one that could not be read; so with ``namespace``.

    ``replicas`` is the number that the request writes, where it is written in the script; ``selector`` the labels that
    choose its objects; ``named``: it is about one object, also where its name could not be read; ``everywhere``: its
    path has no namespace; ``body`` as written; ``removes``: it removes fields or marks, and sets none;
    ``marks``: it writes labels or annotations alone; ``patch``: what it writes as JSON, where that is known and is not
    ``body`` word by word; an empty list in it is any text. ``applied``: it is kubectl's own apply, which leaves a note.
    """

    verb: str
    group: str
    resource: str
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    replicas: int | None = None
    selector: str = ""
    named: bool = False
    body: str = ""
    everywhere: bool = False
    removes: bool = False
    marks: bool = False
    patch: str = ""
    applied: bool = False

    def __str__(self) -> str:
        resource = self.resource + (f"/{self.subresource}" if self.subresource else "")
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {resource}{group}{self._where}"

    @property
    def about_what(self) -> str:
        """What it is about, without what is done to it."""
        return f"{self.resource}{self._where}"

    @property
    def _where(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name) if part)
        labels = f" -l {self.selector}" if self.selector else ""
        return f"{' ' + where if where else ''}{labels}"

    @property
    def writes(self) -> bool:
        """Whether it changes anything."""
        return self.verb not in ("get", "list", "watch")

    @property
    def document(self) -> Any:
        """What it writes: a patch, the operations of a JSON patch, a manifest; None where the text does not say it."""
        text = self.patch or self.body
        if UNKNOWN in text or not text.strip():
            return None
        try:
            said = from_text(text)
        except ValueError:
            said = _yaml(text)
        return said if isinstance(said, (dict, list)) and said else None

    def about(self, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it may be about an object: by namespace, name and labels, as far as they could be read."""
        if self.namespace not in ("", namespace) or self.name not in ("", name):
            return False
        try:
            return not self.selector or parse_labels(self.selector).matches(labels)
        except SelectorError:
            return False  # the API server answers 400


def _yaml(text: str) -> Any:
    """What kubectl reads of a patch that is no JSON."""
    from killcheck.text.yamlfile import YamlError, documents

    if ":" not in text:
        return None
    try:
        return next((one.value for one in documents(text, "the patch")), None)
    except YamlError:
        return None


class HttpCommand(Struct, frozen=True):
    """One curl or wget. ``fails``: an HTTP error makes it fail; ``prints_status``: it prints the HTTP status."""

    method: str
    url: str
    body: str
    fails: bool
    prints_status: bool = False


_PATH = lazy_re.compile(r"/(?:api/(?P<core>v\d\w*)|apis/(?P<group>[^/]+)/(?P<version>v\d\w*))(?:/(?P<rest>.*))?$")
_BEFORE_PATH = lazy_re.compile(r"^[^/?#]*://[^/?#]*")
#: In a patch, and in an operation of a JSON patch.
_REPLICAS = lazy_re.compile(r"""["']?replicas["']?\s*(?:[:=]|,\s*["']?value["']?\s*:)\s*["']?(\d{1,9})""")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def call_of_url(method: str, url: str, body: str = "") -> ApiCall | None:
    """The call that a request to a Kubernetes API is; None where the URL's path is of no such API."""
    # By hand: a stranger's URL may be none (``https://[$HOST]:443/api``).
    found = _PATH.search(_BEFORE_PATH.sub("", url).partition("?")[0].partition("#")[0])
    if found is None:
        return None
    rest = [part for part in (found["rest"] or "").split("/") if part]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not rest:
        return None
    resource, name, subresource = (*rest[:3], "", "", "")[:3]
    query = url.partition("?")[2]
    verb = _verb(method, bool(name), "watch=true" in query or "watch=1" in query)
    writes = verb in ("patch", "update")
    return ApiCall(
        verb,
        found["group"] or "",
        _known(resource),
        _known(subresource),
        _known(name),
        _known(namespace),
        replicas_in(body) if writes else None,
        _known(parse_qs(query).get("labelSelector", [""])[0]),
        bool(name),
        body if writes else "",
        not namespace,
        writes and removes_only(body),
    )


def removes_only(body: str) -> bool:
    """Whether a patch, JSON of either form, takes fields away and sets none; False where it cannot be read."""
    try:
        patch = from_text(body)
    except ValueError:
        return False
    if isinstance(patch, list):
        return bool(patch) and all(isinstance(op, dict) and op.get("op") in ("remove", "test") for op in patch)
    return isinstance(patch, dict) and _nothing(patch)


#: Fields that hold nothing any more: of what is suspended, of Kueue's queues.
_LET_GO = (("suspend", False), ("stopPolicy", "None"))


def _nothing(value: object) -> bool:
    """Whether a part of a merge patch takes away all that it names: fields, or a suspension."""
    if not isinstance(value, dict):
        return value is None
    return bool(value) and all((key, one) in _LET_GO or _nothing(one) for key, one in value.items())


def replicas_in(body: str) -> int | None:
    """The number of replicas that a body (JSON, or Python that will become it) writes; of several the greatest."""
    return max((int(one) for one in _REPLICAS.findall(body)), default=None)


def _verb(method: str, named: bool, watch: bool) -> str:
    method = method.upper()
    if method in ("GET", "HEAD"):
        return "watch" if watch else ("get" if named else "list")
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    return _VERBS.get(method, method.lower())


def _known(part: str) -> str:
    """A part of a path, empty where it is not known in full."""
    return "" if UNKNOWN in part or "{" in part or "%s" in part else part


# -- curl --------------------------------------------------------------------------------------------------
#: Options of curl that take a value (curl 8; those of its many that appear in executors).
_CURL_VALUES = frozenset("XHdoumwATbceEKFxyYzrtCP")
_CURL_LONG_VALUES = frozenset(
    """
    request header data data-raw data-binary data-ascii data-urlencode json cacert capath cert key output user max-time
    connect-timeout retry retry-delay retry-max-time write-out user-agent upload-file url cookie cookie-jar referer
    config form proxy resolve oauth2-bearer unix-socket connect-to interface limit-rate range proto tlsv1 ciphers
    cert-type key-type dump-header stderr trace noproxy
""".split()
)
_DATA = frozenset({"d", "data", "data-raw", "data-binary", "data-ascii", "data-urlencode", "json"})


def curl(words: Sequence[str]) -> list[HttpCommand]:
    """The requests of a curl command, one for each URL."""
    options, urls = _curl_options(words[1:])
    bodies = [value for name, value in options if name in _DATA]
    named = {name for name, _ in options}
    method = next((value for name, value in options if name in ("X", "request")), "")
    method = method or _curl_method(named, bool(bodies))
    status = any(name in ("w", "write-out") and "http_code" in value for name, value in options)
    fails = bool(named & {"f", "fail", "fail-with-body"})
    return [HttpCommand(method, url, "&".join(bodies), fails, status) for url in urls]


def _curl_method(named: set[str], has_body: bool) -> str:
    if named & {"T", "upload-file"}:
        return "PUT"
    if named & {"I", "head"}:
        return "HEAD"
    return "POST" if has_body and not named & {"G", "get"} else "GET"


def _curl_options(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    options: list[tuple[str, str]] = []
    urls: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            if not equals and name in _CURL_LONG_VALUES:
                value = rest.pop(0) if rest else ""
            options.append((name, value))
            if name == "url":
                urls.append(value)
        elif word.startswith("-") and len(word) > 1:
            options += _curl_short(word[1:], rest)
        elif word:
            urls.append(word)
    return options, urls


def _curl_short(letters: str, rest: list[str]) -> list[tuple[str, str]]:
    """``-fsSkX PATCH``: letters until one that takes a value, which is what follows."""
    found = []
    for i, letter in enumerate(letters):
        if letter in _CURL_VALUES:
            found.append((letter, letters[i + 1 :] or (rest.pop(0) if rest else "")))
            break
        found.append((letter, ""))
    return found


# -- wget --------------------------------------------------------------------------------------------------
def wget(words: Sequence[str]) -> list[HttpCommand]:
    """The requests of a wget command. GNU's exits 8 on an HTTP error; busybox's knows neither PATCH nor PUT."""
    method, body, urls = "", "", []
    skip = False
    for i, word in enumerate(words[1:], 1):
        if skip:
            skip = False
            continue
        name, equals, value = word.partition("=")
        if name in ("--method", "--body-data", "--post-data", "--header", "-O", "-T", "-t", "--ca-certificate"):
            skip = not equals
            value = value if equals else (words[i + 1] if i + 1 < len(words) else "")
            method = value if name == "--method" else method
            if name in ("--body-data", "--post-data"):
                body, method = value, method or "POST"
        elif not word.startswith("-"):
            urls.append(word)
    return [HttpCommand(method or "GET", url, body, True) for url in urls]
