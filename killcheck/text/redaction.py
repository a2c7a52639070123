"""Taking secrets out of text before it reaches a log, a report, the run record or the journal.

Three ways: what looks like a secret (:data:`_PATTERNS`, and those of detect-secrets), what is given to a name that says
that it is one (:data:`_NAMED`), and what is known to be one (:func:`hide`) - this process' own credentials, what its
environment calls a secret, what the Secrets of manifests hold - also where base64 wraps it. Too much beats too little.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import Enum
from functools import cache, lru_cache
from inspect import isabstract
from typing import Any, TypeVar

from killcheck.text import lazy_re
from killcheck.text.shown import plain
from killcheck.text.values import given, replace

__all__ = ["called_secret", "clean", "hide", "hide_environment", "hide_secrets", "load", "redact"]

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # JSON Web Tokens: three base64url parts, the first two being JSON objects ("eyJ" is '{"'); and those in base64.
    (lazy_re.compile(r"eyJ[A-Za-z0-9_-]{5,1024}\.eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"), "<token>"),
    (lazy_re.compile(r"ZXlK[A-Za-z0-9+/_-]{40,}={0,2}"), "<token>"),
    # Not what containerd says of a pull that was refused: "... may require authorization: authorization failed: ...".
    (
        lazy_re.compile(
            r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|[a-z]+key)\s+)?)"
            r"(?!authorization failed:|server message:)[^\s\"']+"
        ),
        r"\1<redacted>",
    ),
    (lazy_re.compile(r"(?i)(bearer\s+)[A-Za-z0-9._~+/=-]{8,}"), r"\1<redacted>"),
    (lazy_re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "<aws-access-key-id>"),
    # GitHub, GitLab, Slack, Google, Hugging Face, OpenAI-like keys by their own prefixes.
    (
        lazy_re.compile(
            r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
            r"|ya29\.[\w-]{20,}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,})"
        ),
        "<token>",
    ),
    (lazy_re.compile(r"(:_authToken\s*=\s*)[^\s\"']+"), r"\1<redacted>"),  # .npmrc
    (lazy_re.compile(r"(hooks\.slack\.com/services/)[\w/]+"), r"\1<redacted>"),
    (lazy_re.compile(r"(discord(?:app)?\.com/api/webhooks/)[\w/-]+"), r"\1<redacted>"),
    # By their prefixes, as their makers document them (and gitleaks' rules gather them).
    (
        lazy_re.compile(
            r"(?<![\w-])(?:"
            r"npm_[A-Za-z0-9]{30,}|AKC[A-Za-z0-9]{10,}|pypi-AgE[\w-]{30,}|do[por]_v1_[a-f0-9]{32,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"
            r"|sq0[a-z]{3}-[\w-]{20,}|(?:[srp]k|whsec)_(?:live_|test_)?[A-Za-z0-9]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}"
            r"|key-[0-9a-f]{32}|xapp-[\w-]{20,}|xoxe[.-][\w.-]{20,}|hv[sbr]\.[\w-]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{40,}"
            r"|gl(?:c|sa)_[\w+/=]{20,}|dapi[a-f0-9]{32}|lin_(?:api|oauth)_[A-Za-z0-9]{30,}|NR(?:AK|II|JS|RA)-[\w-]{20,}"
            r"|PMAK-[a-f0-9-]{30,}|rubygems_[a-f0-9]{40,}|sntry[su]_[\w+/=-]{30,}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}"
            r"|figd_[\w-]{20,}|dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{20,}|pscale_(?:tkn|pw|oauth)_[\w.=-]{30,}"
            r"|(?:fo1|fm1r|fm2)_[\w+/=,-]{30,}|r8_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{40,}|pplx-[A-Za-z0-9]{30,}"
            r"|xai-[A-Za-z0-9]{40,}|nvapi-[\w-]{40,}|AT(?:ATT|CTT)3[\w=-]{20,}|CLOJARS_[a-z0-9]{40,}|dckr_[po]at_[\w-]{20,}"
            r"|LTAI[A-Za-z0-9]{12,}|AKID[A-Za-z0-9]{30,}|1//0[\w-]{20,}|GOCSPX-[\w-]{20,}|AAAA[\w-]{7}:[\w-]{100,}"
            r"|EAA[A-Za-z0-9]{30,}|(?:secret|ntn)_[A-Za-z0-9]{40,}|pat[A-Za-z0-9]{14}\.[a-f0-9]{40,}|HRKU-[\w-]{30,}"
            r"|[\w~.]{3}\dQ~[\w~.-]{30,}|gl[a-z]{2,5}-[\w-]{20,}|gh[opusr]_[A-Za-z0-9]{20,}|eyJrIjoi[\w+/=-]{20,}"
            r"|dnkey-[a-z0-9]{26}-[a-z0-9]{52}|dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}|pat\.[\w-]{22}\.[\w-]{24}\.[\w-]{20}"
            r"|(?:api_org|pnu|sm_pat|sm_aat)_[A-Za-z0-9]{16,}|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk|oy2[a-z0-9]{43}"
            r"|API-[A-Z0-9]{24,}|access-(?:sandbox|development|production)-[a-f0-9-]{36}"
            r"|AC[a-f0-9]{32}|SK[a-f0-9]{32}|[0-9a-f]{32}-us\d{1,2}|\d{8,10}:[\w-]{35}|v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}"
            r")(?![A-Za-z0-9])"
        ),
        "<token>",
    ),
    (lazy_re.compile(r"(?i)((?:Account|SharedAccess|Access)Key(?:Name)?=)[^\s;\"']{8,}"), r"\1<redacted>"),
    (
        lazy_re.compile(
            r"(?i)([?&](?:x-amz-(?:signature|security-token|credential)|sig|signature|token|access_token|key)=)"
            r"[^\s&\"']+"
        ),
        r"\1<redacted>",
    ),
    (
        lazy_re.compile(
            r"(?i)((?:aws_)?(?:secret(?:_?access)?_?key|session_?token|password|passwd|client_?secret|api_?key)"
            r"\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\s\"',;\\]+"
        ),
        r"\1<redacted>",
    ),
    (lazy_re.compile(r"(?i)(--(?:password|token|secret|api-key|client-secret)[= ])[^\s\"']+"), r"\1<redacted>"),
    (
        lazy_re.compile(r"(?i)((?:\b|_)token\\?[\"']?\s*[:=]\s*\\?[\"']?)(?=[^\s\"',;\\]*\d)[^\s\"',;\\]{16,}"),
        r"\1<redacted>",
    ),
    (lazy_re.compile(r"(\\?\"(?:auth|identitytoken)\\?\"\s*:\s*\\?\")[A-Za-z0-9+/=_.-]{8,}"), r"\1<redacted>"),
    (
        lazy_re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.S,
        ),
        "<private key>",
    ),
    (lazy_re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/_-]{20,}={0,2}"), "<pem>"),  # "-----BEGIN" in base64
    (lazy_re.compile(r"(\w://[^\s/:@]*:)[^\s/@]+@"), r"\1<redacted>@"),
    (lazy_re.compile(r"(\w://)[^\s/:@]{16,}@"), r"\1<redacted>@"),
)
#: A word as chance makes it: digits, letters of both cases, three of each at least.
_CHANCE = r"(?=(?:[A-Za-z]*\d){3})(?=(?:[a-z\d]*[A-Z]){3})(?=(?:[A-Z\d]*[a-z]){3})[A-Za-z\d]{20,}"
#: What looks like a key whoever made it: no list of prefixes is ever whole. Names and digests of Kubernetes, which has
#: neither capitals nor long hexadecimal words after a dash, stay.
_UNKNOWN_MAKERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_re.compile(rf"(?<![A-Za-z\d]){_CHANCE}(?:[+/_=.~-]+[A-Za-z\d]+)*=*"), "<redacted>"),
    (
        lazy_re.compile(
            r"(?<![A-Za-z\d])(?!sha\d{1,3}[_-])([A-Za-z][A-Za-z\d]{0,19}(?:[_-][A-Za-z\d]{1,8}){0,8}[_-])"
            r"(?=(?:[A-Za-z]*\d){3})(?:[a-z\d]{32,}|[A-Z\d]{32,}|[a-f\d]{32,})(?:[_-][A-Za-z\d]+)*(?![A-Za-z\d])"
        ),
        r"\1<redacted>",
    ),
    (lazy_re.compile(r"(https?://\S*/)[\da-f]{32,}(?![\w-])"), r"\1<redacted>"),
    (lazy_re.compile(r"(\\?\"[\w-]*key\\?\"\s*:\s*\\?\")[A-Za-z\d]{20,}"), r"\1<redacted>"),
    # Hashes of passwords (crypt(5)), netrc, kubeadm's bootstrap tokens.
    (lazy_re.compile(r"\$(?:2[abxy]|[156y]|gy|argon2\w*|scrypt|pbkdf2[\w-]*)\$[^\s:\"']{8,}"), "<redacted>"),
    (lazy_re.compile(r"(\blogin\s+\S+\s+password\s+)\S+"), r"\1<redacted>"),
    (lazy_re.compile(r"(?<![\w.-])[a-z\d]{6}\.(?=[a-z]*\d)[a-z\d]{16}(?![\w.-])"), "<token>"),
)
#: Part of a name by which a variable, an argument, a field or a header says that it is secret.
_SAYS = (
    r"(?:pass(?:wor[dt]|wd|phrase|code)?|pgpass|pwd|secret|token|credentials?|auth(?:orization)?|cookie|dsn|otp"
    r"|session_?id|webhook|connection_?string|license_?key|(?:api|access|private|signing|encryption|auth|master"
    r"|account|client|service|ssh|hmac|jwt)[_-]?key|salt|signature|pat)"
)
_SAYS_LOUD = _SAYS.upper()
#: No text without one of these has anything of what follows.
_SAID = lazy_re.compile(
    r"(?i)pass|pwd|secret|token|credential|auth|cookie|dsn|otp|session|webhook|string|key|salt|signature"
    r"|pat|-u|user|psk|bindpw|mysql|mariadb|login|response|bundle_"
)
#: Longer texts are not remembered.
REMEMBERED = 4096
#: What is given to such a name: in an environment, on a command line, as a header, and as a container's variable.
_NAMED: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        lazy_re.compile(  # PGPASS=x, MY_AUTH="x y"; not PWD=/here, nor what only names another variable
            rf"(?<![\w-])((?!PWD=|OLDPWD=)(?:[A-Z0-9]+_)*(?:{_SAYS_LOUD}|KEY)(?:_[A-Z0-9]+)*="
            r"\\?[\"']?)(?![\"']|\$|<|/)[^\s\"'\\]+"
        ),
        r"\1<redacted>",
    ),
    (
        # A flag begins a word: what follows the name of an object (Secret/web/app-token is...) is no value.
        lazy_re.compile(
            rf"(?i)(?<![a-z0-9])(--?(?:[a-z0-9]{{1,40}}-){{0,8}}{_SAYS}(?:=|\s+)[\"']?)(?!-|\$|<|/)[^\s\"']+"
        ),
        r"\1<redacted>",
    ),
    (
        lazy_re.compile(
            rf"(?i)((?<![\w-])(?:x|proxy|private|set|www|deploy|job)-(?:[a-z0-9]+-)*{_SAYS}(?:-[a-z0-9]+)*\s*:\s*)"
            r"(?!<)[^\s\"',][^\"'\n]*"
        ),
        r"\1<redacted>",
    ),
    (
        lazy_re.compile(
            r"(?i)((?<![\w-])(?:cookie|authorization)\s*:\s*)(?!<|authorization failed:|server message:)"
            r"[^\s\"'][^\"'\n]*"
        ),
        r"\1<redacted>",
    ),
    (
        lazy_re.compile(
            rf"(?i)(\\?\"name\\?\"\s*:\s*\\?\"(?:[A-Za-z0-9]+[_.-])*{_SAYS}(?:[_.-][A-Za-z0-9]+)*\\?\"\s*,\s*\\?\"value\\?\""
            r"\s*:\s*\\?\")(?!\\?\")(?:[^\"\\]|\\[^\"])+"
        ),
        r"\1<redacted>",
    ),
    (
        lazy_re.compile(
            rf"(?im)(^[ \t]*(?:-[ \t]+)?name:\s*[\"']?(?:[A-Za-z0-9]+[_.-])*{_SAYS}(?:[_.-][A-Za-z0-9]+)*[\"']?\s*\n"
            r"\s*value:[ \t]*)\S.*$"
        ),
        r"\1<redacted>",
    ),
    (  # as files and messages write it: a_secret: x1, Pwd=x1; what has no digit may be a word
        lazy_re.compile(
            r"(?i)((?<![\w-])(?:[a-z0-9]{1,40}[_.-]){0,8}(?:secret(?:_key_base)?|pass(?:wor[dt]|wd|phrase)?|pwd|psk|bindpw"
            r"|otp|private_?key(?:_id)?|[a-z0-9]{1,40}[_-]key|bundle_\w{1,60})"
            r"(?:\\?[\"']?\s*[:=]\s*\\?[\"']?|(?<=bindpw)\s+))(?![\"'$</-])(?=[^\s\"',;&\\]{0,200}\d)[^\s\"',;&\\]{8,}"
        ),
        r"\1<redacted>",
    ),
    (lazy_re.compile(r"(?i)(\b(?:response|signature)=\\?\"?)[\da-f]{32,}"), r"\1<redacted>"),
    (lazy_re.compile(r"(?i)(\bgeniekey\s+)[\w-]{12,}"), r"\1<redacted>"),
    (  # programs that take a password by a letter
        lazy_re.compile(
            r"(\b(?:sshpass|login|(?:mysql|mariadb)[\w-]*)\b(?:[ \t]+[^\s|;&]+){0,12}?[ \t]+-p[ =]?[\"']?)"
            r"[^\s\"'-]\S*"
        ),
        r"\1<redacted>",
    ),
    (lazy_re.compile(r"(?i)((?:^|\s)(?:-u|--user|--proxy-user)[= ][\"']?[^\s:\"']+:)[^\s\"']+"), r"\1<redacted>"),
)
#: Of detect-secrets what finds things that are no secrets, or what is found above with what it stands in.
_LEFT_OUT = frozenset(
    {
        "BasicAuthDetector",
        "IPPublicDetector",
        "JwtTokenDetector",
        "KeywordDetector",
        "NpmDetector",
        "PrivateKeyDetector",
    }
)
#: Only a text with something like this in it can hold what detect-secrets looks for. No name in Kubernetes does, and no
#: digest: a night that tells no more than those never loads it.
_TOKENISH = lazy_re.compile(
    r"(?<![A-Za-z\d])(?<!sha256:)(?=[A-Za-z]*\d)[A-Za-z\d]{16,}"  # one long word with a digit
    # Or of parts, with a capital and a long part that has a digit: no model or type of machine is called that.
    r"|(?<![\w.-])(?=[\w.-]{20})(?=[a-z\d_.-]*[A-Z])[\w.-]*?(?=[A-Za-z]{0,8}\d)[A-Za-z\d]{9}"
    r"|://[^\s/]+@|\d{8}:[\w-]{35}|(?i:xox|AccountKey=|cloudant|softlayer|aws.{0,20}(?:key|pw|pass|token))"
)
#: A Secret as a client prints it, also inside a string: nothing that it holds.
_SECRET_KIND = lazy_re.compile(r"\\?\"kind\\?\"\s*:\s*\\?\"Secret\\?\"|^[ \t]*kind:[ \t]*Secret[ \t]*$", re.M)
_SECRET_DATA = lazy_re.compile(r"(\\?\"(?:data|stringData)\\?\"\s*:\s*\{)[^{}]*(\})")
_SECRET_YAML = lazy_re.compile(r"^([ \t]*(?:data|stringData):[ \t]*\n)((?:[ \t]+\S.*\n?)+)", re.M)

_SECRET_NAME = lazy_re.compile(
    r"(?i)(secret|token|passw|passphrase|pgpass|_pwd$|^pass$|_pass$|(api|private|access|signing|encryption|master|license"
    r"|account|ssh|hmac|jwt)_?key|credential|webhook|(^|_)auth($|_)|cookie|dsn$|connection_?string|_salt$|_pat$)"
)
#: Variables that say where a secret is, and not what it is.
_PLACES = lazy_re.compile(r"(?i)(_file|_path|_dir|_url|_uri|_endpoint|_id|_name|_arn)$")
#: What is a secret even where it is a plain word.
_PLAIN_TOO = lazy_re.compile(r"(?i)pass|secret|_pwd$")
#: Shorter values are hidden nowhere: they would take ordinary words out of every report. Of those that are shorter than
#: :data:`LEAST` only what stands alone and is neither a word nor a number.
SHORTEST = 5
LEAST = 8
#: Longer values are no part of the pattern.
_LONG = 256
#: So many lines of a file in a Secret are known each by itself.
MOST_LINES = 2_000

_T = TypeVar("_T")


class _Finder:
    """Finds values in a text. Long ones are looked for as they are: a pattern of them takes seconds to compile."""

    def __init__(self, values: Iterable[str]) -> None:
        by_length = sorted(values, key=len, reverse=True)  # of two at one place the longer is found
        self._long = tuple(value for value in by_length if len(value) > _LONG)
        self._short = re.compile(
            "|".join(
                re.escape(value) if len(value) >= LEAST else rf"(?<!\w){re.escape(value)}(?!\w)"
                for value in by_length[len(self._long) :]
            )
            or r"(?!)"
        )

    def redact(self, text: str) -> str:
        """``text`` without any of them."""
        if len(text) > _LONG:
            for value in self._long:
                text = text.replace(value, "<redacted>")
        return self._short.sub("<redacted>", text)


class _Known:
    """The values that are known to be secret, and what finds them."""

    def __init__(self) -> None:
        self.values: set[str] = set()
        self._finder: _Finder | None = None
        self._finds = 0  # how many values it finds

    @property
    def finder(self) -> _Finder | None:
        """What finds them; None where there is none. Made when it is asked for: many values are added at once."""
        if self._finds != len(self.values):
            self._finds = len(self.values)
            self._finder = _Finder(self.values)
        return self._finder

    def add(self, value: str) -> None:
        """Know one more value."""
        short = SHORTEST <= len(value) < LEAST and not re.fullmatch(r"[A-Za-z]+|[\d.:]+|true|false", value)
        if (short or len(value) >= LEAST) and value not in self.values:
            self.values |= {value, *_wrapped(value)}


_known = _Known()


def _wrapped(value: str) -> set[str]:
    """What base64 makes of a value, wherever in a longer text it stands: the characters that depend on it alone."""
    raw, found = value.encode(), set()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        start, end = -(-before * 8 // 6), len(text) - (1 if (before + len(raw)) % 3 else 0)
        core = text[start:end]
        if len(core) >= LEAST:
            found |= {core, core.replace("+", "-").replace("/", "_")}
    return found


def hide(value: str) -> None:
    """From now on take ``value`` out of every text, in base64 too; what is too short to be a secret is left."""
    _known.add(value.strip())


def called_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a secret, and not where one is."""
    return _SECRET_NAME.search(name) is not None and _PLACES.search(name) is None


def hide_environment(environ: Mapping[str, str] | None = None) -> None:
    """Hide what the environment's own names call secret (not the paths and names of secrets)."""
    for name, value in (os.environ if environ is None else environ).items():
        if called_secret(name) and not value.startswith(("/", "./", "~")):
            _hide_value(value, plain=bool(_PLAIN_TOO.search(name)))


def hide_secrets(objects: Iterable[Mapping[str, Any]]) -> None:
    """Hide what Kubernetes objects hold: Secrets, and containers' variables that say so of themselves.

    Plain lower-case words stay where they are no password: they would be taken out of every sentence.
    """
    for obj in objects:
        _hide_variables(obj)
        if obj.get("kind") == "ConfigMap":
            hide_environment({key: value for key, value in _texts(obj, "data").items() if "\n" not in value})
        if obj.get("kind") == "Secret":
            for value in _texts(obj, "data").values():
                with suppress(ValueError, UnicodeDecodeError):
                    _hide_held(base64.b64decode(value, validate=True).decode())
            for value in _texts(obj, "stringData").values():
                _hide_held(value)


def _texts(obj: Mapping[str, Any], field: str) -> dict[str, str]:
    """A map of an object, as texts; empty where something else stands in its place."""
    found = obj.get(field)
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _hide_variables(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _hide_variables(item)
    elif isinstance(value, dict):
        if isinstance(value.get("name"), str) and isinstance(value.get("value"), str):
            hide_environment({value["name"]: value["value"]})
        for item in value.values():
            if isinstance(item, dict | list):
                _hide_variables(item)


def _hide_value(value: str, *, plain: bool = False) -> None:
    if plain or not re.fullmatch(r"[a-z][a-z./-]*", value.strip()):
        hide(value)


def _hide_held(value: str) -> None:
    """Hide what a Secret holds: all of it, and what a program takes out of a file in it - a line, a field's value."""
    _hide_value(value)
    text = value.strip()
    with suppress(ValueError, RecursionError):
        _hide_fields(json.loads(text) if text.startswith(("{", "[")) else None)
    if "\n" not in text:
        return
    for line in text.splitlines()[:MOST_LINES]:
        if not line.startswith("-----"):
            _, _, after = line.replace(": ", "=", 1).partition("=")
            for part in (line, after):
                _hide_value(part.strip().strip("\"',"))


def _hide_fields(value: Any) -> None:
    """Hide every text in JSON: in a registry's login also the password within ``auth``."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _hide_fields(item)
        if isinstance(item, str):
            _hide_value(item)
    if isinstance(value, dict) and isinstance(value.get("auth"), str):
        with suppress(ValueError, UnicodeDecodeError):
            _hide_value(base64.b64decode(value["auth"]).decode().partition(":")[2])


def redact(text: str) -> str:
    """``text`` without tokens, keys, passwords and Authorization values."""
    within = _redacted if len(text) <= REMEMBERED else _redacted.__wrapped__
    return within(text, _known.finder)


@lru_cache(maxsize=4096)
def _redacted(text: str, known: _Finder | None) -> str:
    """``known``: what finds the values that are known to be secret."""
    if known is not None:
        text = known.redact(text)
    if not text.isprintable() and (bare := plain(text)) != text:
        text = bare if known is None else known.redact(bare)
    if "Secret" in text and _SECRET_KIND.search(text):
        text = _SECRET_DATA.sub(r"\1<redacted>\2", text)
        text = _SECRET_YAML.sub(r"\1  <redacted>\n", text)
    for pattern, replacement in (*_PATTERNS, *(_NAMED if _SAID.search(text) else ())):
        text = pattern.sub(replacement, text)
    if _TOKENISH.search(text):
        for pattern in _detectors():
            text = pattern.sub("<redacted>", text)
    for pattern, replacement in _UNKNOWN_MAKERS:
        text = pattern.sub(replacement, text)
    return text


def load() -> None:
    """Load now what is loaded when first needed: for a process of which many copies are about to be made."""
    _detectors()


@cache
def _detectors() -> tuple[re.Pattern[str], ...]:
    """The patterns of detect-secrets, loaded when something may be one: it imports more than a ``--help`` needs."""
    import pkgutil
    from importlib import import_module

    from detect_secrets import plugins
    from detect_secrets.plugins.base import RegexBasedDetector

    kinds = {
        kind
        for module in pkgutil.iter_modules(plugins.__path__)
        for kind in vars(import_module(f"{plugins.__name__}.{module.name}")).values()
        if isinstance(kind, type) and issubclass(kind, RegexBasedDetector) and not isabstract(kind)
    }
    wanted = sorted((kind for kind in kinds if kind.__name__ not in _LEFT_OUT), key=lambda kind: kind.__name__)
    return tuple(pattern for kind in wanted for pattern in kind().denylist)


def clean(value: _T) -> _T:
    """The same value with every text in it redacted: mappings, sequences and dataclasses are gone through."""
    return _clean(value)  # type: ignore[no-any-return]


def _clean(value: Any) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_clean(item) for item in value]
        return items if isinstance(value, list) else type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    fields = given(value)
    if not fields:
        return value
    new = {name: _clean(item) for name, item in fields.items()}
    changed = {name: item for name, item in new.items() if item != fields[name]}
    return replace(value, **changed) if changed else value
